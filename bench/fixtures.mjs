/** The files the jobs work on: the same in every run, made under one folder. */
import fs from "node:fs"
import { dirname, join } from "node:path"

export const needle = "needle_xyzzy_42"

const words = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa".split(" ")
const line = (n) => `${[0, 1, 2, 3, 4, 5].map((k) => words[(n * 31 + k * 7 + (n >> 3)) % words.length]).join(" ")} ${n}`
const body = (from, count) => Array.from({ length: count }, (_, i) => `${line(from + i)}\n`).join("")

/** 5,000 files three folders deep: every 10th is `.tsx` (500), every 100th holds the needle once (50). */
const makeTree = (work) => {
  const found = { tsx: [], needle: [] }
  for (let n = 0; n < 5_000; n++) {
    const folder = Math.floor(n / 100)
    const path = `tree/pkg${folder % 10}/mod${Math.floor(folder / 10)}/dir${folder}/file${n}.${n % 10 === 0 ? "tsx" : ["ts", "js", "md"][n % 3]}`
    const hasNeedle = n % 100 === 7
    if (n % 100 === 0) fs.mkdirSync(dirname(join(work, path)), { recursive: true })
    if (n % 10 === 0) found.tsx.push(path)
    if (hasNeedle) found.needle.push(path)
    fs.writeFileSync(join(work, path), body(n % 50, 30) + (hasNeedle ? `const ${needle} = 1\n` : ""))
  }
  for (const paths of Object.values(found)) paths.sort()
  return found
}

/** Exactly `size` bytes of lines. */
const makeText = (work, path, size) => {
  const text = `${body(1, Math.ceil(size / 30)).slice(0, size - 1)}\n`
  fs.writeFileSync(join(work, path), text)
  return { path, text }
}

/**
 * `files` files of `count` lines whose middle line is to flip between two texts. One copy a server, so that neither sees
 * the other's.
 */
const makeEditable = (count, files = 1) => {
  const middle = count / 2
  const [head, tail] = [body(1, middle - 1), body(middle + 1, count - middle)]
  const values = ["const value = old()", "const value = new()"]
  const paths = (server) => Array.from({ length: files }, (_, n) => `edit-${count}-${server.name}-${n}.txt`)
  return {
    paths,
    text: (turn) => `${head}${values[turn % 2]}\n${tail}`,
    edits: (server, turn) =>
      paths(server).map((path) => ({
        path,
        before: line(middle - 1),
        old: values[turn % 2],
        text: values[(turn + 1) % 2],
        after: line(middle + 1),
      })),
  }
}

/** A text of `size` bytes to add under a new name each time. */
const makeAddition = (size) => ({
  text: `${body(1, Math.ceil(size / 30)).slice(0, size - 1)}\n`,
  path: (server, turn) => `added/${server.name}/file-${turn}.txt`,
})

const once = (make) => {
  let made
  return () => {
    made ??= make()
    return made
  }
}

/** Makes the files under `work`; the tree, which takes a second, when it is first asked for. */
export const makeFixtures = (work) => ({
  tree: once(() => makeTree(work)),
  small: makeText(work, "small.txt", 100),
  read1k: makeText(work, "read-1k.txt", 1_024),
  read100k: makeText(work, "read-100k.txt", 102_400),
  read1m: makeText(work, "read-1m.txt", 1_048_576),
  edit100: makeEditable(100),
  edit50k: makeEditable(50_000),
  edit200k: makeEditable(200_000),
  edit50files: makeEditable(100, 50),
  add2m: makeAddition(2 * 1024 * 1024),
})

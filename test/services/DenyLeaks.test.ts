/** What a profile denies comes out of no tool: random rules and trees, every way in, every name a file can be reached by. */
import { linkSync, mkdirSync, symlinkSync } from "node:fs"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import * as Ripgrep from "../../src/layers/Ripgrep.ts"
import type { FileRule } from "../../src/schema/Policy.ts"
import * as PlainSearch from "../../src/services/PlainSearch.ts"
import { patchOf } from "../support/ChangePatch.ts"
import { openFiles } from "../support/Looking.ts"
import { Dice } from "../support/PatchCases.ts"
import { openPatching } from "../support/Patching.ts"
import { readTree } from "../support/Tree.ts"

const everything: FileRule = { glob: "**", access: "write" }
const folders = ["", "a/", "A/", "b/c/", ".hidden/", "a/b/", "x y/"]
const names = ["f", ".env", "prod.env", "Key", "key", "f.ts", "[id]"]
const segments = ["*", "**", "a", "A", "b", "c", ".env", "*.env", "key", "KEY", ".*", "f*", "[abc]", "[id]", "x?y", "{a,key}", "{f,b/c}"]

/** The rule by the letter: one segment after the other, for the path and every folder above it, as written and in one letter case. */
const denies = ({ glob }: FileRule, path: string): boolean => {
  const parts = path.split("/")
  return parts.some((_, at) => [plain, lower].some((spell) => segmentsMatch(spell(glob).split("/"), parts.slice(0, at + 1).map(spell))))
}

const plain = (text: string): string => text
const lower = (text: string): string => text.toLowerCase()

const segmentsMatch = (wanted: ReadonlyArray<string>, given: ReadonlyArray<string>): boolean => {
  const [head, ...rest] = wanted
  if (head === undefined) return given.length === 0
  if (head === "**") return segmentsMatch(rest, given) || (given.length > 0 && segmentsMatch(wanted, given.slice(1)))
  if (head.startsWith("{") && head.endsWith("}")) throw new Error("alternatives are taken apart first")
  return given.length > 0 && segmentMatches(head, given[0] ?? "") && segmentsMatch(rest, given.slice(1))
}

const segmentMatches = (pattern: string, name: string): boolean => {
  const asSet = pattern
    .replaceAll(/[.+^$()|\\]/gu, "\\$&")
    .replaceAll("*", ".*")
    .replaceAll("?", ".")
  return pattern === name || new RegExp(`^${asSet}$`, "u").test(name)
}

/** `{x,y}` once for each. */
const alternatives = (rule: FileRule): ReadonlyArray<FileRule> => {
  const [, before, inside, after] = /^([^{]*)\{([^}]*)\}(.*)$/u.exec(rule.glob) ?? []
  return inside === undefined
    ? [rule]
    : inside.split(",").flatMap((choice) => alternatives({ ...rule, glob: `${before}${choice}${after}` }))
}

interface Leaf {
  readonly path: string
  readonly mark: string
  readonly isDenied: boolean
}

const treeOf = (dice: Dice, rules: ReadonlyArray<FileRule>): ReadonlyArray<Leaf> => {
  const paths = new Set(Array.from({ length: 9 }, () => dice.pick(folders) + dice.pick(names)))
  return [...paths]
    .filter((path) => ![...paths].some((other) => other.startsWith(`${path}/`)))
    .map((path, at) => ({
      path,
      mark: `mark${at}of`,
      isDenied: rules.some((rule) => rule.access === "deny" && alternatives(rule).some((one) => denies(one, path))),
    }))
}

const round = Effect.fnUntraced(function* (seed: number) {
  const dice = new Dice(seed)
  const globs = Array.from({ length: 1 + dice.below(3) }, () =>
    Array.from({ length: 1 + dice.below(3) }, () => dice.pick(segments)).join("/"),
  )
  const rules = [everything, ...globs.map((glob): FileRule => ({ glob, access: dice.pick(["deny", "deny", "read"]) }))]
  const leaves = treeOf(dice, rules)
  const content = ({ mark }: Leaf) => `first ${mark} line\nsecond ${mark}\n`
  const { files, folder } = yield* openFiles(Object.fromEntries(leaves.map((leaf) => [leaf.path, content(leaf)])), {
    files: rules,
    search: dice.chance(2) ? Ripgrep.layer : PlainSearch.layer,
  })
  // Other names whose own path no rule denies, so that it is the file behind them that decides.
  const aliases = leaves.flatMap((leaf, at) => {
    const [soft, hard] = [`zz/s${at}`, `zz/h${at}`]
    const isFree = (path: string) => rules.every((rule) => rule.access !== "deny" || alternatives(rule).every((one) => !denies(one, path)))
    if (!isFree(soft) || !isFree(hard)) return []
    mkdirSync(join(folder, "zz"), { recursive: true })
    symlinkSync(join("..", leaf.path), join(folder, soft))
    linkSync(join(folder, leaf.path), join(folder, hard))
    return [
      { ...leaf, path: soft },
      { ...leaf, path: hard },
    ]
  })
  const { transaction } = yield* openPatching(folder, { files: rules })
  const before = readTree(folder)
  const said: Array<readonly [string, string]> = []
  const tell = <A, E>(what: string, call: Effect.Effect<A, E, never>) =>
    Effect.map(Effect.result(call), (result) => {
      said.push([what, JSON.stringify(Result.isSuccess(result) ? result.success : { refused: result.failure })])
      return Result.isSuccess(result)
    })

  for (const leaf of [...leaves, ...aliases]) {
    const { dir, base } = { dir: dirname(leaf.path), base: leaf.path.slice(leaf.path.lastIndexOf("/") + 1) }
    const spellings = [
      leaf.path,
      `./${leaf.path}`,
      `${dir}/../${dir === "." ? "" : `${dir.split("/").at(-1)}/`}${base}`,
      join(folder, leaf.path),
    ]
    const others = [leaf.path.toUpperCase(), leaf.path.toLowerCase()]
    for (const path of [...spellings, ...others]) yield* tell(`read ${path}`, files.read({ path }))
    yield* tell(`read as bytes ${leaf.path}`, files.read({ path: leaf.path, encoding: "base64" }))
    yield* tell(`search in ${leaf.path}`, files.search({ pattern: "mark", glob: leaf.path, include_ignored: true }))
    for (const check_only of [true, false]) {
      const ask = (what: string, intent: Parameters<typeof transaction.apply>[0]) =>
        tell(`${what} ${leaf.path} ${check_only}`, transaction.apply(intent, { check_only: check_only || !leaf.isDenied }))
      yield* ask("patch", patchOf(`*** Update File: ${leaf.path}\n@@\n first mark line\n-second markk\n+x`))
      yield* ask("delete", patchOf(`*** Delete File: ${leaf.path}`))
      yield* ask("move", patchOf(`*** Update File: ${leaf.path}\n*** Move to: zz/moved`))
      yield* ask("edit", { kind: "edit", path: leaf.path, edits: [{ old: "first mark line", new: "x" }] })
      yield* ask("write", { kind: "write", path: leaf.path, content: "x" })
      yield* ask("add", patchOf(`*** Add File: ${leaf.path}\n+x`))
    }
  }
  yield* tell("find all", files.find({ glob: "**", include_ignored: true, limit: 1000 }))
  yield* tell("search all", files.search({ pattern: "mark", include_ignored: true, limit: 1000, context_lines: 3 }))

  const where = `seed ${seed}: ${JSON.stringify(rules.slice(1))}`
  for (const { isDenied, mark, path } of leaves.filter((leaf) => leaf.isDenied)) {
    const leak = said.find(([, text]) => text.includes(mark) || text.includes(Buffer.from(`first ${mark}`).toString("base64").slice(0, 20)))
    assert.isUndefined(leak, `${where} denies ${path} (${isDenied})`)
    const [, found = ""] = said.find(([what]) => what === "find all") ?? []
    assert.notInclude(JSON.parse(found).paths ?? [], path, where)
  }
  for (const { isDenied, mark, path } of leaves)
    if (!isDenied) {
      const [, page = ""] = said.find(([what]) => what === `read ${path}`) ?? []
      assert.include(page, mark, `${where} leaves ${path} open`)
    }
  assert.deepStrictEqual(readTree(folder), before, where)
  const denied = leaves.filter((leaf) => leaf.isDenied).length
  return { calls: said.length, denied, open: leaves.length - denied }
}, Effect.scoped)

describe("a deny", () => {
  it.live(
    "never leaks through read, find, search, patch, edit or write, by any name of the file, and nothing it covers changes",
    () =>
      Effect.gen(function* () {
        const rounds = Number(process.env["CODESPACE_LEAK_ROUNDS"] ?? 24)
        const seen = { calls: 0, denied: 0, open: 0 }
        for (let seed = 1; seed <= rounds; seed++) {
          const { calls, denied, open } = yield* round(seed)
          seen.calls += calls
          seen.denied += denied
          seen.open += open
        }
        // Neither side may be empty: then the rules would be too weak or too strong to show anything.
        assert.isAbove(seen.denied, rounds)
        assert.isAbove(seen.open, rounds)
        assert.isAbove(seen.calls, rounds * 100)
      }),
    60_000,
  )
})

describe("another name of a denied file", () => {
  const secrets: FileRule = { glob: "**/.env", access: "deny", reason: "secrets" }
  const opened = Effect.fnUntraced(function* () {
    const { files, folder } = yield* openFiles({ ".env": "token\n", ordinary: "plain\n" }, { files: [everything, secrets] })
    linkSync(join(folder, ".env"), join(folder, "notes"))
    linkSync(join(folder, "ordinary"), join(folder, "twin"))
    return { files, folder, transaction: (yield* openPatching(folder, { files: [everything, secrets] })).transaction }
  })

  it.live("is refused by the rule, for reading and for changing", () =>
    Effect.gen(function* () {
      const { files, transaction } = yield* opened()
      const refusals = [
        yield* Effect.flip(files.read({ path: "notes" })),
        yield* Effect.flip(transaction.apply({ kind: "write", path: "notes", content: "x" }, { check_only: true })),
        yield* Effect.flip(transaction.apply(patchOf("*** Update File: notes\n*** Move to: n"))),
      ]
      for (const refusal of refusals) {
        assert.strictEqual(refusal._tag, "POLICY_DENIED")
        assert.include(refusal.message, "another name of a file that it denies (rule: files: deny **/.env (secrets))")
      }
    }).pipe(Effect.scoped),
  )

  it.live("is not searched, and two names of a file that nothing denies are", () =>
    Effect.gen(function* () {
      const { files } = yield* opened()
      assert.deepInclude(yield* files.search({ pattern: "token" }), { matches: [], files_matched: 0 })
      assert.deepStrictEqual(
        (yield* files.search({ pattern: "plain" })).matches.map(({ path }) => path),
        ["ordinary", "twin"],
      )
      assert.deepInclude((yield* files.read({ path: "twin" })).result, { text: "plain\n" })
    }).pipe(Effect.scoped),
  )
})

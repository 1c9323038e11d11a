/** A patch of twenty files with updates, adds, deletes, moves, a swap and a mode change; and the one that takes it back. */
const body = (name: string, word: string): string =>
  Array.from({ length: 30 }, (_, at) => `${name} line ${at}${at === 15 ? ` ${word}` : ""}\n`).join("")
const names = (letter: string, count: number) => Array.from({ length: count }, (_, at) => `${letter}${at}`)
const updated = names("u", 6)
const added = names("new/folder/a", 4)
const deleted = names("d", 4)
const moved = names("m", 2)

const hunk = (name: string, from: string, to: string): string =>
  ["@@ -15,3 +15,3 @@", ` ${name} line 14`, `-${name} line 15 ${from}`, `+${name} line 15 ${to}`, ` ${name} line 16`].join("\n")
const whole = (sign: "+" | "-", name: string): string => {
  const lines = body(name, "x").trimEnd().split("\n")
  return [sign === "+" ? `@@ -0,0 +1,${lines.length} @@` : `@@ -1,${lines.length} +0,0 @@`, ...lines.map((line) => sign + line)].join("\n")
}
const head = (from: string, to = from): string => `diff --git a/${from} b/${to}`
const renamed = (from: string, to: string): string =>
  [head(from, to), "similarity index 100%", `rename from ${from}`, `rename to ${to}`].join("\n")
const update = (name: string, from: string, to: string): string =>
  [head(name), `--- a/${name}`, `+++ b/${name}`, hunk(name, from, to)].join("\n")
const appear = (name: string): string => [head(name), "new file mode 100644", "--- /dev/null", `+++ b/${name}`, whole("+", name)].join("\n")
const vanish = (name: string): string =>
  [head(name), "deleted file mode 100644", `--- a/${name}`, "+++ /dev/null", whole("-", name)].join("\n")
const move = (from: string, to: string, name: string, before: string, after: string): string =>
  [
    head(from, to),
    "similarity index 90%",
    `rename from ${from}`,
    `rename to ${to}`,
    `--- a/${from}`,
    `+++ b/${to}`,
    hunk(name, before, after),
  ].join("\n")
const chmod = (name: string, from: string, to: string): string => [head(name), `old mode 100${from}`, `new mode 100${to}`].join("\n")
const swap = [renamed("s0", "s2"), renamed("s1", "s0"), renamed("s2", "s1")]

export const forward = [
  ...updated.map((name) => update(name, "x", "y")),
  ...added.map(appear),
  ...deleted.map(vanish),
  ...moved.map((name) => move(name, `moved/${name}`, name, "x", "y")),
  ...swap,
  chmod("mode", "644", "755"),
].join("\n")
export const backward = [
  ...updated.map((name) => update(name, "y", "x")),
  ...added.map(vanish),
  ...deleted.map(appear),
  ...moved.map((name) => move(`moved/${name}`, name, name, "y", "x")),
  ...swap,
  chmod("mode", "755", "644"),
].join("\n")

const content = (list: ReadonlyArray<string>) => Object.fromEntries(list.map((name) => [name, body(name, "x")]))
export const twentyFiles = { ...content([...updated, ...deleted, ...moved]), s0: "first\n", s1: "second\n", mode: "#!/bin/sh\n" }

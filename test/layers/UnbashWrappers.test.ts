/** A command that a rule denies, under wrappers in any order and depth: it is never simply let through. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as Unbash from "../../src/layers/Unbash.ts"
import type { CommandRule } from "../../src/schema/Policy.ts"
import { CommandReader } from "../../src/services/CommandReader.ts"
import { decideCommands } from "../../src/services/CommandRules.ts"
import { Dice } from "../support/PatchCases.ts"

const reader = await Effect.runPromise(Effect.provide(CommandReader, CommandReader.layer.pipe(Layer.provide(Unbash.layer))))
await Effect.runPromise(reader.read({ line: { script: "true" } }))

type Words = ReadonlyArray<string>

const rules: ReadonlyArray<CommandRule> = [{ argv: ["git", "push"], decision: "deny" }]
const decided = (line: { readonly argv: Words } | { readonly script: string }) =>
  decideCommands(rules, Effect.runSync(Effect.map(reader.read({ line }), ({ commands = [] }) => commands)))._tag

const quoted = (word: string): string => (/^[\w./=:@%+-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
const text = (words: Words): string => words.map(quoted).join(" ")

/** Ways to run a command that has been taken apart into words. */
const wrappers: ReadonlyArray<(words: Words) => Words> = [
  (words) => ["env", ...words],
  (words) => ["env", "-i", "A=1", ...words],
  (words) => ["/usr/bin/env", "-u", "B", ...words],
  (words) => ["sudo", ...words],
  (words) => ["sudo", "-n", "-u", "root", "A=1", ...words],
  (words) => ["doas", "-u", "root", ...words],
  (words) => ["nice", "-n", "5", ...words],
  (words) => ["nice", ...words],
  (words) => ["ionice", "-c", "3", ...words],
  (words) => ["nohup", ...words],
  (words) => ["timeout", "-k", "1", "5", ...words],
  (words) => ["time", "-p", ...words],
  (words) => ["setsid", "-w", ...words],
  (words) => ["stdbuf", "-o", "L", ...words],
  (words) => ["xargs", ...words],
  (words) => ["xargs", "-0", "-n", "1", ...words],
  (words) => ["find", ".", "-name", "x", "-exec", ...words, ";"],
  (words) => ["find", ".", "-execdir", ...words, "{}", "+"],
  (words) => ["sh", "-c", text(words)],
  (words) => ["/bin/bash", "-lc", text(words)],
  (words) => ["bash", "-e", "-c", `cd x && ${text(words)} | tail -1`],
  (words) => ["dash", "-c", `if true; then ${text(words)}; fi`],
  (words) => ["sh", "-c", `x=$(${text(words)}); echo "$x"`],
  (words) => ["sh", "-c", `f() { ${text(words)}; }; f &`],
  (words) => ["sh", "-c", `eval ${quoted(text(words))}`],
  (words) => ["sh", "-c", `trap ${quoted(text(words))} EXIT`],
  (words) => ["sh", "-c", `exec ${text(words)} </dev/null 2>&1`],
  (words) => ["command", ...words],
  (words) => ["npx", "-y", ...words],
  (words) => ["npm", "exec", "--", ...words],
  (words) => ["flock", "x", "-c", text(words)],
  (words) => ["watch", "-n", "1", text(words)],
  (words) => ["strace", "-f", "-o", "x", ...words],
  (words) => ["busybox", ...words],
  (words) => ["git", "-c", "core.pager=cat", ...(words[0] === "git" ? words.slice(1) : ["submodule", "foreach", text(words)])],
  (words) => ["git", "rebase", "--exec", text(words)],
]

const cores: ReadonlyArray<Words> = [
  ["git", "push"],
  ["/usr/bin/git", "push", "origin"],
  ["./git", "-C", "dir", "push"],
  ["git", "--no-pager", "push", "--force"],
  ["GIT", "push"],
  ["git", "-c", "a.b=c", "push", "--command=x"],
]

describe("R146: wrappers", () => {
  it("in 50,000 lines, of any order and depth, let no denied command through", () => {
    const dice = new Dice(146)
    const seen: Record<string, number> = {}
    for (let round = 0; round < 50_000; round++) {
      let words = dice.pick(cores)
      for (let depth = 1 + dice.below(4); depth > 0; depth--) words = dice.pick(wrappers)(words)
      const decision = dice.chance(2) ? decided({ argv: words }) : decided({ script: text(words) })
      assert.notStrictEqual(decision, "allow", JSON.stringify(words))
      seen[decision] = (seen[decision] ?? 0) + 1
    }
    // Most are seen through, and not only doubted.
    assert.isAbove(seen["deny"] ?? 0, 20_000)
  }, 120_000)

  it("let through what no rule is about, where they are understood", () => {
    const plain = wrappers.slice(0, 28)
    for (const wrap of plain)
      for (const words of [
        ["ls", "-l"],
        ["make", "test"],
      ])
        assert.oneOf(decided({ argv: wrap(words) }), ["allow", "ask"])
    const through = plain.filter((wrap) => decided({ argv: wrap(["make", "test"]) }) === "allow").length
    assert.isAbove(through, 20)
  })
})

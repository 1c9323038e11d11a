import { assert, describe, it } from "@effect/vitest"
import type { CommandRule, CommandWord, SimpleCommand } from "../../src/schema/Policy.ts"
import { ANY, decideCommands, exampleProblem, type Verdict, verdictOf } from "../../src/services/CommandRules.ts"

const rule = (decision: CommandRule["decision"], ...argv: ReadonlyArray<string>): CommandRule => ({ argv, decision })
const verdict = (rules: string, line: string) => verdictOf(rule("deny", ...rules.split(" ")), { words: line.split(" ") })
const one = (prefix = "", suffix = "") => ({ prefix, suffix, one: true })

describe("a rule", () => {
  const cases: ReadonlyArray<readonly [rule: string, line: string, Verdict]> = [
    ["git push", "git push origin main", "yes"],
    ["git push", "/usr/bin/git push", "yes"],
    ["git push", "GIT push", "yes"],
    ["git push", "git --no-pager push", "yes"],
    ["git push", "git -C dir push", "maybe"],
    ["git push", "git -C push status", "yes"],
    ["git push", "git log push", "no"],
    ["git push", "git pushx", "no"],
    ["git push", "gitx push", "no"],
    ["git push", "git", "no"],
    ["git push --force", "git push origin --force", "yes"],
    ["git push --force", "git push --force-with-lease", "no"],
    ["git push --force", "git push --forc", "yes"],
    ["git push --force", "git push --force=x", "yes"],
    ["rm -rf", "rm -fr x", "yes"],
    ["rm -rf", "rm x -r -v -f", "yes"],
    ["rm -rf", "rm -r x", "no"],
    ["rm -rf", "rm --recursive --force x", "no"],
    ["find -delete", "find . -name x -delete", "yes"],
    ["find -delete", "find . -type d -empty -let", "no"],
    ["npm run deploy", "npm run -s deploy", "yes"],
    ["npm run deploy", "npm --prefix x run deploy", "maybe"],
    ["git push", "git -- push", "yes"],
    ["git push", "git - push", "no"],
  ]
  for (const [argv, line, expected] of cases)
    it(`${argv} against ${line}: ${expected}`, () => {
      assert.strictEqual(verdict(argv, line), expected)
    })

  const unknown: ReadonlyArray<readonly [ReadonlyArray<CommandWord>, Verdict]> = [
    [["git", one()], "maybe"],
    [["git", ANY], "maybe"],
    [["git", one("pu")], "maybe"],
    [["git", one("src/")], "no"],
    [["git", one("", "sh")], "maybe"],
    [["git", one("", ".ts")], "no"],
    [["git", "status", one()], "no"],
    [["git", "push", ANY], "yes"],
    [[one("", "/bin/git"), "push"], "yes"],
    [[one("", "/bin/got"), "push"], "no"],
    [[one(), "push"], "maybe"],
    [[one(), "pull"], "no"],
    [[ANY, "pull"], "maybe"],
    [[], "no"],
  ]
  for (const [words, expected] of unknown)
    it(`git push against ${JSON.stringify(words)}: ${expected}`, () => {
      assert.strictEqual(verdictOf(rule("deny", "git", "push"), { words }), expected)
    })
})

describe("examples", () => {
  const push = rule("deny", "git", "push")
  it("say where a rule does not do what they say", () => {
    assert.isUndefined(exampleProblem(push, ["git", "push", "x"], "match"))
    assert.isUndefined(exampleProblem(push, ["git", "pull"], "not_match"))
    assert.include(exampleProblem(push, ["git", "pull"], "match") ?? "", '"git pull" is to match, but the rule does not match it')
    assert.include(exampleProblem(push, ["git", "-C", "x", "push"], "match") ?? "", "may or may not match it")
    assert.include(exampleProblem(push, ["/bin/git", "push"], "not_match") ?? "", "matches it")
  })

  it("of an allow are compared word for word", () => {
    const test = rule("allow", "npm", "test")
    assert.isUndefined(exampleProblem(test, ["npm", "test", "--", "x"], "match"))
    for (const argv of [
      ["npm", "-s", "test"],
      ["./npm", "test"],
      ["NPM", "test"],
      ["npm", "testx"],
    ])
      assert.isUndefined(exampleProblem(test, argv, "not_match"), argv.join(" "))
  })
})

describe("the order", () => {
  const decided = (rules: ReadonlyArray<CommandRule>, ...commands: ReadonlyArray<SimpleCommand>) => decideCommands(rules, commands)
  const push = { words: ["git", "push"] }
  const hidden = { words: ["python3", "-c", "x"], unseen: "code in an argument of python3" }
  const ask = rule("ask", "git", "push")
  const deny = rule("deny", "git")
  const allow = rule("allow", "git", "push")

  it("is deny, ask, allow, whatever stands first", () => {
    for (const rules of [
      [allow, ask, deny],
      [deny, ask, allow],
    ])
      assert.deepInclude(decided(rules, push), { _tag: "deny", rule: "commands: deny git" })
    assert.deepInclude(decided([allow, ask], push), { _tag: "ask", rule: "commands: ask git push" })
    assert.deepStrictEqual(decided([allow, rule("deny", "rm")], push), { _tag: "allow", rule: "commands: allow git push" })
    assert.deepStrictEqual(decided([rule("deny", "rm")], push), { _tag: "allow" })
  })

  it("takes the worst of several commands", () => {
    assert.strictEqual(decided([allow, deny], { words: ["ls"] }, push)._tag, "deny")
    assert.deepStrictEqual(decided([allow], push, { words: ["ls"] }), { _tag: "allow" })
  })

  it("asks about what is only possible, and about what cannot be seen, where a rule restricts anything", () => {
    const possible = decided([deny], { words: [ANY] })
    assert.strictEqual(possible._tag, "ask")
    assert.strictEqual(decided([ask], { ...push, guessed: true })._tag, "ask")
    assert.strictEqual(decided([ask], hidden)._tag, "ask")
    assert.strictEqual(decided([allow], hidden)._tag, "allow")
    assert.strictEqual(decided([], hidden)._tag, "allow")
  })

  it("lets an allow vouch for what cannot be seen, and for nothing else", () => {
    const vouch = rule("allow", "python3", "-c")
    assert.deepStrictEqual(decided([deny, vouch], hidden), { _tag: "allow", rule: "commands: allow python3 -c" })
    assert.strictEqual(decided([deny, vouch], { ...hidden, altered: true })._tag, "ask")
    assert.strictEqual(decided([deny, rule("allow", "git")], { words: ["git", ANY] })._tag, "deny")
    assert.strictEqual(decided([ask, rule("allow", "git")], { words: ["git", ANY] })._tag, "ask")
  })

  it("keeps what a refusal names short", () => {
    const long = decided([{ argv: ["git", "x".repeat(5000)], decision: "deny", reason: "y".repeat(5000) }], {
      words: ["git", "x".repeat(5000)],
    })
    assert.isTrue(long._tag === "deny" && long.rule.length + long.subject.length < 500)
  })
})

/** A small generator whose numbers depend on the seed alone. */
const randomOf = (seed: number) => {
  let state = seed
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
  return { below, pick: <A>(values: ReadonlyArray<A>): A => values[below(values.length)] as A }
}

describe("against a slow reference", () => {
  const programs = ["git", "/usr/bin/git", "GIT", "rm", "./rm", "npm", "gitx"]
  const operands = ["push", "run", "test", "x", "pushx", "-", "--"]
  const options = ["-r", "-f", "-rf", "-fr", "-C", "--force", "--forc", "--force=x", "--all", "-delete"]
  const words = [...operands, ...options]
  const tokens = ["push", "run", "test", "-r", "-f", "-rf", "-C", "--force", "-delete"]
  const someUnknown: ReadonlyArray<CommandWord> = [ANY, one(), one("pu"), one("-"), one("", "sh"), { prefix: "s", suffix: "", one: false }]
  /** What unknown words may turn out to be. */
  const outcomes = ["git", "push", "run", "-rf", "--force", "src"]

  it("50,000 lines agree where every word is known, and unknown words never let one through", () => {
    const seed = 20_261_109
    const { below, pick } = randomOf(seed)
    const seen = { yes: 0, maybe: 0, no: 0 }
    let strict = 0
    for (let round = 0; round < 60_000; round++) {
      const argv = [pick(["git", "rm", "npm"]), ...Array.from({ length: below(3) }, () => pick(tokens))]
      const unknowns = below(4) === 0 ? 1 + below(2) : 0
      const line: Array<CommandWord> = [pick(programs), ...Array.from({ length: below(5) }, () => pick(words))]
      for (let at = 0; at < unknowns; at++) line[below(line.length)] = pick(someUnknown)
      const ours = verdictOf(rule("deny", ...argv), { words: line })
      const slow = referenceVerdict(argv, line, outcomes)
      const where = `seed ${seed}: ${argv.join(" ")} against ${JSON.stringify(line)}`
      seen[ours]++
      if (line.every((word) => typeof word === "string")) {
        strict++
        assert.strictEqual(ours, slow, where)
      } else if (ours === "no") assert.strictEqual(slow, "no", where)
      else if (ours === "yes") assert.strictEqual(slow, "yes", where)
    }
    assert.isAbove(strict, 40_000)
    for (const count of Object.values(seen)) assert.isAbove(count, 1000)
  })

  it("50,000 lines are decided in the documented order", () => {
    const seed = 7
    const { below, pick } = randomOf(seed)
    const decisions = ["deny", "ask", "allow"] as const
    for (let round = 0; round < 50_000; round++) {
      const rules = Array.from({ length: below(5) }, () =>
        rule(pick(decisions), pick(["git", "rm"]), ...Array.from({ length: below(3) }, () => pick(tokens))),
      )
      const commands = Array.from({ length: 1 + below(3) }, () => ({
        words: [pick(programs), ...Array.from({ length: below(4) }, () => pick(words))],
        ...(below(8) === 0 ? { unseen: "something" } : {}),
        ...(below(8) === 0 ? { guessed: true } : {}),
        ...(below(8) === 0 ? { altered: true } : {}),
      }))
      assert.strictEqual(
        decideCommands(rules, commands)._tag,
        referenceDecision(rules, commands),
        `seed ${seed}: ${JSON.stringify(rules)} against ${JSON.stringify(commands)}`,
      )
    }
  })
})

/** Tries everything unknown words may be, and every reading of which options take a value. */
const referenceVerdict = (argv: ReadonlyArray<string>, line: ReadonlyArray<CommandWord>, outcomes: ReadonlyArray<string>): Verdict => {
  const concrete = expand(line, outcomes)
  if (concrete.length > 0 && concrete.every((words) => readings(words, false).some((reading) => holds(argv, words, reading)))) return "yes"
  return concrete.some((words) => readings(words, true).some((reading) => holds(argv, words, reading))) ? "maybe" : "no"
}

const expand = (line: ReadonlyArray<CommandWord>, outcomes: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> =>
  line.reduce<ReadonlyArray<ReadonlyArray<string>>>(
    (lines, word) => {
      if (typeof word === "string") return lines.map((words) => [...words, word])
      const fit = outcomes.filter((text) => text.startsWith(word.prefix) && text.endsWith(word.suffix))
      const several = word.one
        ? fit.map((text) => [text])
        : [[], ...fit.map((text) => [text]), ...fit.flatMap((a) => fit.map((b) => [a, b]))]
      return lines.flatMap((words) => several.map((more) => [...words, ...more]))
    },
    [[]],
  )

const looksLikeOption = (word: string) => word[0] === "-" && word !== "-" && word !== "--"

/** The operands, once with no value for any option, or once for each choice of options that take the next word. */
const readings = (words: ReadonlyArray<string>, withValues: boolean): ReadonlyArray<ReadonlyArray<string>> => {
  const read = (at: number): ReadonlyArray<ReadonlyArray<string>> => {
    const word = words[at]
    if (word === undefined) return [[]]
    if (word === "--") return read(at + 1)
    if (!looksLikeOption(word)) return read(at + 1).map((rest) => [word, ...rest])
    const next = words[at + 1]
    const takes = withValues && next !== undefined && next !== "--" && !looksLikeOption(next)
    return takes ? [...read(at + 1), ...read(at + 2)] : read(at + 1)
  }
  return read(1)
}

const holds = ([program, ...tokens]: ReadonlyArray<string>, words: ReadonlyArray<string>, operands: ReadonlyArray<string>): boolean => {
  const name = (words[0] ?? "").split("/").at(-1)?.toLowerCase()
  const wanted = tokens.filter((token) => !looksLikeOption(token))
  const given = words.slice(1).filter(looksLikeOption)
  const letters = given.filter((word) => word[1] !== "-").join("")
  return (
    name === program &&
    wanted.every((token, at) => operands[at] === token) &&
    tokens
      .filter(looksLikeOption)
      .every(
        (token) =>
          given.some(
            (word) =>
              word === token ||
              word.split("=")[0] === token ||
              (word.length > 2 && word[1] === "-" && token.startsWith(word.split("=")[0] ?? word)),
          ) ||
          (token.length <= 4 && token[1] !== "-" && [...token.slice(1)].every((letter) => letters.includes(letter))),
      )
  )
}

const referenceDecision = (
  rules: ReadonlyArray<CommandRule>,
  commands: ReadonlyArray<SimpleCommand & { words: ReadonlyArray<string> }>,
) => {
  const found = (decision: CommandRule["decision"], wanted: Verdict) =>
    rules.some(
      (one) =>
        one.decision === decision &&
        commands.some(({ guessed, words }) => {
          const slow = referenceVerdict(one.argv, words, [])
          return wanted === (slow === "yes" && guessed === true ? "maybe" : slow)
        }),
    )
  const vouched = ({ altered, guessed, words }: SimpleCommand) =>
    rules.some(
      ({ argv, decision }) => decision === "allow" && !altered && !guessed && argv.join(" ") === words.slice(0, argv.length).join(" "),
    )
  if (found("deny", "yes")) return "deny"
  if (found("ask", "yes") || found("deny", "maybe") || found("ask", "maybe")) return "ask"
  const restricts = rules.some(({ decision }) => decision !== "allow")
  return restricts && commands.some((command) => command.unseen !== undefined && !vouched(command)) ? "ask" : "allow"
}

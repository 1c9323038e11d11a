import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { decodeConfig } from "../../src/schema/Config.ts"
import { ruleProblems } from "../../src/services/RuleProblems.ts"

const fileOf = (value: object) => Result.getOrThrow(decodeConfig(value))

describe("ruleProblems", () => {
  const fileWith = (examples: object) =>
    fileOf({ profiles: { own: { commands: [{ argv: ["git", "push"], decision: "deny", examples }] } } })

  it("finds none where a rule does what its examples say", () => {
    assert.deepStrictEqual(ruleProblems(fileWith({ match: [["git", "push", "-f"]], not_match: [["git", "pull"]] })), [])
  })

  it("names each path that a file rule's examples say wrongly", () => {
    const rule = (examples: object) => ({ glob: ".env", access: "deny", examples })
    const profile = {
      files: [rule({ match: [".ENV", ".env/key"], not_match: ["app/.env"] }), rule({ match: ["app/.env"], not_match: [".env"] })],
    }
    assert.deepStrictEqual(ruleProblems(fileOf({ profiles: { own: profile } })), [
      { at: "profiles.own.files[1].examples.match[0]", problem: '"app/.env" is to match, but .env does not match it' },
      { at: "profiles.own.files[1].examples.not_match[0]", problem: '".env" is not to match, but .env matches it' },
    ])
  })

  it("names hosts that can match nothing", () => {
    const allow = [
      "api.example.org:443",
      "*.example.org",
      "10.0.0.1:80",
      "[2001:db8::1]:443",
      "a.example.",
      "*.10.0.0.1",
      "127.1",
      "x:0",
      "x:70000",
      "[::g]",
      "-a",
    ]
    const found = ruleProblems({ ...fileWith({}), profiles: { own: { ...fileWith({}).profiles["own"], network: { allow } } as never } })
    assert.deepStrictEqual(
      found.map(({ at }) => at),
      [5, 6, 7, 8, 9, 10].map((place) => `profiles.own.network.allow[${place}]`),
    )
    assert.include(found[0]?.problem ?? "", "*.10.0.0.1 can match nothing")
  })

  it("names each example that a rule about hosts contradicts", () => {
    const host = (name: string, examples: object) => ({ host: name, reason: "why", examples })
    const allow = [
      host("api.example", { match: ["api.example", "API.example:80"], not_match: ["x.api.example", "example"] }),
      host("*.example:443", { match: ["a.example", "a.example:80"], not_match: ["b.a.example", "example:443"] }),
      host("10.0.0.5", { match: ["10.0.0.5:1", "no host"] }),
      { host: "x:0" },
    ]
    assert.deepStrictEqual(ruleProblems(fileOf({ profiles: { own: { network: { allow } } } })), [
      { at: "profiles.own.network.allow[1].examples.match[1]", problem: "a.example:80 is to match, but *.example:443 does not match it" },
      {
        at: "profiles.own.network.allow[1].examples.not_match[0]",
        problem: "b.a.example is not to match, but *.example:443 matches it",
      },
      { at: "profiles.own.network.allow[2].examples.match[1]", problem: "no host is no host with an optional port" },
      {
        at: "profiles.own.network.allow[3]",
        problem: "x:0 can match nothing: it is no host name, no address, or its port is not from 1 to 65535",
      },
    ])
  })

  it("names each example that a rule contradicts", () => {
    const found = ruleProblems(
      fileWith({
        match: [
          ["git", "push"],
          ["git", "pull"],
        ],
        not_match: [["git", "push", "x"]],
      }),
    )
    assert.deepStrictEqual(found, [
      { at: "profiles.own.commands[0].examples.match[1]", problem: '"git pull" is to match, but the rule does not match it' },
      { at: "profiles.own.commands[0].examples.not_match[0]", problem: '"git push x" is not to match, but the rule matches it' },
    ])
  })
})

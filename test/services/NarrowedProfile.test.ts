import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import type { AllowedHost, CommandRule, FileRule, Profile, SimpleCommand } from "../../src/schema/Policy.ts"
import type { ConfinedPath } from "../../src/schema/Workspace.ts"
import { builtInProfiles } from "../../src/services/AppConfig.ts"
import { decideCommands } from "../../src/services/CommandRules.ts"
import { compileHosts, targetOf } from "../../src/services/HostRules.ts"
import { narrowed } from "../../src/services/NarrowedProfile.ts"
import { decide, fileAccess } from "../../src/services/Policy.ts"

const readOnly = builtInProfiles.get("read-only") as Profile
const workspaceWrite = builtInProfiles.get("workspace-write") as Profile
const profile = (over: Partial<Profile>): Profile => ({ ...workspaceWrite, name: "own", ...over })

const strictness = { deny: 0, read: 1, ask: 2, write: 3 }
const accessTo = (one: Profile, path: string) => strictness[fileAccess(one, path as ConfinedPath).access]

const globs = ["**", "src/**", "src/lib/**", "src/a.ts", "docs/**", "**/*.md", "*.ts", "src/*.ts", "{src,docs}/**", "src/**/*.md"]
const paths = ["", "a.ts", "a.md", "src", "src/a.ts", "src/b.md", "src/lib/a.ts", "src/lib/x/b.md", "docs/a.md", "docs/x/a.ts", "other/x"]
const Rules = Schema.Array(
  Schema.Struct({ glob: Schema.Literals(globs), access: Schema.Literals(["read", "write", "ask", "deny"]) }),
).check(Schema.isMaxLength(5))

describe("a profile held to the highest of its caller", () => {
  it.effect.prop(
    "never lets a file be used as one of the two does not",
    { own: Rules, highest: Rules },
    ({ highest, own }) =>
      Effect.sync(() => {
        const [one, two] = [profile({ files: own }), profile({ name: "highest", files: highest })]
        for (const path of paths) {
          const both = Math.min(accessTo(one, path), accessTo(two, path))
          assert.isAtMost(accessTo(narrowed(one, two), path), both, path)
          assert.isAtMost(accessTo(narrowed(two, one), path), both, path)
        }
      }),
    { arbitrary: { runs: 300 } },
  )

  it("lets exactly what both let be done where globs are names and folders", () => {
    const plain = ["**", "src/**", "src/lib/**", "docs/a.md"]
    const lists = plain.flatMap((first) =>
      plain.flatMap(
        (second): ReadonlyArray<ReadonlyArray<FileRule>> => [
          [{ glob: first, access: "write" }],
          [
            { glob: "**", access: "write" },
            { glob: first, access: "read" },
            { glob: second, access: "write" },
          ],
          [
            { glob: first, access: "write" },
            { glob: second, access: "deny" },
          ],
        ],
      ),
    )
    for (const own of lists)
      for (const highest of lists) {
        const [one, two] = [profile({ files: own }), profile({ name: "highest", files: highest })]
        const both = narrowed(one, two)
        for (const path of paths)
          assert.strictEqual(
            accessTo(both, path),
            Math.min(accessTo(one, path), accessTo(two, path)),
            JSON.stringify({ own, highest, path }),
          )
      }
  })

  it("says in its name what it is held to, and keeps the reasons of rules", () => {
    const own = profile({ files: [{ glob: "**", access: "write" }], name: "guarded" })
    const highest = profile({
      name: "careful",
      files: [
        { glob: "**", access: "write" },
        { glob: "docs/**", access: "read", reason: "by hand" },
      ],
    })
    const both = narrowed(own, highest)
    assert.strictEqual(both.name, "guarded within careful")
    assert.strictEqual(narrowed(own, own), own)
    const refused = decide(both, { write: ["docs/a.md" as ConfinedPath] })
    assert.deepInclude(refused, { _tag: "deny", rule: "files: read docs/** (by hand)" })
  })

  it("runs commands only when both do, and takes the smaller of each limit", () => {
    const limits = { processes: 2, spool_bytes: 1e9, timeout_ms: 1000 }
    assert.strictEqual(narrowed(workspaceWrite, readOnly).exec, "off")
    assert.strictEqual(narrowed(readOnly, workspaceWrite).exec, "off")
    assert.deepStrictEqual(narrowed(workspaceWrite, profile({ limits })).limits, {
      processes: 2,
      spool_bytes: 256 * 1024 * 1024,
      timeout_ms: 1000,
    })
    assert.deepStrictEqual(narrowed(profile({ env: ["CI", "A"] }), profile({ name: "b", env: ["B", "CI"] })).env, ["CI"])
  })

  it("reaches only what both reach", () => {
    const network = (one: Profile["network"], two: Profile["network"]) => {
      const found = [
        narrowed(profile({ network: one }), profile({ name: "b", network: two })),
        narrowed(profile({ network: two }), profile({ name: "b", network: one })),
      ]
      assert.deepStrictEqual(found[0]?.network, found[1]?.network)
      return found[0]?.network
    }
    for (const other of ["off", "loopback", "on", { allow: ["a.example"] }] as const) {
      assert.strictEqual(network("off", other), "off")
      assert.deepStrictEqual(network("on", other), other)
    }
    assert.strictEqual(network("loopback", "loopback"), "loopback")
    assert.strictEqual(network("loopback", { allow: ["a.example", "localhost:80", "127.0.0.1"] }), "loopback")
    assert.deepStrictEqual(network({ allow: ["*.a.example"] }, { allow: ["b.a.example:443", "a.example", "x.example"] }), {
      allow: ["b.a.example:443"],
    })
    assert.deepStrictEqual(network({ allow: ["*.a.example:443"] }, { allow: ["*.b.a.example", "c.a.example:80"] }), {
      allow: ["*.b.a.example:443"],
    })
    assert.strictEqual(network({ allow: ["a.example:1"] }, { allow: ["a.example:2"] }), "off")
  })

  it("lets hosts through that both lists let through, and no other", () => {
    const rules = [
      "a.example",
      "*.a.example",
      "*.b.a.example",
      "b.a.example:443",
      "*.example:80",
      "*.a.example:443",
      "127.0.0.1",
      "c.example:80",
    ]
    const targets = ["a.example", "b.a.example", "x.b.a.example", "c.example", "127.0.0.1", "example"].flatMap((host) =>
      [80, 443, 9].map((port) => targetOf(host, port)),
    )
    const reaches = (allow: ReadonlyArray<AllowedHost>, target: NonNullable<(typeof targets)[number]>) =>
      compileHosts(allow).allowing(target) !== undefined
    for (const one of rules)
      for (const two of rules) {
        const { network } = narrowed(profile({ network: { allow: [one] } }), profile({ name: "b", network: { allow: [two] } }))
        const both = typeof network === "string" ? [] : network.allow
        for (const target of targets)
          if (target !== undefined)
            assert.strictEqual(
              reaches(both, target),
              reaches([one], target) && reaches([two], target),
              JSON.stringify([one, two, target, both]),
            )
      }
  })

  it("denies or asks about a command when one of the two does, seen or unseen", () => {
    const rule = (decision: CommandRule["decision"], ...argv: ReadonlyArray<string>): CommandRule => ({ decision, argv })
    const lists = [
      [],
      [rule("deny", "git", "push")],
      [rule("ask", "git"), rule("allow", "make")],
      [rule("deny", "rm"), rule("allow", "make", "test")],
      [rule("allow", "make")],
    ]
    const commands: ReadonlyArray<SimpleCommand> = [
      { words: ["git", "push"] },
      { words: ["git", "log"] },
      { words: ["rm", "-r", "x"] },
      { words: ["make"], unseen: "a makefile" },
      { words: ["make", "test"], unseen: "a makefile" },
      { words: ["ls"] },
    ]
    const order = { deny: 0, ask: 1, allow: 2 }
    const verdict = (list: ReadonlyArray<CommandRule>, command: SimpleCommand) =>
      order[decideCommands(list, [command])._tag as keyof typeof order]
    for (const one of lists)
      for (const two of lists) {
        const both = narrowed(profile({ commands: one }), profile({ name: "b", commands: two })).commands
        for (const command of commands)
          assert.strictEqual(
            verdict(both, command),
            Math.min(verdict(one, command), verdict(two, command)),
            JSON.stringify({ one, two, command }),
          )
      }
  })
})

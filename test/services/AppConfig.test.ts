import { assert, describe, it } from "@effect/vitest"
import { Duration, Result } from "effect"
import { decodeConfig } from "../../src/schema/Config.ts"
import { builtInProfiles, namingProblems, resolveEnvironment, resolveProfile } from "../../src/services/AppConfig.ts"

const fileOf = (value: object) => Result.getOrThrow(decodeConfig(value))
const resolved = (name: string, profiles: object) => resolveProfile(name, fileOf({ profiles }).profiles, "here")
const problemOf = (name: string, profiles: object) => {
  const result = resolved(name, profiles)
  return Result.isFailure(result) ? `${result.failure.at}: ${result.failure.problem}` : undefined
}

describe("resolveProfile", () => {
  it("knows the built-in ones", () => {
    const limits = { processes: 16, spool_bytes: 268_435_456, timeout_ms: 1_800_000 }
    assert.deepInclude(Result.getOrThrow(resolved("read-only", {})), { files: [{ glob: "**", access: "read" }], exec: "off", limits })
    assert.deepInclude(Result.getOrThrow(resolved("workspace-write", {})), {
      files: [{ glob: "**", access: "write" }],
      exec: "on",
      network: "on",
      limits,
    })
  })

  it("starts from read-only where nothing is extended", () => {
    const own = Result.getOrThrow(resolved("own", { own: { env: ["CI"] } }))
    assert.deepStrictEqual({ ...own, name: "read-only", env: [] }, builtInProfiles.get("read-only"))
  })

  it("adds rules and names to the parent's, and replaces the rest", () => {
    const profiles = {
      base: { extends: "workspace-write", files: [{ glob: "docs/**", access: "read" }], env: ["CI"], limits: { processes: 2 } },
      strict: {
        extends: "base",
        files: [{ glob: "**/.env*", access: "deny", reason: "secrets" }],
        network: { allow: ["api.example.org:443"] },
        env: ["NODE_ENV", "CI"],
        limits: { timeout: "5 minutes" },
      },
    }
    assert.deepStrictEqual(Result.getOrThrow(resolved("strict", profiles)), {
      name: "strict",
      files: [
        { glob: "**", access: "write" },
        { glob: "docs/**", access: "read" },
        { glob: "**/.env*", access: "deny", reason: "secrets" },
      ],
      exec: "on",
      network: { allow: ["api.example.org:443"] },
      commands: [],
      env: ["CI", "NODE_ENV"],
      limits: { processes: 2, spool_bytes: 268_435_456, timeout_ms: 300_000 },
    })
  })

  it("adds command rules to the parent's", () => {
    const rule = (program: string) => ({ argv: [program], decision: "deny" as const })
    const profiles = { base: { commands: [rule("git")] }, own: { extends: "base", commands: [rule("rm")] } }
    assert.deepStrictEqual(Result.getOrThrow(resolved("own", profiles)).commands, [rule("git"), rule("rm")])
  })

  it("refuses a circle by its names", () => {
    assert.strictEqual(
      problemOf("a", { a: { extends: "b" }, b: { extends: "c" }, c: { extends: "a" } }),
      "profiles.c.extends: profiles extend each other in a circle: a -> b -> c -> a",
    )
    assert.include(problemOf("a", { a: { extends: "a" } }) ?? "", "profiles.a.extends: profiles extend each other in a circle: a -> a")
  })

  it("refuses an unknown name where it stands, also one that every object has", () => {
    assert.strictEqual(problemOf("x", { own: {} }), 'here: there is no profile "x"; known are read-only, workspace-write, own')
    assert.include(problemOf("own", { own: { extends: "rw" } }) ?? "", 'profiles.own.extends: there is no profile "rw"')
    assert.include(problemOf("constructor", {}) ?? "", 'there is no profile "constructor"')
  })
})

describe("namingProblems", () => {
  const placesOf = (value: object) => namingProblems(fileOf(value)).map(({ at }) => at)

  it("finds none in a file that fits together", () => {
    const workspaces = { app: { root: "/a", profile: "own" }, two: { root: "/b", profile: "workspace-write", environment: "here" } }
    assert.deepStrictEqual(placesOf({ workspaces, profiles: { own: {} }, environments: { here: { kind: "host" } } }), [])
  })

  it("names unknown profiles and environments by their fields", () => {
    const workspaces = { app: { root: "/a", profile: "owm", environment: "box" } }
    assert.deepStrictEqual(placesOf({ workspaces, profiles: { own: {} } }), ["workspaces.app.profile", "workspaces.app.environment"])
  })

  it("names a broken profile once, whoever uses it", () => {
    const workspaces = { app: { root: "/a", profile: "own" }, two: { root: "/b", profile: "own" } }
    assert.deepStrictEqual(placesOf({ workspaces, profiles: { own: { extends: "nothing" } } }), ["profiles.own.extends"])
  })

  it("does not let a file redefine a built-in profile", () => {
    const file = { workspaces: { app: { root: "/a" } }, profiles: { "read-only": { exec: "on" } } }
    assert.deepStrictEqual(placesOf(file), ["profiles.read-only"])
  })
})

describe("environments", () => {
  it("have a built-in worker, and those of the file with their defaults", () => {
    assert.deepStrictEqual(resolveEnvironment("host", {}), { kind: "host" })
    assert.deepStrictEqual(resolveEnvironment("worker", {}), {
      kind: "worker",
      name: "worker",
      lifetime: "gateway",
      orphanLimitMs: 3_600_000,
    })
    const box = { kind: "worker", lifetime: "detached", orphan_limit: Duration.minutes(1) } as const
    assert.deepStrictEqual(resolveEnvironment("box", { box }), { kind: "worker", name: "box", lifetime: "detached", orphanLimitMs: 60_000 })
  })
})

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Option, Result } from "effect"
import { layerRecordsIn } from "../../src/layers/App.ts"
import { builtInProfiles, type WorkspaceSettings } from "../../src/services/AppConfig.ts"
import { workspaceFor, workspacesOf } from "../../src/services/CallerRights.ts"
import { Callers } from "../../src/services/Callers.ts"
import { Ledger } from "../../src/services/Ledger.ts"
import { temporaryFolder } from "../support/Tree.ts"

/** The callers and the ledger as a server on this folder has them, until the scope ends. */
const open = (folder: string) =>
  Effect.map(Layer.build(Layer.fresh(layerRecordsIn(folder))), (services) => ({
    callers: Context.get(services, Callers),
    ledger: Context.get(services, Ledger),
  }))

describe("callers", () => {
  it.effect("are known by a token that is kept as a hash, in every server and after a restart", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const rights = { workspaces: ["app"], highest: "read-only", trust_prompts: true }
      const token = yield* Effect.scoped(Effect.flatMap(open(folder), ({ callers }) => callers.admit({ name: "ann", ...rights })))
      assert.match(token ?? "", /^cs_[\w-]{43}$/)
      const [one, other] = [yield* open(folder), yield* open(folder)]
      const known = Option.getOrThrow(yield* other.callers.byToken(token ?? ""))
      assert.deepInclude(known, { name: "ann", known_by: "token", ...rights })
      for (const wrong of ["", "cs_", `${token}x`, "cso_abc"]) assert.isTrue(Option.isNone(yield* one.callers.byToken(wrong)))
      for (const file of readdirSync(folder)) assert.notInclude(readFileSync(join(folder, file), "latin1"), token ?? "")
      assert.isTrue(yield* one.callers.revoke("ann"))
      assert.isTrue(Option.isNone(yield* other.callers.byToken(token ?? "")))
      assert.isFalse(yield* one.callers.revoke("ann"))
    }),
  )

  it.effect("have a name that is theirs alone, unless they are made new on purpose", () =>
    Effect.gen(function* () {
      const { callers } = yield* open(yield* temporaryFolder)
      const first = (yield* callers.admit({ name: "ann", trust_prompts: false })) ?? ""
      assert.strictEqual((yield* Effect.flip(callers.admit({ name: "ann", trust_prompts: false })))._tag, "CallerExists")
      const second = (yield* callers.admit({ name: "ann", trust_prompts: false, workspaces: ["b"] }, { replace: true })) ?? ""
      assert.isTrue(Option.isNone(yield* callers.byToken(first)))
      assert.deepStrictEqual(Option.getOrThrow(yield* callers.byToken(second)).workspaces, ["b"])
      assert.strictEqual((yield* callers.admitLogin({ name: "ann", trust_prompts: false })).name, "ann-2")
      assert.strictEqual((yield* callers.admitLogin({ name: "ann", trust_prompts: false })).name, "ann-3")
      assert.strictEqual(yield* callers.admit({ name: "bob", subject: "auth|1", trust_prompts: false }), undefined)
      assert.strictEqual((yield* Effect.flip(callers.admit({ name: "eve", subject: "auth|1", trust_prompts: false })))._tag, "CallerExists")
      assert.strictEqual(Option.getOrThrow(yield* callers.bySubject("auth|1")).name, "bob")
      assert.deepStrictEqual(
        (yield* callers.list).map(({ known_by, name }) => [name, known_by]),
        [
          ["ann", "token"],
          ["ann-2", "login"],
          ["ann-3", "login"],
          ["bob", "issuer"],
        ],
      )
    }),
  )

  it.effect("come and go in the ledger, with their rights and without a secret", () =>
    Effect.gen(function* () {
      const { callers, ledger } = yield* open(yield* temporaryFolder)
      yield* callers.admit({ name: "ann", workspaces: ["app"], trust_prompts: false })
      yield* callers.revoke("ann")
      const events = yield* ledger.read({ after: 0, limit: 10, subject: "caller ann" })
      assert.deepStrictEqual(
        events.map(({ body, event }) => [event, body]),
        [
          ["CallerAdmitted", { name: "ann", known_by: "token", workspaces: ["app"], trust_prompts: false }],
          ["CallerRevoked", { name: "ann" }],
        ],
      )
      yield* ledger.rebuild
    }),
  )
})

describe("the rights of a caller", () => {
  const settings = (id: string, profile: string) => ({ id, profile: builtInProfiles.get(profile) }) as WorkspaceSettings
  const all = [settings("app", "workspace-write"), settings("lib", "read-only")]
  const config = { workspaces: new Map(all.map((one) => [one.id, one])), profiles: builtInProfiles }
  const named = (workspaces?: ReadonlyArray<string>, highest?: string) => ({ name: "ann", workspaces, highest })

  it("are its workspaces, each under a profile held to its highest", () => {
    assert.deepStrictEqual(workspacesOf(config, named()), all)
    assert.deepStrictEqual(
      workspacesOf(config, named(["app"], "read-only")).map(({ id, profile }) => [id, profile.name, profile.exec]),
      [["app", "workspace-write within read-only", "off"]],
    )
    assert.strictEqual(
      Result.getOrThrow(workspaceFor(config, named(["app"], "workspace-write"), "app")),
      workspacesOf(config, named(["app"], "workspace-write"))[0],
    )
    assert.strictEqual(Result.getOrThrow(Result.flip(workspaceFor(config, named(["app"]), "lib")))._tag, "UNAUTHORIZED")
    const unknown = Result.getOrThrow(Result.flip(workspaceFor(config, named(["app"]), "nope")))
    assert.strictEqual(unknown._tag, "WORKSPACE_NOT_FOUND")
    assert.notInclude(unknown.message, "lib")
  })

  it("are none when its highest profile is not in the configuration any more", () => {
    assert.deepStrictEqual(workspacesOf(config, named(undefined, "gone")), [])
    const refused = Result.getOrThrow(Result.flip(workspaceFor(config, named(undefined, "gone"), "app")))
    assert.match(refused.message, /highest profile "gone" is not in the configuration any more/)
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Result } from "effect"
import { SqlClient } from "effect/sql"
import { defaults, noHooks, patchDefaults } from "../../src/schema/ConfigDefaults.ts"
import type { Outcome } from "../../src/schema/Journal.ts"
import { VersionConflict } from "../../src/schema/Patch.ts"
import type { Profile } from "../../src/schema/Policy.ts"
import type { Refusal } from "../../src/schema/Refusal.ts"
import { ConfinedPath, WorkspaceId } from "../../src/schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../../src/services/AppConfig.ts"
import { Approvals } from "../../src/services/Approvals.ts"
import { Caller } from "../../src/services/Caller.ts"
import { CommandReader } from "../../src/services/CommandReader.ts"
import { Endings } from "../../src/services/Endings.ts"
import { type GatedTool, GatedTools } from "../../src/services/GatedTool.ts"
import { LeaseManager } from "../../src/services/LeaseManager.ts"
import { Operations } from "../../src/services/Operations.ts"
import { Policy } from "../../src/services/Policy.ts"
import { type Reply, Runner, type RunRequest } from "../../src/services/Runner.ts"
import { ShellParser } from "../../src/services/ShellParser.ts"
import { Store } from "../../src/services/Store.ts"
import { layerRecords } from "../support/Records.ts"

const profile: Profile = {
  name: "guarded",
  files: [
    { glob: "**", access: "write" },
    { glob: "secret/**", access: "deny", reason: "secrets" },
  ],
  exec: "on",
  network: "on",
  commands: [],
  env: [],
  limits: { processes: 1, spool_bytes: 1000, timeout_ms: 1000 },
}
const settingsOf = (id: string): WorkspaceSettings => ({
  id: WorkspaceId.make(id),
  root: "/w",
  realRoot: "/w",
  profile,
  sandbox: "auto",
  approvals: "off",
  patch: patchDefaults,
  hooks: noHooks,
  environment: { kind: "host" },
})
const app = settingsOf("app")
const guarded: WorkspaceSettings = {
  ...settingsOf("guarded"),
  profile: { ...profile, commands: [{ argv: ["git", "push"], decision: "deny", reason: "leaves" }] },
}
const config = {
  workspaces: new Map([...["app", "other"].map(settingsOf), guarded].map((settings) => [settings.id, settings])),
  http: { host: "127.0.0.1", port: 0, hosts: [], origins: [] },
  tools: ["all"],
  approvals: defaults.approvals,
  stateFolder: "/state",
} as unknown as AppConfig["Service"]

interface Input {
  readonly [key: string]: string | boolean | number
  readonly workspace_id: string
  readonly path: string
}

const change: GatedTool<Input> = {
  name: "write",
  records: true,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input) => Result.succeed({ write: [ConfinedPath.make(input.path)] }),
  lease: (_input, touches) => ({ kind: "path", paths: touches.write ?? [] }),
}
const look: GatedTool<Input> = {
  ...change,
  name: "read",
  records: false,
  touches: (input) => Result.succeed({ read: [ConfinedPath.make(input.path)] }),
}
const follow: GatedTool<Input> = { ...look, name: "read_process", names: () => ({ process: "proc_1" }), touches: () => Result.succeed({}) }

const layerCommands = CommandReader.layer.pipe(Layer.provide(ShellParser.layerNone))

/** A workspace side that keeps no journal. */
const runnerOf = (execute: (request: RunRequest) => Effect.Effect<Reply, Refusal>) =>
  Runner.of({
    execute,
    outcomes: () => Effect.succeed(new Map()),
    acknowledge: () => Effect.void,
  })

/** The gate over real records and leases; what the workspace side does is the test's. */
const gate = (execute: (request: RunRequest) => Effect.Effect<Reply, Refusal>) => gateOn(runnerOf(execute))

const gateOn = (runner: Runner["Service"]) =>
  Operations.layer.pipe(
    Layer.provideMerge(Layer.succeed(Runner, runner)),
    Layer.provideMerge(Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, layerCommands)),
    Layer.provideMerge(Layer.succeed(GatedTools, GatedTools.of(new Map()))),
    Layer.provideMerge(Approvals.layer),
    Layer.provideMerge(layerRecords),
    Layer.provideMerge(Layer.succeed(AppConfig, config)),
  )

const caller = (name = "local", workspaces?: ReadonlyArray<string>) =>
  Caller.of({ name, workspaces, client: "test", progress: () => Effect.void })

const call = (tool: GatedTool<Input>, over: Partial<Input> = {}, as = caller()) =>
  Operations.use((operations) => operations.run(tool, { workspace_id: "app", path: "a", ...over } as Input)).pipe(
    Effect.provideService(Caller, as),
  )

const counting = () => {
  const requests: Array<RunRequest> = []
  const execute = (request: RunRequest) =>
    Effect.sync((): Reply => {
      requests.push(request)
      return { result: { status: "applied", run: requests.length } }
    })
  return { requests, execute }
}

describe("Operations", () => {
  it.effect("refuses an unknown workspace, and one the caller may not use, before anything runs", () => {
    const { execute, requests } = counting()
    return Effect.gen(function* () {
      const unknown = yield* Effect.flip(call(change, { workspace_id: "nope" }))
      assert.strictEqual(unknown._tag, "WORKSPACE_NOT_FOUND")
      assert.include(unknown.message, "app, other, guarded")
      const foreign = yield* Effect.flip(call(change, { workspace_id: "other" }, caller("bob", ["app"])))
      assert.strictEqual(foreign._tag, "UNAUTHORIZED")
      const known = yield* Effect.flip(call(change, { workspace_id: "nope" }, caller("bob", ["app"])))
      assert.notInclude(known.message, "other")
      assert.strictEqual(requests.length, 0)
    }).pipe(Effect.provide(gate(execute)))
  })

  it.effect("refuses what the profile forbids and what is always protected, naming the rule", () => {
    const { execute, requests } = counting()
    return Effect.gen(function* () {
      const denied = yield* Effect.flip(call(look, { path: "secret/key" }))
      assert.strictEqual(denied._tag, "POLICY_DENIED")
      assert.include(denied.message, "secrets")
      const hook = yield* Effect.flip(call(change, { path: ".git/hooks/pre-commit" }))
      assert.strictEqual(hook._tag, "PATH_PROTECTED")
      assert.strictEqual(requests.length, 0)
    }).pipe(Effect.provide(gate(execute)))
  })

  it.effect(
    "reads the commands of a call and refuses what a rule denies before anything is recorded, and holds what a rule asks about",
    () => {
      const { execute, requests } = counting()
      const exec: GatedTool<Input> = {
        ...change,
        name: "exec_command",
        touches: (input) => Result.succeed({ exec: { line: { argv: input.path.split(" ") } } }),
        lease: () => ({ kind: "exclusive" }),
      }
      return Effect.gen(function* () {
        const denied = yield* Effect.flip(call(exec, { path: "env A=1 git push", workspace_id: "guarded" }))
        assert.strictEqual(denied._tag, "POLICY_DENIED")
        assert.include(denied.message, 'running "git push" (rule: commands: deny git push (leaves))')
        const asked = yield* Effect.flip(call(exec, { path: "sh -c x", workspace_id: "guarded" }))
        assert.strictEqual(asked._tag, "APPROVAL_REQUIRED")
        // It only looks at the files that its words may name.
        assert.deepStrictEqual([...new Set(requests.splice(0).map(({ tool }) => tool))], ["read"])
        yield* call(exec, { path: "git status", workspace_id: "guarded" })
        yield* call(exec, { path: "git push" })
        assert.strictEqual(requests.length, 2)
        assert.strictEqual((yield* (yield* SqlClient.SqlClient)`SELECT 1 FROM operations WHERE state = 'done'`).length, 2)
      }).pipe(Effect.provide(gate(execute)))
    },
  )

  it.effect("records a change under its id, and a read not at all", () => {
    const { execute, requests } = counting()
    return Effect.gen(function* () {
      yield* call(look)
      const { result } = yield* call(change)
      assert.strictEqual(requests[1]?.operationId, result["operation_id"])
      assert.isUndefined(requests[0]?.operationId)
      const recorded = yield* (yield* Store).byId(String(result["operation_id"]))
      assert.strictEqual(Option.getOrThrow(recorded).state, "done")
      const rows = yield* (yield* SqlClient.SqlClient)`SELECT 1 FROM operations`
      assert.strictEqual(rows.length, 1)
    }).pipe(Effect.provide(gate(execute)))
  })

  it.effect("runs a key once: repeats get the stored outcome, whatever the order of the arguments", () => {
    const { execute, requests } = counting()
    return Effect.gen(function* () {
      const first = yield* call(change, { operation_key: "k", a: 1, b: 2 })
      const again = yield* call(change, { b: 2, a: 1, operation_key: "k" })
      assert.deepStrictEqual(again.result, first.result)
      assert.strictEqual(requests.length, 1)
      const conflict = yield* Effect.flip(call(change, { operation_key: "k", a: 1, b: 3 }))
      assert.strictEqual(conflict._tag, "OPERATION_KEY_CONFLICT")
      const twin = yield* Effect.flip(call(change, { operation_key: "k", a: 1, b: 2, check_only: true }))
      assert.strictEqual(twin._tag, "CHECK_ONLY_CONFLICT")
      yield* call(change, { operation_key: "k", a: 1, b: 2 }, caller("bob"))
      assert.strictEqual(requests.length, 2)
    }).pipe(Effect.provide(gate(execute)))
  })

  it.effect("lets a repeat wait for the call that runs", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const begun = yield* Deferred.make<void>()
      const runs: Array<string> = []
      const execute = (request: RunRequest) =>
        Effect.gen(function* () {
          runs.push(request.tool)
          yield* Deferred.succeed(begun, undefined)
          yield* Deferred.await(go)
          return { result: { status: "applied" } }
        })
      yield* Effect.gen(function* () {
        const first = yield* Effect.forkChild(call(change, { operation_key: "k" }))
        yield* Deferred.await(begun)
        const second = yield* Effect.forkChild(call(change, { operation_key: "k" }), { startImmediately: true })
        yield* Deferred.succeed(go, undefined)
        assert.deepStrictEqual((yield* Fiber.join(second)).result, (yield* Fiber.join(first)).result)
        assert.deepStrictEqual(runs, ["write"])
      }).pipe(Effect.provide(gate(execute)))
    }),
  )

  it.effect("stores a refusal of the workspace side as the outcome of its key", () => {
    const refusal = new VersionConflict({ path: "a", expected: "0".repeat(16), current: "absent" })
    const runs: Array<number> = []
    return Effect.gen(function* () {
      const first = yield* Effect.flip(call(change, { operation_key: "k" }))
      const again = yield* Effect.flip(call(change, { operation_key: "k" }))
      assert.strictEqual(first._tag, "VERSION_CONFLICT")
      assert.deepStrictEqual(again, first)
      assert.strictEqual(runs.length, 1)
    }).pipe(
      Effect.provide(
        gate(() =>
          Effect.andThen(
            Effect.sync(() => runs.push(1)),
            Effect.fail(refusal),
          ),
        ),
      ),
    )
  })

  it.effect("refuses while another holds what it needs, and gives its key back", () =>
    Effect.gen(function* () {
      const { execute } = counting()
      yield* Effect.gen(function* () {
        const leases = yield* LeaseManager
        const busy = yield* Effect.scoped(
          Effect.gen(function* () {
            yield* leases.acquire(app, { kind: "exclusive" }, "a build", 0)
            return yield* Effect.flip(call(change, { operation_key: "k", lease_wait_ms: 0 }))
          }),
        )
        assert.strictEqual(busy._tag, "WORKSPACE_BUSY")
        assert.include(busy.message, "a build")
        assert.strictEqual((yield* call(change, { operation_key: "k", lease_wait_ms: 0 })).result["status"], "applied")
        assert.deepStrictEqual(yield* leases.current(app), [])
      }).pipe(Effect.provide(gate(execute)))
    }),
  )

  it.effect("holds the lease of a process until it has ended, and records how", () =>
    Effect.gen(function* () {
      const end = yield* Deferred.make<void>()
      const ending = Effect.as(Deferred.await(end), { process_id: "proc_1", state: "exited", exit_code: 3 })
      const execute = (request: RunRequest) =>
        Effect.succeed<Reply>(
          request.tool === "write" ? { result: { process_id: "proc_1", state: "running" }, ending } : { result: { state: "seen" } },
        )
      yield* Effect.gen(function* () {
        const leases = yield* LeaseManager
        const store = yield* Store
        const { result } = yield* call(change)
        const id = String(result["operation_id"])
        assert.strictEqual((yield* leases.current(app)).length, 1)
        assert.strictEqual(Option.getOrThrow(yield* store.byId(id)).state, "running")
        assert.strictEqual((yield* call(follow)).result["state"], "seen")
        yield* Deferred.succeed(end, undefined)
        yield* Effect.repeat(Effect.yieldNow, {
          until: () => Effect.map(leases.current(app), (held) => held.length === 0),
        })
        const recorded = Option.getOrThrow(yield* store.byId(id))
        assert.strictEqual(recorded.state, "done")
        assert.strictEqual(recorded.result?.["exit_code"], 3)
      }).pipe(Effect.provide(gate(execute)))
    }),
  )

  it.effect("refuses a process nobody started", () => {
    const { execute } = counting()
    return Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(call(follow)))._tag, "PROCESS_NOT_FOUND")
    }).pipe(Effect.provide(gate(execute)))
  })

  it.effect("records a cancelled call as cancelled, and answers a repeat so", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<string>()
      const execute = (request: RunRequest) =>
        Effect.andThen(Deferred.succeed(begun, request.operationId ?? ""), Effect.never) as Effect.Effect<Reply>
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(call(change, { operation_key: "k" }))
        const id = yield* Deferred.await(begun)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(Option.getOrThrow(yield* (yield* Store).byId(id)).state, "cancelled")
        assert.deepStrictEqual(yield* (yield* LeaseManager).current(app), [])
        assert.strictEqual((yield* Effect.flip(call(change, { operation_key: "k" })))._tag, "CANCELLED")
      }).pipe(Effect.provide(gate(execute)))
    }),
  )

  const delta = { status: "applied", changes: [] } as const
  const cutEnds: ReadonlyArray<readonly [Outcome["kind"], Outcome, string, string]> = [
    ["committed", { kind: "committed", delta }, "done", "applied"],
    ["rolled_back", { kind: "rolled_back" }, "cancelled", "CANCELLED"],
    ["unknown", { kind: "unknown" }, "cancelled", "CANCELLED"],
    ["attention", { kind: "attention", paths: ["a"] }, "failed", "PATCH_FAILED"],
  ]
  for (const [kind, outcome, state, again] of cutEnds)
    it.effect(`asks what became of a cancelled call, and records it: ${kind}`, () =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<string>()
        const execute = (request: RunRequest) =>
          Effect.andThen(Deferred.succeed(begun, request.operationId ?? ""), Effect.never) as Effect.Effect<Reply>
        const acknowledged: Array<string> = []
        const runner = Runner.of({
          execute,
          outcomes: (_workspace, cut) => Effect.succeed(new Map(cut.map(({ operationId }) => [operationId, outcome]))),
          acknowledge: (_workspace, { operationId }) => Effect.sync(() => void acknowledged.push(operationId)),
        })
        yield* Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(call(change, { operation_key: "k" }))
          const id = yield* Deferred.await(begun)
          yield* Fiber.interrupt(fiber)
          assert.strictEqual(Option.getOrThrow(yield* (yield* Store).byId(id)).state, state)
          const repeated = yield* Effect.result(call(change, { operation_key: "k" }))
          assert.strictEqual(Result.isSuccess(repeated) ? repeated.success.result["status"] : repeated.failure._tag, again)
          assert.deepStrictEqual(acknowledged, kind === "committed" || kind === "attention" ? [id] : [])
        }).pipe(Effect.provide(gateOn(runner)))
      }),
    )

  for (const [kind, outcome, state] of [
    ["committed", { kind: "committed", delta }, "done"],
    ["rolled_back", { kind: "rolled_back" }, "interrupted"],
  ] as ReadonlyArray<readonly [string, Outcome, string]>)
    it.effect(`settles what a dead server left before a key of it is answered: ${kind}`, () =>
      Effect.gen(function* () {
        const { execute, requests } = counting()
        const runner = Runner.of({
          execute,
          outcomes: (_workspace, cut) => Effect.succeed(new Map(cut.map(({ operationId }) => [operationId, outcome]))),
          acknowledge: () => Effect.void,
        })
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const first = yield* call(change, { operation_key: "k" })
          const id = String(first.result["operation_id"])
          yield* sql`UPDATE operations SET state = 'running', server = 'gone', result = NULL WHERE operation_id = ${id}`
          const again = yield* call(change, { operation_key: "k" })
          const before = Option.getOrThrow(yield* (yield* Store).byId(id))
          assert.strictEqual(before.state, state)
          // What happened is told; what did not happen runs, once.
          assert.strictEqual(requests.length, kind === "committed" ? 1 : 2)
          assert.strictEqual(again.result["operation_id"] === id, kind === "committed")
          yield* call(change, { operation_key: "k" })
          assert.strictEqual(requests.length, kind === "committed" ? 1 : 2)
        }).pipe(Effect.provide(gateOn(runner)))
      }),
    )

  it.live(
    "answers nothing that is not recorded: a store that fails at the end fails the call, names it, and has it once it works again",
    () => {
      const { execute, requests } = counting()
      return Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TRIGGER broken BEFORE UPDATE ON operations BEGIN SELECT RAISE(ABORT, 'broken'); END`
        const refusal = yield* Effect.flip(call(change, { operation_key: "k" }))
        assert.strictEqual(refusal._tag, "STORE_UNAVAILABLE")
        const [id = ""] = /op_[0-9a-z]+/.exec(refusal.message) ?? []
        assert.include(refusal.message, `${id} had begun`)
        assert.deepStrictEqual(yield* (yield* LeaseManager).current(app), [])
        yield* sql`DROP TRIGGER broken`
        const again = yield* call(change, { operation_key: "k" })
        assert.strictEqual(again.result["operation_id"], id)
        assert.strictEqual(requests.length, 1)
      }).pipe(Effect.provide(gate(execute)))
    },
  )
})

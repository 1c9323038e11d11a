import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Result } from "effect"
import { TestClock } from "effect/testing"
import * as Unbash from "../../src/layers/Unbash.ts"
import { defaults, noHooks, patchDefaults } from "../../src/schema/ConfigDefaults.ts"
import { VersionConflict } from "../../src/schema/Patch.ts"
import type { Profile } from "../../src/schema/Policy.ts"
import type { Refusal } from "../../src/schema/Refusal.ts"
import { ConfinedPath, PathNotFound, WorkspaceId } from "../../src/schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../../src/services/AppConfig.ts"
import { Approvals, OPEN_LIMIT } from "../../src/services/Approvals.ts"
import { Caller } from "../../src/services/Caller.ts"
import { CommandReader } from "../../src/services/CommandReader.ts"
import { Endings } from "../../src/services/Endings.ts"
import { type GatedTool, GatedTools } from "../../src/services/GatedTool.ts"
import { LeaseManager } from "../../src/services/LeaseManager.ts"
import { Ledger } from "../../src/services/Ledger.ts"
import { Operations } from "../../src/services/Operations.ts"
import { Policy } from "../../src/services/Policy.ts"
import { type Reply, Runner, type RunRequest } from "../../src/services/Runner.ts"
import { Store } from "../../src/services/Store.ts"
import { layerRecords } from "../support/Records.ts"

interface Input {
  readonly [key: string]: string | boolean | number | ReadonlyArray<string>
  readonly workspace_id: string
}

/** Changes a file, shown by a preview. */
const write: GatedTool<Input> = {
  name: "write",
  records: true,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input) => Result.succeed({ write: [ConfinedPath.make(String(input["path"]))] }),
  lease: (_input, touches) => ({ kind: "path", paths: touches.write ?? [] }),
  holds: {
    shown: () => ({}),
    preview: (input) => ({ ...input, check_only: true }),
    pinned: (input, [change]) => ({ ...input, expected_version: change?.before ?? "absent" }),
  },
}
const exec: GatedTool<Input> = {
  ...write,
  name: "exec_command",
  touches: ({ argv }) => Result.succeed({ exec: { line: { argv: argv as ReadonlyArray<string> } } }),
  lease: () => ({ kind: "exclusive" }),
  holds: { shown: ({ argv, env }) => ({ command: argv as ReadonlyArray<string>, cwd: ".", env: env === undefined ? [] : [String(env)] }) },
}

const profile: Profile = {
  name: "guarded",
  files: [
    { glob: "**", access: "write" },
    { glob: "secret", access: "deny" },
  ],
  exec: "on",
  network: "on",
  commands: [{ argv: ["git", "push"], decision: "ask", reason: "leaves this machine" }],
  env: [],
  limits: { processes: 1, spool_bytes: 1000, timeout_ms: 1000 },
}

const settings = (id: string, approvals: WorkspaceSettings["approvals"]): WorkspaceSettings => ({
  id: WorkspaceId.make(id),
  root: "/w",
  realRoot: "/w",
  profile: approvals === "confirm" ? { ...profile, commands: [] } : profile,
  sandbox: "auto",
  approvals,
  patch: patchDefaults,
  hooks: noHooks,
  environment: { kind: "host" },
})

const config = {
  workspaces: new Map([settings("held", "confirm"), settings("app", "off")].map((one) => [one.id, one])),
  approvals: defaults.approvals,
} as unknown as AppConfig["Service"]

/** A workspace side with a few files, that counts what it runs. */
const sideWith = (files: Record<string, string>) => {
  const ran: Array<RunRequest> = []
  const versionOf = (path: string) =>
    path in files
      ? Buffer.from(files[path] ?? "")
          .toString("hex")
          .padEnd(16, "0")
      : "absent"
  const execute = (request: RunRequest): Effect.Effect<Reply, Refusal> =>
    Effect.suspend((): Effect.Effect<Reply, Refusal> => {
      const path = String(request.input["path"])
      if (request.tool === "read")
        return path in files
          ? Effect.succeed({ result: { version: versionOf(path) } })
          : Effect.fail(new PathNotFound({ path, similar: [] }))
      const change = { path, kind: "update", before: versionOf(path), after: "f".repeat(16), added: 1, removed: 1 }
      if (request.input["check_only"] === true)
        return Effect.succeed({ result: { status: "checked", changes: [change], diff: `-${files[path]}\n+new\n` } })
      const expected = request.input["expected_version"]
      if (expected !== undefined && expected !== versionOf(path))
        return Effect.fail(new VersionConflict({ path, expected: String(expected), current: versionOf(path) }))
      ran.push(request)
      return Effect.succeed({ result: { status: "applied", run: ran.length } })
    })
  const layer = Operations.layer.pipe(
    Layer.provideMerge(
      Layer.succeed(Runner, Runner.of({ execute, outcomes: () => Effect.succeed(new Map()), acknowledge: () => Effect.void })),
    ),
    Layer.provideMerge(
      Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, CommandReader.layer.pipe(Layer.provide(Unbash.layer))),
    ),
    Layer.provideMerge(
      Layer.sync(GatedTools, () =>
        GatedTools.of(
          new Map(
            [write, exec].map((gated) => [gated.name, { gated: gated as never, decode: (args: unknown) => Effect.succeed(args as never) }]),
          ),
        ),
      ),
    ),
    Layer.provideMerge(Approvals.layer),
    Layer.provideMerge(layerRecords),
    Layer.provideMerge(Layer.succeed(AppConfig, config)),
  )
  return { files, ran, layer }
}

const as = (name: string) => Caller.of({ name, workspaces: undefined, client: "test", progress: () => Effect.void })

const call = (tool: GatedTool<Input>, input: Omit<Input, "workspace_id">, who = "alice", workspace_id = "held") =>
  Operations.use((operations) => operations.run(tool, { workspace_id, ...input } as Input)).pipe(Effect.provideService(Caller, as(who)))

const resume = (approvalId: string, who = "alice") =>
  Operations.use((operations) => operations.resume(approvalId)).pipe(Effect.provideService(Caller, as(who)))

/** The approval that a call is answered with. */
const heldBy = <A, R>(effect: Effect.Effect<A, Refusal, R>) =>
  Effect.gen(function* () {
    const refusal = yield* Effect.flip(effect)
    if (refusal._tag !== "APPROVAL_REQUIRED") return assert.fail(`${refusal._tag}: ${refusal.message}`)
    return refusal
  })

const push = { argv: ["git", "push", "origin"] }
const grant = (id: string, remember?: ReadonlyArray<string>) => Approvals.use((approvals) => approvals.grant(id, "operator", remember))

describe("a call that a person must allow", () => {
  it.effect("is answered at once, recorded as held, and runs nothing (R140)", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const refusal = yield* heldBy(call(write, { path: "f", operation_key: "k" }))
      assert.include(refusal.message, `codespace approvals grant ${refusal.approval_id}`)
      assert.include(refusal.message, "1970-01-01T01:00:00.000Z")
      assert.strictEqual(refusal.retry, "await_operator")
      const operation = yield* Store.use((store) => store.byId(refusal.operation_id))
      assert.strictEqual(Option.getOrThrow(operation).state, "held")
      assert.strictEqual((yield* heldBy(call(write, { path: "f", operation_key: "k" }))).approval_id, refusal.approval_id)
      assert.strictEqual((yield* heldBy(resume(refusal.approval_id))).approval_id, refusal.approval_id)
      // Other calls go on.
      yield* call(exec, { argv: ["ls"] }, "alice", "app")
      assert.strictEqual(ran.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is shown whole: the change with its diff, or the command with all that is given to it (R144)", () => {
    const { layer } = sideWith({ f: "1", "run.sh": "s" })
    return Effect.gen(function* () {
      const patch = yield* heldBy(call(write, { path: "f" }))
      const command = yield* heldBy(call(exec, { argv: ["sh", "run.sh", "-x"], env: "CI" }))
      const approvals = yield* Approvals
      const change = Option.getOrThrow(yield* approvals.byId(patch.approval_id)).hold.shown
      assert.deepInclude(change, { kind: "write", profile: "guarded", rule: "approvals: confirm", diff: "-1\n+new\n" })
      assert.strictEqual(change.changes?.[0]?.path, "f")
      const shown = Option.getOrThrow(yield* approvals.byId(command.approval_id)).hold
      assert.deepInclude(shown.shown, { command: ["sh", "run.sh", "-x"], cwd: ".", env: ["CI"] })
      assert.match(shown.shown.digest, /^[0-9a-f]{64}$/u)
      assert.deepStrictEqual(shown.versions, { "run.sh": "7300000000000000" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("runs once after a grant, and every repeat gives the stored outcome", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const { approval_id, operation_id } = yield* heldBy(call(write, { path: "f", operation_key: "k" }))
      yield* grant(approval_id)
      const replies = yield* Effect.all(
        Array.from({ length: 5 }, () => resume(approval_id)),
        { concurrency: "unbounded" },
      )
      for (const { kind, result } of replies) {
        assert.strictEqual(kind, "write")
        assert.deepStrictEqual(result, { operation_id, status: "applied", run: 1 })
      }
      assert.deepStrictEqual((yield* call(write, { path: "f", operation_key: "k" })).result, replies[0]?.result)
      assert.deepStrictEqual(
        ran.map(({ operationId }) => operationId),
        [operation_id],
      )
      const events = (yield* Ledger.use((ledger) => ledger.read({ after: 0, limit: 100, subject: operation_id }))).map(({ event }) => event)
      assert.deepStrictEqual(events, [
        "OperationHeld",
        "ApprovalAsked",
        "ApprovalGranted",
        "OperationResumed",
        "ApprovalConsumed",
        "OperationFinished",
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("runs by a repeat of the call itself, once it is granted", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const { approval_id } = yield* heldBy(call(write, { path: "f", operation_key: "k" }))
      yield* grant(approval_id)
      assert.strictEqual((yield* call(write, { path: "f", operation_key: "k" })).result["run"], 1)
      assert.strictEqual((yield* resume(approval_id)).result["run"], 1)
      assert.strictEqual(ran.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("never runs after a denial, which says by whom and why", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const { approval_id, operation_id } = yield* heldBy(call(write, { path: "f", operation_key: "k" }))
      yield* Approvals.use((approvals) => approvals.deny(approval_id, "operator", "not on a Friday"))
      for (const again of [resume(approval_id), call(write, { path: "f", operation_key: "k" })]) {
        const refusal = yield* Effect.flip(again)
        assert.strictEqual(refusal._tag, "APPROVAL_CONFLICT")
        assert.include(refusal.message, "was denied (not on a Friday)")
      }
      const late = yield* Effect.flip(grant(approval_id))
      assert.strictEqual(late._tag, "APPROVAL_CONFLICT")
      const status = yield* Store.use((store) =>
        Effect.flatMap(store.byId(operation_id), (found) => store.status(Option.getOrThrow(found))),
      )
      assert.strictEqual(status.state, "denied")
      assert.include(status.events.at(-1)?.detail ?? "", "denied by operator: not on a Friday")
      assert.strictEqual(ran.length, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("expires by itself, which never reads as anybody's refusal (R141, R142)", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const approvals = yield* Approvals
      const pending = yield* heldBy(call(write, { path: "f" }))
      const granted = yield* heldBy(call(write, { path: "g" }))
      yield* grant(granted.approval_id)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual((yield* approvals.list({ states: ["pending", "granted"], limit: 10 })).length, 0)
      for (const { approval_id } of [pending, granted]) {
        const refusal = yield* Effect.flip(resume(approval_id))
        assert.strictEqual(refusal._tag, "APPROVAL_CONFLICT")
        assert.include(refusal.message, "nobody decided in time, which is no refusal by anybody")
        assert.strictEqual((yield* Effect.flip(grant(approval_id)))._tag, "APPROVAL_CONFLICT")
      }
      const operation = Option.getOrThrow(yield* Store.use((store) => store.byId(pending.operation_id)))
      assert.strictEqual(operation.state, "cancelled")
      assert.include(operation.reason ?? "", "no person refused it")
      assert.strictEqual(ran.length, 0)
      // To ask anew opens another one.
      assert.notStrictEqual((yield* heldBy(call(write, { path: "f" }))).approval_id, pending.approval_id)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is stale when a file it changes, or a script it runs, is no longer what was shown", () => {
    const { files, layer, ran } = sideWith({ f: "1", "run.sh": "s" })
    return Effect.gen(function* () {
      const patch = yield* heldBy(call(write, { path: "f", operation_key: "k" }))
      const command = yield* heldBy(call(exec, { argv: ["sh", "run.sh"] }))
      const untouched = yield* heldBy(call(exec, { argv: ["true"] }))
      Object.assign(files, { f: "2", "run.sh": "worse" })
      for (const { approval_id } of [patch, command, untouched]) yield* grant(approval_id)
      for (const [{ approval_id }, path] of [
        [patch, "f"],
        [command, "run.sh"],
      ] as const) {
        const refusal = yield* Effect.flip(resume(approval_id))
        assert.strictEqual(refusal._tag, "APPROVAL_STALE")
        assert.include(refusal.message, path)
      }
      assert.strictEqual((yield* Effect.flip(call(write, { path: "f", operation_key: "k" })))._tag, "APPROVAL_STALE")
      yield* resume(untouched.approval_id)
      assert.deepStrictEqual(
        ran.map(({ tool }) => tool),
        ["exec_command"],
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("is not another caller's to see, repeat or resume", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const { approval_id } = yield* heldBy(call(write, { path: "f", operation_key: "k" }))
      yield* grant(approval_id)
      assert.strictEqual((yield* Effect.flip(resume(approval_id, "bob")))._tag, "APPROVAL_NOT_FOUND")
      assert.notStrictEqual((yield* heldBy(call(write, { path: "f", operation_key: "k" }, "bob"))).approval_id, approval_id)
      assert.strictEqual(ran.length, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("keeps its place: the same call without a key is one hold, and one caller cannot fill the list", () => {
    const { layer } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const first = yield* heldBy(call(write, { path: "f" }))
      assert.strictEqual((yield* heldBy(call(write, { path: "f" }))).approval_id, first.approval_id)
      for (let at = 1; at < OPEN_LIMIT; at++) yield* heldBy(call(write, { path: `f${at}` }))
      assert.strictEqual((yield* Effect.flip(call(write, { path: "more" })))._tag, "LIMIT_EXCEEDED")
      yield* heldBy(call(write, { path: "f" }, "bob"))
    }).pipe(Effect.provide(layer))
  })

  it.effect("needs nobody for a preview, and gets no hold for what the profile forbids", () => {
    const { layer } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      assert.strictEqual((yield* call(write, { path: "f", check_only: true })).result["status"], "checked")
      assert.strictEqual((yield* Effect.flip(call(write, { path: "secret" })))._tag, "POLICY_DENIED")
      assert.strictEqual((yield* Approvals.use((approvals) => approvals.list({ limit: 10 }))).length, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is held by a rule that asks, which is named before the workspace's setting (R147)", () => {
    const { layer, ran } = sideWith({})
    return Effect.gen(function* () {
      const refusal = yield* heldBy(call(exec, push, "alice", "app"))
      assert.strictEqual(refusal.rule, "commands: ask git push (leaves this machine)")
      yield* call(exec, { argv: ["git", "status"] }, "alice", "app")
      assert.strictEqual(ran.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("can be asked for on purpose, with a reason", () => {
    const { layer, ran } = sideWith({ f: "1" })
    return Effect.gen(function* () {
      const operations = yield* Operations
      const ask = (tool: string, args: object) =>
        operations.hold(tool, { workspace_id: "app", ...args }, "to be sure").pipe(Effect.provideService(Caller, as("alice")))
      const held = yield* ask("write", { path: "f" })
      assert.deepInclude(held.hold.shown, { reason: "to be sure", rule: "approval_create" })
      assert.strictEqual((yield* Effect.flip(ask("read", { path: "f" })))._tag, "INVALID_ARGUMENTS")
      assert.strictEqual((yield* Effect.flip(ask("write", { path: "secret" })))._tag, "POLICY_DENIED")
      yield* grant(held.approvalId)
      yield* resume(held.approvalId)
      assert.strictEqual(ran.length, 1)
    }).pipe(Effect.provide(layer))
  })
})

describe("a remembered grant", () => {
  it.effect("covers commands that begin with its words, and nothing that only looks like them (R145)", () => {
    const { layer, ran } = sideWith({})
    return Effect.gen(function* () {
      const approvals = yield* Approvals
      const { approval_id } = yield* heldBy(call(exec, { argv: ["npm", "test"] }))
      yield* grant(approval_id, ["npm", "test"])
      yield* call(exec, { argv: ["npm", "test"] })
      yield* call(exec, { argv: ["npm", "test", "--", "x"] })
      assert.strictEqual(ran.length, 2)
      const others = [["npm", "testx"], ["npm", "run", "test"], ["sh", "-c", "npm test && rm -r y"], ["env", "A=1", "npm", "test"], ["npm"]]
      for (const argv of others) yield* heldBy(call(exec, { argv }))
      yield* heldBy(call(exec, { argv: ["npm", "test"], env: "NODE_OPTIONS" }))
      yield* heldBy(call(write, { path: "f" }))
      const [known] = yield* approvals.grants("held")
      assert.deepInclude(known, { argv: ["npm", "test"], granted_by: "operator", workspace_id: "held" })
      assert.isTrue(yield* approvals.revoke(known?.grant_id ?? "", "operator"))
      assert.isFalse(yield* approvals.revoke(known?.grant_id ?? "", "operator"))
      yield* heldBy(call(exec, { argv: ["npm", "test", "again"] }))
    }).pipe(Effect.provide(layer))
  })

  it.effect("answers for a rule that asks as well, in its own workspace only", () => {
    const { layer, ran } = sideWith({})
    return Effect.gen(function* () {
      const { approval_id } = yield* heldBy(call(exec, push, "alice", "app"))
      yield* grant(approval_id, ["git", "push", "origin"])
      yield* call(exec, push, "alice", "app")
      yield* heldBy(call(exec, { argv: ["git", "push", "elsewhere"] }, "alice", "app"))
      yield* heldBy(call(exec, push, "alice", "held"))
      assert.strictEqual(ran.length, 1)
    }).pipe(Effect.provide(layer))
  })
})

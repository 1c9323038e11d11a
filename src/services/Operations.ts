/**
 * The one gate. Every call passes `run`: find its workspace, decide, and for a change: look the key up, take the lease,
 * record, run, record the outcome. It promises that a recorded call runs at most once for its key and that no outcome
 * is answered before it is recorded. It knows no tool: a tool says in `GatedTool` what the gate has to know about it.
 */
import { Context, Deferred, Effect, Exit, Layer, Option, type Result, Schema, Scope } from "effect"
import type { LeaseRequest } from "../schema/Lease.ts"
import { Cancelled, CheckOnlyConflict, OperationKeyConflict, RunnerUnavailable } from "../schema/Operation.ts"
import type { Touches } from "../schema/Policy.ts"
import { ProcessNotFound } from "../schema/Process.ts"
import { fromRecord, type Refusal, toRecord } from "../schema/Refusal.ts"
import { Unauthorized, WorkspaceNotFound } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "./AppConfig.ts"
import { Caller } from "./Caller.ts"
import { CommandReader } from "./CommandReader.ts"
import { Digest } from "./Digest.ts"
import { Endings } from "./Endings.ts"
import { LeaseManager } from "./LeaseManager.ts"
import { Policy, refusalOf } from "./Policy.ts"
import { type Reply, Runner } from "./Runner.ts"
import { type Recorded, Store } from "./Store.ts"

/** What the gate has to know about a tool. */
export interface GatedTool<in Input = never> {
  readonly name: string
  /** Changes something: recorded, keyed, leased. */
  readonly records: boolean
  /** The workspace the call names, or the process whose workspace it is. */
  readonly names: (input: Input) => { readonly workspace: string } | { readonly process: string }
  /** What the call would touch, for the policy. */
  readonly touches: (input: Input, workspace: WorkspaceSettings) => Result.Result<Touches, Refusal>
  /** The lease the call needs; none for what changes nothing. */
  readonly lease: (input: Input, touches: Touches) => LeaseRequest | undefined
}

/** Arguments every recorded tool may have beside its own. */
interface Recording {
  readonly operation_key?: string
  readonly check_only?: boolean
  readonly lease_wait_ms?: number
}

/** How long a call waits for its lease when it does not say, in milliseconds (contract §9). */
export const DEFAULT_LEASE_WAIT = 10_000

export class Operations extends Context.Service<
  Operations,
  {
    /** Lets one call through the gate and answers with its result, or with the stored one for a known key. */
    readonly run: <Input extends Schema.JsonObject>(tool: GatedTool<Input>, input: Input) => Effect.Effect<Reply, Refusal, Caller>
    /** The settings of a workspace this caller may use. */
    readonly authorize: (workspaceId: string) => Effect.Effect<WorkspaceSettings, WorkspaceNotFound | Unauthorized, Caller>
  }
>()("codespace/services/Operations") {
  static readonly layer = Layer.effect(
    Operations,
    Effect.suspend(() => make),
  )
}

const make = Effect.gen(function* () {
  const config = yield* AppConfig
  const policy = yield* Policy
  const reader = yield* CommandReader
  const leases = yield* LeaseManager
  const store = yield* Store
  const runner = yield* Runner
  const digest = yield* Digest
  const endings = yield* Endings
  /** Calls with a key that run now, so that a repeat waits for the same outcome. */
  const running = new Map<string, { readonly fingerprint: string; readonly outcome: Deferred.Deferred<Reply, Refusal> }>()
  yield* store.interruptOrphans.pipe(Effect.ignore({ log: true }))

  const authorize = Effect.fnUntraced(function* (workspaceId: string) {
    const caller = yield* Caller
    const settings = config.workspaces.get(workspaceId as WorkspaceSettings["id"])
    if (settings === undefined) {
      const known = [...config.workspaces.keys()].filter((id) => caller.workspaces?.includes(id) ?? true)
      return yield* new WorkspaceNotFound({ workspace_id: workspaceId, known })
    }
    if (!(caller.workspaces?.includes(workspaceId) ?? true))
      return yield* new Unauthorized({ workspace_id: workspaceId, caller: caller.name })
    return settings
  })

  const workspaceOf = Effect.fnUntraced(function* (named: { readonly workspace: string } | { readonly process: string }) {
    if ("workspace" in named) return named.workspace
    const owner = yield* store.byProcess(named.process)
    return Option.isSome(owner) ? owner.value.workspaceId : yield* new ProcessNotFound({ process_id: named.process })
  })

  /** Commands are read only where a rule is about them. */
  const understood = Effect.fnUntraced(function* (settings: WorkspaceSettings, touches: Touches) {
    if (touches.exec === undefined || settings.profile.commands.length === 0) return touches
    return { ...touches, exec: yield* reader.read(touches.exec) }
  })

  const decide = Effect.fnUntraced(function* (settings: WorkspaceSettings, touches: Touches) {
    const refusal = refusalOf(settings.profile, policy.decide(settings.profile, touches))
    if (refusal !== undefined) return yield* refusal
  })

  /** The stored outcome of a known key, once it is certain that the arguments are the same. */
  const replay = Effect.fnUntraced(function* (known: Recorded, asked: Asked): Effect.fn.Return<Reply, Refusal> {
    const operation_key = asked.key ?? ""
    if (known.kind !== asked.kind || known.fingerprint !== asked.fingerprint)
      return yield* new OperationKeyConflict({ operation_key, operation_id: known.operationId, kind: known.kind })
    if (known.checkOnly !== asked.checkOnly) return yield* new CheckOnlyConflict({ operation_key, operation_id: known.operationId })
    if (known.refusal !== undefined) return yield* fromRecord(known.refusal)
    if (known.result !== undefined) return { result: known.result }
    if (known.state === "running") return yield* new RunnerUnavailable({ cause: `${known.operationId} still runs in another server` })
    return yield* new Cancelled({ operation_id: known.operationId })
  })

  /** Takes the lease, records the beginning and runs; a key that became known meanwhile answers from its record. */
  const perform = Effect.fnUntraced(function* (asked: Asked, lease: LeaseRequest | undefined, waitMs: number) {
    if (lease !== undefined) yield* leases.acquire(asked.workspaceId, lease, `${asked.kind} of ${asked.caller}`, waitMs)
    const { begun, operation } = yield* store.begin(asked)
    if (!begun) return { reply: yield* replay(operation, asked) }
    const reply = yield* runner
      .execute({ tool: asked.kind, workspaceId: asked.workspaceId, input: asked.input, operationId: operation.operationId })
      .pipe(Effect.onExit((exit) => (Exit.isFailure(exit) ? recordFailure(operation, exit) : Effect.void)))
    return { reply, operation }
  })

  /** Runs a recorded call inside its lease; the lease ends with the call, or with the process it left running. */
  const execute = Effect.fnUntraced(function* (asked: Asked, lease: LeaseRequest | undefined, waitMs: number) {
    const scope = yield* Scope.make()
    return yield* Effect.uninterruptibleMask((restore) =>
      restore(Scope.provide(perform(asked, lease, waitMs), scope)).pipe(
        Effect.onError(() => Scope.close(scope, Exit.void)),
        Effect.flatMap(({ operation, reply }) =>
          operation === undefined ? Effect.as(Scope.close(scope, Exit.void), reply) : record(operation, reply, scope),
        ),
      ),
    )
  })

  /** Records a reply. Closes the call's scope now, or when the process that the call left running has ended. */
  const record = Effect.fnUntraced(function* (operation: Recorded, reply: Reply, scope: Scope.Closeable) {
    const { ending } = reply
    const result = named(operation, reply.result)
    const processId = typeof result["process_id"] === "string" ? { processId: result["process_id"] } : {}
    const recorded = yield* Effect.exit(store.settle(operation, { state: ending === undefined ? "done" : "running", result, ...processId }))
    if (ending === undefined) yield* Scope.close(scope, Exit.void)
    else
      yield* endings.follow(
        ending.pipe(
          Effect.flatMap((last) => store.settle(operation, { state: "done", result: named(operation, last), ...processId })),
          Effect.ensuring(Scope.close(scope, Exit.void)),
        ),
      )
    yield* recorded
    return { ...reply, result }
  })

  const recordFailure = (operation: Recorded, exit: Exit.Failure<unknown, Refusal>) => {
    const refusal = Option.getOrUndefined(Exit.findErrorOption(exit))
    const state = refusal !== undefined ? "failed" : Exit.hasInterrupts(exit) ? "cancelled" : "interrupted"
    return store
      .settle(operation, { state, ...(refusal === undefined ? {} : { refusal: toRecord(refusal) }) })
      .pipe(Effect.ignore({ log: true }))
  }

  /** At most one run of a key at a time in this server; a repeat waits for its outcome. */
  const once = Effect.fnUntraced(function* (asked: Asked, effect: Effect.Effect<Reply, Refusal>): Effect.fn.Return<Reply, Refusal> {
    if (asked.key === undefined) return yield* effect
    const slot = toText([asked.caller, asked.workspaceId, asked.key])
    const first = running.get(slot)
    if (first === undefined) return yield* lead(slot, asked, effect)
    const outcome = yield* Effect.exit(Deferred.await(first.outcome))
    const known = yield* store.byKey(asked.caller, asked.workspaceId, asked.key)
    if (Option.isSome(known)) return yield* replay(known.value, asked)
    // The first call was refused before it was recorded, so its key is free for other arguments.
    return yield* first.fingerprint === asked.fingerprint ? outcome : once(asked, effect)
  })

  const lead = Effect.fnUntraced(function* (slot: string, asked: Asked, effect: Effect.Effect<Reply, Refusal>) {
    const outcome = yield* Deferred.make<Reply, Refusal>()
    running.set(slot, { fingerprint: asked.fingerprint, outcome })
    return yield* Effect.onExit(effect, (exit) =>
      Effect.suspend(() => {
        running.delete(slot)
        return Deferred.done(outcome, Exit.hasInterrupts(exit) ? Exit.fail(new Cancelled({})) : exit)
      }),
    )
  })

  const run = Effect.fnUntraced(function* <Input extends Schema.JsonObject>(tool: GatedTool<Input>, input: Input) {
    const caller = yield* Caller
    const workspaceId = yield* workspaceOf(tool.names(input))
    const settings = yield* authorize(workspaceId)
    const touches = yield* understood(settings, yield* Effect.fromResult(tool.touches(input, settings)))
    yield* decide(settings, touches)
    if (!tool.records) return yield* runner.execute({ tool: tool.name, workspaceId: settings.id, input })
    const { operation_key: key, check_only: checkOnly, lease_wait_ms: waitMs = DEFAULT_LEASE_WAIT } = input as Recording
    const asked: Asked = {
      kind: tool.name,
      key,
      caller: caller.name,
      workspaceId: settings.id,
      fingerprint: digest.sha256(fingerprintText(input)),
      checkOnly: checkOnly ?? false,
      input,
    }
    return yield* once(
      asked,
      Effect.gen(function* () {
        const known = key === undefined ? Option.none() : yield* store.byKey(caller.name, settings.id, key)
        if (Option.isSome(known)) return yield* replay(known.value, asked)
        return yield* execute(asked, tool.lease(input, touches), waitMs)
      }),
    )
  })

  return Operations.of({
    // One span a call; where in our code it was made says nothing and costs more than the rest of it.
    run: (tool, input) =>
      Effect.withSpan(run(tool, input), "Operations.run", { attributes: { tool: tool.name }, captureStackTrace: false }),
    authorize,
  })
})

/** One recorded call as the gate carries it. */
interface Asked {
  readonly kind: string
  readonly key: string | undefined
  readonly caller: string
  readonly workspaceId: WorkspaceSettings["id"]
  readonly fingerprint: string
  readonly checkOnly: boolean
  readonly input: Schema.JsonObject
}

/** A result under the name of its operation. */
const named = (operation: Recorded, result: Schema.JsonObject): Schema.JsonObject => ({ operation_id: operation.operationId, ...result })

const toText = Schema.encodeUnknownSync(Schema.fromJsonString(Schema.Unknown))

/** The arguments in one canonical text: keys sorted at every level, without what only names or previews the call. */
const fingerprintText = (input: Schema.JsonObject): string => {
  const { check_only: _checkOnly, operation_key: _key, ...own } = input
  return toText(sorted(own))
}

const sorted = (value: Schema.Json): Schema.Json => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== "object" || value === null) return value
  const object = value as Schema.JsonObject
  return Object.fromEntries(
    Object.keys(object)
      .sort()
      .map((key) => [key, sorted(object[key] as Schema.Json)]),
  )
}

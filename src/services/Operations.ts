/**
 * The one gate. Every call passes `run`: find its workspace, decide, and for a change: look the key up, take the lease,
 * record, run, record the outcome. It promises that a recorded call runs at most once for its key and that no outcome
 * is answered before it is recorded. It knows no tool: a tool says in `GatedTool` what the gate has to know about it.
 */
import { Context, Deferred, Effect, Exit, Layer, Option, type Schema, Scope } from "effect"
import { ApprovalNotFound, ApprovalRequired, ApprovalStale } from "../schema/Approval.ts"
import { type LeaseRequest, WorkspaceBusy } from "../schema/Lease.ts"
import { Cancelled, CheckOnlyConflict, InvalidArguments, OperationKeyConflict } from "../schema/Operation.ts"
import { PolicyDenied, type Touches } from "../schema/Policy.ts"
import { ProcessNotFound } from "../schema/Process.ts"
import { fromRecord, type Refusal } from "../schema/Refusal.ts"
import { excerpt } from "../schema/Retry.ts"
import type { Unauthorized, WorkspaceNotFound } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "./AppConfig.ts"
import { Approvals, conflictOf, type Held, isHeld } from "./Approvals.ts"
import { Caller } from "./Caller.ts"
import { workspaceFor } from "./CallerRights.ts"
import { CommandReader } from "./CommandReader.ts"
import { holding, isRemembered, mayBeRemembered, questionOf } from "./Confirmation.ts"
import { Digest } from "./Digest.ts"
import { fingerprintText } from "./Fingerprint.ts"
import { type GatedTool, GatedTools } from "./GatedTool.ts"
import { isoTime } from "./IsoTime.ts"
import { toJson } from "./JsonText.ts"
import { LeaseManager } from "./LeaseManager.ts"
import * as Outcomes from "./Outcomes.ts"
import { Policy, refusalOf } from "./Policy.ts"
import { type Reply, Runner, type RunRequest } from "./Runner.ts"
import { keyIsFree, type Recorded, Store } from "./Store.ts"
import { Works } from "./Works.ts"

/** Arguments every recorded tool may have beside its own. */
interface Recording {
  readonly operation_key?: string
  readonly check_only?: boolean
  readonly lease_wait_ms?: number
  /** The work the call belongs to; it must be one the caller may use, and says nothing about what is done. */
  readonly work_id?: string
}

/** How long a call waits for its lease when it does not say, in milliseconds (contract §9). */
const DEFAULT_LEASE_WAIT = 10_000

export class Operations extends Context.Service<
  Operations,
  {
    /** Lets one call through the gate and answers with its result, or with the stored one for a known key. */
    readonly run: <Input extends Schema.JsonObject>(tool: GatedTool<Input>, input: Input) => Effect.Effect<Reply, Refusal, Caller>
    /** Holds a call for a person although nothing asks for one. Answers with what is held. */
    readonly hold: (tool: string, args: unknown, reason: string | undefined) => Effect.Effect<Held, Refusal, Caller>
    /** Runs a held call of this caller that a person has granted, once; after that answers with its outcome. */
    readonly resume: (approvalId: string) => Effect.Effect<Reply & { readonly kind: string }, Refusal, Caller>
    /** The settings of a workspace this caller may use, under a profile held to the caller's highest. */
    readonly authorize: (workspaceId: string) => Effect.Effect<WorkspaceSettings, WorkspaceNotFound | Unauthorized, Caller>
    /** The operation as it is now; one whose server is gone is settled first, by what the workspace side knows of it. */
    readonly settled: (operation: Recorded) => Effect.Effect<Recorded, Refusal>
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
  const outcomes = yield* Outcomes.make
  const works = yield* Works
  const approvals = yield* Approvals
  const tools = yield* GatedTools
  /** Calls with a key that run now, so that a repeat waits for the same outcome. */
  const running = new Map<string, { readonly fingerprint: string; readonly outcome: Deferred.Deferred<Reply, Refusal> }>()
  yield* outcomes.recover

  const authorize = (workspaceId: string) =>
    Effect.flatMap(Caller, (caller) => Effect.fromResult(workspaceFor(config, caller, workspaceId)))

  /** Where a call acts, and who started the process that it names. */
  const placeOf = Effect.fnUntraced(function* (named: { readonly workspace: string } | { readonly process: string }) {
    if ("workspace" in named) return { workspaceId: named.workspace }
    const owner = Option.getOrUndefined(yield* store.byProcess(named.process))
    return owner === undefined
      ? yield* new ProcessNotFound({ process_id: named.process })
      : { workspaceId: owner.workspaceId, process: named.process, startedBy: owner.caller }
  })

  /** A process has what the profile of its caller gave it; nobody gets more by way of somebody else's. */
  const ownProcess = Effect.fnUntraced(function* (
    { profile, id }: WorkspaceSettings,
    caller: string,
    { process, startedBy }: { readonly process?: string; readonly startedBy?: string },
  ) {
    if (startedBy === undefined || startedBy === caller || profile === config.workspaces.get(id)?.profile) return
    return yield* new PolicyDenied({
      profile: profile.name,
      subject: `reaching ${process}, which another caller started`,
      rule: "a caller held to a stricter profile than the workspace's reaches only what it started itself",
    })
  })

  const withCommands = Effect.fnUntraced(function* (touches: Touches) {
    return touches.exec === undefined || touches.exec.commands !== undefined
      ? touches
      : { ...touches, exec: yield* reader.read(touches.exec) }
  })

  /** Commands are read only where a rule is about them. */
  const understood = (settings: WorkspaceSettings, touches: Touches) =>
    settings.profile.commands.length === 0 ? Effect.succeed(touches) : withCommands(touches)

  /** Refuses what the profile forbids. */
  const decide = Effect.fnUntraced(function* (settings: WorkspaceSettings, touches: Touches) {
    const decision = policy.decide(settings.profile, touches)
    const refusal = refusalOf(settings.profile, decision)
    return refusal === undefined ? decision : yield* refusal
  })

  /** The stored outcome of a known key, once it is certain that the arguments are the same. */
  const replay = Effect.fnUntraced(function* (recorded: Recorded, asked: Asked): Effect.fn.Return<Reply, Refusal> {
    const operation_key = asked.key ?? ""
    const { kind, operationId } = recorded
    if (kind !== asked.kind || recorded.fingerprint !== asked.fingerprint)
      return yield* new OperationKeyConflict({ operation_key, operation_id: operationId, kind })
    if (recorded.checkOnly !== asked.checkOnly) return yield* new CheckOnlyConflict({ operation_key, operation_id: operationId })
    const known = yield* outcomes.awaited(recorded, asked.waitMs)
    const held = isUnrun(known) ? yield* approvals.byOperation(known.operationId) : Option.none()
    if (Option.isSome(held)) return yield* answerHeld(held.value, asked)
    if (known.refusal !== undefined) return yield* fromRecord(known.refusal)
    if (known.result !== undefined && !keyIsFree(known)) return { result: known.result }
    if (known.state === "running")
      return yield* new WorkspaceBusy({
        workspace_id: known.workspaceId,
        holder: `${operationId}, the first call with this operation_key`,
        kind,
        since: isoTime(known.createdAt),
        expires: "when it ends",
        waited_ms: asked.waitMs,
      })
    return yield* new Cancelled({ operation_id: operationId, ...(known.state === "interrupted" ? { cause: Outcomes.serverEnded } : {}) })
  })

  /** What the workspace side is asked; it has the workspace's own profile, and is told a stricter one. */
  const requestOf = ({ id, profile }: WorkspaceSettings, tool: string, input: Schema.JsonObject): RunRequest => ({
    tool,
    workspaceId: id,
    input,
    ...(profile === config.workspaces.get(id)?.profile ? {} : { profile }),
  })

  const { changedSince, holdOf } = holding((settings, tool, input) => runner.execute(requestOf(settings, tool, input)), digest)

  /** Takes the lease, records the beginning and runs; for a key that became known meanwhile only says whose it is. */
  const perform = Effect.fnUntraced(function* (asked: Asked) {
    if (asked.lease !== undefined)
      yield* leases.acquire(asked.workspace, asked.lease, `${asked.kind} of ${asked.caller} (${asked.client})`, asked.waitMs)
    yield* outcomes.recover
    const { begun, operation } = yield* asked.held === undefined ? store.begin(asked) : approvals.consume(asked.held)
    if (!begun) return { operation }
    const request = {
      ...requestOf(asked.workspace, asked.kind, asked.input),
      operationId: operation.operationId,
      ...(asked.lease === undefined ? {} : { lease: asked.lease }),
    }
    const execution =
      asked.held === undefined ? runner.execute(request) : onShownGround(asked.held, asked.workspace, runner.execute(request))
    const reply = yield* execution.pipe(
      Effect.onExit((exit) => (Exit.isFailure(exit) ? outcomes.recordFailure(operation, exit) : Effect.void)),
    )
    return { operation, reply }
  })

  /** Runs what a person was shown only where it would still do what was shown. */
  const onShownGround = ({ approvalId, hold }: Held, settings: WorkspaceSettings, execution: Effect.Effect<Reply, Refusal>) =>
    Effect.gen(function* () {
      const changed = yield* changedSince(settings, hold)
      if (changed.length > 0) return yield* new ApprovalStale({ approval_id: approvalId, paths: changed })
      return yield* execution
    }).pipe(Effect.catchTag("VERSION_CONFLICT", ({ path }) => Effect.fail(new ApprovalStale({ approval_id: approvalId, paths: [path] }))))

  /** Runs a recorded call inside its lease; the lease ends with the call, or with the process it left running. */
  const execute = Effect.fnUntraced(function* (asked: Asked) {
    const scope = yield* Scope.make()
    return yield* Effect.uninterruptibleMask((restore) =>
      restore(Scope.provide(perform(asked), scope)).pipe(
        Effect.onError(() => Scope.close(scope, Exit.void)),
        Effect.flatMap(({ operation, reply }) =>
          // Another server's outcome is waited for without the lease.
          reply === undefined
            ? Effect.andThen(Scope.close(scope, Exit.void), restore(replay(operation, asked)))
            : outcomes.recordReply(operation, reply, scope),
        ),
      ),
    )
  })

  /** At most one run of a key at a time in this server; a repeat waits for its outcome. */
  const once = Effect.fnUntraced(function* (asked: Asked, effect: Effect.Effect<Reply, Refusal>): Effect.fn.Return<Reply, Refusal> {
    if (asked.key === undefined) return yield* effect
    const slot = toJson([asked.caller, asked.workspaceId, asked.key])
    const first = running.get(slot)
    if (first === undefined) return yield* lead(slot, asked, effect)
    const outcome = yield* Effect.exit(Deferred.await(first.outcome))
    const known = yield* store.byKey(asked.caller, asked.workspaceId, asked.key)
    if (Option.isSome(known) && !keyIsFree(known.value)) return yield* replay(known.value, asked)
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

  /** Everything the gate knows of a call before it is recorded; what the profile forbids is refused here. */
  const prepare = Effect.fnUntraced(function* <Input extends Schema.JsonObject>(tool: GatedTool<Input>, input: Input) {
    const caller = yield* Caller
    const place = yield* placeOf(tool.names(input))
    const settings = yield* authorize(place.workspaceId)
    yield* ownProcess(settings, caller.name, place)
    const { work_id } = input as Recording
    if (work_id !== undefined) yield* works.coordination(work_id)
    const touches = yield* understood(settings, yield* Effect.fromResult(tool.touches(input, settings)))
    const decision = yield* decide(settings, touches)
    const { operation_key: key, check_only: checkOnly, lease_wait_ms: waitMs = DEFAULT_LEASE_WAIT } = input as Recording
    const asked = (): Asked => ({
      kind: tool.name,
      key,
      caller: caller.name,
      client: caller.client,
      workspaceId: settings.id,
      workspace: settings,
      lease: tool.lease(input, touches, settings),
      waitMs,
      fingerprint: digest.sha256(fingerprintText(input)),
      checkOnly: checkOnly ?? false,
      input,
    })
    return { settings, touches, decision, asked }
  })

  const run = Effect.fnUntraced(function* <Input extends Schema.JsonObject>(tool: GatedTool<Input>, input: Input) {
    const { asked: toAsked, decision, settings, touches } = yield* prepare(tool, input)
    if (!tool.records) return yield* runner.execute(requestOf(settings, tool.name, input))
    const asked = toAsked()
    return yield* once(
      asked,
      Effect.gen(function* () {
        const recorded = asked.key === undefined ? Option.none() : yield* store.byKey(asked.caller, settings.id, asked.key)
        const known = Option.isSome(recorded) ? yield* outcomes.settled(recorded.value) : undefined
        if (known !== undefined && !keyIsFree(known)) return yield* replay(known, asked)
        const question = asked.checkOnly ? undefined : questionOf(settings, decision, touches)
        if (question === undefined) return yield* execute(asked)
        const read = yield* withCommands(touches)
        if (yield* isAllowedForGood(tool, asked, read)) return yield* execute(asked)
        const held = yield* approvals.ask(asked, yield* holdOf(tool, asked, read, question, undefined))
        return yield* isHeld(held) ? answerHeld(held, asked) : replay(held, asked)
      }),
    )
  })

  // --- calls that wait for a person ---------------------------------------------------------------------------------

  /** Whether a person has allowed such commands before, for good. */
  const isAllowedForGood = Effect.fnUntraced(function* <Input extends Schema.JsonObject>(
    { holds }: GatedTool<Input>,
    { input, workspaceId }: Asked,
    touches: Touches,
  ) {
    return mayBeRemembered(touches, holds?.shown(input as Input) ?? {}) && isRemembered(touches, yield* approvals.grants(workspaceId))
  })

  /** What becomes of a held call now: it still waits, it may not run, it runs, or it has. */
  const answerHeld = (held: Held, asked: Asked): Effect.Effect<Reply, Refusal> =>
    Effect.gen(function* () {
      if (held.state === "pending") return yield* requiredOf(held)
      if (held.state === "denied" || held.state === "expired") return yield* conflictOf(held)
      const tool = tools.get(asked.kind)?.gated
      const { changes } = held.hold.shown
      const input = changes === undefined ? held.hold.input : (tool?.holds?.pinned?.(held.hold.input, changes) ?? held.hold.input)
      return yield* execute({ ...asked, held, input })
    })

  const hold = Effect.fn("Operations.hold")(function* (name: string, args: unknown, reason: string | undefined) {
    const tool = tools.get(name)
    if (tool === undefined)
      return yield* new InvalidArguments({ problems: [`tool: found ${excerpt(name, 60)}, wanted one of ${[...tools.keys()].join(", ")}`] })
    const input = yield* tool.decode(args)
    const { asked, touches } = yield* prepare(tool.gated, input)
    if (asked().checkOnly) return yield* new InvalidArguments({ problems: ["arguments.check_only: a preview needs nobody's approval"] })
    const question = { rule: "approval_create", subject: `the call of ${name}` }
    const held = yield* approvals.ask(asked(), yield* holdOf(tool.gated, asked(), yield* withCommands(touches), question, reason))
    if (isHeld(held)) return held
    return yield* new OperationKeyConflict({ operation_key: asked().key ?? "", operation_id: held.operationId, kind: held.kind })
  })

  const resume = Effect.fn("Operations.resume")(function* (approvalId: string) {
    const caller = yield* Caller
    const held = Option.getOrUndefined(yield* approvals.byId(approvalId))
    const tool = held === undefined ? undefined : tools.get(held.hold.shown.kind)
    // Another caller's approval is as good as unknown.
    if (held === undefined || tool === undefined || held.caller !== caller.name)
      return yield* new ApprovalNotFound({ approval_id: approvalId })
    const { asked } = yield* prepare(tool.gated, held.hold.input)
    return { ...(yield* answerHeld(held, asked())), kind: tool.gated.name }
  })

  return Operations.of({
    // One span a call; where in our code it was made says nothing and costs more than the rest of it.
    run: (tool, input) =>
      Effect.withSpan(run(tool, input), "Operations.run", { attributes: { tool: tool.name }, captureStackTrace: false }),
    hold,
    resume,
    authorize,
    settled: outcomes.settled,
  })
})

/** One recorded call as the gate carries it. */
interface Asked {
  readonly kind: string
  readonly key: string | undefined
  readonly caller: string
  readonly client: string
  readonly workspaceId: WorkspaceSettings["id"]
  readonly workspace: WorkspaceSettings
  readonly lease: LeaseRequest | undefined
  /** How long it waits for its lease, or for the outcome of the same call in another server, in milliseconds. */
  readonly waitMs: number
  readonly fingerprint: string
  readonly checkOnly: boolean
  readonly input: Schema.JsonObject
  /** Set when a person has allowed it. */
  readonly held?: Held
}

/** It may be one that was held and never ran. */
const isUnrun = ({ refusal, result, state }: Recorded): boolean =>
  result === undefined && refusal === undefined && ["held", "denied", "cancelled"].includes(state)

const requiredOf = ({ approvalId, expiresAt, hold: { shown, subject }, operationId }: Held): ApprovalRequired =>
  new ApprovalRequired({ approval_id: approvalId, operation_id: operationId, expires_at: isoTime(expiresAt), rule: shown.rule, subject })

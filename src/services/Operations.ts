/**
 * The one gate. Every call passes `run`: find its workspace, decide, and for a change: look the key up, take the lease,
 * record, run, record the outcome. It promises that a recorded call runs at most once for its key and that no outcome
 * is answered before it is recorded. It knows no tool: a tool says in `GatedTool` what the gate has to know about it.
 */
import { Clock, Context, DateTime, Deferred, Effect, Exit, Layer, Option, Schema, Scope } from "effect"
import { ApprovalNotFound, ApprovalRequired, ApprovalStale } from "../schema/Approval.ts"
import { type LeaseRequest, WorkspaceBusy } from "../schema/Lease.ts"
import { Cancelled, CheckOnlyConflict, InvalidArguments, OperationKeyConflict } from "../schema/Operation.ts"
import { PatchFailed } from "../schema/Patch.ts"
import { PolicyDenied, type Touches } from "../schema/Policy.ts"
import { ProcessNotFound } from "../schema/Process.ts"
import { fromRecord, type Refusal, toRecord } from "../schema/Refusal.ts"
import { excerpt } from "../schema/Retry.ts"
import type { Unauthorized, WorkspaceNotFound } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "./AppConfig.ts"
import { Approvals, conflictOf, type Held, isHeld, isoTime } from "./Approvals.ts"
import { Caller } from "./Caller.ts"
import { workspaceFor } from "./CallerRights.ts"
import { CommandReader } from "./CommandReader.ts"
import { holding, isRemembered, mayBeRemembered, questionOf } from "./Confirmation.ts"
import { Digest } from "./Digest.ts"
import { Endings } from "./Endings.ts"
import { type GatedTool, GatedTools } from "./GatedTool.ts"
import { LeaseManager } from "./LeaseManager.ts"
import { Policy, refusalOf } from "./Policy.ts"
import { type CutOperation, type CutOutcome, type Reply, Runner, type RunRequest } from "./Runner.ts"
import { type Ending, keyIsFree, type Recorded, Store } from "./Store.ts"
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
/** How long an operation whose call was cut may wait for its lease, in milliseconds: longer than any process lives. */
const LEASE_WAIT_OF_THE_CUT = 86_400_000
/** How often a call looks whether the same call has ended in another server, in milliseconds. */
const LOOK_EVERY = 25

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
  const endings = yield* Endings
  const works = yield* Works
  const approvals = yield* Approvals
  const tools = yield* GatedTools
  /** Calls with a key that run now, so that a repeat waits for the same outcome. */
  const running = new Map<string, { readonly fingerprint: string; readonly outcome: Deferred.Deferred<Reply, Refusal> }>()

  /** Goes on with an operation whose process lives, though the call that began it was cut: its lease, in its turn, and its end. */
  const goOn = Effect.fnUntraced(function* (operation: Recorded, ending: NonNullable<Reply["ending"]>, lease: LeaseRequest | undefined) {
    const settings = config.workspaces.get(operation.workspaceId as WorkspaceSettings["id"])
    const scope = yield* Scope.make()
    if (lease !== undefined && settings !== undefined)
      yield* leases
        .acquire(settings, lease, `${operation.kind} of ${operation.caller} (its call was cut)`, LEASE_WAIT_OF_THE_CUT)
        .pipe(Scope.provide(scope), Effect.ignore({ log: true }), Effect.forkIn(scope, { startImmediately: true }))
    yield* follow(operation, ending, scope)
  })

  /** Records the end of a process that outlives its call, and closes the call's scope then. */
  const follow = (operation: Recorded, ending: NonNullable<Reply["ending"]>, scope: Scope.Closeable) =>
    endings.follow(
      ending.pipe(
        Effect.flatMap((last) => store.settle(operation, { state: "done", result: named(operation, last), ...processOf(last) })),
        Effect.andThen(runner.acknowledge(operation.workspaceId as WorkspaceSettings["id"], cutOf(operation))),
        Effect.ensuring(Scope.close(scope, Exit.void)),
      ),
    )

  /** Settles what servers that are gone left running in the workspaces of this one. */
  const settleOrphans = Effect.fn("Operations.settleOrphans")(function* (only?: string) {
    const orphans = (yield* store.orphans).filter(({ workspaceId }) => workspaceId === (only ?? workspaceId))
    for (const [workspaceId, cut] of Map.groupBy(orphans, (orphan) => orphan.workspaceId as WorkspaceSettings["id"])) {
      // Whoever has the workspace settles them; here nobody can ask for them.
      if (!config.workspaces.has(workspaceId)) continue
      const outcomes = yield* runner.outcomes(workspaceId, cut.map(cutOf))
      for (const orphan of cut) {
        const outcome = outcomes.get(orphan.operationId)
        if (outcome === undefined) continue
        if (outcome.kind === "replied" && outcome.reply.ending !== undefined) {
          // Another server may be faster.
          if (yield* store.adopt(orphan)) yield* goOn(orphan, outcome.reply.ending, outcome.lease)
          continue
        }
        yield* store.settleOrphan(orphan, endingOf(orphan, outcome))
        yield* runner.acknowledge(workspaceId, cutOf(orphan))
      }
    }
  })
  yield* settleOrphans().pipe(Effect.ignore({ log: true }))

  const settled = Effect.fnUntraced(function* (operation: Recorded) {
    if (!store.isOrphan(operation)) return operation
    yield* settleOrphans(operation.workspaceId)
    return Option.getOrElse(yield* store.byId(operation.operationId), () => operation)
  })

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

  /** The operation once it has an outcome; as it is when the wait for another server's is over. */
  const outcomeOf = Effect.fnUntraced(function* (recorded: Recorded, waitMs: number) {
    const end = (yield* Clock.currentTimeMillis) + waitMs
    for (let known = yield* settled(recorded); ; ) {
      if (known.state !== "running" || known.result !== undefined || (yield* Clock.currentTimeMillis) >= end) return known
      yield* Effect.sleep(LOOK_EVERY)
      known = yield* settled(Option.getOrElse(yield* store.byId(known.operationId), () => recorded))
    }
  })

  /** The stored outcome of a known key, once it is certain that the arguments are the same. */
  const replay = Effect.fnUntraced(function* (recorded: Recorded, asked: Asked): Effect.fn.Return<Reply, Refusal> {
    const operation_key = asked.key ?? ""
    const { kind, operationId } = recorded
    if (kind !== asked.kind || recorded.fingerprint !== asked.fingerprint)
      return yield* new OperationKeyConflict({ operation_key, operation_id: operationId, kind })
    if (recorded.checkOnly !== asked.checkOnly) return yield* new CheckOnlyConflict({ operation_key, operation_id: operationId })
    const known = yield* outcomeOf(recorded, asked.waitMs)
    const held = isUnrun(known) ? yield* approvals.byOperation(known.operationId) : Option.none()
    if (Option.isSome(held)) return yield* answerHeld(held.value, asked)
    if (known.refusal !== undefined) return yield* fromRecord(known.refusal)
    if (known.result !== undefined && !keyIsFree(known)) return { result: known.result }
    if (known.state === "running")
      return yield* new WorkspaceBusy({
        workspace_id: known.workspaceId,
        holder: `${operationId}, the first call with this operation_key`,
        kind,
        since: DateTime.formatIso(DateTime.makeUnsafe(known.createdAt)),
        expires: "when it ends",
        waited_ms: asked.waitMs,
      })
    return yield* new Cancelled({ operation_id: operationId, ...(known.state === "interrupted" ? { cause: serverEnded } : {}) })
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
    const { begun, operation } = yield* asked.held === undefined ? store.begin(asked) : approvals.consume(asked.held)
    if (!begun) return { operation }
    const request = {
      ...requestOf(asked.workspace, asked.kind, asked.input),
      operationId: operation.operationId,
      ...(asked.lease === undefined ? {} : { lease: asked.lease }),
    }
    const execution =
      asked.held === undefined ? runner.execute(request) : onShownGround(asked.held, asked.workspace, runner.execute(request))
    const reply = yield* execution.pipe(Effect.onExit((exit) => (Exit.isFailure(exit) ? recordFailure(operation, exit) : Effect.void)))
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
            : record(operation, reply, scope),
        ),
      ),
    )
  })

  /** Records a reply. Closes the call's scope now, or when the process that the call left running has ended. */
  const record = Effect.fnUntraced(function* (operation: Recorded, reply: Reply, scope: Scope.Closeable) {
    const { ending } = reply
    const result = named(operation, reply.result)
    const recorded = yield* Effect.exit(
      store.settle(operation, { state: ending === undefined ? "done" : "running", result, ...processOf(result) }),
    )
    if (ending === undefined) yield* Scope.close(scope, Exit.void)
    else yield* follow(operation, ending, scope)
    yield* recorded
    // What goes on is forgotten when its end is recorded.
    if (ending === undefined) yield* runner.acknowledge(operation.workspaceId as WorkspaceSettings["id"], cutOf(operation))
    return { ...reply, result }
  })

  const recordFailure = (operation: Recorded, exit: Exit.Failure<unknown, Refusal>) => {
    const refusal = Option.getOrUndefined(Exit.findErrorOption(exit))
    const isCut = refusal === undefined || refusal._tag === "CANCELLED"
    const recorded = isCut ? recordCut(operation, exit) : store.settle(operation, { state: "failed", refusal: toRecord(refusal) })
    return recorded.pipe(Effect.ignore({ log: true }))
  }

  /** A call that was cancelled, or broken off by a defect or the end of its worker, may have done its work all the same. */
  const recordCut = Effect.fnUntraced(function* (operation: Recorded, exit: Exit.Failure<unknown, Refusal>) {
    const state = Exit.hasInterrupts(exit) ? "cancelled" : "interrupted"
    const workspaceId = operation.workspaceId as WorkspaceSettings["id"]
    const outcomes = yield* runner
      .outcomes(workspaceId, [cutOf(operation)])
      .pipe(Effect.catch(() => Effect.succeed(new Map<string, CutOutcome>())))
    const outcome = outcomes.get(operation.operationId)
    if (outcome?.kind === "rolled_back") return yield* store.settle(operation, { state, reason: `its patch ${rolledBack}` })
    if (outcome === undefined || outcome.kind === "unknown") return yield* store.settle(operation, { state, ...causeOf(exit) })
    if (outcome.kind === "replied" && outcome.reply.ending !== undefined) {
      const { ending, result } = outcome.reply
      yield* store.settle(operation, { state: "running", result: named(operation, result), ...processOf(result) })
      return yield* goOn(operation, ending, outcome.lease)
    }
    yield* store.settle(operation, endingOf(operation, outcome))
    yield* runner.acknowledge(workspaceId, cutOf(operation))
  })

  /** At most one run of a key at a time in this server; a repeat waits for its outcome. */
  const once = Effect.fnUntraced(function* (asked: Asked, effect: Effect.Effect<Reply, Refusal>): Effect.fn.Return<Reply, Refusal> {
    if (asked.key === undefined) return yield* effect
    const slot = toText([asked.caller, asked.workspaceId, asked.key])
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
        const known = Option.isSome(recorded) ? yield* settled(recorded.value) : undefined
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
    settled,
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

const cutOf = ({ kind, operationId }: Recorded): CutOperation => ({ operationId, tool: kind })

/** Why a call was cut, where it was not by its caller. */
const causeOf = (exit: Exit.Failure<unknown, Refusal>): { readonly reason?: string } => {
  const refusal = Option.getOrUndefined(Exit.findErrorOption(exit))
  return refusal?._tag === "CANCELLED" && refusal.cause !== undefined ? { reason: refusal.cause } : {}
}

const serverEnded = "its server ended before the outcome was recorded"
const rolledBack = "was rolled back: every file is as it was"

/** What a record says of an operation that was cut, once it is known what became of it. */
const endingOf = (operation: Recorded, outcome: CutOutcome): Ending => {
  switch (outcome.kind) {
    case "replied":
      return { state: "done", result: named(operation, outcome.reply.result), reason: `${serverEnded}; its call was complete` }
    case "committed":
      return {
        state: "done",
        result: named(operation, outcome.delta as Schema.JsonObject),
        reason: `${serverEnded}; its patch was complete`,
      }
    case "rolled_back":
      return {
        state: "interrupted",
        result: named(operation, { status: "failed_rolled_back", changes: [] }),
        reason: `its server ended; its patch ${rolledBack}`,
      }
    case "attention":
      return {
        state: "failed",
        refusal: toRecord(new PatchFailed({ status: "failed_partial", cause: "its server ended", paths: outcome.paths })),
      }
    case "unknown":
      return { state: "interrupted", reason: serverEnded }
  }
}

/** The process that a result is about. */
const processOf = ({ process_id }: Schema.JsonObject) => (typeof process_id === "string" ? { processId: process_id } : {})

/** A result under the name of its operation. */
const named = (operation: Recorded, result: Schema.JsonObject): Schema.JsonObject => ({ operation_id: operation.operationId, ...result })

const toText = Schema.encodeUnknownSync(Schema.fromJsonString(Schema.Unknown))

/** The arguments in one canonical text: keys sorted at every level, without what only names, previews or delays the call. */
const fingerprintText = (input: Schema.JsonObject): string => {
  const { check_only: _checkOnly, lease_wait_ms: _wait, operation_key: _key, work_id: _work, ...own } = input
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

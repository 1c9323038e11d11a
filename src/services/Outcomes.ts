/**
 * What became of an operation, and that it is written down. It promises that no outcome of a recorded call is forgotten:
 * while the store refuses, this server tries again for as long as it lives; what a dead server left is found out from the
 * workspace side, whose journal knows of patches, and is recorded with the reason.
 */
import { Clock, Effect, Exit, Option, Schedule, type Schema, Scope } from "effect"
import type { LeaseRequest } from "../schema/Lease.ts"
import { PatchFailed } from "../schema/Patch.ts"
import { type Refusal, toRecord } from "../schema/Refusal.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { AppConfig } from "./AppConfig.ts"
import { Endings } from "./Endings.ts"
import { LeaseManager } from "./LeaseManager.ts"
import { type CutOperation, type CutOutcome, type Reply, Runner } from "./Runner.ts"
import { type Ending, type Recorded, Store } from "./Store.ts"

/** How often a call looks whether an operation has ended in another server, in milliseconds. */
const LOOK_EVERY = 25
/** How often an outcome that the store refused is offered again, in milliseconds. */
const RECORD_AGAIN = 500
/** How long an operation whose call was cut may wait for its lease, in milliseconds: longer than any process lives. */
const LEASE_WAIT_OF_THE_CUT = 86_400_000

export const serverEnded = "its server ended before the outcome was recorded"
const rolledBack = "was rolled back: every file is as it was"

export const make = Effect.gen(function* () {
  const config = yield* AppConfig
  const leases = yield* LeaseManager
  const store = yield* Store
  const runner = yield* Runner
  const endings = yield* Endings

  const workspaceOf = ({ workspaceId }: Recorded) => workspaceId as WorkspaceId

  /** Records an ending. Fails when it could not be recorded yet; then it will be. */
  const settle = (operation: Recorded, ending: Ending, then: Effect.Effect<void> = Effect.void) => {
    const once = Effect.andThen(store.settle(operation, ending), then)
    return Effect.tapError(once, () => endings.follow(Effect.retry(once, Schedule.spaced(RECORD_AGAIN))))
  }

  /** The same of what the workspace side did and remembers; once it is recorded it may forget. */
  const settleDone = (operation: Recorded, ending: Ending) =>
    settle(operation, ending, runner.acknowledge(workspaceOf(operation), cutOf(operation)))

  /** Records the end of a process that outlives its call, and closes the call's scope then. */
  const follow = (operation: Recorded, ending: NonNullable<Reply["ending"]>, scope: Scope.Closeable) =>
    endings.follow(
      ending.pipe(
        Effect.flatMap((last) => settleDone(operation, { state: "done", result: named(operation, last), ...processOf(last) })),
        Effect.ensuring(Scope.close(scope, Exit.void)),
      ),
    )

  /** Goes on with an operation whose process lives, though the call that began it was cut: its lease, in its turn, and its end. */
  const goOn = Effect.fnUntraced(function* (operation: Recorded, ending: NonNullable<Reply["ending"]>, lease: LeaseRequest | undefined) {
    const settings = config.workspaces.get(workspaceOf(operation))
    const scope = yield* Scope.make()
    if (lease !== undefined && settings !== undefined)
      yield* leases
        .acquire(settings, lease, `${operation.kind} of ${operation.caller} (its call was cut)`, LEASE_WAIT_OF_THE_CUT)
        .pipe(Scope.provide(scope), Effect.ignore({ log: true }), Effect.forkIn(scope, { startImmediately: true }))
    yield* follow(operation, ending, scope)
  })

  /** Settles what servers that are gone left running, in all workspaces of this one or in one. */
  const settleOrphans = Effect.fn("Outcomes.settleOrphans")(function* (only?: string) {
    const orphans = (yield* store.orphans).filter(({ workspaceId }) => workspaceId === (only ?? workspaceId))
    for (const [workspaceId, cut] of Map.groupBy(orphans, workspaceOf)) {
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

  const recovered: { done?: true } = {}
  /** Settles them once in the life of this server, as soon as the store can be reached. */
  const recover = Effect.suspend(() => {
    if (recovered.done === true) return Effect.void
    const done = Effect.sync(() => Object.assign(recovered, { done: true }))
    return Effect.andThen(settleOrphans(), done).pipe(Effect.ignore({ log: true }))
  })

  /** The operation as it is now; one whose server is gone is settled first. */
  const settled = Effect.fnUntraced(function* (operation: Recorded) {
    if (!store.isOrphan(operation)) return operation
    yield* settleOrphans(operation.workspaceId)
    return Option.getOrElse(yield* store.byId(operation.operationId), () => operation)
  })

  /** The operation once it has an outcome; as it is when the wait for another server's is over. */
  const awaited = Effect.fnUntraced(function* (recorded: Recorded, waitMs: number) {
    const end = (yield* Clock.currentTimeMillis) + waitMs
    for (let known = yield* settled(recorded); ; ) {
      if (known.state !== "running" || known.result !== undefined || (yield* Clock.currentTimeMillis) >= end) return known
      yield* Effect.sleep(LOOK_EVERY)
      known = yield* settled(Option.getOrElse(yield* store.byId(known.operationId), () => recorded))
    }
  })

  /** Records a reply, and gives it under the operation's id. Closes the call's scope now, or when the process that it left running has ended. */
  const recordReply = Effect.fnUntraced(function* (operation: Recorded, reply: Reply, scope: Scope.Closeable) {
    const { ending } = reply
    const result = named(operation, reply.result)
    const facts = { result, ...processOf(result) }
    // What goes on is forgotten by the workspace side when its end is recorded, and until then need not be recorded twice.
    const recorded = yield* Effect.exit(
      ending === undefined ? settleDone(operation, { state: "done", ...facts }) : store.settle(operation, { state: "running", ...facts }),
    )
    if (ending === undefined) yield* Scope.close(scope, Exit.void)
    else yield* follow(operation, ending, scope)
    yield* recorded
    return { ...reply, result }
  })

  /** Records how a call failed. Cannot fail itself: the caller is told the call's own failure. */
  const recordFailure = (operation: Recorded, exit: Exit.Failure<unknown, Refusal>) => {
    const refusal = Option.getOrUndefined(Exit.findErrorOption(exit))
    const isCut = refusal === undefined || refusal._tag === "CANCELLED"
    const recorded = isCut ? recordCut(operation, exit) : settle(operation, { state: "failed", refusal: toRecord(refusal) })
    return Effect.ignore(recorded, { log: true })
  }

  /** A call that was cancelled, or broken off by a defect or the end of its worker, may have done its work all the same. */
  const recordCut = Effect.fnUntraced(function* (operation: Recorded, exit: Exit.Failure<unknown, Refusal>) {
    const state = Exit.hasInterrupts(exit) ? "cancelled" : "interrupted"
    const outcomes = yield* runner
      .outcomes(workspaceOf(operation), [cutOf(operation)])
      .pipe(Effect.catch(() => Effect.succeed(new Map<string, CutOutcome>())))
    const outcome = outcomes.get(operation.operationId)
    if (outcome?.kind === "rolled_back") return yield* settle(operation, { state, reason: `its patch ${rolledBack}` })
    if (outcome === undefined || outcome.kind === "unknown")
      return yield* settle(operation, { state, reason: causeOf(exit) ?? reasonOf[state] })
    if (outcome.kind === "replied" && outcome.reply.ending !== undefined) {
      const { ending, result } = outcome.reply
      yield* store.settle(operation, { state: "running", result: named(operation, result), ...processOf(result) })
      return yield* goOn(operation, ending, outcome.lease)
    }
    return yield* settleDone(operation, endingOf(operation, outcome))
  })

  return { awaited, recordFailure, recordReply, recover, settled }
})

const reasonOf = {
  cancelled: "its client cancelled the call; what it had done by then stays",
  interrupted: "a defect of the server broke it off; what it had done by then stays",
} as const

/** Why a call was cut, where that is known better. */
const causeOf = (exit: Exit.Failure<unknown, Refusal>): string | undefined => {
  const refusal = Option.getOrUndefined(Exit.findErrorOption(exit))
  return refusal?._tag === "CANCELLED" ? refusal.cause : undefined
}

/** The process that a result is about. */
const processOf = ({ process_id }: Schema.JsonObject) => (typeof process_id === "string" ? { processId: process_id } : {})

const cutOf = ({ kind, operationId }: Recorded): CutOperation => ({ operationId, tool: kind })

/** A result under the name of its operation. */
const named = (operation: Recorded, result: Schema.JsonObject): Schema.JsonObject => ({ operation_id: operation.operationId, ...result })

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
      return operation.processId === undefined
        ? { state: "interrupted", reason: serverEnded }
        : { state: "interrupted", result: lost(operation), reason: "its server ended, and its process with it" }
  }
}

/** The result of a call whose process is lost: what was known of it, and that nobody will know more. */
const lost = (operation: Recorded): Schema.JsonObject => ({
  ...operation.result,
  state: "lost",
  ended_by: "server_stop",
  eof: true,
})

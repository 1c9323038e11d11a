/**
 * Grants the right to work in a workspace: first come, first served, among all servers on one state folder, for as long as
 * a scope or its server lives, whichever ends first.
 *
 * A waiter is never overtaken by a later one that it excludes; others pass. A waiter that gives up or is interrupted
 * leaves nothing behind and wakes whoever it held up. Within one server a release wakes the next waiter at once; from
 * another server, or when another server dies, it is noticed by looking, which happens only while somebody waits.
 *
 * A lease has no time limit and nothing takes it from a living server, so a call cannot outlive its own.
 */
import { Clock, Context, DateTime, Deferred, Effect, Exit, Layer, Option, Schedule, type Scope } from "effect"
import { type Lease, type LeaseRequest, WorkspaceBusy } from "../schema/Lease.ts"
import { StoreUnavailable } from "../schema/Operation.ts"
import * as LeaseQueue from "./LeaseQueue.ts"
import * as LeaseTable from "./LeaseTable.ts"
import type { StoreFailure } from "./StoreFault.ts"

/** How often a waiting server looks for what others did, in milliseconds; noticing within 50 is promised. */
const LOOK_EVERY = 45
/** How long until a release that the store refused is tried again, in milliseconds. */
const RELEASE_AGAIN = 250

export class LeaseManager extends Context.Service<
  LeaseManager,
  {
    /**
     * Waits up to `waitMs` milliseconds for a lease and holds it until the scope ends; 0 refuses at once. `holder` is the
     * name that others are told while they wait.
     */
    readonly acquire: (
      workspace: LeaseQueue.LeasedWorkspace,
      request: LeaseRequest,
      holder: string,
      waitMs: number,
    ) => Effect.Effect<Lease, WorkspaceBusy | StoreFailure, Scope.Scope>
    /** The leases of all servers that are held now in a workspace, in a folder around it or inside it; oldest first. */
    readonly current: (workspace: LeaseQueue.LeasedWorkspace) => Effect.Effect<ReadonlyArray<Lease>, StoreFailure>
  }
>()("codespace/services/LeaseManager") {
  static readonly layer = Layer.effect(
    LeaseManager,
    Effect.suspend(() => make),
  )
}

const make = Effect.gen(function* () {
  const queue = yield* LeaseQueue.make
  const scope = yield* Effect.scope
  /** This server's waiters by their numbers. */
  const alarms = new Map<number, Deferred.Deferred<LeaseQueue.Place>>()
  const last = { look: 0 }

  const wake = (places: ReadonlyArray<LeaseQueue.Place>): void => {
    for (const place of places) {
      const alarm = place.waitedAs === null ? undefined : alarms.get(place.waitedAs)
      if (alarm !== undefined) Deferred.doneUnsafe(alarm, Effect.succeed(place))
    }
  }

  /** Grants what can be granted and wakes the waiters of this server among them. */
  const look = Effect.gen(function* () {
    last.look = yield* Clock.currentTimeMillis
    wake(yield* queue.settle)
  })

  /** All waiters wake at the same instants, and the first of them looks, so many cost little more than one. */
  const watch = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const next = now - (now % LOOK_EVERY) + LOOK_EVERY
    yield* Effect.sleep(next - now)
    if (last.look < next) yield* look
  }).pipe(Effect.forever)

  /** Cannot fail: while the store refuses, the release is tried again for as long as the server lives. */
  const leave = (number: number) => {
    const left = Effect.flatMap(queue.remove(number), (waiting) => (waiting ? look : Effect.void))
    return left.pipe(
      Effect.catch((failure) =>
        Effect.logWarning(`a lease could not be given back yet: ${failure.message}`).pipe(
          Effect.andThen(Effect.forkIn(Effect.retry(left, Schedule.spaced(RELEASE_AGAIN)), scope)),
        ),
      ),
      Effect.asVoid,
    )
  }

  const awaitTurn = Effect.fnUntraced(function* (entered: LeaseQueue.Place, waitMs: number) {
    const alarm = Deferred.makeUnsafe<LeaseQueue.Place>()
    alarms.set(entered.number, alarm)
    yield* look
    const turn = yield* Effect.timeoutOption(Effect.raceFirst(Deferred.await(alarm), watch), waitMs)
    if (Option.isSome(turn)) return turn.value.lease
    // The queue decides, not the clock: a grant in the instant the wait ends counts.
    const { granted, places } = yield* queue.giveUp(entered.number)
    wake(places)
    if (granted !== undefined) return granted.lease
    const waitedMs = (yield* Clock.currentTimeMillis) - entered.lease.since
    const blocker = LeaseTable.waitsFor(entered, places)
    return yield* blocker === undefined
      ? new StoreUnavailable({ cause: "a waiting call is not in the queue any more" })
      : busy(entered, blocker, waitedMs)
  })

  const busy = ({ lease: { workspaceId } }: LeaseQueue.Place, blocker: LeaseQueue.Place, waitedMs: number): WorkspaceBusy => {
    const { holder, kind, server, since } = blocker.lease
    const who = queue.isOurs(blocker) ? holder : `${holder} in ${server}`
    return new WorkspaceBusy({
      workspace_id: workspaceId,
      holder: blocker.waits ? `${who}, next in line` : who,
      kind,
      since: DateTime.formatIso(DateTime.makeUnsafe(since)),
      expires: blocker.waits ? "when it has had its turn" : "when it ends",
      waited_ms: waitedMs,
    })
  }

  const acquire = Effect.fn("LeaseManager.acquire")(function* (
    workspace: LeaseQueue.LeasedWorkspace,
    request: LeaseRequest,
    holder: string,
    waitMs: number,
  ) {
    return yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const entered = yield* queue.enter(workspace, request, holder)
        const leaving = Effect.suspend(() => {
          alarms.delete(entered.number)
          return leave(entered.number)
        })
        const lease = entered.waits
          ? yield* restore(awaitTurn(entered, waitMs)).pipe(Effect.onExit((exit) => (Exit.isSuccess(exit) ? Effect.void : leaving)))
          : entered.lease
        yield* Effect.addFinalizer(() => leaving)
        return lease
      }),
    )
  })

  const current = Effect.fn("LeaseManager.current")(function* (workspace: LeaseQueue.LeasedWorkspace) {
    return (yield* queue.held(workspace)).map(({ lease }) => lease)
  })

  return LeaseManager.of({ acquire, current })
})

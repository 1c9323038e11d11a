/**
 * Grants the right to work in a workspace: first come, first served, for as long as a scope lives.
 *
 * A waiter is never overtaken by a later one that it excludes; others pass. A lease ends with its scope, and a waiter
 * that gives up or is interrupted leaves nothing behind and wakes whoever it held up. Leases are kept in memory: they
 * hold between the callers of one server.
 */
import { Clock, Context, DateTime, Deferred, Effect, Exit, Layer, type Scope } from "effect"
import { type Lease, LeaseLost, type LeaseRequest, WorkspaceBusy } from "../schema/Lease.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import * as LeaseTable from "./LeaseTable.ts"

export class LeaseManager extends Context.Service<
  LeaseManager,
  {
    /**
     * Waits up to `waitMs` milliseconds for a lease and holds it until the scope ends; 0 refuses at once. `holder` is the
     * name that others are told while they wait.
     */
    readonly acquire: (
      workspaceId: WorkspaceId,
      request: LeaseRequest,
      holder: string,
      waitMs: number,
    ) => Effect.Effect<Lease, WorkspaceBusy, Scope.Scope>
    /** The leases held now, oldest first. */
    readonly current: (workspaceId: WorkspaceId) => Effect.Effect<ReadonlyArray<Lease>>
    /** Fails when the lease has ended. Ask before work is made to count. */
    readonly validate: (lease: Lease) => Effect.Effect<void, LeaseLost>
  }
>()("codespace/services/LeaseManager") {
  static readonly layer = Layer.sync(LeaseManager, () => make())
}

/** A workspace's table, and the alarm of each waiter in it. Changed only in synchronous steps, so no fiber sees half a change. */
interface Room {
  table: LeaseTable.LeaseTable
  readonly alarms: Map<number, Deferred.Deferred<void>>
}

const make = () => {
  const rooms = new Map<WorkspaceId, Room>()
  const roomOf = (workspaceId: WorkspaceId): Room => {
    const room = rooms.get(workspaceId) ?? { table: LeaseTable.empty(workspaceId), alarms: new Map() }
    rooms.set(workspaceId, room)
    return room
  }

  const acquire = Effect.fn("LeaseManager.acquire")(function* (
    workspaceId: WorkspaceId,
    request: LeaseRequest,
    holder: string,
    waitMs: number,
  ) {
    const room = roomOf(workspaceId)
    return yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const ticket = enter(room, request, holder, yield* Clock.currentTimeMillis)
        const lease = yield* restore(awaitTurn(room, ticket, waitMs)).pipe(
          Effect.onExit((exit) => (Exit.isSuccess(exit) ? Effect.void : leave(room, ticket))),
        )
        yield* Effect.addFinalizer(() => leave(room, ticket))
        return lease
      }),
    )
  })

  const current = Effect.fn("LeaseManager.current")(function* (workspaceId: WorkspaceId) {
    return roomOf(workspaceId).table.held.map(({ lease }) => lease)
  })

  const validate = Effect.fn("LeaseManager.validate")(function* (lease: Lease) {
    const { held, fence } = roomOf(lease.workspaceId).table
    if (held.some((one) => one.lease.fence === lease.fence)) return
    return yield* new LeaseLost({ workspace_id: lease.workspaceId, fence: lease.fence, current: fence })
  })

  return LeaseManager.of({ acquire, current, validate })
}

const enter = (room: Room, request: LeaseRequest, holder: string, now: number): number => {
  const ticket = room.table.nextTicket
  room.alarms.set(ticket, Deferred.makeUnsafe())
  keep(room, LeaseTable.request(room.table, request, holder, now))
  return ticket
}

const leave = (room: Room, ticket: number) =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    room.alarms.delete(ticket)
    keep(room, LeaseTable.release(room.table, ticket, now))
  })

const keep = (room: Room, { table, granted }: LeaseTable.Settled): void => {
  room.table = table
  for (const { ticket } of granted) {
    const alarm = room.alarms.get(ticket)
    room.alarms.delete(ticket)
    if (alarm !== undefined) Deferred.doneUnsafe(alarm, Effect.void)
  }
}

const awaitTurn = Effect.fnUntraced(function* (room: Room, ticket: number, waitMs: number) {
  const since = yield* Clock.currentTimeMillis
  const alarm = room.alarms.get(ticket)
  if (alarm !== undefined && waitMs > 0) yield* Effect.timeoutOption(Deferred.await(alarm), waitMs)
  const now = yield* Clock.currentTimeMillis
  const blocker = LeaseTable.blockerOf(room.table, ticket)
  if (blocker !== undefined) return yield* busy(room.table.workspaceId, blocker, now - since)
  // The table decides, not the clock: a grant in the instant the wait ends counts.
  return LeaseTable.leaseOf(room.table, ticket)!
})

const busy = (workspaceId: WorkspaceId, blocker: LeaseTable.Blocker, waitedMs: number): WorkspaceBusy =>
  new WorkspaceBusy({
    workspace_id: workspaceId,
    holder: blocker.waits ? `${blocker.holder}, next in line` : blocker.holder,
    kind: blocker.kind,
    since: DateTime.formatIso(DateTime.makeUnsafe(blocker.since)),
    expires: blocker.waits ? "when it has had its turn" : "when it ends",
    waited_ms: waitedMs,
  })

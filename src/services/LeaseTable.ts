/**
 * The leases of one workspace as a pure state machine: what is held, who waits in which order, and what may be granted.
 * It knows nothing of time limits, fibers or storage; whoever keeps the table waits and wakes.
 *
 * Every entry of the queue and of the held leases carries the ticket it entered with. After each transition no waiter is
 * left that could be granted, because every transition ends with `settle`.
 */
import type { Lease, LeaseKind, LeaseRequest } from "../schema/Lease.ts"
import type { ConfinedPath, WorkspaceId } from "../schema/Workspace.ts"

/** Who stands in the queue; `since` in epoch milliseconds. */
export interface Waiter {
  readonly ticket: number
  readonly request: LeaseRequest
  readonly holder: string
  readonly since: number
}

export interface Held {
  readonly ticket: number
  readonly lease: Lease
}

export interface LeaseTable {
  readonly workspaceId: WorkspaceId
  /** The fence of the newest grant; 0 before the first. */
  readonly fence: number
  readonly nextTicket: number
  /** In the order of their grants. */
  readonly held: ReadonlyArray<Held>
  /** In the order of their coming. */
  readonly waiting: ReadonlyArray<Waiter>
}

/** What keeps a waiter from its lease: a held lease, or a place before it in the queue. `since` in epoch milliseconds. */
export interface Blocker {
  readonly holder: string
  readonly kind: LeaseKind
  readonly since: number
  readonly waits: boolean
}

/** A table after a transition and the leases it granted. */
export interface Settled {
  readonly table: LeaseTable
  readonly granted: ReadonlyArray<Held>
}

export const empty = (workspaceId: WorkspaceId): LeaseTable => ({ workspaceId, fence: 0, nextTicket: 1, held: [], waiting: [] })

/** Enters a request at the end of the queue, under the ticket `table.nextTicket`. `now` in epoch milliseconds. */
export const request = (table: LeaseTable, wanted: LeaseRequest, holder: string, now: number): Settled =>
  settle(
    {
      ...table,
      nextTicket: table.nextTicket + 1,
      waiting: [...table.waiting, { ticket: table.nextTicket, request: wanted, holder, since: now }],
    },
    now,
  )

/** Takes a ticket out, whether it waits, holds, or is gone already. */
export const release = (table: LeaseTable, ticket: number, now: number): Settled =>
  settle(
    {
      ...table,
      held: table.held.filter((held) => held.ticket !== ticket),
      waiting: table.waiting.filter((waiter) => waiter.ticket !== ticket),
    },
    now,
  )

/** The lease of a ticket; undefined while it waits and after it was released. */
export const leaseOf = (table: LeaseTable, ticket: number): Lease | undefined => table.held.find((held) => held.ticket === ticket)?.lease

/** The first thing a waiting ticket waits for; undefined when it does not wait. A held lease goes before a place in the queue. */
export const blockerOf = (table: LeaseTable, ticket: number): Blocker | undefined => {
  const place = table.waiting.findIndex((waiter) => waiter.ticket === ticket)
  const waiter = table.waiting[place]
  return waiter === undefined ? undefined : blockerAmong(waiter.request, table.held, table.waiting.slice(0, place))
}

/** Two requests that must not be held at one time. */
export const conflict = (one: LeaseRequest, other: LeaseRequest): boolean => {
  if (one.kind !== "path" || other.kind !== "path") return one.kind === "exclusive" || other.kind === "exclusive"
  return one.paths.some((path) => other.paths.some((beside) => within(path, beside) || within(beside, path)))
}

/** Equal, or below the folder; the empty path is the root, which everything is below. */
const within = (path: ConfinedPath, folder: ConfinedPath): boolean => folder === "" || path === folder || path.startsWith(`${folder}/`)

/** Grants, in the order of the queue, each waiter that neither a held lease nor anyone still waiting before it excludes. */
const settle = (table: LeaseTable, now: number): Settled => {
  const granted: Array<Held> = []
  const still: Array<Waiter> = []
  for (const waiter of table.waiting) {
    if (blockerAmong(waiter.request, [...table.held, ...granted], still) !== undefined) still.push(waiter)
    else granted.push({ ticket: waiter.ticket, lease: leaseFor(table, waiter, table.fence + granted.length + 1, now) })
  }
  return { granted, table: { ...table, fence: table.fence + granted.length, held: [...table.held, ...granted], waiting: still } }
}

const blockerAmong = (wanted: LeaseRequest, held: ReadonlyArray<Held>, before: ReadonlyArray<Waiter>): Blocker | undefined => {
  const inHand = held.find(({ lease }) => conflict(wanted, lease))?.lease
  if (inHand !== undefined) return { holder: inHand.holder, kind: inHand.kind, since: inHand.since, waits: false }
  const inLine = before.find(({ request }) => conflict(wanted, request))
  return inLine && { holder: inLine.holder, kind: inLine.request.kind, since: inLine.since, waits: true }
}

const leaseFor = (table: LeaseTable, { request, holder }: Waiter, fence: number, now: number): Lease => ({
  workspaceId: table.workspaceId,
  kind: request.kind,
  paths: request.kind === "path" ? request.paths : [],
  holder,
  fence,
  since: now,
})

/**
 * The leases and waiters of all servers on one state folder, as rows of its database. Every change is one statement or one
 * short transaction, so nobody sees half of one and nothing is held over a wait.
 *
 * A row ends with its server: rows of a server that is gone are dropped by whoever they keep waiting. A waiter is granted
 * by whoever looks first once nothing keeps it, so a grant waits for nobody.
 */
import { Clock, Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { Lease, LeaseRequest } from "../schema/Lease.ts"
import { ConfinedPath, WorkspaceId } from "../schema/Workspace.ts"
import * as LeaseTable from "./LeaseTable.ts"
import { ServerIdentity } from "./ServerIdentity.ts"
import { refused } from "./StoreFault.ts"

/** A workspace as leases know it; its real root tells which folders it has in common with others. */
export interface LeasedWorkspace {
  readonly id: WorkspaceId
  readonly realRoot: string
}

/** A row: somebody who holds or waits. */
export interface Place extends LeaseTable.Entry {
  readonly lease: Lease
  /** The identity of its server. */
  readonly server: string
  /** The number under which a holder waited before. */
  readonly waitedAs: number | null
}

const Row = Schema.Struct({
  number: Schema.Int,
  waits: Schema.Int,
  waited_as: Schema.NullOr(Schema.Int),
  workspace_id: WorkspaceId,
  root: Schema.String,
  kind: Schema.Literals(["exclusive", "shared", "path"]),
  paths: Schema.fromJsonString(Schema.Array(ConfinedPath)),
  holder: Schema.String,
  server: Schema.String,
  since: Schema.Int,
})

const placeOf = (row: typeof Row.Type, self: string): Place => ({
  number: row.number,
  waits: row.waits === 1,
  waitedAs: row.waited_as,
  kind: row.kind,
  places: LeaseTable.placesOf(row.root, row.kind === "path" ? row.paths : undefined),
  server: row.server,
  lease: {
    workspaceId: row.workspace_id,
    kind: row.kind,
    paths: row.paths,
    holder: row.holder,
    server: row.server === self ? "this server" : `another server (process ${row.server.split(".")[0]})`,
    fence: row.number,
    since: row.since,
  },
})

const pathsText = Schema.encodeSync(Row.fields.paths)

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { isAlive, self } = yield* ServerIdentity

  const rows = SqlSchema.findAll({ Request: Schema.Void, Result: Row, execute: () => sql`SELECT * FROM leases ORDER BY number` })
  const read = Effect.map(rows(undefined), (found) => found.map((row) => placeOf(row, self)))

  /** Enters a request: as a holder when nothing keeps it, else at the end of the queue. */
  const enter = Effect.fnUntraced(function* (workspace: LeasedWorkspace, request: LeaseRequest, holder: string) {
    const row = {
      waited_as: null,
      workspace_id: workspace.id,
      root: workspace.realRoot,
      kind: request.kind,
      paths: request.kind === "path" ? request.paths : [],
      holder,
      server: self,
      since: yield* Clock.currentTimeMillis,
    }
    const wanted = placeOf({ ...row, number: 0, waits: 1 }, self)
    const waits = LeaseTable.blockerOf(wanted, yield* read) === undefined ? 0 : 1
    const [added] = yield* sql<{ readonly number: number }>`
      INSERT INTO leases (waits, workspace_id, root, kind, paths, holder, server, since)
      VALUES (${waits}, ${row.workspace_id}, ${row.root}, ${row.kind}, ${pathsText(row.paths)}, ${holder}, ${self}, ${row.since})
      RETURNING number`
    return placeOf({ ...row, number: added?.number ?? 0, waits }, self)
  }, sql.withTransaction)

  /** Takes out whoever entered under this number, whether it waits, holds, or is gone already. Tells whether anybody may be waiting. */
  const remove = (number: number) =>
    Effect.map(
      sql<{ readonly waiting: number | null }>`DELETE FROM leases WHERE number = ${number} OR waited_as = ${number}
        RETURNING (SELECT max(waits) FROM leases) AS waiting`,
      ([removed]) => removed === undefined || removed.waiting === 1,
    )

  const goneServers = (places: ReadonlyArray<Place>): ReadonlyArray<string> =>
    [...new Set(places.map(({ server }) => server))].filter((server) => server !== self && !isAlive(server))

  const settleNow = Effect.gen(function* () {
    const found = yield* read
    const gone = goneServers(found)
    for (const server of gone) yield* sql`DELETE FROM leases WHERE server = ${server}`
    const granted = LeaseTable.grantable(found.filter(({ server }) => !gone.includes(server)))
    const now = yield* Clock.currentTimeMillis
    for (const { number } of granted) {
      yield* sql`INSERT INTO leases (waits, waited_as, workspace_id, root, kind, paths, holder, server, since)
        SELECT 0, number, workspace_id, root, kind, paths, holder, server, ${now} FROM leases WHERE number = ${number}`
      yield* sql`DELETE FROM leases WHERE number = ${number}`
    }
    return yield* read
  }).pipe(sql.withTransaction)

  /** Drops what servers that are gone left behind while somebody waits, and grants what can be granted. Gives all rows after that. */
  const settle = Effect.gen(function* () {
    const found = yield* read
    if (!found.some(({ waits }) => waits)) return found
    return goneServers(found).length > 0 || LeaseTable.grantable(found).length > 0 ? yield* settleNow : found
  })

  /** Ends a wait: with the lease when it can be granted now, else out of the queue. Both are told with all rows. */
  const giveUp = Effect.fnUntraced(function* (number: number) {
    const places = yield* settleNow
    const granted = places.find(({ waitedAs }) => waitedAs === number)
    if (granted === undefined) yield* remove(number)
    return { granted, places }
  }, sql.withTransaction)

  /** What living servers hold in a workspace or around it, oldest first. */
  const held = (workspace: LeasedWorkspace) =>
    Effect.map(read, (found) => {
      const gone = goneServers(found)
      const all = { kind: "exclusive", places: [workspace.realRoot] } as const
      return found.filter((place) => !place.waits && LeaseTable.conflict(all, place) && !gone.includes(place.server))
    })

  return {
    enter: (workspace: LeasedWorkspace, request: LeaseRequest, holder: string) => enter(workspace, request, holder).pipe(refused),
    giveUp: (number: number) => giveUp(number).pipe(refused),
    remove: (number: number) => remove(number).pipe(refused),
    settle: settle.pipe(refused),
    held: (workspace: LeasedWorkspace) => held(workspace).pipe(refused),
    isOurs: ({ server }: Place) => server === self,
  }
})

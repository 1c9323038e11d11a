/**
 * How long the ledger keeps things: events older than `retention.operations` go, and older ones than an hour while the
 * database is larger than `retention.state_bytes`. They go from the oldest on, in small steps, each one transaction with
 * the event that says so (`LedgerCut`), so the chain stays verifiable. What is not over yet, such as a command that runs,
 * does not go: its row is carried into an event of its own (`RowCarried`). With an operation goes its key.
 */
import { Clock, Context, Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { AppConfig } from "./AppConfig.ts"
import { Ledger } from "./Ledger.ts"
import { LEDGER, LedgerCut, RowCarried } from "./LedgerEvents.ts"
import { projections } from "./Projections.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"

export class Retention extends Context.Service<
  Retention,
  {
    /** Lets go what may go now; answers how many events went. */
    readonly apply: Effect.Effect<number, StoreFailure>
  }
>()("codespace/services/Retention") {
  static readonly layer = Layer.effect(
    Retention,
    Effect.suspend(() => make),
  )
}

/** How many events one transaction removes; it keeps other writers waiting for some milliseconds. */
const STEP = 500
/** How many steps are taken at once; a backlog is gone after some rounds. */
const MOST_STEPS = 200
/** What happened in this time stays however large the database is: callers still repeat calls with their keys. */
const LEAST_AGE = Duration.toMillis("1 hour")
const FIRST_AFTER = "10 seconds"
const EVERY = "1 hour"
/** Pages that are given back to the file system after a round. */
const PAGES_GIVEN_BACK = 5000

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Ledger
  const { retention } = yield* AppConfig
  const tables = projections.flatMap((projection) => projection.tables)

  const isTooLarge = Effect.map(
    sql<{ readonly bytes: number }>`SELECT (p.page_count - f.freelist_count) * s.page_size AS bytes
      FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s`,
    ([size]) => (size?.bytes ?? 0) > retention.state_bytes,
  )

  /** Carries the rows that are needed still, and drops the others, of everything that has an event up to `through`. */
  const carry = Effect.fnUntraced(function* (through: number, before: number) {
    let carried = 0
    for (const { name, over, subject } of tables) {
      if (subject === undefined) continue
      const cut = sql`${sql(subject)} IN (SELECT subject FROM events WHERE seq <= ${through})`
      if (over !== undefined) yield* sql`DELETE FROM ${sql(name)} WHERE ${cut} AND ${sql.literal(over.replace("?", String(before)))}`
      const rows = yield* sql<Record<string, string | number | null>>`SELECT * FROM ${sql(name)} WHERE ${cut}`
      for (const row of rows) yield* ledger.append(RowCarried, String(row[subject]), { table: name, row })
      carried += rows.length
    }
    return carried
  })

  /** One step: removes at most `STEP` events older than `before`; answers by how many the ledger became shorter. */
  const step = Effect.fnUntraced(function* (before: number, reason: string) {
    const oldest = yield* sql<{ readonly seq: number; readonly at: number; readonly hash: string }>`
      SELECT seq, at, hash FROM events ORDER BY seq LIMIT ${STEP}`
    const kept = oldest.findIndex(({ at }) => at >= before)
    const events = kept === -1 ? oldest.length : kept
    const last = oldest[events - 1]
    if (last === undefined) return 0
    const carried = yield* carry(last.seq, before)
    yield* ledger.append(LedgerCut, LEDGER, { through: last.seq, hash: last.hash, events, reason })
    yield* sql`DELETE FROM events WHERE seq <= ${last.seq}`
    return events - carried - 1
  }, ledger.transaction)

  const apply = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const aged = now - Duration.toMillis(retention.operations)
    let gone = 0
    for (let steps = 0; steps < MOST_STEPS; steps += 1) {
      const byAge = yield* step(aged, "retention.operations")
      const shorter = byAge <= 0 && (yield* isTooLarge) ? yield* step(now - LEAST_AGE, "retention.state_bytes") : byAge
      if (shorter <= 0) break
      gone += shorter
      yield* Effect.yieldNow
    }
    if (gone > 0) yield* sql`PRAGMA incremental_vacuum(${sql.literal(String(PAGES_GIVEN_BACK))})`
    return gone
  })

  const applied = refused(apply)
  yield* applied.pipe(Effect.ignore({ log: true }), Effect.repeat(Schedule.spaced(EVERY)), Effect.delay(FIRST_AFTER), Effect.forkScoped)
  return Retention.of({ apply: applied })
})

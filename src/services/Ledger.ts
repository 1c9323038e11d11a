/**
 * The ledger: what happened, in order, for ever. Events are only added, each holding a hash over itself and the event
 * before it, and each together with the rows that follow from it (`EventKind`): all of it stands, or nothing.
 *
 * All servers on one state folder write one ledger; an event's `seq` is its place among all of them. It is the only way
 * to write a projection, and nothing else in the program appends to the table `events`.
 */
import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, type SqlError, SqlSchema } from "effect/sql"
import { LedgerEvent } from "../schema/Ledger.ts"
import { StoreUnavailable } from "../schema/Operation.ts"
import { Digest } from "./Digest.ts"
import type { EventKind } from "./EventKind.ts"
import { toJson } from "./JsonText.ts"
import { projections } from "./Projections.ts"
import { refused, type StoreFailure, type StoreFault } from "./StoreFault.ts"

/** Which events to read. */
export interface Wanted {
  /** Those behind this place; 0 is the beginning. */
  readonly after: number
  /** At most so many. */
  readonly limit: number
  /** Only those about this id. */
  readonly subject?: string
}

export class Ledger extends Context.Service<
  Ledger,
  {
    /** Adds an event and what follows from it. Answers with its place and time (epoch milliseconds). */
    readonly append: <Body extends Schema.JsonObject>(
      kind: EventKind<Body>,
      subject: string,
      body: NoInfer<Body>,
    ) => Effect.Effect<{ readonly seq: number; readonly at: number }, StoreFailure>
    /**
     * Makes reads and appends one: what was read still holds when an event is appended, whichever server writes, and all of
     * its appends stand or none. One at a time; so nothing that waits belongs into it. May be nested.
     */
    readonly transaction: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, Exclude<E, StoreFault> | StoreFailure, R>
    /** Events in order. A cursor is the `seq` of the last event seen. */
    readonly read: (wanted: Wanted) => Effect.Effect<ReadonlyArray<LedgerEvent>, StoreFailure>
    /** The place of the newest event; 0 when there is none. */
    readonly newest: Effect.Effect<number, StoreFailure>
    /**
     * Empties all projections and fills them again from the events alone. Answers how many events were read. An event that
     * cannot be read, or that this version does not know, fails it by its place, and all is as it was.
     */
    readonly rebuild: Effect.Effect<number, StoreFailure>
  }
>()("codespace/services/Ledger") {
  static readonly layer = Layer.effect(
    Ledger,
    Effect.suspend(() => make),
  )
}

/** What an event's hash is taken over. */
export const chained = (before: string, { at, event, subject }: Pick<LedgerEvent, "at" | "event" | "subject">, body: string): string =>
  [before, String(at), subject, event, body].join("\n")

const EventRow = Schema.Struct({ ...LedgerEvent.fields, body: Schema.fromJsonString(LedgerEvent.fields.body) })
/** How many events are read at once where all are. */
const PAGE = 1000

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const digest = yield* Digest
  const kinds = new Map(projections.flatMap((projection) => projection.kinds.map((kind) => [kind.name, kind] as const)))

  /** Joins the transaction it stands in; else it is one itself. */
  const joined = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.withFiber<A, E | SqlError.SqlError, R>((fiber) =>
      Option.isSome(Context.getOption(fiber.context, sql.transactionService)) ? effect : sql.withTransaction(effect),
    )

  const append = Effect.fnUntraced(function* <Body extends Schema.JsonObject>(kind: EventKind<Body>, subject: string, body: Body) {
    const at = yield* Clock.currentTimeMillis
    const [last] = yield* sql<{ readonly hash: string }>`SELECT hash FROM events ORDER BY seq DESC LIMIT 1`
    const text = toJson(body)
    const hash = digest.sha256(chained(last?.hash ?? "", { at, subject, event: kind.name }, text))
    const [added] = yield* sql<{ readonly seq: number }>`INSERT INTO events (at, subject, event, body, hash)
      VALUES (${at}, ${subject}, ${kind.name}, ${text}, ${hash}) RETURNING seq`
    const seq = added?.seq ?? 0
    yield* kind.project(sql, { seq, at, subject, body })
    return { seq, at }
  }, joined)

  const page = SqlSchema.findAll({
    Request: Schema.Struct({ after: Schema.Int, limit: Schema.Int }),
    Result: EventRow,
    execute: ({ after, limit }) => sql`SELECT * FROM events WHERE seq > ${after} ORDER BY seq LIMIT ${limit}`,
  })
  const pageOf = SqlSchema.findAll({
    Request: Schema.Struct({ after: Schema.Int, limit: Schema.Int, subject: Schema.String }),
    Result: EventRow,
    execute: ({ after, limit, subject }) =>
      sql`SELECT * FROM events WHERE subject = ${subject} AND seq > ${after} ORDER BY seq LIMIT ${limit}`,
  })

  const project = Effect.fnUntraced(function* (entry: LedgerEvent) {
    const kind = kinds.get(entry.event)
    const unreadable = new StoreUnavailable({ cause: `event ${entry.seq} (${entry.event}) cannot be read by this version` })
    if (kind === undefined) return yield* unreadable
    const body = yield* Effect.mapError(Schema.decodeUnknownEffect(kind.body)(entry.body), () => unreadable)
    yield* kind.project(sql, { ...entry, body })
  })

  const rebuild = Effect.gen(function* () {
    for (const { name } of projections.flatMap(({ tables }) => tables)) yield* sql`DELETE FROM ${sql(name)}`
    for (let after = 0, read = 0; ; ) {
      const entries = yield* page({ after, limit: PAGE })
      for (const entry of entries) yield* project(entry)
      read += entries.length
      after = entries.at(-1)?.seq ?? after
      if (entries.length < PAGE) return read
    }
  }).pipe(joined)

  return Ledger.of({
    append: (kind, subject, body) => refused(append(kind, subject, body)),
    transaction: (effect) => refused(joined(effect)),
    read: ({ subject, ...wanted }) => refused(subject === undefined ? page(wanted) : pageOf({ ...wanted, subject })),
    newest: refused(
      Effect.map(sql<{ readonly seq: number }>`SELECT seq FROM events ORDER BY seq DESC LIMIT 1`, ([last]) => last?.seq ?? 0),
    ),
    rebuild: refused(rebuild),
  })
})

/** What can happen to the ledger itself. Its events stand under this subject, save those that carry the row of another. */
import { Effect, Schema } from "effect"
import { eventKind, type Projection } from "./EventKind.ts"

export const LEDGER = "ledger"

/** A new ledger was begun on purpose, after the file that had the one before was damaged and set aside under this name. */
export const LedgerBegan = eventKind("LedgerBegan", Schema.Struct({ after: Schema.String }), () => Effect.void)

/**
 * The oldest events were removed, up to `through`, whose hash stands here: the first event that remains continues it, so the
 * chain can still be verified, and a cut that nobody recorded is seen.
 */
export const LedgerCut = eventKind(
  "LedgerCut",
  Schema.Struct({ through: Schema.Int, hash: Schema.String, events: Schema.Int, reason: Schema.String }),
  (sql, { body }) => sql`INSERT OR REPLACE INTO ledger_start (id, through, hash) VALUES (1, ${body.through}, ${body.hash})`,
)

/** A row whose events were removed while it was still needed. Stands in for them: it has all that they had brought about. */
export const RowCarried = eventKind(
  "RowCarried",
  Schema.Struct({
    table: Schema.String,
    row: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Number, Schema.Null])),
  }),
  (sql, { body }) => sql`INSERT OR REPLACE INTO ${sql(body.table)} ${sql.insert({ ...body.row })}`,
)

export const ledgerProjection: Projection = {
  tables: [{ name: "ledger_start" }],
  kinds: [LedgerBegan, LedgerCut, RowCarried],
}

/** The ledger as it is read, exported and verified: one event after the other, each hashed with the one before it. */
import { Schema } from "effect"

export const LedgerEvent = Schema.Struct({
  seq: Schema.Int.annotate({ description: "Its place in the ledger, counted from 1 without gaps; as a cursor, the place behind it" }),
  at: Schema.Int.annotate({ description: "Epoch milliseconds" }),
  subject: Schema.String.annotate({ description: "The id of what it is about: an operation, an approval, a work" }),
  event: Schema.String.annotate({ description: "What happened, in the past tense" }),
  body: Schema.Record(Schema.String, Schema.Json),
  hash: Schema.String.annotate({
    description: "SHA-256, in hex, of five lines: the hash before it (empty for the first), at, subject, event, and body as JSON",
  }),
})
export type LedgerEvent = typeof LedgerEvent.Type

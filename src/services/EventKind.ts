/**
 * What may stand in the ledger. An event kind says what such an event carries and what follows from it: which rows of which
 * tables change. Those tables are projections: nothing but events writes to them, so the events alone give them back.
 */
import type { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"

/** An event that has its place in the ledger. */
export interface Entry<Body> {
  readonly seq: number
  /** Epoch milliseconds. */
  readonly at: number
  readonly subject: string
  readonly body: Body
}

export interface EventKind<Body extends Schema.JsonObject> {
  /** In the past tense, one name for ever: `OperationStarted`. */
  readonly name: string
  /** Read again when projections are rebuilt, perhaps years later: add optional fields, never change one. */
  readonly body: Schema.Codec<Body, Body>
  /** Its rows. Depends on the entry and on rows of the same projection alone: no clock, no chance, no configuration. */
  readonly project: (sql: SqlClient.SqlClient, entry: Entry<Body>) => Effect.Effect<unknown, SqlError.SqlError>
}

/** A table of a projection, and what retention may do to it. */
export interface ProjectionTable {
  readonly name: string
  /** The column with the subject's id. A table without one is small and stays whole. */
  readonly subject?: string
  /** The condition, in SQL, under which a row may go with its events; `?` stands for the time (epoch milliseconds) up to which they go. */
  readonly over?: string
}

/** Tables and the event kinds that write them. */
export interface Projection {
  readonly tables: ReadonlyArray<ProjectionTable>
  // biome-ignore lint/suspicious/noExplicitAny: kinds of different bodies stand in one list; each decodes its own before it projects
  readonly kinds: ReadonlyArray<EventKind<any>>
}

export const eventKind = <Body extends Schema.JsonObject>(
  name: string,
  body: Schema.Codec<Body, Body>,
  project: EventKind<Body>["project"],
): EventKind<Body> => ({ name, body, project })

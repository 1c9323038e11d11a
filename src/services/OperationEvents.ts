/** What can happen to an operation, and the row of `operations` that follows from it. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type OperationState, RefusalRecord } from "../schema/Operation.ts"
import { type Entry, eventKind, type Projection } from "./EventKind.ts"
import { toJson } from "./JsonText.ts"

const JsonObject = Schema.Record(Schema.String, Schema.Json)

export const Started = Schema.Struct({
  kind: Schema.String,
  workspace_id: Schema.String,
  caller: Schema.String,
  fingerprint: Schema.String,
  check_only: Schema.Boolean,
  operation_key: Schema.optionalKey(Schema.String),
  server: Schema.String,
})

export const Ended = Schema.Struct({
  result: Schema.optionalKey(JsonObject),
  refusal: Schema.optionalKey(RefusalRecord),
  process_id: Schema.optionalKey(Schema.String),
  /** Why, where neither result nor refusal says it. */
  reason: Schema.optionalKey(Schema.String),
})

const orNull = (value: unknown) => (value === undefined ? null : toJson(value))

/** An operation comes into being. A key belongs to the newest that has it; the store begins one only where the key is free. */
const comesIn = (name: string, state: OperationState) =>
  eventKind(name, Started, (sql: SqlClient.SqlClient, { at, body, subject }: Entry<typeof Started.Type>) => {
    const insert = sql`INSERT INTO operations
      (operation_id, operation_key, caller, workspace_id, kind, fingerprint, check_only, state, server, created_at)
      VALUES (${subject}, ${body.operation_key ?? null}, ${body.caller}, ${body.workspace_id}, ${body.kind}, ${body.fingerprint},
        ${body.check_only ? 1 : 0}, ${state}, ${body.server}, ${at})`
    return body.operation_key === undefined
      ? insert
      : Effect.andThen(
          sql`UPDATE operations SET operation_key = NULL
            WHERE caller = ${body.caller} AND workspace_id = ${body.workspace_id} AND operation_key = ${body.operation_key}`,
          insert,
        )
  })

/** A held operation runs at last, in this server. */
const OperationResumed = eventKind(
  "OperationResumed",
  Schema.Struct({ server: Schema.String }),
  (sql, { body, subject }) => sql`UPDATE operations SET state = 'running', server = ${body.server} WHERE operation_id = ${subject}`,
)

/** An event after which the operation is in that state. */
const comesTo = (name: string, state: OperationState) =>
  eventKind(
    name,
    Ended,
    (sql: SqlClient.SqlClient, { at, body, subject }: Entry<typeof Ended.Type>) => sql`UPDATE operations SET state = ${state},
      finished_at = ${state === "running" ? null : at},
      process_id = coalesce(${body.process_id ?? null}, process_id),
      result = ${orNull(body.result)},
      refusal = ${orNull(body.refusal)},
      reason = ${body.reason ?? null}
      WHERE operation_id = ${subject}`,
  )

/** Its process goes on without the server that began it, and another one follows it now. */
const OperationAdopted = eventKind(
  "OperationAdopted",
  Schema.Struct({ server: Schema.String }),
  (sql, { body, subject }) => sql`UPDATE operations SET server = ${body.server} WHERE operation_id = ${subject}`,
)

/** The event that brings an operation into a state, or to another server. */
export const operationEvents = {
  started: comesIn("OperationStarted", "running"),
  held: comesIn("OperationHeld", "held"),
  resumed: OperationResumed,
  denied: comesTo("OperationDenied", "denied"),
  adopted: OperationAdopted,
  running: comesTo("ProcessStarted", "running"),
  done: comesTo("OperationFinished", "done"),
  failed: comesTo("OperationFailed", "failed"),
  cancelled: comesTo("OperationCancelled", "cancelled"),
  interrupted: comesTo("OperationInterrupted", "interrupted"),
} as const

export const operationProjection: Projection = {
  tables: [{ name: "operations", subject: "operation_id", over: "finished_at < ?" }],
  kinds: Object.values(operationEvents),
}

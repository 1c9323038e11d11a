/** What can happen to a work and its instructions, and the rows that follow. Every event is about its work. */
import { Effect, Schema } from "effect"
import { InstructionEnd } from "../schema/Work.ts"
import { eventKind, type Projection } from "./EventKind.ts"

const ofInstruction = { instruction_id: Schema.String }

const WorkOpened = eventKind(
  "WorkOpened",
  Schema.Struct({
    workspace_id: Schema.String,
    caller: Schema.String,
    title: Schema.optionalKey(Schema.String),
    operation_key: Schema.optionalKey(Schema.String),
  }),
  (sql, { at, body, seq, subject }) => sql`INSERT INTO works (number, work_id, workspace_id, caller, title, operation_key, state, opened_at)
    VALUES (${seq}, ${subject}, ${body.workspace_id}, ${body.caller}, ${body.title ?? null}, ${body.operation_key ?? null}, 'open', ${at})`,
)

const WorkFinished = eventKind(
  "WorkFinished",
  Schema.Struct({ caller: Schema.String }),
  (sql, { at, subject }) => sql`UPDATE works SET state = 'closed', closed_at = ${at} WHERE work_id = ${subject}`,
)

const Drafted = eventKind(
  "InstructionDrafted",
  Schema.Struct({ ...ofInstruction, text: Schema.String }),
  (sql, { at, body, subject }) => sql`INSERT INTO instructions (instruction_id, work_id, state, text, drafted_at, deliveries)
    VALUES (${body.instruction_id}, ${subject}, 'draft', ${body.text}, ${at}, 0)`,
)

const Edited = eventKind(
  "InstructionEdited",
  Schema.Struct({ ...ofInstruction, text: Schema.String }),
  (sql, { body }) => sql`UPDATE instructions SET text = ${body.text} WHERE instruction_id = ${body.instruction_id}`,
)

/** Its place in the queue is the place of this event in the ledger, and stays so when a claim runs out. */
const Queued = eventKind(
  "InstructionQueued",
  Schema.Struct(ofInstruction),
  (sql, { at, body, seq }) =>
    sql`UPDATE instructions SET state = 'queued', position = ${seq}, queued_at = ${at} WHERE instruction_id = ${body.instruction_id}`,
)

const Cancelled = eventKind(
  "InstructionCancelled",
  Schema.Struct(ofInstruction),
  (sql, { at, body }) => sql`UPDATE instructions SET state = 'cancelled', ended_at = ${at} WHERE instruction_id = ${body.instruction_id}`,
)

const Claimed = eventKind(
  "InstructionClaimed",
  Schema.Struct({
    ...ofInstruction,
    caller: Schema.String,
    /** The server it was handed out by, which tells its claimant from another of the same name. */
    server: Schema.String,
    lease_ms: Schema.Int,
    operation_key: Schema.optionalKey(Schema.String),
  }),
  (sql, { at, body, subject }) => {
    const update = sql`UPDATE instructions SET state = 'claimed', deliveries = deliveries + 1, claimed_by = ${body.caller},
      server = ${body.server}, claimed_until = ${at + body.lease_ms} WHERE instruction_id = ${body.instruction_id}`
    return body.operation_key === undefined
      ? update
      : Effect.andThen(
          update,
          sql`INSERT INTO claims (work_id, caller, operation_key, instruction_id)
            VALUES (${subject}, ${body.caller}, ${body.operation_key}, ${body.instruction_id})`,
        )
  },
)

/** The loop that has it asked for it again. */
const Kept = eventKind(
  "InstructionKept",
  Schema.Struct({ ...ofInstruction, server: Schema.String, lease_ms: Schema.Int }),
  (sql, { at, body }) => sql`UPDATE instructions SET claimed_until = ${at + body.lease_ms}, server = ${body.server}
    WHERE instruction_id = ${body.instruction_id}`,
)

/** The time of its claim was over, so it waits again in its old place. */
const Returned = eventKind(
  "InstructionReturned",
  Schema.Struct(ofInstruction),
  (sql, { body }) =>
    sql`UPDATE instructions SET state = 'queued', claimed_by = NULL, claimed_until = NULL WHERE instruction_id = ${body.instruction_id}`,
)

const Completed = eventKind(
  "InstructionCompleted",
  Schema.Struct({ ...ofInstruction, caller: Schema.String, status: InstructionEnd, note: Schema.optionalKey(Schema.String) }),
  (sql, { at, body }) =>
    sql`UPDATE instructions SET state = ${body.status}, claimed_by = ${body.caller}, claimed_until = NULL, ended_at = ${at}, note = ${body.note ?? null}
      WHERE instruction_id = ${body.instruction_id}`,
)

export const workEvents = { WorkOpened, WorkFinished, Drafted, Edited, Queued, Cancelled, Claimed, Kept, Returned, Completed } as const

export const workProjection: Projection = {
  // What belongs to a work goes after it.
  tables: [
    { name: "works", subject: "work_id", over: "closed_at < ?" },
    { name: "instructions", subject: "work_id", over: "work_id NOT IN (SELECT work_id FROM works)" },
    { name: "claims", subject: "work_id", over: "work_id NOT IN (SELECT work_id FROM works)" },
  ],
  kinds: Object.values(workEvents),
}

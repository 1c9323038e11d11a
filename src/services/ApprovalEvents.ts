/**
 * What can happen to an approval, and the rows that follow. The subject of its events is the operation that is held, so
 * that the operation's own history tells of it; a remembered grant is a subject of its own.
 */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type ApprovalState, Hold } from "../schema/Approval.ts"
import { type Entry, eventKind, type Projection } from "./EventKind.ts"
import { toJson } from "./JsonText.ts"

const Asked = Schema.Struct({
  approval_id: Schema.String,
  workspace_id: Schema.String,
  caller: Schema.String,
  fingerprint: Schema.String,
  expires_at: Schema.Int,
  hold: Hold,
})

export const Decided = Schema.Struct({
  approval_id: Schema.String,
  /** Who, in words of the operator's side; absent where time decided, or the run it allowed. */
  by: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
})

const asked = eventKind(
  "ApprovalAsked",
  Asked,
  (sql, { at, body, subject }) => sql`INSERT INTO approvals
    (approval_id, operation_id, workspace_id, caller, fingerprint, state, hold, created_at, expires_at)
    VALUES (${body.approval_id}, ${subject}, ${body.workspace_id}, ${body.caller}, ${body.fingerprint}, 'pending',
      ${toJson(body.hold)}, ${at}, ${body.expires_at})`,
)

/** A person's decision is kept where the one run it allowed, or time, comes after it. */
const comesTo = (name: string, state: ApprovalState) =>
  eventKind(
    name,
    Decided,
    (sql: SqlClient.SqlClient, { at, body }: Entry<typeof Decided.Type>) => sql`UPDATE approvals SET state = ${state},
      decided_at = coalesce(decided_at, ${at}),
      decided_by = coalesce(decided_by, ${body.by ?? null}),
      reason = coalesce(reason, ${body.reason ?? null})
      WHERE approval_id = ${body.approval_id}`,
  )

const remembered = eventKind(
  "GrantRemembered",
  Schema.Struct({ workspace_id: Schema.String, argv: Schema.Array(Schema.String), by: Schema.String }),
  (sql, { at, body, subject }) => sql`INSERT INTO grants (grant_id, workspace_id, argv, granted_by, created_at)
    VALUES (${subject}, ${body.workspace_id}, ${toJson(body.argv)}, ${body.by}, ${at})`,
)

const revoked = eventKind("GrantRevoked", Schema.Struct({ by: Schema.String }), (sql, { subject }) =>
  Effect.asVoid(sql`DELETE FROM grants WHERE grant_id = ${subject}`),
)

export const approvalEvents = {
  asked,
  granted: comesTo("ApprovalGranted", "granted"),
  denied: comesTo("ApprovalDenied", "denied"),
  expired: comesTo("ApprovalExpired", "expired"),
  consumed: comesTo("ApprovalConsumed", "consumed"),
  remembered,
  revoked,
} as const

export const approvalProjection: Projection = {
  tables: [
    { name: "approvals", subject: "operation_id", over: "state NOT IN ('pending', 'granted') AND coalesce(decided_at, expires_at) < ?" },
    { name: "grants", subject: "grant_id" },
  ],
  kinds: Object.values(approvalEvents),
}

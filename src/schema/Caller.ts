/** Callers over HTTP: what the operator lets each of them do. */
import { Schema } from "effect"

/** As `codespace token create` takes it. `local` is the user of this machine over stdio, whom nobody can be over HTTP. */
export const CallerName = Schema.String.check(
  Schema.isPattern(/^(?!local$)[A-Za-z0-9._-]{1,64}$/u, {
    expected: '1 to 64 letters, digits, dots, dashes or underscores, and not "local"',
  }),
)

/** What a caller may do. */
export const Rights = Schema.Struct({
  /** Workspaces it may use; absent means every registered one. */
  workspaces: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The name of the highest profile it may use; absent when each workspace's own counts. */
  highest: Schema.optionalKey(Schema.String),
  /** The operator says that a person answers its client's own prompts. */
  trust_prompts: Schema.Boolean,
})
export type Rights = typeof Rights.Type

/** By what a caller is known: a token of this server, its name at the OAuth issuer, or a login that the operator agreed to. */
export const KnownBy = Schema.Literals(["token", "issuer", "login"])
export type KnownBy = typeof KnownBy.Type

export const CallerRecord = Schema.Struct({
  name: Schema.String,
  ...Rights.fields,
  known_by: KnownBy,
  /** Its name at the issuer. */
  subject: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds. */
  created_at: Schema.Int,
})
export type CallerRecord = typeof CallerRecord.Type

export class CallerExists extends Schema.TaggedError<CallerExists>()("CallerExists", { name: Schema.String, what: Schema.String }) {
  override get message() {
    return `there is a caller "${this.name}" already ${this.what}; revoke it first, or replace it`
  }
}

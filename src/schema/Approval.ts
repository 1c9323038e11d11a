/** Approvals: calls that are held for a person, what that person is shown, and the refusals about them. */
import { Schema } from "effect"
import { FileChange } from "./Patch.ts"

export const ApprovalId = Schema.String.check(Schema.isPattern(/^apr_[0-9a-z]+$/u)).pipe(Schema.brand("ApprovalId"))
export type ApprovalId = typeof ApprovalId.Type

/** `pending` until somebody decides or it expires; a granted one is `consumed` by the one run it allows. */
export const ApprovalState = Schema.Literals(["pending", "granted", "denied", "expired", "consumed"])
export type ApprovalState = typeof ApprovalState.Type

const optional = Schema.optionalKey

/** The whole of what would happen, as a person is shown it. */
export const ShownCall = Schema.Struct({
  kind: Schema.String.annotate({ description: "The tool that was called" }),
  profile: Schema.String,
  rule: Schema.String.annotate({ description: "Why it is held" }),
  reason: optional(Schema.String.annotate({ description: "What the caller said it is for" })),
  changes: optional(Schema.Array(FileChange)),
  diff: optional(Schema.String.annotate({ description: "Unified diff; a note says how much of a long one is left out" })),
  command: optional(Schema.Array(Schema.String)),
  script: optional(Schema.String),
  cwd: optional(Schema.String),
  env: optional(Schema.Array(Schema.String).annotate({ description: "Names of the variables the caller sets" })),
  stdin: optional(Schema.String.annotate({ description: "What the command is given to read" })),
  access: optional(Schema.String),
  notes: optional(Schema.Array(Schema.String)),
  digest: Schema.String.annotate({ description: "SHA-256 over the stored arguments and every version before and after, shown or cut" }),
})
export type ShownCall = typeof ShownCall.Type

/** What is held: enough to run it once, and to see whether the ground has changed since. */
export const Hold = Schema.Struct({
  input: Schema.JsonObject,
  shown: ShownCall,
  /** What it would do, in a few words. */
  subject: Schema.String,
  /** Of the files that the words of a command name, by path. */
  versions: Schema.Record(Schema.String, Schema.String),
})
export type Hold = typeof Hold.Type

export const Approval = Schema.Struct({
  approval_id: ApprovalId,
  operation_id: Schema.String,
  workspace_id: Schema.String,
  caller: Schema.String,
  state: ApprovalState,
  created_at: Schema.String,
  expires_at: Schema.String,
  decided_at: optional(Schema.String),
  decided_by: optional(Schema.String),
  decision_reason: optional(Schema.String),
  shown: ShownCall,
})
export type Approval = typeof Approval.Type

/** Commands that need no person any more, in one workspace. */
export const Grant = Schema.Struct({
  grant_id: Schema.String,
  workspace_id: Schema.String,
  argv: Schema.Array(Schema.String).annotate({ description: "The words a command has to begin with, each a whole word" }),
  granted_by: Schema.String,
  created_at: Schema.String,
})
export type Grant = typeof Grant.Type

export class ApprovalRequired extends Schema.TaggedError<ApprovalRequired>()("APPROVAL_REQUIRED", {
  approval_id: Schema.String,
  operation_id: Schema.String,
  expires_at: Schema.String,
  rule: Schema.String,
  subject: Schema.String,
}) {
  readonly retry = "await_operator"
  override get message() {
    return (
      `${this.subject} is held for a person (${this.rule}); nothing has run. The operator decides with "codespace approvals grant ${this.approval_id}" or deny, ` +
      `until ${this.expires_at}. Go on with other work; after a grant call operation_resume with ${this.approval_id}, which runs it once.`
    )
  }
}

const conflictWords: Readonly<Record<string, string>> = {
  pending: "is still open",
  granted: "is granted already",
  denied: "was denied",
  expired: "expired: nobody decided in time, which is no refusal by anybody",
  consumed: "was used already",
}

export class ApprovalConflict extends Schema.TaggedError<ApprovalConflict>()("APPROVAL_CONFLICT", {
  approval_id: Schema.String,
  state: ApprovalState,
  reason: optional(Schema.String),
}) {
  readonly retry = "never"
  override get message() {
    const reason = this.reason === undefined ? "" : ` (${this.reason})`
    const next = this.state === "expired" ? " To ask anew, call the tool again, with a new operation_key if it had one." : ""
    return `${this.approval_id} ${conflictWords[this.state]}${reason}. Nothing was run by this call.${next}`
  }
}

export class ApprovalStale extends Schema.TaggedError<ApprovalStale>()("APPROVAL_STALE", {
  approval_id: Schema.String,
  paths: Schema.Array(Schema.String),
}) {
  readonly retry = "change_request"
  override get message() {
    return `what ${this.approval_id} was granted for is no longer what was shown: ${this.paths.join(", ")} changed since. Nothing was run. Read again and make a new call.`
  }
}

export class ApprovalNotFound extends Schema.TaggedError<ApprovalNotFound>()("APPROVAL_NOT_FOUND", { approval_id: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `no approval "${this.approval_id}" is known for this caller.`
  }
}

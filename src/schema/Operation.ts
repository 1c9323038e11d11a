/** Operations: recorded calls, their keys and states, and the refusals about them. */
import { Schema } from "effect"
import { FileChange } from "./Patch.ts"

export const OperationId = Schema.String.check(Schema.isPattern(/^op_[0-9a-z]+$/u)).pipe(Schema.brand("OperationId"))
export type OperationId = typeof OperationId.Type

export const OperationKey = Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,128}$/u)).annotate({
  description: "Your name for this call: repeated with it, it runs only once",
})
export type OperationKey = typeof OperationKey.Type

export const OperationState = Schema.Literals(["held", "running", "done", "failed", "denied", "cancelled", "interrupted"])
export type OperationState = typeof OperationState.Type

export const OperationEvent = Schema.Struct({
  at: Schema.String,
  event: Schema.String,
  detail: Schema.optionalKey(Schema.String),
})
export type OperationEvent = typeof OperationEvent.Type

/** A refusal in machine form, as a result's `_meta` and a record carry it. */
export const RefusalRecord = Schema.Struct({
  code: Schema.String,
  message: Schema.String,
  retry: Schema.String,
  details: Schema.Record(Schema.String, Schema.Json),
})
export type RefusalRecord = typeof RefusalRecord.Type

export const OperationStatus = Schema.Struct({
  operation_id: Schema.String,
  operation_key: Schema.optionalKey(Schema.String),
  kind: Schema.String.annotate({ description: "The tool that was called" }),
  workspace_id: Schema.String,
  state: OperationState,
  created_at: Schema.String,
  finished_at: Schema.optionalKey(Schema.String),
  result: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  refusal: Schema.optionalKey(RefusalRecord),
  changes: Schema.Array(FileChange),
  process_id: Schema.optionalKey(Schema.String),
  events: Schema.Array(OperationEvent),
})
export type OperationStatus = typeof OperationStatus.Type

/** An operation as a list shows it. */
export const OperationSummary = Schema.Struct({
  operation_id: Schema.String,
  operation_key: Schema.optionalKey(Schema.String),
  kind: Schema.String.annotate({ description: "The tool that was called" }),
  workspace_id: Schema.String,
  caller: Schema.String,
  state: OperationState,
  created_at: Schema.String,
  finished_at: Schema.optionalKey(Schema.String),
  process_id: Schema.optionalKey(Schema.String),
  refusal: Schema.optionalKey(Schema.String.annotate({ description: "Its code" })),
  reason: Schema.optionalKey(Schema.String.annotate({ description: "Why it is in its state, where neither result nor refusal says it" })),
  server_gone: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "It ran in a server that is gone; the next server with its workspace settles it" }),
  ),
})
export type OperationSummary = typeof OperationSummary.Type

const { caller: _caller, server_gone: _gone, ...ownFields } = OperationSummary.fields
/** The same for its own caller, to whom nothing is listed before it is settled. */
export const OperationLine = Schema.Struct(ownFields)
export type OperationLine = typeof OperationLine.Type

export const OperationList = Schema.Struct({
  operations: Schema.Array(OperationLine),
  truncated: Schema.Boolean,
  cursor: Schema.optionalKey(Schema.String),
  unreadable: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({
      description: "Operations of this page whose record cannot be read; the ledger has their events",
    }),
  ),
})
export type OperationList = typeof OperationList.Type

export class OperationNotFound extends Schema.TaggedError<OperationNotFound>()("OPERATION_NOT_FOUND", { asked: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `no operation "${this.asked}" is recorded for this caller. A call that was never recorded did not run.`
  }
}

export class OperationKeyConflict extends Schema.TaggedError<OperationKeyConflict>()("OPERATION_KEY_CONFLICT", {
  operation_key: Schema.String,
  operation_id: Schema.String,
  kind: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `operation_key "${this.operation_key}" belongs to ${this.operation_id} (${this.kind}) with other arguments. Nothing was run. Use a new key.`
  }
}

export class CheckOnlyConflict extends Schema.TaggedError<CheckOnlyConflict>()("CHECK_ONLY_CONFLICT", {
  operation_key: Schema.String,
  operation_id: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `operation_key "${this.operation_key}" was used by ${this.operation_id} for the same call with the other check_only. Nothing was run. Use a new key.`
  }
}

export class InvalidArguments extends Schema.TaggedError<InvalidArguments>()("INVALID_ARGUMENTS", {
  problems: Schema.Array(Schema.String),
}) {
  readonly retry = "change_request"
  override get message() {
    return this.problems.join("; ") || "the arguments do not fit"
  }
}

/** The part named is down or full; nothing acknowledged is lost. */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("STORE_UNAVAILABLE", {
  cause: Schema.String,
  operation_id: Schema.optionalKey(Schema.String.annotate({ description: "Set when the call had begun" })),
}) {
  readonly retry = "later"
  override get message() {
    return `the record store cannot be used: ${this.cause}. ${
      this.operation_id === undefined ? "Nothing was run." : `${this.operation_id} had begun; look at what it named before you repeat it.`
    }`
  }
}

export class RunnerUnavailable extends Schema.TaggedError<RunnerUnavailable>()("RUNNER_UNAVAILABLE", { cause: Schema.String }) {
  readonly retry = "later"
  override get message() {
    return `the workspace side failed: ${this.cause}. Ask operation_status before you repeat a change.`
  }
}

export class StorageFull extends Schema.TaggedError<StorageFull>()("STORAGE_FULL", { where: Schema.String }) {
  readonly retry = "later"
  override get message() {
    return `no space is left on the disk of ${this.where}. Nothing acknowledged is lost. Free space, then repeat.`
  }
}

export class Internal extends Schema.TaggedError<Internal>()("INTERNAL", { reference: Schema.String }) {
  readonly retry = "ask_status"
  override get message() {
    return `a defect of the server (reference ${this.reference} in its log). Ask operation_status before you repeat a change.`
  }
}

/** The call was cancelled by its client before it ended, or cut by something else that `cause` names. */
export class Cancelled extends Schema.TaggedError<Cancelled>()("CANCELLED", {
  operation_id: Schema.optionalKey(Schema.String),
  cause: Schema.optionalKey(Schema.String),
}) {
  readonly retry = "ask_status"
  override get message() {
    return `the call was ${this.cause === undefined ? "cancelled" : `cut: ${this.cause}`}${this.operation_id ? ` (${this.operation_id})` : ""}. Ask operation_status for what it did.`
  }
}

/** Patches: the parsed text, the planned change, the result on the wire, and why a patch is refused. */
import { Schema } from "effect"
import { Version } from "./Files.ts"
import { excerpt } from "./Retry.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const ChangeKind = Schema.Literals(["add", "update", "delete", "move"])
export type ChangeKind = typeof ChangeKind.Type

export const FileChange = Schema.Struct({
  path: Schema.String,
  from: Schema.optionalKey(Schema.String.annotate({ description: "Where a moved file was" })),
  kind: ChangeKind,
  before: Version,
  after: Version,
  added: Count.annotate({ description: "Lines added" }),
  removed: Count.annotate({ description: "Lines removed" }),
})
export type FileChange = typeof FileChange.Type

export const PatchStatus = Schema.Literals(["checked", "applied", "rejected", "failed_rolled_back", "failed_partial", "unknown"])
export type PatchStatus = typeof PatchStatus.Type

/** What a transaction reports; the gate adds `operation_id`. */
export const PatchResult = Schema.Struct({
  operation_id: Schema.String,
  status: PatchStatus,
  changes: Schema.Array(FileChange),
  diff: Schema.optionalKey(Schema.String.annotate({ description: "Unified diff of the change, with check_only" })),
  notes: Schema.optionalKey(Schema.Array(Schema.String)),
})
export type PatchResult = typeof PatchResult.Type

/** Expected versions by path. */
export const ExpectedVersions = Schema.Record(Schema.String, Version).annotate({
  description: "Path to the version it must have now; absent for a path that must not exist",
})

export class InvalidPatch extends Schema.TaggedError<InvalidPatch>()("INVALID_PATCH", {
  line: Schema.Int,
  found: Schema.String,
  wanted: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `line ${this.line} of the patch: found ${JSON.stringify(excerpt(this.found, 120))}, wanted ${this.wanted}. Nothing was changed.`
  }
}

export class ContextNotFound extends Schema.TaggedError<ContextNotFound>()("CONTEXT_NOT_FOUND", {
  path: Schema.String,
  hunk: Schema.Int,
  wanted: Schema.String,
  wanted_line: Schema.optionalKey(Schema.Int),
  found: Schema.optionalKey(Schema.String),
  file_line: Schema.optionalKey(Schema.Int),
  nearest_line: Schema.optionalKey(Schema.Int),
}) {
  readonly retry = "change_request"
  override get message() {
    const place =
      this.nearest_line === undefined
        ? "No similar place was found."
        : `The nearest place starts at line ${this.nearest_line}; line ${this.file_line} there is ${JSON.stringify(excerpt(this.found ?? "", 120))}.`
    return (
      `hunk ${this.hunk} does not fit "${this.path}": wanted ${JSON.stringify(excerpt(this.wanted, 120))}. ${place} ` +
      "Nothing was changed. Read the file again and patch what is there."
    )
  }
}

export class ContextAmbiguous extends Schema.TaggedError<ContextAmbiguous>()("CONTEXT_AMBIGUOUS", {
  path: Schema.String,
  hunk: Schema.Int,
  lines: Schema.Array(Schema.Int),
}) {
  readonly retry = "change_request"
  override get message() {
    const shown = this.lines.slice(0, 20).join(", ")
    return (
      `hunk ${this.hunk} fits "${this.path}" at ${this.lines.length} places (lines ${shown}${this.lines.length > 20 ? ", …" : ""}). ` +
      "Nothing was changed. Add context lines, or an @@ anchor before the one you mean."
    )
  }
}

export class AddFileExists extends Schema.TaggedError<AddFileExists>()("ADD_FILE_EXISTS", {
  path: Schema.String,
  version: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" already exists (version ${this.version}). Nothing was changed. Update it, or delete it in the same patch first.`
  }
}

export class MoveDestinationExists extends Schema.TaggedError<MoveDestinationExists>()("MOVE_DESTINATION_EXISTS", {
  path: Schema.String,
  destination: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" cannot move to "${this.destination}": something is there. Nothing was changed.`
  }
}

export class VersionConflict extends Schema.TaggedError<VersionConflict>()("VERSION_CONFLICT", {
  path: Schema.String,
  expected: Schema.String,
  current: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" has version ${this.current}, not ${this.expected}. Nothing was changed. Read it again before you change it.`
  }
}

/** A transaction that did not end as planned; what was on disk is back unless `status` says otherwise. */
export class PatchFailed extends Schema.TaggedError<PatchFailed>()("VERIFY_FAILED", {
  status: PatchStatus,
  cause: Schema.String,
  paths: Schema.Array(Schema.String),
}) {
  readonly retry = "change_request"
  override get message() {
    return this.status === "failed_rolled_back"
      ? `the patch failed (${this.cause}) and was rolled back: every file is as it was.`
      : `the patch failed (${this.cause}) and could not be undone completely. Look at: ${this.paths.join(", ")}.`
  }
}

/** Patches: the parsed text, the planned change, the result on the wire, and why a patch is refused. */
import { Schema } from "effect"
import { Version } from "./Files.ts"
import { Command, Script } from "./Process.ts"
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

/** One line of a hunk; `line` is its number in the patch text, from 1. */
export interface HunkLine {
  readonly kind: "keep" | "remove" | "add"
  readonly text: string
  readonly line: number
}

/** One change inside a file: lines to find there, and what becomes of them. */
export interface Hunk {
  /** Where the hunk begins in the patch text, from 1. */
  readonly line: number
  /** Lines to find before the hunk's own, outermost first. */
  readonly anchors: ReadonlyArray<{ readonly text: string; readonly line: number }>
  /** The place a unified header names, as the number of lines before it. */
  readonly at?: number
  readonly lines: ReadonlyArray<HunkLine>
  /** How many kept lines at the end are blank lines without a mark: they may be mere spacing of the patch. */
  readonly looseTail: number
  /** The hunk's lines are the last of the file. */
  readonly endOfFile: boolean
  /** Whether the file ends with a line ending afterwards, where the patch says so. */
  readonly finalNewline?: boolean
}

/** The part of a patch for one file. Paths are as written; `line` is the section's place in the patch text. */
export type Section =
  | { readonly kind: "add"; readonly path: string; readonly line: number; readonly text: string; readonly executable?: boolean }
  /** With hunks, the file must hold exactly what they remove. */
  | { readonly kind: "delete"; readonly path: string; readonly line: number; readonly hunks: ReadonlyArray<Hunk> }
  | {
      readonly kind: "update"
      readonly path: string
      readonly line: number
      readonly moveTo?: string
      /** Where the patch changes it. Of a mode git only knows this much. */
      readonly executable?: boolean
      readonly hunks: ReadonlyArray<Hunk>
    }

export const PatchStatus = Schema.Literals(["checked", "applied", "rejected", "failed_rolled_back", "failed_partial", "unknown"])
export type PatchStatus = typeof PatchStatus.Type

/** A command that decides whether a patch stays. Exactly one of `command` and `script` is given. */
export const Verify = Schema.Struct({
  command: Schema.optionalKey(Command),
  script: Schema.optionalKey(Script),
  timeout_ms: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 86_400_000 })).annotate({
      description: "Default is the profile's limit",
    }),
  ),
}).annotate({
  description: "Runs once the files are written; if it fails, all of it is rolled back",
})
export type Verify = typeof Verify.Type

/** What a command said about a patch that stays. */
export const Verified = Schema.Struct({
  exit_code: Schema.Int,
  duration_ms: Count,
  output: Schema.String.annotate({ description: "Beginning and end of what it wrote" }),
  omitted_bytes: Count,
  sandbox: Schema.optionalKey(
    Schema.String.annotate({ description: "What confined it, and to what; not in results of the first version" }),
  ),
})
export type Verified = typeof Verified.Type

/** What a transaction reports. */
export const Delta = Schema.Struct({
  status: PatchStatus,
  changes: Schema.Array(FileChange),
  diff: Schema.optionalKey(Schema.String.annotate({ description: "Unified diff of the change, with check_only" })),
  verify: Schema.optionalKey(Verified.annotate({ description: "How the verify command ended" })),
  notes: Schema.optionalKey(Schema.Array(Schema.String)),
})
export type Delta = typeof Delta.Type

/** The delta on the wire; the gate adds `operation_id`. */
export const PatchResult = Schema.Struct({ operation_id: Schema.String, ...Delta.fields })
export type PatchResult = typeof PatchResult.Type

/** Expected versions by path. */
export const ExpectedVersions = Schema.Record(Schema.String, Version).annotate({
  description: "Path to the version it must have now; absent for a path that must not exist",
})

const CheckOnly = Schema.Boolean.annotate({ description: "Only show the change as a diff; nothing is written" })
const FilePath = Schema.String.annotate({ description: "Relative to the workspace root" })
const ExpectedVersion = Version.annotate({ description: "Version the file must have now; absent where it must not exist" })

export const ApplyPatchArguments = Schema.Struct({
  patch: Schema.String.annotate({ description: 'A patch from "*** Begin Patch" to "*** End Patch" (V4A), or a unified diff' }),
  expected_versions: Schema.optionalKey(ExpectedVersions),
  check_only: Schema.optionalKey(CheckOnly),
  verify: Schema.optionalKey(Verify),
})
export type ApplyPatchArguments = typeof ApplyPatchArguments.Type

export const Edit = Schema.Struct({
  old: Schema.String.check(Schema.isMinLength(1)).annotate({ description: "Text that is in the file, exactly" }),
  new: Schema.String.annotate({ description: "Text to put in its place, taken literally" }),
  count: Schema.optionalKey(
    Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("all")]).annotate({
      description: "How often old must occur, or all; 1 when left out",
    }),
  ),
})
export type Edit = typeof Edit.Type

export const EditArguments = Schema.Struct({
  path: FilePath,
  edits: Schema.Array(Edit)
    .check(Schema.isMinLength(1))
    .annotate({ description: "Replacements, each made on the text the one before left" }),
  expected_version: Schema.optionalKey(ExpectedVersion),
  check_only: Schema.optionalKey(CheckOnly),
  verify: Schema.optionalKey(Verify),
})
export type EditArguments = typeof EditArguments.Type

export const WriteArguments = Schema.Struct({
  path: FilePath,
  content: Schema.String.annotate({ description: "The whole file, written as it is" }),
  expected_version: Schema.optionalKey(ExpectedVersion),
  check_only: Schema.optionalKey(CheckOnly),
  verify: Schema.optionalKey(Verify),
})
export type WriteArguments = typeof WriteArguments.Type

/** `line` is 0 where the change was not given as a patch text. */
export class InvalidPatch extends Schema.TaggedError<InvalidPatch>()("INVALID_PATCH", {
  line: Schema.Int,
  found: Schema.String,
  wanted: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `${this.line > 0 ? `line ${this.line} of the patch: ` : ""}found ${JSON.stringify(excerpt(this.found, 120))}, wanted ${this.wanted}. Nothing was changed.`
  }
}

/** What could not be placed: a hunk of a section of the patch, or an edit; each counted from 1. */
const Placed = {
  section: Schema.optionalKey(Schema.Int),
  hunk: Schema.optionalKey(Schema.Int),
  edit: Schema.optionalKey(Schema.Int),
}

const nameOf = ({ edit, hunk, section }: { readonly section?: number; readonly hunk?: number; readonly edit?: number }): string =>
  edit === undefined ? `hunk ${hunk} of section ${section}` : `edit ${edit}`

export class ContextNotFound extends Schema.TaggedError<ContextNotFound>()("CONTEXT_NOT_FOUND", {
  path: Schema.String,
  ...Placed,
  wanted: Schema.String,
  /** Where the wanted line stands in the patch, or in the old text of an edit. */
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
    const line =
      this.wanted_line === undefined ? "" : ` (line ${this.wanted_line} of ${this.edit === undefined ? "the patch" : "its old text"})`
    return (
      `${nameOf(this)} does not fit "${this.path}": wanted ${JSON.stringify(excerpt(this.wanted, 120))}${line}. ${place} ` +
      `Nothing was changed. Read the file again and ${this.edit === undefined ? "patch" : "edit"} what is there.`
    )
  }
}

export class ContextAmbiguous extends Schema.TaggedError<ContextAmbiguous>()("CONTEXT_AMBIGUOUS", {
  path: Schema.String,
  ...Placed,
  /** Where the hunk begins in the patch. */
  patch_line: Schema.optionalKey(Schema.Int),
  lines: Schema.Array(Schema.Int),
  /** How many places an edit asked for. */
  wanted: Schema.optionalKey(Schema.Int),
}) {
  readonly retry = "change_request"
  override get message() {
    const shown = `${this.lines.slice(0, 20).join(", ")}${this.lines.length > 20 ? ", …" : ""}`
    const count = `${this.lines.length} ${this.lines.length === 1 ? "place" : "places"} (${this.lines.length === 1 ? "line" : "lines"} ${shown})`
    return this.edit === undefined
      ? `${nameOf(this)} (line ${this.patch_line} of the patch) fits "${this.path}" at ${count}. Nothing was changed. Add context lines, or an @@ anchor before the one you mean.`
      : `${nameOf(this)} fits "${this.path}" at ${count}, not ${this.wanted}. Nothing was changed. Give more of the text around it, or set count.`
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

/** The disk did not take a patch as planned; what was there is back unless `status` says otherwise. */
export class PatchFailed extends Schema.TaggedError<PatchFailed>()("PATCH_FAILED", {
  status: PatchStatus,
  cause: Schema.String,
  paths: Schema.Array(Schema.String),
}) {
  readonly retry = "ask_status"
  override get message() {
    return this.status === "failed_rolled_back"
      ? `the patch failed (${this.cause}) and was rolled back: every file is as it was.`
      : `the patch failed (${this.cause}) and could not be undone completely. Look at: ${this.paths.join(", ")}. The rest is as it was.`
  }
}

/** A patch that its verify command, or a hook of its workspace, did not let stay or begin. */
export class VerifyFailed extends Schema.TaggedError<VerifyFailed>()("VERIFY_FAILED", {
  status: PatchStatus,
  /** The hook, where it was one. */
  hook: Schema.optionalKey(Schema.String),
  cause: Schema.String,
  exit_code: Schema.optionalKey(Schema.Int),
  signal: Schema.optionalKey(Schema.String),
  duration_ms: Count,
  output: Schema.String,
  omitted_bytes: Count,
}) {
  readonly retry = "change_request"
  override get message() {
    const left = this.status === "rejected" ? "Nothing was written." : "The patch was rolled back: every file it names is as it was."
    return this.hook === undefined
      ? `the verify command ${this.cause}. ${left} Mend the patch by what the command wrote, or verify by another command.`
      : `the ${this.hook} ${this.cause}. ${left} Mend the patch by what the hook wrote; hooks themselves are the operator's.`
  }
}

/** What read, find and search take and give as it crosses the border, and the refusals about text. */
import { Schema } from "effect"

/** First 16 hex digits of the SHA-256 of a file's bytes; `absent` where nothing is. */
export const Version = Schema.String.check(Schema.isPattern(/^([0-9a-f]{16}|absent)$/u)).annotate({
  description: "First 16 hex digits of the content's SHA-256, or absent",
})
export type Version = typeof Version.Type

export const absent: Version = "absent"

export const LineEnding = Schema.Literals(["lf", "crlf", "cr", "mixed", "none"])
export type LineEnding = typeof LineEnding.Type

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

const PathGlob = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(4096))

const Cursor = Schema.String.check(Schema.isMaxLength(8192))

export const ReadArguments = Schema.Struct({
  path: Schema.String.check(Schema.isMaxLength(4096)).annotate({ description: "File, relative to the workspace root" }),
  start_line: Schema.optionalKey(between(1, 1_000_000_000).annotate({ description: "First line, counted from 1" })),
  max_lines: Schema.optionalKey(between(1, 1_000_000).annotate({ description: "Lines at most; default 800" })),
  start_byte: Schema.optionalKey(
    between(0, Number.MAX_SAFE_INTEGER).annotate({ description: "First byte, counted from 0; instead of start_line" }),
  ),
  max_bytes: Schema.optionalKey(between(1, 2_000_000).annotate({ description: "Bytes at most; default 40000" })),
  encoding: Schema.optionalKey(
    Schema.Literals(["text", "base64"]).annotate({
      description: "text refuses what is not UTF-8; base64 gives bytes; default: text when it is",
    }),
  ),
})
export type ReadArguments = typeof ReadArguments.Type

export const FindArguments = Schema.Struct({
  glob: PathGlob.annotate({ description: "Path or glob from the root: **/*.ts, src/**, {a,b}/*.md; a folder means all in it" }),
  include_ignored: Schema.optionalKey(Schema.Boolean.annotate({ description: "Also what .gitignore names" })),
  limit: Schema.optionalKey(between(1, 5000).annotate({ description: "Paths at most; default 200" })),
  cursor: Schema.optionalKey(Cursor.annotate({ description: "From the call before, to go on" })),
})
export type FindArguments = typeof FindArguments.Type

export const SearchArguments = Schema.Struct({
  pattern: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(10_000)).annotate({
    description: "Regular expression, matched line by line",
  }),
  literal: Schema.optionalKey(Schema.Boolean.annotate({ description: "Take pattern as plain text" })),
  case: Schema.optionalKey(
    Schema.Literals(["sensitive", "insensitive", "smart"]).annotate({
      description: "Default sensitive; smart: insensitive without capitals",
    }),
  ),
  glob: Schema.optionalKey(PathGlob.annotate({ description: "Only files of this path, folder or glob, as in find" })),
  context_lines: Schema.optionalKey(between(0, 10).annotate({ description: "Lines to show around each match" })),
  include_ignored: Schema.optionalKey(Schema.Boolean.annotate({ description: "Also what .gitignore names" })),
  limit: Schema.optionalKey(between(1, 1000).annotate({ description: "Matches at most; default 100" })),
  cursor: Schema.optionalKey(Cursor.annotate({ description: "From the call before, to go on" })),
})
export type SearchArguments = typeof SearchArguments.Type

export const ReadResult = Schema.Struct({
  path: Schema.String,
  version: Version,
  size: Count.annotate({ description: "Bytes of the whole file" }),
  text: Schema.optionalKey(Schema.String),
  base64: Schema.optionalKey(Schema.String),
  binary: Schema.optionalKey(Schema.Boolean.annotate({ description: "True when the file is not text" })),
  mime_type: Schema.optionalKey(Schema.String),
  start_line: Schema.optionalKey(Count),
  start_byte: Schema.optionalKey(Count),
  total_lines: Schema.optionalKey(Count),
  eol: Schema.optionalKey(LineEnding),
  bom: Schema.optionalKey(Schema.Boolean),
  truncated: Schema.Boolean.annotate({ description: "More of the file follows; go on at next_line or next_byte" }),
  next_line: Schema.optionalKey(Count),
  next_byte: Schema.optionalKey(Count),
})
export type ReadResult = typeof ReadResult.Type

const LeftOut = Schema.Record(Schema.String, Count).annotate({ description: "How many paths each rule left out" })
const Unreadable = Schema.Array(Schema.Struct({ path: Schema.String, reason: Schema.String })).annotate({
  description: "Places that could not be looked into",
})

export const FindResult = Schema.Struct({
  paths: Schema.Array(Schema.String),
  considered: Count.annotate({ description: "Paths tested against the glob" }),
  truncated: Schema.Boolean,
  cursor: Schema.optionalKey(Schema.String.annotate({ description: "Pass it to the next call to go on" })),
  left_out: LeftOut,
  unreadable: Schema.optionalKey(Unreadable),
})
export type FindResult = typeof FindResult.Type

export const SearchMatch = Schema.Struct({
  path: Schema.String,
  line: Count,
  text: Schema.String,
  cut: Schema.optionalKey(Schema.Boolean.annotate({ description: "True when the line is longer than the text" })),
  before: Schema.optionalKey(Schema.Array(Schema.String)),
  after: Schema.optionalKey(Schema.Array(Schema.String)),
})
export type SearchMatch = typeof SearchMatch.Type

export const SearchResult = Schema.Struct({
  matches: Schema.Array(SearchMatch),
  files_matched: Count,
  truncated: Schema.Boolean,
  cursor: Schema.optionalKey(Schema.String.annotate({ description: "Pass it to the next call to go on" })),
  left_out: LeftOut,
  unreadable: Schema.optionalKey(Unreadable),
})
export type SearchResult = typeof SearchResult.Type

export class NotText extends Schema.TaggedError<NotText>()("NOT_TEXT", {
  path: Schema.String,
  size: Schema.Int,
  version: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" is binary (${this.size} bytes, version ${this.version}). Read it with encoding "base64".`
  }
}

export class EncodingUnsupported extends Schema.TaggedError<EncodingUnsupported>()("ENCODING_UNSUPPORTED", {
  path: Schema.String,
  found: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" is ${this.found}; text operations need UTF-8. Nothing was changed. Convert it first, or read it with encoding "base64".`
  }
}

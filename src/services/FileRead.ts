/**
 * Reads one file by page. The whole file is looked at once, piece by piece, for its version, its lines and whether it is
 * text; only the page asked for is kept, so memory does not grow with the file.
 */
import { Effect } from "effect"
import * as Base64 from "effect/encoding/Base64"
import { EncodingUnsupported, NotText, type ReadArguments, type ReadResult, type Version } from "../schema/Files.ts"
import { InvalidArguments } from "../schema/Operation.ts"
import { type ConfinedPath, SpecialFileRejected } from "../schema/Workspace.ts"
import type { Digest } from "./Digest.ts"
import type { OpenFile } from "./Disk.ts"
import { mimeTypeOf } from "./FileKind.ts"
import { characterStart, pageLength } from "./TextPage.ts"
import { CR, LF, type Survey, surveyText, type Wanted } from "./TextSurvey.ts"
import type { Workspace } from "./Workspace.ts"

/** A page, and beside it the image when the file is one. */
export interface ReadReply {
  readonly result: ReadResult
  readonly image?: { readonly mimeType: string; readonly data: string }
}

const defaultLines = 800
const defaultBytes = 40_000
/** As many bytes as fill the default page in base64. */
const defaultBinaryBytes = 30_000
const maximumImageBytes = 1_000_000
/** A file up to this size is read in one piece, a larger one in smaller pieces with room for other work between them. */
const onePieceBytes = 1 << 20
const pieceBytes = 1 << 18
/** A character has at most four bytes: what to keep beyond a page, and before it, to cut between characters. */
const characterBytes = 4

/** The page of a file that the arguments ask for. */
export const readPage = Effect.fnUntraced(function* (workspace: Workspace["Service"], digest: Digest["Service"], args: ReadArguments) {
  const problem = problemOf(args)
  if (problem !== undefined) return yield* new InvalidArguments({ problems: [problem] })
  const { file, path } = yield* workspace.openRead(args.path)
  if (file.entry.kind !== "file") return yield* new SpecialFileRejected({ path })
  const wanted = wantedBy(args)
  const { survey, version } = yield* look(file, digest, wanted)
  const whole = { path, version, size: survey.size }
  if (args.encoding === "base64") return { result: { ...whole, ...bytesPage(survey, args) } }
  if (survey.format === "utf-8") {
    const byReturns = survey.carriageReturnsOnly && wanted.lineBreak === LF
    const lines = byReturns ? yield* look(file, digest, { ...wanted, lineBreak: CR }) : { survey, version }
    return { result: { path, version: lines.version, size: lines.survey.size, ...textPage(lines.survey, args, byReturns ? CR : LF) } }
  }
  if (args.encoding === "text") return yield* notText(path, survey, version)
  const mimeType = mimeTypeOf(survey)
  const result = { ...whole, binary: true, mime_type: mimeType, truncated: false }
  const isImage = mimeType.startsWith("image/") && survey.size <= maximumImageBytes
  return isImage ? { result, image: { mimeType, data: Base64.encode(yield* file.read(0, survey.size)) } } : { result }
}, Effect.scoped)

const problemOf = (args: ReadArguments): string | undefined => {
  if (args.start_byte !== undefined && (args.start_line !== undefined || args.max_lines !== undefined))
    return "start_byte goes with max_bytes; start_line and max_lines are the other way to ask for a part"
  if (args.encoding === "base64" && (args.start_line !== undefined || args.max_lines !== undefined))
    return "start_line and max_lines count lines of text; with encoding base64 use start_byte and max_bytes"
  return undefined
}

const wantedBy = (args: ReadArguments): Wanted => {
  const bytes = (args.max_bytes ?? defaultBytes) + 2 * characterBytes
  if (args.encoding === "base64") return { from: { byte: args.start_byte ?? 0 }, bytes, lineBreak: LF }
  if (args.start_byte === undefined) return { from: { line: args.start_line ?? 1 }, bytes, lineBreak: LF }
  return { from: { byte: Math.max(0, args.start_byte - characterBytes + 1) }, bytes, lineBreak: LF }
}

/** Passes the whole file by a survey and a digest. */
const look = Effect.fnUntraced(function* (file: OpenFile, digest: Digest["Service"], wanted: Wanted) {
  const survey = surveyText(wanted)
  const { size } = file.entry
  if (size <= onePieceBytes) {
    const bytes = yield* file.read(0, size)
    survey.push(bytes)
    return { survey: survey.finish(), version: digest.version(bytes) }
  }
  const running = digest.start()
  for (let position = 0; ; ) {
    const bytes = yield* file.read(position, pieceBytes)
    survey.push(bytes)
    running.update(bytes)
    position += bytes.length
    if (bytes.length < pieceBytes) break
    yield* Effect.yieldNow
  }
  return { survey: survey.finish(), version: running.version() }
})

const bytesPage = (survey: Survey, args: ReadArguments) => {
  const { start, bytes } = survey.kept
  const page = bytes.subarray(0, args.max_bytes ?? defaultBinaryBytes)
  const end = start + page.length
  return {
    base64: Base64.encode(page),
    binary: survey.format !== "utf-8",
    mime_type: mimeTypeOf(survey),
    start_byte: start,
    truncated: end < survey.size,
    ...(end < survey.size ? { next_byte: end } : {}),
  }
}

const textPage = (survey: Survey, args: ReadArguments, lineBreak: number) => {
  const { kept } = survey
  const skip = textOffset(survey, args)
  const bytes = kept.bytes.subarray(skip)
  const byBytes = args.start_byte !== undefined
  const length = pageLength(bytes, {
    // Who sets only the bytes wants as many lines as fit into them.
    cut: byBytes ? "characters" : "lines",
    lines: args.max_lines ?? (args.max_bytes === undefined ? defaultLines : undefined),
    bytes: args.max_bytes ?? defaultBytes,
    lineBreak,
    atEnd: kept.start + kept.bytes.length >= survey.size,
  })
  const page = bytes.subarray(0, length)
  const start = kept.start + skip
  const end = start + length
  return {
    text: decoder.decode(page),
    start_line: kept.line,
    ...(byBytes ? { start_byte: start } : {}),
    total_lines: survey.totalLines,
    eol: survey.eol,
    bom: survey.bom,
    truncated: end < survey.size,
    ...(end < survey.size ? continuation(kept.line, page, end, byBytes, lineBreak) : {}),
  }
}

/** What to pass over at the start of the kept bytes: the BOM, or what was kept only to find the start of a character. */
const textOffset = (survey: Survey, args: ReadArguments): number => {
  const { kept } = survey
  const asked = args.start_byte === undefined ? 0 : characterStart(kept.bytes, Math.min(args.start_byte - kept.start, kept.bytes.length))
  return survey.bom ? Math.max(asked, Math.min(3 - kept.start, kept.bytes.length)) : asked
}

const continuation = (firstLine: number, page: Uint8Array, end: number, byBytes: boolean, lineBreak: number) => {
  if (byBytes || page[page.length - 1] !== lineBreak) return { next_byte: end }
  return { next_line: firstLine + page.reduce((lines, byte) => (byte === lineBreak ? lines + 1 : lines), 0) }
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

const notText = (path: ConfinedPath, survey: Survey, version: Version) => {
  switch (survey.format) {
    case "utf-16le":
      return new EncodingUnsupported({ path, found: "UTF-16 (little-endian)" })
    case "utf-16be":
      return new EncodingUnsupported({ path, found: "UTF-16 (big-endian)" })
    case "other":
      return new EncodingUnsupported({ path, found: "not valid UTF-8" })
    default:
      return new NotText({ path, size: survey.size, version })
  }
}

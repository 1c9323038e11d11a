/** What both patch formats write alike: the lines of a hunk and the header with line numbers. */
import { Result } from "effect"
import { type Hunk, type HunkLine, InvalidPatch } from "../schema/Patch.ts"
import { excerpt } from "../schema/Retry.ts"

/** The refusal of line `index` (from 0) of a patch text. */
export const invalid = (lines: ReadonlyArray<string>, index: number, wanted: string): Result.Result<never, InvalidPatch> =>
  Result.fail(new InvalidPatch({ line: Math.max(index + 1, 1), found: excerpt(lines[index] ?? "the end of the patch", 400), wanted }))

/** A hunk while its lines are read. */
export interface Draft {
  readonly line: number
  readonly anchors: Array<{ readonly text: string; readonly line: number }>
  readonly lines: Array<HunkLine>
  header: HunkHeader | undefined
  endOfFile: boolean
  finalNewline: boolean | undefined
}

export const emptyDraft = (index: number): Draft => ({
  line: index + 1,
  anchors: [],
  lines: [],
  header: undefined,
  endOfFile: false,
  finalNewline: undefined,
})

export interface HunkHeader {
  readonly oldStart: number
  readonly oldCount: number
  readonly newCount: number
}

const numbers = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@/u

/** A header like `@@ -3,7 +3,8 @@ section`; undefined for any other line. The section's name is no anchor. */
export const readHeader = (line: string): HunkHeader | undefined => {
  const found = numbers.exec(line)
  if (found === null) return undefined
  return { oldStart: Number(found[1]), oldCount: Number(found[2] ?? 1), newCount: Number(found[3] ?? 1) }
}

const marks: Readonly<Record<string, HunkLine["kind"]>> = { " ": "keep", "-": "remove", "+": "add" }

/**
 * Takes a line into the hunk; false when the line has no mark of a hunk's line. An empty line is a blank kept one. To a
 * file a lone CR ends a line, so what is to be found there is split at it; what is added keeps it.
 */
export const takeLine = (draft: Draft, text: string, index: number): boolean => {
  if (text.startsWith("\\ ")) return takeNoNewline(draft)
  const kind = text === "" ? "keep" : marks[text.charAt(0)]
  if (kind === undefined) return false
  const content = text.slice(1)
  for (const part of kind === "add" ? [content] : content.split("\r")) draft.lines.push({ kind, text: part, line: index + 1 })
  return true
}

/** `\ No newline at end of file` speaks of the line before it. */
const takeNoNewline = (draft: Draft): boolean => {
  const last = draft.lines.at(-1)
  if (last === undefined) return false
  draft.endOfFile = true
  // After a removed line it describes the old file; what is added instead ends in a newline unless told so too.
  draft.finalNewline = last.kind === "remove" && draft.finalNewline !== false
  return true
}

/** The finished hunk; `texts` are the lines of the whole patch. */
export const finish = (draft: Draft, texts: ReadonlyArray<string>): Result.Result<Hunk, InvalidPatch> => {
  const { header, lines } = draft
  if (lines.length === 0) return invalid(texts, draft.line - 1, 'lines starting with " ", "-" or "+" after it')
  const insertsOnly = lines.every((line) => line.kind === "add")
  if (header !== undefined && insertsOnly && header.oldCount > 0)
    return invalid(texts, draft.line - 1, `${header.oldCount} kept or removed lines below it, as it says, or -${header.oldStart},0`)
  return Result.succeed({
    line: draft.line,
    anchors: draft.anchors,
    ...(header === undefined ? {} : { at: header.oldCount === 0 ? header.oldStart : Math.max(header.oldStart - 1, 0) }),
    lines,
    looseTail: header?.oldCount === lines.filter((line) => line.kind !== "add").length ? 0 : looseTail(lines, texts),
    endOfFile: draft.endOfFile,
    ...(draft.finalNewline === undefined ? {} : { finalNewline: draft.finalNewline }),
  })
}

/** Unmarked blank lines at the end. Where the header counts them in, they are kept lines that lost their mark. */
const looseTail = (lines: ReadonlyArray<HunkLine>, texts: ReadonlyArray<string>): number => {
  const last = lines.findLastIndex((line) => texts[line.line - 1] !== "")
  return lines.length - 1 - last
}

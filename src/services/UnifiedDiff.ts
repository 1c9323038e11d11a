/**
 * Reads unified diffs, with or without git's headers. Pure. Prose, mail headers and index lines around the files are
 * skipped; a changed line that belongs to no hunk is not. Counts in hunk headers may be wrong: they only tell a removed
 * line "-- a" from the header of the next file.
 */
import { Result } from "effect"
import type { Hunk, InvalidPatch, Section } from "../schema/Patch.ts"
import { sectionHeader } from "./CodexPatch.ts"
import { binary, type DiffLines, readNames, startsNames } from "./DiffNames.ts"
import { emptyDraft, finish, invalid, readHeader, takeLine } from "./HunkText.ts"

/** Whether a file's part of a unified diff starts at this line. */
export const startsUnifiedDiff = (lines: ReadonlyArray<string>, index: number): boolean =>
  (lines[index] ?? "").startsWith("diff --git ") || startsNames(lines, index)

interface Cursor extends DiffLines {
  readonly nextFilled: ReadonlyArray<number>
}

type Read<A> = Result.Result<A, InvalidPatch>

/** The sections of a diff whose first file starts at line `begin` (from 0). */
export const readUnifiedDiff = (lines: ReadonlyArray<string>, begin: number): Read<ReadonlyArray<Section>> =>
  Result.gen(function* () {
    const cursor: Cursor = { lines, nextFilled: filledAfter(lines), at: begin }
    const sections: Array<Section> = []
    while (cursor.at < lines.length) {
      if (startsUnifiedDiff(lines, cursor.at)) sections.push(yield* readFile(cursor))
      else {
        yield* skipProse(cursor)
        cursor.at++
      }
    }
    return sections
  })

/** What is around the files says nothing; what looks like a change that would be lost is refused. */
const skipProse = ({ lines, at }: Cursor): Read<void> => {
  const text = lines[at] ?? ""
  if (/^(@@|[-+](?!-* *$))/u.test(text))
    return invalid(lines, at, 'a line of a hunk under its "@@" header, or the "--- " and "+++ " lines of a file')
  if (binary.test(text)) return invalid(lines, at, "a change of text; binary files cannot be patched")
  if (sectionHeader(text) !== undefined) return invalid(lines, at, "more of the unified diff; one patch has one format")
  return Result.succeed(undefined)
}

const readFile = (cursor: Cursor): Read<Section> =>
  Result.gen(function* () {
    const start = cursor.at
    const names = yield* readNames(cursor)
    const hunks = yield* readHunks(cursor)
    const path = names.deleted ? names.old : names.new
    const line = start + 1
    if (path === undefined) return yield* invalid(cursor.lines, start, 'the path of a file, in the "--- " and "+++ " lines')
    const mode = names.newMode === undefined || names.newMode === names.oldMode ? {} : { executable: (names.newMode & 0o100) !== 0 }
    if (names.deleted) return { kind: "delete", path, line, hunks }
    if (names.created) return { kind: "add", path, line, text: yield* createdText(cursor, hunks), ...mode }
    if (names.renamed && names.old !== undefined) return { kind: "update", path: names.old, line, moveTo: path, ...mode, hunks }
    if (hunks.length === 0 && names.newMode === undefined)
      return yield* invalid(cursor.lines, cursor.at, "a hunk: an @@ line and its lines")
    return { kind: "update", path, line, ...mode, hunks }
  })

const createdText = ({ lines }: Cursor, hunks: ReadonlyArray<Hunk>): Read<string> => {
  const all = hunks.flatMap((hunk) => hunk.lines.slice(0, hunk.lines.length - hunk.looseTail))
  const old = all.find((line) => line.kind !== "add")
  if (old !== undefined) return invalid(lines, old.line - 1, 'only lines starting with "+", because the file is new')
  const text = all.map((line) => `${line.text}\n`).join("")
  return Result.succeed(hunks.at(-1)?.finalNewline === false ? text.slice(0, -1) : text)
}

// --- hunks ----------------------------------------------------------------------------------------------------------

const readHunks = (cursor: Cursor): Read<ReadonlyArray<Hunk>> =>
  Result.gen(function* () {
    const hunks: Array<Hunk> = []
    while ((cursor.lines[cursor.at] ?? "").startsWith("@@")) hunks.push(yield* readHunk(cursor))
    return hunks
  })

const readHunk = (cursor: Cursor): Read<Hunk> =>
  Result.gen(function* () {
    const { lines } = cursor
    const draft = emptyDraft(cursor.at)
    if (lines[cursor.at]?.startsWith("@@@")) return yield* invalid(lines, cursor.at, "a diff against one version, not a merge's")
    const header = readHeader(lines[cursor.at] ?? "")
    const anchor = (lines[cursor.at] ?? "").slice(2).trim()
    draft.header = header
    if (header === undefined && anchor !== "" && anchor !== "... @@") draft.anchors.push({ text: anchor, line: cursor.at + 1 })
    // How many lines the header still announces; without numbers a hunk may end anywhere.
    let old = header?.oldCount ?? 0
    let fresh = header?.newCount ?? 0
    for (cursor.at++; cursor.at < lines.length; cursor.at++) {
      const text = lines[cursor.at] ?? ""
      const complete = old <= 0 && fresh <= 0
      if (text.startsWith("@@") || text.startsWith("diff --git ")) break
      if (complete && (startsNames(lines, cursor.at) || text.trimEnd() === "--" || isSpacing(cursor))) break
      if (takeLine(draft, text, cursor.at)) {
        const kind = text.startsWith("\\") ? undefined : draft.lines.at(-1)?.kind
        if (kind === "keep" || kind === "remove") old--
        if (kind === "keep" || kind === "add") fresh--
        continue
      }
      if (complete) break
      return yield* invalid(lines, cursor.at, 'a line starting with " ", "-" or "+", or the next "@@"')
    }
    return yield* finish(draft, lines)
  })

/** Blank lines before something that is no line of a hunk. */
const isSpacing = ({ at, lines, nextFilled }: Cursor): boolean => {
  const next = nextFilled[at] ?? at
  return next > at && (next === lines.length || !/^[-+ \\]/u.test(lines[next] ?? "") || startsNames(lines, next))
}

/** For each line, where the next one stands that is not empty: itself, mostly. */
const filledAfter = (lines: ReadonlyArray<string>): ReadonlyArray<number> => {
  const next = lines.map((_, index) => index)
  for (let index = lines.length - 1; index >= 0; index--) if (lines[index] === "") next[index] = next[index + 1] ?? lines.length
  return next
}

/** Reads the patch format of Codex (V4A): sections between a begin and an end marker. Pure; the text is not unwrapped here. */
import { Result } from "effect"
import type { Hunk, InvalidPatch, Section } from "../schema/Patch.ts"
import { type Draft, emptyDraft, finish, invalid, readHeader, takeLine } from "./HunkText.ts"

export const beginMarker = "*** Begin Patch"
export const endMarker = "*** End Patch"
const endOfFileMarker = "*** End of File"
const moveMarker = "*** Move to:"

const sectionWords = '"*** Add File: path", "*** Update File: path" or "*** Delete File: path"'

/** The header of a section, where the line is one. Beyond one space after the colon all belongs to the path. */
export const sectionHeader = (line: string): { readonly kind: Section["kind"]; readonly path: string } | undefined => {
  const found = /^\*\*\* (Add|Update|Delete) File: (.*\S)$/u.exec(line.trim())
  if (found === null) return undefined
  return { kind: found[1] === "Add" ? "add" : found[1] === "Update" ? "update" : "delete", path: found[2] ?? "" }
}

/** A place in the lines of the patch. Readers move it behind what they took. */
interface Cursor {
  readonly lines: ReadonlyArray<string>
  readonly end: number
  at: number
}

type Read<A> = Result.Result<A, InvalidPatch>

/** The sections between line `begin` and line `end` (both from 0, both markers). */
export const readCodexPatch = (lines: ReadonlyArray<string>, begin: number, end: number): Read<ReadonlyArray<Section>> =>
  Result.gen(function* () {
    const cursor: Cursor = { lines, end, at: begin + 1 }
    const sections: Array<Section> = []
    while (cursor.at < end) {
      const text = lines[cursor.at] ?? ""
      const header = sectionHeader(text)
      if (header === undefined && text.trim() !== "") return yield* wrongHeader(cursor)
      cursor.at++
      if (header !== undefined) sections.push(yield* readSection(cursor, header))
    }
    return sections.length > 0 ? sections : yield* invalid(lines, end, `a section before it: ${sectionWords}`)
  })

const wrongHeader = ({ lines, at }: Cursor): Result.Result<never, InvalidPatch> => {
  const text = lines[at]?.trim() ?? ""
  if (text.startsWith("*** Environment ID:")) return invalid(lines, at, "no environment here; the workspace is chosen by workspace_id")
  if (text.startsWith(moveMarker)) return invalid(lines, at, `"${moveMarker} path" directly after its "*** Update File:" line`)
  if (/^\*{3}\S/u.test(text)) return invalid(lines, at, `a space after the stars: ${sectionWords}`)
  return invalid(lines, at, sectionWords)
}

const readSection = (cursor: Cursor, { kind, path }: { readonly kind: Section["kind"]; readonly path: string }): Read<Section> =>
  Result.gen(function* () {
    const line = cursor.at
    switch (kind) {
      case "add":
        return { kind, path, line, text: yield* readAdded(cursor) }
      case "delete":
        return { kind, path, line, hunks: [] }
      case "update": {
        const moveTo = yield* readMove(cursor)
        const hunks = yield* readHunks(cursor)
        if (hunks.length === 0 && moveTo === undefined)
          return yield* invalid(
            cursor.lines,
            line - 1,
            `a hunk after it ("@@", then lines starting with " ", "-" or "+"), or "${moveMarker} path"`,
          )
        return { kind, path, line, ...(moveTo === undefined ? {} : { moveTo }), hunks }
      }
    }
  })

/** The text of a new file: LF after every line, unless the patch says that the last has none. */
const readAdded = (cursor: Cursor): Read<string> =>
  Result.gen(function* () {
    const { end, lines } = cursor
    const body: Array<string> = []
    for (; cursor.at < end; cursor.at++) {
      const text = lines[cursor.at] ?? ""
      if (!text.startsWith("+")) break
      body.push(text.slice(1))
    }
    if (body.length > 0 && lines[cursor.at]?.startsWith("\\ ")) {
      cursor.at++
      return body.join("\n")
    }
    let next = cursor.at
    while (next < end && lines[next]?.trim() === "") next++
    const text = lines[next] ?? ""
    if (next < end && !text.startsWith("***") && sectionHeader(text) === undefined)
      return yield* invalid(
        lines,
        text.startsWith("+") ? cursor.at : next,
        'a line of the new file, each starting with "+" (an empty one is "+" alone), or a section',
      )
    return body.map((line) => `${line}\n`).join("")
  })

const readMove = (cursor: Cursor): Read<string | undefined> =>
  Result.gen(function* () {
    const text = cursor.lines[cursor.at]?.trimEnd() ?? ""
    if (cursor.at >= cursor.end || !text.startsWith(moveMarker)) return undefined
    const path = text.slice(moveMarker.length)
    if (!path.startsWith(" ") || path.trim() === "") return yield* invalid(cursor.lines, cursor.at, `"${moveMarker} path"`)
    cursor.at++
    return path.slice(1)
  })

/** The hunks up to the next section. In here a marker may not be indented: with a space before it, it is a kept line. */
const readHunks = (cursor: Cursor): Read<ReadonlyArray<Hunk>> =>
  Result.gen(function* () {
    const { end, lines } = cursor
    const hunks: Array<Hunk> = []
    let draft: Draft | undefined
    for (; cursor.at < end; cursor.at++) {
      const text = lines[cursor.at] ?? ""
      const bare = text.trimEnd()
      if (text.startsWith("*** ") && sectionHeader(text) !== undefined) break
      if (bare === endOfFileMarker) {
        if (draft === undefined) return yield* invalid(lines, cursor.at, `"${endOfFileMarker}" after the lines of a hunk`)
        draft.endOfFile = true
        hunks.push(yield* finish(draft, lines))
        draft = undefined
      } else if (bare === "@@" || text.startsWith("@@ ")) {
        // Several in a row lead to one place, each below the one before.
        if (draft !== undefined && draft.lines.length > 0) {
          hunks.push(yield* finish(draft, lines))
          draft = undefined
        }
        draft ??= emptyDraft(cursor.at)
        takeAnchor(draft, text, cursor.at)
      } else if (draft === undefined) {
        if (bare === "") continue
        // Only the first hunk may come without "@@".
        draft = hunks.length === 0 ? emptyDraft(cursor.at) : undefined
        if (draft === undefined || !takeLine(draft, text, cursor.at))
          return yield* invalid(lines, cursor.at, `"@@", or a section: ${sectionWords}`)
      } else if (!takeLine(draft, text, cursor.at)) {
        if (text.startsWith("***")) return yield* wrongHeader(cursor)
        return yield* invalid(lines, cursor.at, 'a line starting with " " (kept), "-" (removed), "+" (added) or "@@ "')
      }
    }
    if (draft !== undefined) hunks.push(yield* finish(draft, lines))
    return hunks
  })

const takeAnchor = (draft: Draft, text: string, index: number): void => {
  const header = readHeader(text)
  if (header !== undefined) draft.header = header
  else if (text.slice(2).trim() !== "") draft.anchors.push({ text: text.slice(3), line: index + 1 })
}

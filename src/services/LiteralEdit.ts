/**
 * Exact replacement of text in a file's bytes. Nothing in the text is a pattern. A line break in the given text stands
 * for whichever line ending the file has.
 */
import { Result } from "effect"
import { ContextAmbiguous, type ContextNotFound, type Edit, InvalidPatch } from "../schema/Patch.ts"
import { fileView } from "./FileView.ts"
import { runsOf } from "./LineRuns.ts"
import { notFound } from "./NearestPlace.ts"
import { joined, lineAt, textLines } from "./TextLines.ts"

/** The file after all edits, each made on what the one before left. An edit that replaces nothing refuses them all. */
export const applyEdits = (
  path: string,
  bytes: Uint8Array,
  edits: ReadonlyArray<Edit>,
): Result.Result<Uint8Array, InvalidPatch | ContextNotFound | ContextAmbiguous> =>
  Result.gen(function* () {
    let current = bytes
    for (const [index, edit] of edits.entries()) current = yield* applyEdit(path, current, edit, index + 1)
    return current
  })

const applyEdit = (
  path: string,
  bytes: Uint8Array,
  edit: Edit,
  number: number,
): Result.Result<Uint8Array, InvalidPatch | ContextNotFound | ContextAmbiguous> => {
  const refused = invalidEdit(edit, number)
  if (refused !== undefined) return Result.fail(refused)
  const file = textLines(bytes)
  const places = placesOf(bytes, edit.old, file.ending)
  const wanted = edit.count ?? 1
  if (places.length === 0) {
    const lines = edit.old.split(/\r?\n/u).map((text, index) => ({ text, line: index + 1 }))
    return notFound(fileView(path, file), { edit: number }, { lines })
  }
  const apart = withoutOverlaps(places)
  if (wanted !== "all" && (places.length !== wanted || apart.length !== wanted)) {
    const lines = places.slice(0, 100).map(({ at }) => lineAt(file, at) + 1)
    return Result.fail(new ContextAmbiguous({ path, edit: number, lines, wanted }))
  }
  return Result.succeed(replaceAt(bytes, apart, edit.new))
}

const invalidEdit = (edit: Edit, number: number): InvalidPatch | undefined => {
  const wrong = (found: string, wanted: string) => new InvalidPatch({ line: 0, found, wanted })
  if (edit.old === "") return wrong("", `some text as "old" of edit ${number}; use write for a whole file`)
  if (edit.old === edit.new) return wrong(edit.old, `another text as "new" of edit ${number} than as its "old"`)
  if (!edit.old.isWellFormed() || !edit.new.isWellFormed())
    return wrong("half of a surrogate pair", `text that can be written as UTF-8 in edit ${number}`)
  return undefined
}

interface Occurrence {
  readonly at: number
  readonly length: number
  /** The line ending that a break in the new text becomes. */
  readonly ending: string
}

/** Every place of the text, overlapping ones too, for each line ending that its breaks may stand for. */
const placesOf = (bytes: Uint8Array, text: string, ending: string): ReadonlyArray<Occurrence> => {
  const hasBreak = text.includes("\n")
  const endings = hasBreak ? ["\n", "\r\n", ...(ending === "\r" ? ["\r"] : [])] : [ending]
  return endings.flatMap((one) => occurrences(bytes, encode(hasBreak ? withEnding(text, one) : text), one)).toSorted((a, b) => a.at - b.at)
}

const occurrences = (bytes: Uint8Array, wanted: Uint8Array, ending: string): ReadonlyArray<Occurrence> => {
  const places = fewPlaces(bytes, wanted) ?? runsOf(wanted, bytes.length, (at, index) => bytes[at] === wanted[index])
  return places.filter((at) => !isHalf(bytes, wanted, at)).map((at) => ({ at, length: wanted.length, ending }))
}

/** The second half of a CR LF is no line ending of its own. */
const isHalf = (bytes: Uint8Array, wanted: Uint8Array, at: number): boolean => wanted[0] === LF && bytes[at - 1] === CR

/** The quick way, given up where so much is alike that it would be the slow one. */
const fewPlaces = (bytes: Uint8Array, wanted: Uint8Array): ReadonlyArray<number> | undefined => {
  const places: Array<number> = []
  const last = wanted.length - 1
  let compared = 0
  for (let at = 0; at + last < bytes.length; at++) {
    if (bytes[at] !== wanted[0] || bytes[at + last] !== wanted[last]) continue
    let same = 0
    while (same < wanted.length && bytes[at + same] === wanted[same]) same++
    if (same === wanted.length) places.push(at)
    compared += same
    if (compared > 4 * bytes.length) return undefined
  }
  return places
}

const LF = 10
const CR = 13

const withoutOverlaps = (places: ReadonlyArray<Occurrence>): ReadonlyArray<Occurrence> => {
  const apart: Array<Occurrence> = []
  for (const place of places) {
    const last = apart.at(-1)
    if (last === undefined || place.at >= last.at + last.length) apart.push(place)
  }
  return apart
}

const replaceAt = (bytes: Uint8Array, places: ReadonlyArray<Occurrence>, text: string): Uint8Array => {
  const pieces: Array<Uint8Array> = []
  let copied = 0
  for (const { at, ending, length } of places) {
    pieces.push(bytes.subarray(copied, at), encode(withEnding(text, ending)))
    copied = at + length
  }
  return joined([...pieces, bytes.subarray(copied)])
}

const withEnding = (text: string, ending: string): string => text.replace(/\r?\n/gu, () => ending)

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

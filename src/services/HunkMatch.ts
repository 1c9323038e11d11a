/**
 * Finds where the hunks of one section belong in a file. A hunk is placed only where exactly one place fits, so a patch
 * never changes a line its writer may not have meant; where the operator chose `first`, it takes the first of several and
 * says so.
 *
 * Matching goes by steps from exact to look-alike (LooseText), over the file as it was before the section. Places below
 * the hunk before come first, since hunks are written in order; what fits only above is taken from there.
 */
import { Result } from "effect"
import type { PatchSettings } from "../schema/Config.ts"
import { ContextAmbiguous, type ContextNotFound, type Hunk, type HunkLine } from "../schema/Patch.ts"
import { type FileView, fileView, placesFrom } from "./FileView.ts"
import { type Bound, boundsOf, missingAnchor } from "./HunkAnchors.ts"
import { type HunkChanges, hunkChanges, TakenLines } from "./HunkChanges.ts"
import { allSteps, type Step, steps } from "./LooseText.ts"
import { notFound } from "./NearestPlace.ts"
import type { LineChange, TextLines } from "./TextLines.ts"

export interface Placement {
  readonly changes: ReadonlyArray<LineChange>
  /** Says of hunks that did not fit exactly, or not only there, how they were placed. */
  readonly notes: ReadonlyArray<string>
}

/** Whose hunks they are: for refusals and notes. */
export interface Owner {
  readonly path: string
  /** Which section of the patch, from 1. */
  readonly section: number
}

type Ambiguity = PatchSettings["ambiguity"]
type Found<A> = Result.Result<A, ContextNotFound | ContextAmbiguous>

/** The changes that the hunks make, in terms of the file's lines. */
export const placeHunks = (owner: Owner, file: TextLines, hunks: ReadonlyArray<Hunk>, ambiguity: Ambiguity): Found<Placement> =>
  Result.gen(function* () {
    const view = fileView(owner.path, file)
    const repeats = repetitions(hunks)
    const taken = new TakenLines()
    const changes: Array<LineChange> = []
    const places: Array<Place> = []
    // Behind the hunk before, and how far that was from where its header said.
    let after = 0
    let drift = 0
    for (const [index, hunk] of hunks.entries()) {
      const search = { view, owner, hunk, number: index + 1, after, drift, taken, ambiguity, repeats: repeats[index] ?? 1 }
      const moved = hunkChanges(hunk)
      const place = yield* firmLines(hunk).length === 0 ? placeInsertion(search, moved) : placeLines(search, moved)
      const made = moved.at(place.start)
      taken.take(made)
      changes.push(...made)
      places.push(place)
      after = place.next
      if (hunk.at !== undefined) drift = place.start - hunk.at
    }
    return { changes, notes: notesOn(owner.path, places) }
  })

interface Search {
  readonly view: FileView
  readonly owner: Owner
  readonly hunk: Hunk
  readonly number: number
  readonly after: number
  readonly drift: number
  readonly taken: TakenLines
  readonly ambiguity: Ambiguity
  /** How many equal hunks follow each other from this one on: as many equal places are then no ambiguity. */
  readonly repeats: number
}

interface Place {
  readonly start: number
  readonly next: number
  readonly step: Step
  /** All the places there were, where the first of several was taken. */
  readonly firstOf?: ReadonlyArray<number>
}

// --- hunks with lines to find ---------------------------------------------------------------------------------------

const placeLines = (search: Search, moved: HunkChanges): Found<Place> => {
  const { after, hunk, view } = search
  const bounds = boundsOf(view, hunk, after)
  if (bounds.length === 0) return refuseMissing(search, { lines: missingAnchor(view, hunk) })
  for (const pattern of patternsOf(hunk))
    for (const step of allSteps) {
      const fitting = view.places(pattern, step, hunk.endOfFile)
      for (const bound of bounds) {
        const chosen = choose(search, bound, fitting, moved)
        if (chosen === undefined) continue
        const place = { start: chosen.start, next: chosen.start + pattern.length, step }
        if (chosen.firstOf === undefined) return Result.succeed(place)
        return search.ambiguity === "first" ? Result.succeed({ ...place, firstOf: chosen.firstOf }) : refuseSeveral(search, chosen.firstOf)
      }
    }
  return refuseMissing(search, { lines: oldLines(hunk), endOfFile: hunk.endOfFile, from: bounds[0]?.from ?? after })
}

const oldLines = (hunk: Hunk): ReadonlyArray<HunkLine> => hunk.lines.filter((line) => line.kind !== "add")

const firmLines = (hunk: Hunk): ReadonlyArray<HunkLine> => {
  const lines = oldLines(hunk)
  return lines.slice(0, lines.length - hunk.looseTail)
}

/**
 * The lines to find; and without blank kept ones at the end: those without a mark may only separate this hunk from what
 * follows, and where no numbers hold them in place the others are often written by habit.
 */
const patternsOf = (hunk: Hunk): ReadonlyArray<ReadonlyArray<string>> => {
  const full = oldLines(hunk)
  const blanks = hunk.at === undefined ? full.length - 1 - full.findLastIndex(({ kind, text }) => kind !== "keep" || text !== "") : 0
  const lengths = new Set([full.length, full.length - hunk.looseTail, full.length - blanks])
  return [...lengths].filter((length) => length > 0).map((length) => full.slice(0, length).map(({ text }) => text))
}

interface Chosen {
  readonly start: number
  readonly firstOf?: ReadonlyArray<number>
}

/** Of the places that fit, the one the hunk means; with `firstOf` where nothing tells it from the others. */
const choose = (
  { drift, hunk, repeats, taken }: Search,
  bound: Bound,
  fitting: ReadonlyArray<number>,
  moved: HunkChanges,
): Chosen | undefined => {
  const isFree = (place: number) => !taken.meet(moved.at(place))
  const below = placesFrom(fitting, bound.from)
  const told = hunk.at === undefined ? -1 : hunk.at + drift
  if (told >= bound.from && placesFrom(below, told)[0] === told && isFree(told)) return { start: told }
  const first = firstFew(below, isFree, repeats + 1)
  // Some repeat the anchor as the first line of the hunk.
  const repeated =
    bound.anchor !== undefined && first.length === 0 ? fitting.filter((place) => place === bound.anchor && isFree(place)) : []
  const [start] = first.length > 0 ? first : repeated
  if (start === undefined) return undefined
  if (first.length <= repeats) return { start }
  const inside = first.filter((place) => place < bound.blockEnd)
  return inside.length > 0 && inside.length <= repeats ? { start } : { start, firstOf: firstFew(below, isFree, shownPlaces) }
}

/** A refusal or a note names so many places at most. */
const shownPlaces = 100

const firstFew = (places: ReadonlyArray<number>, isWanted: (place: number) => boolean, limit: number): ReadonlyArray<number> => {
  const few: Array<number> = []
  for (const place of places) {
    if (few.length === limit) break
    if (isWanted(place)) few.push(place)
  }
  return few
}

// --- hunks that only add --------------------------------------------------------------------------------------------

/** Right behind the anchor, where the header says, or at the end of the file. */
const placeInsertion = (search: Search, moved: HunkChanges): Found<Place> => {
  const { after, ambiguity, drift, hunk, taken, view } = search
  const bound = boundsOf(view, hunk, after)[0]
  if (bound === undefined) return refuseMissing(search, { lines: missingAnchor(view, hunk) })
  if (bound.anchors.length > 1 && ambiguity === "refuse") return refuseSeveral(search, bound.anchors)
  const start = bound.anchor !== undefined ? bound.from : hunk.at !== undefined && !hunk.endOfFile ? hunk.at + drift : view.count
  const next = bound.anchor === undefined ? after : start
  if (start < 0 || start > view.count || taken.meet(moved.at(start)))
    return refuseMissing(search, { lines: [{ text: `line ${start} of the file, outside of other hunks`, line: hunk.line }] })
  return Result.succeed({ start, next, step: 0, ...(bound.anchors.length > 1 ? { firstOf: bound.anchors } : {}) })
}

// --- refusals and notes ---------------------------------------------------------------------------------------------

const refuseMissing = ({ number, owner, view }: Search, wanted: Parameters<typeof notFound>[2]) =>
  notFound(view, { section: owner.section, hunk: number }, wanted)

const refuseSeveral = ({ hunk, number, owner }: Search, places: ReadonlyArray<number>) =>
  Result.fail(
    new ContextAmbiguous({
      path: owner.path,
      section: owner.section,
      hunk: number,
      patch_line: hunk.line,
      lines: places.slice(0, shownPlaces).map((place) => place + 1),
    }),
  )

const notesOn = (path: string, places: ReadonlyArray<Place>): ReadonlyArray<string> => {
  const loose = steps.flatMap((ignored, index) => {
    const numbers = places.flatMap(({ step }, at) => (step === index + 1 ? [at + 1] : []))
    if (numbers.length === 0) return []
    return [`"${path}": ${hunksNamed(numbers)} found only by ignoring ${ignored}.`]
  })
  const first = places.flatMap(({ firstOf }, at) =>
    firstOf === undefined
      ? []
      : [`"${path}": hunk ${at + 1} fits at lines ${listed(firstOf.map((place) => place + 1))}; the first was taken.`],
  )
  const left = first.length - shownNotes
  return [...loose, ...first.slice(0, shownNotes), ...(left > 0 ? [`"${path}": so did ${left} more hunks.`] : [])]
}

const shownNotes = 20

const hunksNamed = (numbers: ReadonlyArray<number>): string =>
  numbers.length === 1 ? `hunk ${numbers[0]} was` : `hunks ${listed(numbers)} were`

const listed = (numbers: ReadonlyArray<number>): string =>
  `${numbers.slice(0, shownNotes).join(", ")}${numbers.length > shownNotes ? ` and ${numbers.length - shownNotes} more` : ""}`

// --- equal hunks ----------------------------------------------------------------------------------------------------

/** For each hunk, how many equal ones follow each other from it on. */
const repetitions = (hunks: ReadonlyArray<Hunk>): ReadonlyArray<number> => {
  const counts = hunks.map(() => 1)
  for (let index = hunks.length - 2; index >= 0; index--) {
    const [hunk, next] = [hunks[index], hunks[index + 1]]
    if (hunk !== undefined && next !== undefined && sameSearch(hunk, next)) counts[index] = (counts[index + 1] ?? 0) + 1
  }
  return counts
}

const sameSearch = (a: Hunk, b: Hunk): boolean =>
  a.endOfFile === b.endOfFile && sameTexts(a.anchors, b.anchors) && sameTexts(oldLines(a), oldLines(b))

const sameTexts = (a: ReadonlyArray<{ readonly text: string }>, b: ReadonlyArray<{ readonly text: string }>): boolean =>
  a.length === b.length && a.every(({ text }, index) => text === b[index]?.text)

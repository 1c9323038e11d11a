/**
 * Finds where the hunks of one section belong in a file. A hunk is placed only where exactly one place fits, so a patch
 * never changes a line its writer may not have meant.
 *
 * Matching goes by steps from exact to look-alike (LooseText), over the file as it was before the section. Places below
 * the hunk before come first, since hunks are written in order; what fits only above is taken from there.
 */
import { Result } from "effect"
import { ContextAmbiguous, type ContextNotFound, type Hunk, type HunkLine } from "../schema/Patch.ts"
import { type FileView, fileView } from "./FileView.ts"
import { allSteps, type Step, steps } from "./LooseText.ts"
import { notFound } from "./NearestPlace.ts"
import type { LineChange, TextLines } from "./TextLines.ts"

export interface Placement {
  readonly changes: ReadonlyArray<LineChange>
  /** Says of each hunk that did not fit exactly how it was found. */
  readonly notes: ReadonlyArray<string>
}

/** The changes that the hunks make, in terms of the file's lines. */
export const placeHunks = (
  path: string,
  file: TextLines,
  hunks: ReadonlyArray<Hunk>,
): Result.Result<Placement, ContextNotFound | ContextAmbiguous> =>
  Result.gen(function* () {
    const view = fileView(path, file)
    const changes: Array<LineChange> = []
    const notes: Array<string> = []
    // Behind the hunk before, and how far that was from where its header said.
    let after = 0
    let drift = 0
    for (const [index, hunk] of hunks.entries()) {
      const number = index + 1
      const search = { view, hunk, number, after, drift, taken: changes, repeats: repeatsFrom(hunks, index) }
      const place = yield* firmLines(hunk).length === 0 ? placeInsertion(search) : placeLines(search)
      changes.push(...changesAt(hunk, place.start))
      after = place.next
      if (hunk.at !== undefined) drift = place.start - hunk.at
      if (place.step > 0) notes.push(`"${path}": hunk ${number} was found only by ignoring ${steps[place.step - 1]}.`)
    }
    return { changes, notes }
  })

interface Search {
  readonly view: FileView
  readonly hunk: Hunk
  readonly number: number
  readonly after: number
  readonly drift: number
  readonly taken: ReadonlyArray<LineChange>
  /** How many equal hunks follow each other from this one on: as many equal places are then no ambiguity. */
  readonly repeats: number
}

interface Place {
  readonly start: number
  readonly next: number
  readonly step: Step
}

type Found<A> = Result.Result<A, ContextNotFound | ContextAmbiguous>

const ambiguous = ({ number, view }: Search, places: ReadonlyArray<number>) =>
  Result.fail(new ContextAmbiguous({ path: view.path, hunk: number, lines: places.slice(0, 100).map((place) => place + 1) }))

// --- hunks with lines to find ---------------------------------------------------------------------------------------

const placeLines = (search: Search): Found<Place> => {
  const { after, hunk, number, taken, view } = search
  const bounds = boundsOf(search)
  if (bounds.length === 0) return notFound(view, number, { lines: missingAnchor(search) })
  const patterns = patternsOf(hunk)
  for (const step of allSteps) {
    for (const pattern of patterns) {
      const fitting = view.places(pattern, step, hunk.endOfFile)
      const free = fitting.filter((place) => !collides(changesAt(hunk, place), taken))
      for (const bound of bounds) {
        const start = choose(search, bound, free)
        if (start === "several") return ambiguous(search, inBound(bound, free))
        if (start !== undefined) return Result.succeed({ start, next: start + pattern.length, step })
      }
    }
  }
  return notFound(view, number, { lines: oldLines(hunk), endOfFile: hunk.endOfFile, from: bounds[0]?.from ?? after })
}

const oldLines = (hunk: Hunk): ReadonlyArray<HunkLine> => hunk.lines.filter((line) => line.kind !== "add")

const firmLines = (hunk: Hunk): ReadonlyArray<HunkLine> => {
  const lines = oldLines(hunk)
  return lines.slice(0, lines.length - hunk.looseTail)
}

/** The lines to find; and without the blank ones at the end, which may only separate this hunk from what follows. */
const patternsOf = (hunk: Hunk): ReadonlyArray<ReadonlyArray<string>> => {
  const full = oldLines(hunk).map((line) => line.text)
  return hunk.looseTail === 0 ? [full] : [full, firmLines(hunk).map((line) => line.text)]
}

const inBound = (bound: Bound, places: ReadonlyArray<number>): ReadonlyArray<number> => {
  const below = places.filter((place) => place >= bound.from)
  // Some repeat the anchor as the first line of the hunk.
  return below.length > 0 ? below : places.filter((place) => place === bound.anchor)
}

const choose = ({ drift, hunk, repeats }: Search, bound: Bound, free: ReadonlyArray<number>): number | "several" | undefined => {
  const places = inBound(bound, free)
  if (hunk.at !== undefined && places.includes(hunk.at + drift)) return hunk.at + drift
  if (places.length <= repeats) return places[0]
  const inside = places.filter((place) => place < bound.blockEnd)
  return inside.length > 0 && inside.length <= repeats ? inside[0] : "several"
}

// --- anchors --------------------------------------------------------------------------------------------------------

/** Where the lines of a hunk may start. */
interface Bound {
  readonly from: number
  /** The line of the last anchor. */
  readonly anchor: number | undefined
  /** Where the block that the last anchor opens ends, by indentation. */
  readonly blockEnd: number
  /** More lines than one fit the anchor; then `from` is behind the first of them. */
  readonly anchors: ReadonlyArray<number>
}

const noAnchor = (from: number): Bound => ({ from, anchor: undefined, blockEnd: from, anchors: [] })

/** Below the hunk before, and as the second choice anywhere in the file. */
const boundsOf = (search: Search): ReadonlyArray<Bound> => {
  const starts = search.after === 0 ? [0] : [search.after, 0]
  return starts.map((start) => descend(search, start)).filter((bound) => bound !== undefined)
}

/** Each anchor below the one before; undefined when one of them is not there. */
const descend = ({ hunk, view }: Search, start: number): Bound | undefined => {
  let bound = noAnchor(start)
  for (const { text } of hunk.anchors) {
    const places = view.anchorPlaces(text, bound.from)
    const inside = places.filter((place) => place < bound.blockEnd)
    const anchors = inside.length > 0 ? inside : places
    const first = anchors[0]
    if (first === undefined) return undefined
    const single = anchors.length === 1
    bound = { from: first + 1, anchor: first, blockEnd: single ? view.blockEnd(first) : first + 1, anchors: single ? [] : anchors }
  }
  return bound
}

/** The anchor to name when the anchors lead nowhere: the first that is nowhere in the file, else the last. */
const missingAnchor = ({ hunk, view }: Search): Hunk["anchors"] => {
  const missing = hunk.anchors.find(({ text }) => view.anchorPlaces(text, 0).length === 0)
  return missing === undefined ? hunk.anchors.slice(-1) : [missing]
}

// --- hunks that only add --------------------------------------------------------------------------------------------

/** Right behind the anchor, where the header says, or at the end of the file. */
const placeInsertion = (search: Search): Found<Place> => {
  const { after, drift, hunk, number, taken, view } = search
  const bound = boundsOf(search)[0]
  if (bound === undefined) return notFound(view, number, { lines: missingAnchor(search) })
  if (bound.anchors.length > 1) return ambiguous(search, bound.anchors)
  const start = bound.anchor !== undefined ? bound.from : hunk.at !== undefined && !hunk.endOfFile ? hunk.at + drift : view.count
  const next = bound.anchor === undefined ? after : start
  if (start < 0 || start > view.count || collides(changesAt(hunk, start), taken))
    return notFound(view, number, { lines: [{ text: `line ${start} of the file, outside of other hunks`, line: hunk.line }] })
  return Result.succeed({ start, next, step: 0 })
}

// --- what a hunk changes --------------------------------------------------------------------------------------------

/** The changes of a hunk whose lines start at `start`. Kept lines stay out of them, also those retyped as - and +. */
const changesAt = (hunk: Hunk, start: number): ReadonlyArray<LineChange> => {
  const changes: Array<LineChange> = []
  let at = start
  let removed: Array<string> = []
  let added: Array<string> = []
  const close = () => {
    const change = withoutCommonEnds(at - removed.length, removed, added)
    if (change.remove > 0 || change.add.length > 0) changes.push(change)
    removed = []
    added = []
  }
  for (const { kind, text } of hunk.lines) {
    if (kind === "keep") close()
    else (kind === "remove" ? removed : added).push(text)
    if (kind !== "add") at++
  }
  close()
  return changes
}

const withoutCommonEnds = (at: number, removed: ReadonlyArray<string>, added: ReadonlyArray<string>): LineChange => {
  const shorter = Math.min(removed.length, added.length)
  let head = 0
  while (head < shorter && removed[head] === added[head]) head++
  let tail = 0
  while (tail < shorter - head && removed.at(-1 - tail) === added.at(-1 - tail)) tail++
  return { at: at + head, remove: removed.length - head - tail, add: added.slice(head, added.length - tail) }
}

const collides = (changes: ReadonlyArray<LineChange>, taken: ReadonlyArray<LineChange>): boolean =>
  changes.some((a) => taken.some((b) => a.at < b.at + b.remove && b.at < a.at + a.remove))

/** Equal hunks in a row, counted from `index`. */
const repeatsFrom = (hunks: ReadonlyArray<Hunk>, index: number): number => {
  const hunk = hunks[index]
  let end = index + 1
  while (hunk !== undefined && end < hunks.length && sameSearch(hunk, hunks[end])) end++
  return end - index
}

const sameSearch = (a: Hunk, b: Hunk | undefined): boolean => {
  if (b === undefined || a.endOfFile !== b.endOfFile) return false
  const [linesOfA, linesOfB] = [oldLines(a), oldLines(b)]
  return sameTexts(a.anchors, b.anchors) && sameTexts(linesOfA, linesOfB)
}

const sameTexts = (a: ReadonlyArray<{ readonly text: string }>, b: ReadonlyArray<{ readonly text: string }>): boolean =>
  a.length === b.length && a.every(({ text }, index) => text === b[index]?.text)

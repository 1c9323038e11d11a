/** Where the `@@` anchors of a hunk lead: each below the one before, and inside the block that one opens if it can be. */
import type { Hunk } from "../schema/Patch.ts"
import type { FileView } from "./FileView.ts"

/** Where the lines of a hunk may start. */
export interface Bound {
  readonly from: number
  /** The line of the last anchor. */
  readonly anchor: number | undefined
  /** Where the block that the last anchor opens ends, by indentation. */
  readonly blockEnd: number
  /** More lines than one fit the anchor; then `from` is behind the first of them. */
  readonly anchors: ReadonlyArray<number>
}

/** Below the hunk before, which ends at line `after`, and as the second choice anywhere; none where an anchor is missing. */
export const boundsOf = (view: FileView, hunk: Hunk, after: number): ReadonlyArray<Bound> => {
  const starts = after === 0 ? [0] : [after, 0]
  return starts.map((start) => descend(view, hunk, start)).filter((bound) => bound !== undefined)
}

const noAnchor = (from: number): Bound => ({ from, anchor: undefined, blockEnd: from, anchors: [] })

const descend = (view: FileView, { anchors }: Hunk, start: number): Bound | undefined => {
  let bound = noAnchor(start)
  for (const { text } of anchors) {
    const places = view.anchorPlaces(text, bound.from)
    const inside = places.filter((place) => place < bound.blockEnd)
    const meant = inside.length > 0 ? inside : places
    const first = meant[0]
    if (first === undefined) return undefined
    const single = meant.length === 1
    bound = { from: first + 1, anchor: first, blockEnd: single ? view.blockEnd(first) : first + 1, anchors: single ? [] : meant }
  }
  return bound
}

/** The anchor to name when the anchors lead nowhere: the first that is nowhere in the file, else the last. */
export const missingAnchor = (view: FileView, { anchors }: Hunk): Hunk["anchors"] => {
  const missing = anchors.find(({ text }) => view.anchorPlaces(text, 0).length === 0)
  return missing === undefined ? anchors.slice(-1) : [missing]
}

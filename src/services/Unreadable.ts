/** Places that could not be looked into, as an answer tells of them. */
import { compareText } from "./FirstSorted.ts"

export interface Unreadable {
  readonly path: string
  readonly reason: string
}

/** An answer stays small also where nothing can be read. */
export const maximumUnreadable = 100

/** The field of a result; none where everything was looked into. `unfinished` says why not all was. */
export const unreadableField = (places: ReadonlyArray<Unreadable>, unfinished: string | undefined) => {
  const sorted = places.toSorted((a, b) => compareText(a.path, b.path)).slice(0, maximumUnreadable)
  const unreadable = unfinished === undefined ? sorted : [...sorted, { path: ".", reason: unfinished }]
  return unreadable.length > 0 ? { unreadable } : {}
}

/**
 * Who works where and who waits, as pure rules over entries: which leases exclude each other, what an entry waits for, and
 * which waiters may be granted. It knows nothing of time limits, fibers or storage.
 *
 * Entries stand in the order of their numbers. A waiter's number is its place in the queue, a holder's is its fence; both
 * come from one sequence that never goes back.
 */
import type { LeaseKind } from "../schema/Lease.ts"

/** What a lease covers: absolute folders and files, so that workspaces on one folder or inside each other meet. */
export interface Claim {
  readonly kind: LeaseKind
  readonly places: ReadonlyArray<string>
}

export interface Entry extends Claim {
  readonly number: number
  readonly waits: boolean
}

/** The places of a request in a workspace whose real folder is `root`: the paths, or all of it. */
export const placesOf = (root: string, paths: ReadonlyArray<string> | undefined): ReadonlyArray<string> =>
  paths === undefined ? [root] : paths.map((path) => (path === "" ? root : `${folderText(root)}${path}`))

/** Two claims that must not be held at one time. */
export const conflict = (one: Claim, other: Claim): boolean =>
  excludes(one.kind, other.kind) &&
  one.places.some((place) => other.places.some((beside) => within(place, beside) || within(beside, place)))

/**
 * What keeps a claim from being granted: a holder, or someone who came before it and still waits. A holder is named first.
 * `others` are all entries that came before.
 */
export const blockerOf = <E extends Entry>(claim: Claim, others: ReadonlyArray<E>): E | undefined => {
  const inWay = others.filter((other) => conflict(claim, other))
  return inWay.find(({ waits }) => !waits) ?? inWay[0]
}

/** What a waiter waits for: a holder of whatever number, or a waiter before it. */
export const waitsFor = <E extends Entry>(waiter: Entry, entries: ReadonlyArray<E>): E | undefined =>
  blockerOf(
    waiter,
    entries.filter((entry) => !entry.waits || entry.number < waiter.number),
  )

/** The waiters that nothing keeps any more, in their order. Granting all of them leaves no waiter that could be granted. */
export const grantable = <E extends Entry>(entries: ReadonlyArray<E>): ReadonlyArray<E> =>
  entries.filter((entry) => entry.waits && waitsFor(entry, entries) === undefined)

const excludes = (one: LeaseKind, other: LeaseKind): boolean =>
  one === "exclusive" || other === "exclusive" || (one === "path" && other === "path")

const within = (place: string, folder: string): boolean => place === folder || place.startsWith(folderText(folder))

const folderText = (folder: string): string => (folder.endsWith("/") ? folder : `${folder}/`)

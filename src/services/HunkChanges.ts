/** What a hunk changes once its place is known, and which lines the hunks before it have taken. */
import type { Hunk } from "../schema/Patch.ts"
import type { LineChange } from "./TextLines.ts"

/** The changes of a hunk whose lines start at a given line. */
export interface HunkChanges {
  readonly at: (start: number) => ReadonlyArray<LineChange>
}

/** Kept lines stay out of the changes, also those retyped as - and +. */
export const hunkChanges = (hunk: Hunk): HunkChanges => {
  const changes: Array<LineChange> = []
  let at = 0
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
  return { at: (start) => changes.map((change) => ({ ...change, at: start + change.at })) }
}

const withoutCommonEnds = (at: number, removed: ReadonlyArray<string>, added: ReadonlyArray<string>): LineChange => {
  const shorter = Math.min(removed.length, added.length)
  let head = 0
  while (head < shorter && removed[head] === added[head]) head++
  let tail = 0
  while (tail < shorter - head && removed.at(-1 - tail) === added.at(-1 - tail)) tail++
  return { at: at + head, remove: removed.length - head - tail, add: added.slice(head, added.length - tail) }
}

/** The lines that are removed already, and the seams where lines are added: a later hunk may not change them again. */
export class TakenLines {
  readonly #removed = new Set<number>()
  /** A seam is named by the line below it. These lie between two lines that one change removes. */
  readonly #closed = new Set<number>()
  readonly #opened = new Set<number>()

  take(changes: ReadonlyArray<LineChange>): void {
    for (const { at, remove } of changes) {
      if (remove === 0) this.#opened.add(at)
      for (let line = at; line < at + remove; line++) {
        this.#removed.add(line)
        if (line > at) this.#closed.add(line)
      }
    }
  }

  /** Whether one of the changes would touch what is taken. */
  meet(changes: ReadonlyArray<LineChange>): boolean {
    return changes.some(({ at, remove }) => {
      if (remove === 0) return this.#closed.has(at)
      for (let line = at; line < at + remove; line++) if (this.#removed.has(line) || (line > at && this.#opened.has(line))) return true
      return false
    })
  }
}

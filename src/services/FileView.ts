/** A file as the matching looks at it: where given lines fit at a step, what an anchor leads to, where its block ends. */
import { runsOf, startsOf } from "./LineRuns.ts"
import { allSteps, keyOf, type Step } from "./LooseText.ts"
import { contentEnd, decodedLines, type TextLines } from "./TextLines.ts"

/** Line numbers count from 0. */
export interface FileView {
  readonly path: string
  readonly count: number
  /** The lines as text; made when first asked for. */
  readonly texts: () => ReadonlyArray<string>
  /** What is compared at a step; undefined for lines that are not UTF-8. */
  readonly keys: (step: Step) => ReadonlyArray<string | undefined>
  /** Every line where the pattern fits, in order; with `atEnd` only where it ends the file. */
  readonly places: (pattern: ReadonlyArray<string>, step: Step, atEnd: boolean) => ReadonlyArray<number>
  /** The lines from `from` on that an anchor may mean, at the first step that has any. */
  readonly anchorPlaces: (anchor: string, from: number) => ReadonlyArray<number>
  /** The first line below `line` that is indented no deeper than it. */
  readonly blockEnd: (line: number) => number
}

/** Looking through the bytes is cheaper than an index for a few searches, and much dearer for many. */
const searchesWithoutIndex = 8

export const fileView = (path: string, file: TextLines): FileView => {
  const { bytes, count, starts } = file
  const texts = once(() => decodedLines(file))
  const keysAt = allSteps.map((step) => once(() => texts().map((text) => keyOf(text, step))))
  const keys = (step: Step) => keysAt[step]?.() ?? []
  const linesByKeyAt = allSteps.map((step) => once(() => linesByKey(keys(step))))

  /** Compares bytes, so that an exact hunk in a large file costs no decoding. */
  const exactlyAt = (line: number, wanted: Uint8Array): boolean => {
    const start = starts[line] ?? 0
    if (bytes[start] !== wanted[0] && wanted.length > 0) return false
    if (contentEnd(file, line) - start !== wanted.length) return false
    for (let at = 0; at < wanted.length; at++) if (bytes[start + at] !== wanted[at]) return false
    return true
  }

  const fits = (pattern: ReadonlyArray<string>, step: Step): ((line: number, index: number) => boolean) => {
    if (step === 0) {
      const encoder = new TextEncoder()
      const wanted = pattern.map((text) => encoder.encode(text))
      return (line, index) => exactlyAt(line, wanted[index] ?? new Uint8Array())
    }
    const [found, wanted] = [keys(step), pattern.map((text) => keyOf(text, step))]
    return (line, index) => wanted[index] !== undefined && found[line] === wanted[index]
  }

  let searches = 0
  const search = (pattern: ReadonlyArray<string>, step: Step): ReadonlyArray<number> => {
    const fitsAt = fits(pattern, step)
    const wanted = pattern.map((text) => (step === 0 ? text : keyOf(text, step)))
    const indexed = step > 0 || searches++ >= searchesWithoutIndex
    const starts = indexed
      ? startsOf(
          pattern.map((text) => keyOf(text, step)),
          linesByKeyAt[step]?.() ?? new Map(),
        )
      : undefined
    // Where many lines are the same, one pass over all of them is less work than a look at each start.
    if (starts === undefined || starts.length * pattern.length > count) return runsOf(wanted, count, fitsAt)
    return starts.filter(
      (start) => start >= 0 && start + pattern.length <= count && pattern.every((_, index) => fitsAt(start + index, index)),
    )
  }

  const anywhere = remembered((_, pattern: ReadonlyArray<string>, step: Step) => search(pattern, step))
  const places = (pattern: ReadonlyArray<string>, step: Step, atEnd: boolean): ReadonlyArray<number> => {
    if (!atEnd) return anywhere(`${step}${pattern.join("\n")}`, pattern, step)
    const start = count - pattern.length
    const fitsAt = fits(pattern, step)
    return start >= 0 && pattern.every((_, index) => fitsAt(start + index, index)) ? [start] : []
  }

  const sorted = once(() => sortedLines(keys(3)))
  const beginning = (words: string): ReadonlyArray<number> => {
    const key = (line: number) => keys(3)[line] ?? ""
    const lines: Array<number> = []
    for (let at = countWhile(sorted(), (line) => key(line) < words); at < sorted().length; at++) {
      const line = sorted()[at] ?? 0
      if (words === "" || !key(line).startsWith(words)) break
      if (startsWithWords(key(line), words)) lines.push(line)
    }
    return lines.toSorted((one, other) => one - other)
  }
  const anchorPlaces = (anchor: string, from: number): ReadonlyArray<number> => {
    for (const step of allSteps) {
      const found = placesFrom(places([anchor], step, false), from)
      if (found.length > 0) return found
    }
    return placesFrom(beginning(keyOf(anchor, 3) ?? ""), from)
  }

  const indentation = (line: number): number | undefined => {
    const start = starts[line] ?? 0
    const end = contentEnd(file, line)
    let at = start
    while (at < end && (bytes[at] === 0x20 || bytes[at] === 0x09)) at++
    return at === end ? undefined : at - start
  }

  const blockEnd = (line: number): number => {
    const own = indentation(line) ?? 0
    for (let below = line + 1; below < count; below++) {
      const depth = indentation(below)
      if (depth !== undefined && depth <= own) return below
    }
    return count
  }

  return { path, count, texts, keys, places, anchorPlaces, blockEnd }
}

/** The places from line `from` on, of places in order. */
export const placesFrom = (places: ReadonlyArray<number>, from: number): ReadonlyArray<number> => {
  const below = countWhile(places, (place) => place < from)
  return below === 0 ? places : places.slice(below)
}

/** How many of the first items it holds for; it holds for none behind them. */
const countWhile = <A>(items: ReadonlyArray<A>, holds: (item: A) => boolean): number => {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (holds(items[middle] as A)) low = middle + 1
    else high = middle
  }
  return low
}

/** Anchors often stop before the end of their line: `class B` for `class B(A):`. */
const startsWithWords = (line: string, words: string): boolean => line.startsWith(words) && !/^\w/u.test(line.slice(words.length))

/** The numbers of the lines that have a key, in the order of their keys. */
const sortedLines = (keys: ReadonlyArray<string | undefined>): ReadonlyArray<number> => {
  const lines = keys.flatMap((key, line) => (key === undefined ? [] : [{ key, line }]))
  return lines.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)).map(({ line }) => line)
}

const linesByKey = (keys: ReadonlyArray<string | undefined>): ReadonlyMap<string, ReadonlyArray<number>> => {
  const lines = new Map<string, Array<number>>()
  for (const [line, key] of keys.entries()) {
    if (key === undefined) continue
    const known = lines.get(key)
    if (known === undefined) lines.set(key, [line])
    else known.push(line)
  }
  return lines
}

const once = <A>(make: () => A): (() => A) => {
  const made: Array<A> = []
  return () => {
    if (made.length === 0) made.push(make())
    return made[0] as A
  }
}

/** Answers the same question once: equal hunks and anchors are common in one patch. */
const remembered = <Rest extends ReadonlyArray<unknown>, A>(
  make: (name: string, ...rest: Rest) => A,
): ((name: string, ...rest: Rest) => A) => {
  const made = new Map<string, A>()
  return (name, ...rest) => {
    const known = made.get(name)
    if (known !== undefined) return known
    const answer = make(name, ...rest)
    made.set(name, answer)
    return answer
  }
}

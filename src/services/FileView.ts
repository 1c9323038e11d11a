/** A file as the matching looks at it: where given lines fit at a step, what an anchor leads to, where its block ends. */
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

export const fileView = (path: string, file: TextLines): FileView => {
  const { bytes, count, starts } = file
  const texts = once(() => decodedLines(file))
  const keysAt = allSteps.map((step) => once(() => texts().map((text) => keyOf(text, step))))
  const keys = (step: Step) => keysAt[step]?.() ?? []

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

  const places = (pattern: ReadonlyArray<string>, step: Step, atEnd: boolean): ReadonlyArray<number> => {
    const last = count - pattern.length
    const fitsAt = fits(pattern, step)
    // The longest line is the rarest one, roughly.
    const probe = pattern.reduce((longest, text, index) => (text.length > (pattern[longest]?.length ?? 0) ? index : longest), 0)
    const found: Array<number> = []
    for (let start = atEnd ? Math.max(last, 0) : 0; start <= last; start++)
      if (fitsAt(start + probe, probe) && pattern.every((_, index) => fitsAt(start + index, index))) found.push(start)
    return found
  }

  const anchorPlaces = (anchor: string, from: number): ReadonlyArray<number> => {
    for (const step of allSteps) {
      const found = places([anchor], step, false).filter((place) => place >= from)
      if (found.length > 0) return found
    }
    const start = keyOf(anchor, 3)
    if (start === undefined || start === "") return []
    return keys(3).flatMap((key, line) => (line >= from && key !== undefined && startsWithWords(key, start) ? [line] : []))
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

/** Anchors often stop before the end of their line: `class B` for `class B(A):`. */
const startsWithWords = (line: string, words: string): boolean => line.startsWith(words) && !/^\w/u.test(line.slice(words.length))

const once = <A>(make: () => A): (() => A) => {
  const made: Array<A> = []
  return () => {
    if (made.length === 0) made.push(make())
    return made[0] as A
  }
}

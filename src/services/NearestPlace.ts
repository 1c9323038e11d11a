/** Explains why lines were not found: the place most like them, and the first line there that differs. */
import { Result } from "effect"
import { ContextNotFound } from "../schema/Patch.ts"
import { excerpt } from "../schema/Retry.ts"
import type { FileView } from "./FileView.ts"
import { keyOf } from "./LooseText.ts"

/** Lines that were looked for. `line` says where each stands in the caller's text, from 1. */
export interface Wanted {
  readonly lines: ReadonlyArray<{ readonly text: string; readonly line: number }>
  readonly endOfFile?: boolean
  /** Of places that are equally near, the first from this line on is shown. */
  readonly from?: number
}

/** What was to be placed: a hunk of a section, or an edit; each counted from 1. */
export type Change = { readonly section: number; readonly hunk: number } | { readonly edit: number }

/** The refusal of a change whose lines are not there. What it quotes is bounded. */
export const notFound = (view: FileView, change: Change, wanted: Wanted): Result.Result<never, ContextNotFound> => {
  const keys = view.keys(3)
  const wantedKeys = wanted.lines.map(({ text }) => keyOf(text, 3))
  const start = wanted.endOfFile === true ? Math.max(view.count - wanted.lines.length, 0) : nearest(keys, wantedKeys, wanted.from ?? 0)
  const differing = start === undefined ? -1 : wantedKeys.findIndex((key, index) => key === undefined || key !== keys[start + index])
  const shown = wanted.lines[Math.max(differing, 0)] ?? { text: "", line: 0 }
  const fact = { path: view.path, ...change, wanted: excerpt(shown.text, 400), wanted_line: shown.line }
  if (start === undefined) return Result.fail(new ContextNotFound(fact))
  const at = start + Math.max(differing, 0)
  return Result.fail(
    new ContextNotFound({
      ...fact,
      ...(differing === -1 ? { wanted: `${fact.wanted} (below its anchors and outside of other hunks)` } : {}),
      ...(wanted.endOfFile === true ? { wanted: `${fact.wanted} (as part of the end of the file)` } : {}),
      found: excerpt(view.texts()[at] ?? "the end of the file", 400),
      file_line: at + 1,
      nearest_line: start + 1,
    }),
  )
}

type Keys = ReadonlyArray<string | undefined>

const nearest = (keys: Keys, wanted: Keys, from: number): number | undefined =>
  mostEqualLines(keys, wanted, from) ?? mostLikeLine(keys, wanted)

/** A line that stands more often than this in what was wanted tells little; the bound keeps the search linear. */
const countedPositions = 20

/** Where most lines are the same; blank ones say nothing. */
const mostEqualLines = (keys: Keys, wanted: Keys, from: number): number | undefined => {
  const positions = new Map<string, Array<number>>()
  for (const [index, key] of wanted.entries()) {
    if (key === undefined || key === "") continue
    const known = positions.get(key)
    if (known === undefined) positions.set(key, [index])
    else if (known.length < countedPositions) known.push(index)
  }
  const scores = new Int32Array(keys.length)
  let best: number | undefined
  const isBetter = (start: number): boolean => {
    if (best === undefined) return true
    const gain = (scores[start] ?? 0) - (scores[best] ?? 0)
    return gain > 0 || (gain === 0 && best < from && start >= from)
  }
  for (const [line, key] of keys.entries())
    for (const index of key === undefined ? [] : (positions.get(key) ?? [])) {
      const start = line - index
      if (start < 0) continue
      scores[start] = (scores[start] ?? 0) + 1
      if (isBetter(start)) best = start
    }
  return best
}

/** Where the first filled line has the likest counterpart: at least half of it the same from both ends. */
const mostLikeLine = (keys: Keys, wanted: Keys): number | undefined => {
  const index = wanted.findIndex((key) => key !== undefined && key !== "")
  const key = wanted[index]
  if (key === undefined) return undefined
  let best: number | undefined
  let bestLikeness = 0.5
  for (const [line, other] of keys.entries()) {
    const likeness = other === undefined || line < index ? 0 : likenessOf(key, other)
    if (likeness <= bestLikeness) continue
    best = line - index
    bestLikeness = likeness
  }
  return best
}

const likenessOf = (a: string, b: string): number => {
  const shorter = Math.min(a.length, b.length)
  let head = 0
  while (head < shorter && a[head] === b[head]) head++
  let tail = 0
  while (tail < shorter - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  return (head + tail) / Math.max(a.length, b.length)
}

/**
 * One page of one spool as a caller asked for it: what follows a cursor, or beginning and end; raw or clean. It steps
 * over what was given back and says how much that was. Memory is bounded whatever the output is.
 */
import { Effect } from "effect"
import { cleanView } from "./CleanView.ts"
import {
  afterLoss,
  completeLength,
  follow,
  headAndTail,
  headPart,
  leadingPartial,
  type OutputPage,
  type Part,
  page,
  tailPart,
  textOf,
} from "./OutputPage.ts"
import type { Gap, Spool } from "./ProcessSpawner.ts"

/** `follow`: what comes after an offset. `headTail`: beginning and end of that, when it is too long. */
export type View = "follow" | "headTail"

export interface PageRequest {
  readonly offset: number
  /** Where the output ends for now, or for good when no `more` comes. */
  readonly total: number
  readonly more: boolean
  readonly maxBytes: number
  readonly view: View
  readonly clean: boolean
}

/** Bytes that are cleaned at once; a longer output is cleaned at both ends. */
const CLEAN_AT_ONCE = 1_048_576

export const pageOf = (spool: Spool, request: PageRequest): Effect.Effect<OutputPage> =>
  request.view === "follow" ? following(spool, request) : bothEnds(spool, request)

const following = Effect.fnUntraced(function* (spool: Spool, request: PageRequest) {
  const gap = spool.gap()
  const isLost = isIn(gap, request.offset)
  const from = isLost ? Math.min(gap.to, request.total) : request.offset
  // A page ends at the gap, so that a cursor in it tells how much is missing.
  const until = from < gap.from && !isEmpty(gap) ? Math.min(gap.from, request.total) : request.total
  const shown = yield* request.clean ? cleanFollowing(spool, from, until, request) : rawFollowing(spool, from, until, request)
  return isLost ? afterLoss(from - request.offset, shown) : shown
})

const rawFollowing = Effect.fnUntraced(function* (spool: Spool, from: number, until: number, { maxBytes, more, total }: PageRequest) {
  const length = Math.min(maxBytes, Math.max(0, until - from))
  return follow(yield* spool.read(from, length), from, from + length < until || (more && until === total))
})

const cleanFollowing = Effect.fnUntraced(function* (spool: Spool, from: number, until: number, { maxBytes, more, total }: PageRequest) {
  const length = Math.min(CLEAN_AT_ONCE, Math.max(0, until - from))
  const { bytes, origins, taken } = cleanView(yield* spool.read(from, length), from + length < until || (more && until === total))
  if (bytes.length <= maxBytes) return page(textOf(bytes), from + taken)
  const shown = completeLength(bytes.subarray(0, maxBytes))
  return page(textOf(bytes.subarray(0, shown)), from + origins[shown]!)
})

const bothEnds = Effect.fnUntraced(function* (spool: Spool, request: PageRequest) {
  const { clean, maxBytes, more, offset, total } = request
  const gap = spool.gap()
  const hasGap = !isEmpty(gap) && gap.to > offset
  const atOnce = clean ? CLEAN_AT_ONCE : maxBytes
  if (!hasGap && total - offset <= atOnce) {
    const bytes = yield* spool.read(offset, Math.max(0, total - offset))
    return clean ? cleanEnds(bytes, request) : follow(bytes, offset, more)
  }
  const half = Math.floor(maxBytes / 2)
  const window = clean ? CLEAN_AT_ONCE / 2 : half
  const headEnd = Math.min(offset + window, hasGap ? Math.max(offset, gap.from) : total)
  const tailStart = Math.max(total - window, headEnd, hasGap ? Math.min(gap.to, total) : 0)
  const [first, last] = [yield* spool.read(offset, headEnd - offset), yield* spool.read(tailStart, total - tailStart)]
  const lost = hasGap ? Math.min(gap.to, total) - Math.max(gap.from, offset) : 0
  return clean
    ? headAndTail(cleanHead(first, offset, half), cleanTail(last, tailStart, half, more), lost)
    : headAndTail(headPart(first, offset), tailPart(last, tailStart, more), lost)
})

/** An output that is clean as a whole. */
const cleanEnds = (bytes: Uint8Array, { maxBytes, more, offset }: PageRequest): OutputPage => {
  const view = cleanView(bytes, more)
  if (view.bytes.length <= maxBytes) return page(textOf(view.bytes), offset + view.taken)
  const half = Math.floor(maxBytes / 2)
  const shown = completeLength(view.bytes.subarray(0, half))
  const rest = view.bytes.length - half
  const skipped = leadingPartial(view.bytes.subarray(rest))
  const head = { text: textOf(view.bytes.subarray(0, shown)), from: offset, to: offset + view.origins[shown]! }
  const tail = { text: textOf(view.bytes.subarray(rest + skipped)), from: offset + view.origins[rest + skipped]!, to: offset + view.taken }
  return headAndTail(head, tail, 0)
}

const cleanHead = (bytes: Uint8Array, offset: number, maxBytes: number): Part => {
  const view = cleanView(bytes, true)
  const shown = Math.min(view.bytes.length, completeLength(view.bytes.subarray(0, maxBytes)))
  const to = shown < view.bytes.length ? view.origins[shown]! : view.taken
  return { text: textOf(view.bytes.subarray(0, shown)), from: offset, to: offset + to }
}

const cleanTail = (bytes: Uint8Array, offset: number, maxBytes: number, more: boolean): Part => {
  const view = cleanView(bytes, more)
  const start = Math.max(0, view.bytes.length - maxBytes)
  const from = start + leadingPartial(view.bytes.subarray(start))
  return {
    text: textOf(view.bytes.subarray(from)),
    from: offset + (from > 0 ? (view.origins[from] ?? view.taken) : 0),
    to: offset + view.taken,
  }
}

const isEmpty = (gap: Gap): boolean => gap.to <= gap.from
const isIn = (gap: Gap, offset: number): boolean => offset >= gap.from && offset < gap.to

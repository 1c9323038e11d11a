/**
 * What is said of a process: its facts with a page of output, its line in a list, and the waiting for more. Any number of
 * readers may ask; none takes anything from another.
 */
import { DateTime, Deferred, Effect } from "effect"
import type { ProcessFacts, ProcessSummary } from "../schema/Process.ts"
import { type Ending, type ManagedProcess, now } from "./ManagedProcess.ts"
import { cursorAt, follow, headAndTail, indexOf, type OutputPage } from "./OutputPage.ts"

/** Milliseconds a read that saw new output waits for the end: the last line and the exit belong together. */
const SETTLE = 25
/** Bytes looked through at a time for a text. */
const SEARCH_CHUNK = 65_536

/** `follow`: what comes after an offset. `headTail`: beginning and end of that, when it is too long. */
export type View = "follow" | "headTail"

/** The facts as they are now, with a page of the output from `offset` on. */
export const report = Effect.fnUntraced(function* (process: ManagedProcess, offset: number, maxBytes: number, view: View) {
  // The ending is looked at first: what it shows as the end of the output is the end then.
  const ending = process.ending
  const total = yield* readable(process)
  const page = yield* pageOf(process, offset, total, maxBytes, view, ending === undefined)
  const durationMs = ending?.durationMs ?? Math.round((yield* now) - process.startedAt)
  const notes = ending?.notes ?? []
  return {
    process_id: process.id,
    state: ending?.state ?? "running",
    ...(ending === undefined ? {} : { ...exitFields(ending), ended_by: ending.endedBy }),
    duration_ms: durationMs,
    output: page.text,
    cursor: cursorAt(page.end),
    total_bytes: total,
    omitted_bytes: page.omitted,
    ...(page.omitted > 0 ? { omitted_cursor: cursorAt(page.gap) } : {}),
    eof: ending !== undefined && page.end >= total,
    ...(notes.length > 0 ? { notes } : {}),
  } satisfies ProcessFacts
})

/** How a process ended, as the wire says it. */
export const exitFields = ({ exit }: Ending) => ("code" in exit ? { exit_code: exit.code } : { signal: exit.signal })

const pageOf = Effect.fnUntraced(function* (
  { child: { spool } }: ManagedProcess,
  offset: number,
  total: number,
  maxBytes: number,
  view: View,
  isRunning: boolean,
): Effect.fn.Return<OutputPage> {
  const length = Math.max(0, total - offset)
  if (length <= maxBytes) return follow(yield* spool.read(offset, length), offset, isRunning)
  if (view === "follow") return follow(yield* spool.read(offset, maxBytes), offset, true)
  const half = Math.floor(maxBytes / 2)
  const head = yield* spool.read(offset, half)
  return headAndTail(head, offset, yield* spool.read(total - half, half), total - half, isRunning)
})

/** One line of a list. */
export const summaryOf = (process: ManagedProcess): ProcessSummary => ({
  process_id: process.id,
  workspace_id: process.workspaceId,
  command: process.command,
  cwd: process.cwd,
  state: process.ending?.state ?? "running",
  started_at: DateTime.formatIso(DateTime.makeUnsafe(process.startedOn)),
  ...(process.ending !== undefined && "code" in process.ending.exit ? { exit_code: process.ending.exit.code } : {}),
  access: process.access,
  tty: false,
})

/** Bytes that can be read; what lies behind the limit is about to be dropped. */
export const readable = (process: ManagedProcess) => Effect.map(process.child.spool.size, (size) => Math.min(size, process.spoolBytes))

/** Waits for bytes behind `offset`, or the end. */
export const awaitGrowth = (process: ManagedProcess, offset: number): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (process.ending !== undefined) return Effect.void
    const end = Effect.asVoid(Deferred.await(process.ended))
    // Behind the limit the spool may still grow, but never what can be read.
    return offset >= process.spoolBytes ? end : Effect.raceFirst(process.child.spool.grown(offset), end)
  })

/** Waits for output behind `offset`, or the end. Returns at once when some is there. */
export const awaitMore = Effect.fnUntraced(function* (process: ManagedProcess, offset: number) {
  if ((yield* readable(process)) > offset) return
  yield* awaitGrowth(process, offset)
  yield* Effect.timeoutOption(Deferred.await(process.ended), SETTLE)
})

/** Waits for a text behind `offset`, or the end. Memory does not grow with the output. */
export const awaitText = Effect.fnUntraced(function* (process: ManagedProcess, offset: number, wanted: Uint8Array) {
  let from = offset
  while (true) {
    const hasEnded = process.ending !== undefined
    const size = yield* readable(process)
    while (from + wanted.length <= size) {
      const chunk = yield* process.child.spool.read(from, Math.min(SEARCH_CHUNK, size - from))
      if (indexOf(chunk, wanted) >= 0) return yield* Effect.asVoid(Effect.timeoutOption(Deferred.await(process.ended), SETTLE))
      if (chunk.length < wanted.length) break
      // The text may begin in this chunk and end in the next.
      from += chunk.length - wanted.length + 1
    }
    if (hasEnded) return
    yield* awaitGrowth(process, size)
  }
})

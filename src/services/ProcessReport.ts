/**
 * What is said of a process: its facts with a page of output, its line in a list, and the waiting for more. Any number of
 * readers may ask; none takes anything from another.
 */
import { DateTime, Deferred, Effect } from "effect"
import { InvalidArguments } from "../schema/Operation.ts"
import type { ProcessFacts, ProcessSummary, StreamFacts } from "../schema/Process.ts"
import type { Ending, KnownProcess } from "./KnownProcess.ts"
import { now } from "./ManagedProcess.ts"
import { cursorAt, indexOf, offsetOf } from "./OutputPage.ts"
import { pageOf, type View } from "./OutputView.ts"
import type { Spool } from "./ProcessSpawner.ts"

/** Milliseconds a read that saw new output waits for the end: the last line and the exit belong together. */
const SETTLE = 25
/** Bytes looked through at a time for a text. */
const SEARCH_CHUNK = 65_536

/** What is asked of an output. */
export interface Shown {
  readonly spool: Spool
  readonly offset: number
  readonly maxBytes: number
  readonly view: View
  readonly clean: boolean
}

/** The facts as they are now, with a page of the output. */
export const report = Effect.fnUntraced(function* (process: KnownProcess, shown: Shown) {
  // The ending is looked at first: what it shows as the end of the output is the end then.
  const ending = process.ending
  const durationMs = ending?.durationMs ?? Math.round((yield* now) - process.startedAt)
  const notes = ending?.notes ?? []
  const denials = ending?.denials ?? []
  const decided = ending?.decided
  const { end, ...stream } = yield* streamFacts(process, shown, ending === undefined)
  return {
    process_id: process.id,
    state: ending?.state ?? "running",
    ...(ending === undefined ? {} : { ...exitFields(ending), ended_by: ending.endedBy }),
    duration_ms: durationMs,
    ...stream,
    eof: ending !== undefined && end >= stream.total_bytes,
    sandbox: process.level,
    ...(denials.length > 0 ? { network_denials: denials } : {}),
    ...(decided === undefined || decided.verdicts.length === 0 ? {} : { network_verdicts: decided.verdicts }),
    ...(decided === undefined || decided.untold === 0 ? {} : { network_untold: decided.untold }),
    ...(notes.length > 0 ? { notes } : {}),
  } satisfies ProcessFacts
})

/** A whole process at a glance: beginning and end of its output, of both streams when they are split. */
export const glance = Effect.fnUntraced(function* (process: KnownProcess, maxBytes: number, clean: boolean) {
  const { errors, spool } = process
  if (errors === undefined) return yield* report(process, { spool, offset: 0, maxBytes, view: "headTail", clean })
  const half = { offset: 0, maxBytes: Math.ceil(maxBytes / 2), view: "headTail", clean } as const
  const isRunning = process.ending === undefined
  const { end: _, ...stderr } = yield* streamFacts(process, { ...half, spool: errors }, isRunning)
  return { ...(yield* report(process, { ...half, spool })), stderr } satisfies ProcessFacts
})

const streamFacts = Effect.fnUntraced(function* (process: KnownProcess, { spool, ...asked }: Shown, isRunning: boolean) {
  const total = yield* readable(process, spool)
  const page = yield* pageOf(spool, { ...asked, total, more: isRunning })
  const gap = spool.gap()
  const facts: StreamFacts = {
    output: page.text,
    cursor: cursorAt(page.end),
    total_bytes: total,
    omitted_bytes: page.omitted,
    ...(page.readable > 0 ? { omitted_cursor: cursorAt(page.gap) } : {}),
    ...(gap.to > gap.from ? { dropped_bytes: gap.to - gap.from } : {}),
  }
  return { ...facts, end: page.end }
})

/** How a process ended, as the wire says it. */
export const exitFields = ({ exit }: Pick<Ending, "exit">) =>
  exit === undefined ? {} : "code" in exit ? { exit_code: exit.code } : { signal: exit.signal }

const exitCodeOf = (exit: Ending["exit"]) => (exit !== undefined && "code" in exit ? { exit_code: exit.code } : {})

/** One line of a list. */
export const summaryOf = (process: KnownProcess): ProcessSummary => ({
  process_id: process.id,
  workspace_id: process.workspaceId,
  command: process.command,
  cwd: process.cwd,
  state: process.ending?.state ?? "running",
  started_at: DateTime.formatIso(DateTime.makeUnsafe(process.startedOn)),
  ...exitCodeOf(process.ending?.exit),
  access: process.access,
  tty: process.tty,
})

/** Bytes that can be read; what lies behind the limit is about to be dropped. */
export const readable = (process: KnownProcess, spool: Spool) => Effect.map(spool.size, (size) => Math.min(size, process.readableTo))

/** Waits for bytes behind `offset`, or the end. */
export const awaitGrowth = (process: KnownProcess, spool: Spool, offset: number): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (process.ending !== undefined) return Effect.void
    const end = Effect.asVoid(Deferred.await(process.ended))
    // Behind the limit the spool may still grow, but never what can be read.
    return offset >= process.readableTo ? end : Effect.raceFirst(spool.grown(offset), end)
  })

/** Waits for output behind `offset`, or the end. Returns at once when some is there. */
export const awaitMore = Effect.fnUntraced(function* (process: KnownProcess, spool: Spool, offset: number) {
  if ((yield* readable(process, spool)) > offset) return
  yield* awaitGrowth(process, spool, offset)
  yield* Effect.timeoutOption(Deferred.await(process.ended), SETTLE)
})

/** Waits for a text behind `offset`, or the end. Memory does not grow with the output. */
export const awaitText = Effect.fnUntraced(function* (process: KnownProcess, spool: Spool, offset: number, wanted: Uint8Array) {
  let from = offset
  while (true) {
    const hasEnded = process.ending !== undefined
    const size = yield* readable(process, spool)
    while (from + wanted.length <= size) {
      const gap = spool.gap()
      if (from >= gap.from && from < gap.to) from = gap.to
      const chunk = yield* spool.read(from, Math.min(SEARCH_CHUNK, size - from))
      if (indexOf(chunk, wanted) >= 0) return yield* Effect.asVoid(Effect.timeoutOption(Deferred.await(process.ended), SETTLE))
      if (chunk.length < wanted.length) break
      // The text may begin in this chunk and end in the next.
      from += chunk.length - wanted.length + 1
    }
    if (hasEnded) return
    yield* awaitGrowth(process, spool, size)
  }
})

export interface ReadRequest {
  readonly cursor?: string
  readonly waitMs: number
  readonly until?: string
  readonly maxBytes: number
  readonly view: View
  readonly stream?: "stdout" | "stderr"
  readonly clean?: boolean
}

/** A page of output after the cursor; waits for more, for a text, or for the end when it is asked to. */
export const readFrom = Effect.fnUntraced(function* (process: KnownProcess, request: ReadRequest) {
  const { clean = process.tty, maxBytes, until, view } = request
  const spool = yield* spoolFor(process, request.stream)
  const offset = request.cursor === undefined ? 0 : yield* decodeCursor(request.cursor)
  if (request.waitMs > 0) {
    const wait = until === undefined ? awaitMore(process, spool, offset) : awaitText(process, spool, offset, encoder.encode(until))
    yield* Effect.timeoutOption(wait, request.waitMs)
  }
  return yield* report(process, { spool, offset, maxBytes, view, clean })
})

const encoder = new TextEncoder()

const spoolFor = ({ errors, spool }: KnownProcess, stream: "stdout" | "stderr" | undefined) => {
  if (stream !== "stderr") return Effect.succeed(spool)
  const problem = "stream: stderr is not apart from stdout; only a process started with split has it"
  return errors === undefined ? Effect.fail(new InvalidArguments({ problems: [problem] })) : Effect.succeed(errors)
}

export const decodeCursor = (cursor: string): Effect.Effect<number, InvalidArguments> =>
  Effect.suspend(() => {
    const offset = offsetOf(cursor)
    const problem = `cursor: found ${JSON.stringify(cursor.slice(0, 40))}, wanted a cursor of an earlier result`
    return offset === undefined ? Effect.fail(new InvalidArguments({ problems: [problem] })) : Effect.succeed(offset)
  })

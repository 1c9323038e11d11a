/** What a caller sends to a process: bytes for its stdin, the end of them, a new size for its terminal. */
import { Deferred, Effect } from "effect"
import { InvalidArguments } from "../schema/Operation.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import { ProcessExited, type Signal, StdinClosed, type TerminalSize } from "../schema/Process.ts"
import type { Ending, KnownProcess } from "./KnownProcess.ts"
import { type ManagedProcess, now } from "./ManagedProcess.ts"
import { awaitGrowth, decodeCursor, exitFields, readable, report } from "./ProcessReport.ts"

/** Milliseconds an input has to be taken at least, and an end to show after a broken pipe. */
const TAKEN_WITHIN = 25
const END_SHOWS_WITHIN = 100
/** Bytes of input a process may leave unread before more is refused. */
const PENDING_INPUT = 4_194_304

export interface WriteRequest {
  readonly data?: string
  readonly close?: boolean
  readonly signal?: Signal
  readonly resize?: TerminalSize
  readonly waitMs: number
  readonly cursor?: string
  readonly maxBytes: number
}

const encoder = new TextEncoder()

/** Ctrl-C. */
const INTERRUPT_KEY = "\u0003"

/** Writes, closes stdin and signals, in this order, then waits for output after the cursor. */
export const writeTo = Effect.fnUntraced(function* (process: ManagedProcess, request: WriteRequest) {
  const writes = request.data !== undefined || request.close === true
  if (writes && !process.stdinIsOpen) return yield* new StdinClosed({ process_id: process.id })
  const { spool } = process
  const offset = request.cursor === undefined ? yield* readable(process, spool) : yield* decodeCursor(request.cursor)
  const writtenAt = yield* now
  if (request.resize !== undefined) yield* resize(process, request.resize)
  if (process.tty && request.data?.includes(INTERRUPT_KEY)) process.signals.add("SIGINT")
  if (request.data !== undefined && request.data !== "") yield* feed(process, encoder.encode(request.data), request.waitMs)
  if (request.close === true) {
    process.stdinIsOpen = process.tty
    yield* process.child.closeInput
  }
  if (request.signal !== undefined) {
    process.signals.add(request.signal)
    yield* process.child.signal(request.signal)
  }
  const left = request.waitMs - ((yield* now) - writtenAt)
  if (left > 0) yield* Effect.timeoutOption(awaitGrowth(process, spool, offset), left)
  const facts = yield* report(process, { spool, offset, maxBytes: request.maxBytes, view: "follow", clean: process.tty })
  const pending = process.child.pendingInput()
  return pending === 0
    ? facts
    : { ...facts, notes: [...(facts.notes ?? []), `the process has not taken ${pending} bytes of its input yet`] }
})

/** Writes to stdin, and waits for a moment that the process takes it. */
const feed = Effect.fnUntraced(function* (process: ManagedProcess, bytes: Uint8Array, waitMs: number) {
  const pending = process.child.pendingInput() + bytes.length
  if (pending > PENDING_INPUT) return yield* new LimitExceeded({ limit: "unread stdin bytes", value: PENDING_INPUT, asked: pending })
  yield* process.child.write(bytes).pipe(
    Effect.timeoutOption(Math.max(waitMs, TAKEN_WITHIN)),
    Effect.catchTag("InputClosed", () => closedInput(process)),
  )
})

/** The other end of stdin is gone: because the process ends, or because it closed it. */
const closedInput = Effect.fnUntraced(function* (process: ManagedProcess) {
  process.stdinIsOpen = false
  yield* Effect.timeoutOption(Deferred.await(process.ended), END_SHOWS_WITHIN)
  return yield* process.ending === undefined ? new StdinClosed({ process_id: process.id }) : exited(process, process.ending)
})

export const exited = (process: KnownProcess, ending: Ending) =>
  new ProcessExited({ process_id: process.id, state: ending.state, ...exitFields(ending) })

const resize = (process: ManagedProcess, size: TerminalSize): Effect.Effect<void, InvalidArguments> =>
  process.child.resize?.(size) ??
  Effect.fail(new InvalidArguments({ problems: ["resize: the process has no terminal; start it with tty"] }))

/** What a caller sends to a process: bytes for its stdin, the end of them, a new size for its terminal. */
import { Deferred, Effect } from "effect"
import { InvalidArguments } from "../schema/Operation.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import { ProcessExited, StdinClosed, type TerminalSize } from "../schema/Process.ts"
import type { Ending, KnownProcess } from "./KnownProcess.ts"
import type { ManagedProcess } from "./ManagedProcess.ts"
import { exitFields } from "./ProcessReport.ts"

/** Milliseconds an input has to be taken at least, and an end to show after a broken pipe. */
const TAKEN_WITHIN = 25
const END_SHOWS_WITHIN = 100
/** Bytes of input a process may leave unread before more is refused. */
const PENDING_INPUT = 4_194_304

/** Writes to stdin, and waits for a moment that the process takes it. */
export const feed = Effect.fnUntraced(function* (process: ManagedProcess, bytes: Uint8Array, waitMs: number) {
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

export const resize = (process: ManagedProcess, size: TerminalSize): Effect.Effect<void, InvalidArguments> =>
  process.child.resize?.(size) ??
  Effect.fail(new InvalidArguments({ problems: ["resize: the process has no terminal; start it with tty"] }))

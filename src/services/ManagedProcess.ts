/**
 * One process from its start to its end: limits are watched, a wish to end it is carried out, and when its main process
 * is gone whatever descends from it goes too. An ending is announced only when the last byte of output can be read.
 */
import { Clock, Deferred, Effect, Option } from "effect"
import type { Access, EndedBy, ProcessId, ProcessState, Signal } from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import type { Child, Descendant, Exit } from "./ProcessSpawner.ts"

/** Milliseconds between the looks at size and time of a live process. A flood of output shortens them. */
const CHECK_EVERY = 100
const CHECK_FIRST = 10
const CHECK_AT_LEAST = 5
/** Milliseconds between SIGTERM and SIGKILL when a time limit ends a process. */
export const TIMEOUT_GRACE = 1000
/** Milliseconds that descendants may outlive their main process: a `tee` behind a pipe still has to write its last bytes. */
const LINGER = 100
/** Milliseconds after which something that survives SIGKILL is said to have escaped. */
export const ESCAPE_AFTER = 2000

/** Signals a program brings upon itself by a mistake of its own. */
const OWN_FAULTS = new Set(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGPIPE"])

/** Milliseconds on a clock that nobody sets: a corrected calendar must not end a process. */
export const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1000n) / 1000)

export interface Ending {
  readonly state: ProcessState
  readonly exit: Exit
  readonly endedBy: EndedBy
  readonly durationMs: number
  readonly notes: ReadonlyArray<string>
}

export interface ManagedProcess {
  readonly id: ProcessId
  readonly workspaceId: WorkspaceId
  readonly command: string
  readonly cwd: string
  readonly access: Access
  /** By `now`, and for people by the calendar in epoch milliseconds. */
  readonly startedAt: number
  readonly startedOn: number
  readonly timeoutMs: number
  readonly idleTimeoutMs: number
  readonly spoolBytes: number
  readonly child: Child
  readonly ended: Deferred.Deferred<Ending>
  /** Signals sent for a caller. */
  readonly signals: Set<string>
  /** Descendants that were signalled, by identity. */
  readonly endedWith: Set<string>
  stdinIsOpen: boolean
  ending: Ending | undefined
  /** Who wants it ended, why, and from when on by SIGKILL (by `now`). */
  wish: { readonly by: EndedBy; readonly why?: string; readonly killAt: number } | undefined
}

/**
 * Asks for the end of the whole tree: SIGTERM now, SIGKILL after `graceMs`. The first wish says why the process ended; a
 * later one can only hasten it. Nothing happens once the main process has ended by itself.
 */
export const requestEnd = Effect.fnUntraced(function* (process: ManagedProcess, by: EndedBy, graceMs: number, why?: string) {
  if (process.ending !== undefined || (process.wish === undefined && process.child.hasExited())) return
  const killAt = (yield* now) + graceMs
  const first = process.wish === undefined
  process.wish = process.wish === undefined ? { by, ...(why === undefined ? {} : { why }), killAt } : hastened(process.wish, killAt)
  if (graceMs === 0) yield* signalTree(process, "SIGKILL")
  else if (first) {
    yield* signalTree(process, "SIGTERM")
    // A stopped process would keep the signal for later.
    yield* process.child.signalTree("SIGCONT")
  }
})

const hastened = (wish: NonNullable<ManagedProcess["wish"]>, killAt: number) => ({ ...wish, killAt: Math.min(wish.killAt, killAt) })

const signalTree = Effect.fnUntraced(function* (process: ManagedProcess, signal: Signal) {
  for (const descendant of yield* process.child.signalTree(signal)) process.endedWith.add(identityOf(descendant))
})

/** Watches a process until it has ended, and announces the ending. Runs once for each process. */
export const supervise = Effect.fnUntraced(function* (process: ManagedProcess) {
  const exit = yield* watch(process)
  const escaped = yield* sweep(process)
  // Until then a process that nobody saw may still be there; what cannot be ended has its note already.
  yield* Effect.timeoutOption(process.child.closed, ESCAPE_AFTER)
  const written = yield* process.child.spool.size
  if (written > process.spoolBytes) yield* process.child.spool.cut(process.spoolBytes)
  const durationMs = Math.round((yield* now) - process.startedAt)
  const dropped = Math.max(0, written - process.spoolBytes)
  process.ending = { ...causeOf(process, exit), exit, durationMs, notes: notesOf(process, escaped, dropped) }
  Deferred.doneUnsafe(process.ended, Effect.succeed(process.ending))
})

/** Waits for the main process; ends it when a limit is passed, and with SIGKILL when its grace is over. */
const watch = Effect.fnUntraced(function* (process: ManagedProcess) {
  let size = 0
  let checkedAt = process.startedAt
  let grownAt = process.startedAt
  let pause = CHECK_FIRST
  while (true) {
    const exit = yield* Effect.timeoutOption(process.child.exit, pause)
    if (Option.isSome(exit)) return exit.value
    const time = yield* now
    const found = yield* process.child.spool.size
    if (found !== size) grownAt = time
    const rate = Math.max(0, found - size) / Math.max(1, time - checkedAt)
    size = found
    checkedAt = time
    yield* enforce(process, time, found, grownAt)
    const untilFull = rate === 0 ? CHECK_EVERY : (process.spoolBytes - found) / rate / 2
    const untilDue = dueAt(process, grownAt) - time
    pause = Math.max(CHECK_AT_LEAST, Math.min(CHECK_EVERY, pause * 2, untilFull, untilDue > 0 ? untilDue : CHECK_EVERY))
  }
})

/** When the next time limit is reached. */
const dueAt = (process: ManagedProcess, grownAt: number): number =>
  process.wish?.killAt ?? Math.min(process.startedAt + process.timeoutMs, grownAt + process.idleTimeoutMs)

const enforce = Effect.fnUntraced(function* (process: ManagedProcess, time: number, size: number, grownAt: number) {
  // A flood does not stop for a polite request, and the disk fills meanwhile.
  if (size > process.spoolBytes) return yield* requestEnd(process, "limit", 0)
  if (process.wish !== undefined) return time >= process.wish.killAt ? yield* signalTree(process, "SIGKILL") : undefined
  if (time >= process.startedAt + process.timeoutMs)
    return yield* requestEnd(process, "timeout", TIMEOUT_GRACE, `ended because it ran for ${process.timeoutMs} ms`)
  if (time >= grownAt + process.idleTimeoutMs)
    return yield* requestEnd(process, "timeout", TIMEOUT_GRACE, `ended because it wrote nothing for ${process.idleTimeoutMs} ms`)
})

/** Ends what the main process left behind, and gives what could not be ended. Immediate when nothing was left. */
const sweep = Effect.fnUntraced(function* (process: ManagedProcess) {
  let alive = yield* process.child.descendants
  if (alive.length === 0) return alive
  const exitedAt = yield* now
  for (let pause = 1; alive.length > 0; pause = Math.min(50, pause * 2)) {
    const time = yield* now
    const killAt = process.wish?.killAt ?? exitedAt + LINGER
    if (time >= Math.max(killAt, exitedAt) + ESCAPE_AFTER) return alive
    if (time >= killAt) yield* signalTree(process, "SIGKILL")
    yield* Effect.sleep(pause)
    alive = yield* process.child.descendants
  }
  return alive
})

const causeOf = (process: ManagedProcess, exit: Exit): Pick<Ending, "state" | "endedBy"> => {
  if (process.wish !== undefined) return { state: process.wish.by === "timeout" ? "timed_out" : "terminated", endedBy: process.wish.by }
  if ("code" in exit) return { state: "exited", endedBy: "itself" }
  if (process.signals.has(exit.signal)) return { state: "signalled", endedBy: "caller" }
  return { state: "signalled", endedBy: OWN_FAULTS.has(exit.signal) ? "itself" : "unknown_external" }
}

const notesOf = (process: ManagedProcess, escaped: ReadonlyArray<Descendant>, dropped: number): ReadonlyArray<string> => {
  const notes = process.wish?.why === undefined ? [] : [process.wish.why]
  const ended = process.endedWith.size - escaped.filter((descendant) => process.endedWith.has(identityOf(descendant))).length
  if (ended > 0) notes.push(`${ended} ${ended === 1 ? "descendant" : "descendants"} ended with it`)
  if (escaped.length > 0) notes.push(`could not be ended: pid ${escaped.map(({ pid }) => pid).join(", ")}`)
  if (dropped > 0) notes.push(`the output limit of ${process.spoolBytes} bytes was reached; ${dropped} more bytes were dropped`)
  return notes
}

const identityOf = ({ pid, start }: Descendant): string => `${pid}.${start}`

/**
 * One process from its start to its end: limits are watched, a wish to end it is carried out, and when its main process
 * is gone whatever descends from it goes too. An ending is announced only when the last byte of output can be read.
 */
import { Clock, Deferred, Effect, Option } from "effect"
import type { EndedBy, Signal } from "../schema/Process.ts"
import { type Ending, type KnownProcess, NOTHING_DECIDED, spoolsOf } from "./KnownProcess.ts"
import { leadingPartial } from "./OutputPage.ts"
import type { Child, Descendant, Exit, Spool } from "./ProcessSpawner.ts"
import type { Entrance } from "./Sandbox.ts"

/** Milliseconds between the looks at size and time of a live process. A flood of output shortens them. */
const CHECK_EVERY = 100
const CHECK_FIRST = 10
const CHECK_AT_LEAST = 5
/** Milliseconds between SIGTERM and SIGKILL when a time limit ends a process. */
const TIMEOUT_GRACE = 1000
/**
 * Milliseconds that descendants may outlive their main process: a `tee` behind a pipe still has to write its last bytes.
 * On a machine with too much to do it may have to wait for its turn; so what is busy gets more than what only stays.
 */
const LINGER = 100
const LINGER_BUSY = 1000
/** Milliseconds after which something that survives SIGKILL is said to have escaped. */
export const ESCAPE_AFTER = 2000

/** The most that stays of the beginning of a spool that is too long, in bytes. */
const HEAD_KEPT = 1_048_576

/** Signals a program brings upon itself by a mistake of its own. */
const OWN_FAULTS = new Set(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGPIPE"])

/** Milliseconds on a clock that nobody sets: a corrected calendar must not end a process. */
export const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1000n) / 1000)

/** A process of this server. */
export interface ManagedProcess extends KnownProcess {
  readonly timeoutMs: number
  readonly idleTimeoutMs: number
  /** Bytes of output that may be kept of it now; less when many share what there is. */
  readonly quota: () => number
  readonly child: Child
  /** How it was confined. */
  readonly entrance: Entrance
  /** Signals sent for a caller. */
  readonly signals: Set<string>
  /** Descendants that were signalled, by identity. */
  readonly endedWith: Set<string>
  stdinIsOpen: boolean
  readableTo: number
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

/** Watches a process until it has ended; in its `turn` ends what is left of it, writes that down and announces it. Runs once for each process. */
export const supervise = Effect.fnUntraced(function* (
  process: ManagedProcess,
  turn: Effect.Effect<void>,
  writeDown: (process: ManagedProcess) => Effect.Effect<void>,
) {
  const exit = yield* watch(process)
  yield* turn
  const escaped = yield* sweep(process)
  const denials = yield* process.entrance.denials
  // Until then a process that nobody saw may still be there; what cannot be ended has its note already.
  yield* Effect.timeoutOption(process.child.closed, ESCAPE_AFTER)
  const losses = Option.getOrElse(yield* Effect.timeoutOption(process.child.losses, ESCAPE_AFTER), () => [STILL_OPEN])
  const { dropped, keptBytes } = yield* settleSpools(process)
  const endedAt = yield* now
  const durationMs = Math.round(endedAt - process.startedAt)
  const failed = "code" in exit && exit.code === 0 ? [] : (process.entrance.ifItFails ?? [])
  const notes = [...notesOf(process, escaped, dropped), ...losses, ...denials.notes, ...failed]
  process.ending = {
    ...causeOf(process, exit),
    exit,
    endedAt,
    durationMs,
    keptBytes,
    notes,
    denials: denials.network,
    decided: denials.decided ?? NOTHING_DECIDED,
  }
  yield* writeDown(process)
  Deferred.doneUnsafe(process.ended, Effect.succeed(process.ending))
})

/** Bytes written to all spools. */
const written = (process: ManagedProcess) =>
  Effect.map(
    Effect.forEach(spoolsOf(process), ({ size }) => size),
    (sizes) => sizes.reduce((sum, size) => sum + size, 0),
  )

/** Makes what is kept fit its quota for good; gives how many bytes are there and how many are gone. */
const settleSpools = Effect.fnUntraced(function* (process: ManagedProcess) {
  let [dropped, keptBytes] = [0, 0]
  for (const spool of spoolsOf(process)) {
    yield* trim(process, spool)
    const size = yield* spool.size
    if (size > process.readableTo) yield* spool.cut(process.readableTo)
    const lost = Math.max(0, size - process.readableTo) + spool.gap().to - spool.gap().from
    dropped += lost
    keptBytes += size - lost
  }
  return { dropped, keptBytes }
})

/**
 * Gives the middle of a spool back when its quota is reached: the beginning stays, and the newest half. Where the disk
 * cannot do that, what can be read ends at the quota, and so does the process.
 */
const trim = Effect.fnUntraced(function* (process: ManagedProcess, spool: Spool) {
  const quota = Math.floor(process.quota() / spoolsOf(process).length)
  const size = yield* spool.size
  const gap = spool.gap()
  const kept = size - (gap.to - gap.from)
  if (kept <= quota || process.readableTo < Number.POSITIVE_INFINITY) return
  const head = Math.floor(Math.min(HEAD_KEPT, quota / 4))
  if (!(yield* spool.giveBack(yield* characterAt(spool, head), yield* characterAt(spool, size - Math.floor(quota / 2)))))
    process.readableTo = quota
})

/** The first offset from here on at which a character begins. */
const characterAt = (spool: Spool, offset: number) => Effect.map(spool.read(offset, 3), (bytes) => offset + leadingPartial(bytes))

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
    const found = yield* written(process)
    if (found !== size) grownAt = time
    for (const spool of spoolsOf(process)) yield* trim(process, spool)
    const rate = Math.max(0, found - size) / Math.max(1, time - checkedAt)
    size = found
    checkedAt = time
    yield* enforce(process, time, found, grownAt)
    // Often enough that not more than a part of the quota is written between two looks.
    const untilFull = rate === 0 ? CHECK_EVERY : process.quota() / 8 / rate
    const untilDue = dueAt(process, grownAt) - time
    pause = Math.max(CHECK_AT_LEAST, Math.min(CHECK_EVERY, pause * 2, untilFull, untilDue > 0 ? untilDue : CHECK_EVERY))
  }
})

/** When the next time limit is reached. */
const dueAt = (process: ManagedProcess, grownAt: number): number =>
  process.wish?.killAt ?? Math.min(process.startedAt + process.timeoutMs, grownAt + process.idleTimeoutMs)

const enforce = Effect.fnUntraced(function* (process: ManagedProcess, time: number, size: number, grownAt: number) {
  // A flood does not stop for a polite request, and the disk fills meanwhile.
  if (size > process.readableTo) return yield* requestEnd(process, "limit", 0)
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
  let busyAt = exitedAt
  for (let pause = 1; alive.length > 0; pause = Math.min(50, pause * 2)) {
    const time = yield* now
    if (alive.some(({ isBusy }) => isBusy)) busyAt = time
    const killAt = process.wish?.killAt ?? Math.min(busyAt + LINGER, exitedAt + LINGER_BUSY)
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
  if (dropped > 0)
    notes.push(
      process.readableTo < Number.POSITIVE_INFINITY
        ? `the output limit of ${process.readableTo} bytes was reached, and what was kept could not be made less here; ${dropped} more bytes were dropped`
        : `the output limit was reached: beginning and end were kept, ${dropped} bytes between them were dropped`,
    )
  return notes
}

/** Of a process that was handed the output, over a socket perhaps. */
const STILL_OPEN = "a process outside of it still has its output open, which may grow"

const identityOf = ({ pid, start }: Descendant): string => `${pid}.${start}`

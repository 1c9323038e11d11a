/**
 * A pid namespace as the server sees it: what its keeper has said (`Keeper.ts`), who lives in it, and how they are signalled.
 * When the keeper goes, the kernel ends everything in the namespace; when the server goes, at whatever moment, the keeper
 * goes too. Nothing in the namespace can reach either of them.
 */
import type { ChildProcess } from "node:child_process"
import { readdirSync, readlinkSync } from "node:fs"
import type { Socket } from "node:net"
import { Deferred, Effect } from "effect"
import type { Signal } from "../schema/Process.ts"
import type { Descendant, Exit } from "../services/ProcessSpawner.ts"
import { bySignal, type Launched, signalName } from "./Launch.ts"
import { contentOf, descendantOf, isLiving, type Stat, sendTo, statOf } from "./ProcessTable.ts"

/** Milliseconds the line may stay open after all of it has gone. */
const LAST_WORDS = 1000

/** Deaths that a shell passes over in silence. */
const UNTOLD = new Set(["SIGINT", "SIGPIPE"])

export interface Cell {
  /** Of the process that made it. */
  readonly pid: number
  /** Completes when the keeper waits for an order; false when it has gone instead. */
  readonly isUp: Effect.Effect<boolean>
  /** Tells it to carry out its order. */
  readonly order: () => void
  /** Lets it go without one: then it ends, with its namespace, and one that comes up only later does so too. */
  readonly letGo: () => void
  /** Completes when the program's process is there; fails with what was said instead. */
  readonly started: Effect.Effect<Launched, string>
  /** Who is told the counters of its network. */
  onCounters: ((counters: string) => void) | undefined
}

/** `outer` is the process that made the namespace, with the line to the keeper on its descriptor 3. */
export const makeCell = (outer: ChildProcess, pid: number): Cell => {
  const line = outer.stdio[3] as Socket
  const exit = Deferred.makeUnsafe<Exit>()
  const gone = Deferred.makeUnsafe<void>()
  const sent = new Set<string>()
  let found: Stat | undefined
  let words = ""
  let rest = ""
  let isKilled = false
  let isAlone = false
  const up = Deferred.makeUnsafe<boolean>()
  const started = Deferred.makeUnsafe<Launched, string>()

  const hasExited = () => Deferred.isDoneUnsafe(exit)
  const end = (how: Exit) => Deferred.doneUnsafe(exit, Effect.succeed(how))
  /** A keeper that is to go and does not is not itself any more: a program of the same user can write into its memory. */
  const hurry = () => {
    const limit = setTimeout(() => outer.kill("SIGKILL"), LAST_WORDS).unref()
    outer.once("exit", () => clearTimeout(limit))
  }
  const heard = (text: string) => {
    if (text === "R") Deferred.doneUnsafe(up, Effect.succeed(true))
    else if (text === "S") {
      // What comes now is about the program.
      words = ""
      Deferred.doneUnsafe(started, Effect.succeed(launched()))
    } else if (/^[AE] \d+$/u.test(text)) {
      isAlone = text.startsWith("A")
      if (isAlone) hurry()
      end(exitOf(Number(text.slice(2)), words !== "", sent))
    } else if (cell.onCounters !== undefined && text.startsWith("N ")) cell.onCounters(`${text.slice(2)}\n`)
    else words += `${text}\n`
  }
  line.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString("latin1")).split("\n")
    rest = lines.pop() ?? ""
    for (const text of lines) heard(text)
  })
  // The other end goes with the namespace.
  line.on("error", () => {})
  outer.once("exit", (_, signal) => {
    const settle = () => {
      clearTimeout(limit)
      line.destroy()
      Deferred.doneUnsafe(up, Effect.succeed(false))
      Deferred.doneUnsafe(started, Effect.fail(words))
      end(bySignal(signal ?? "SIGKILL"))
      Deferred.doneUnsafe(gone, Effect.void)
    }
    // The keeper's last words may still be unread.
    const limit = setTimeout(settle, LAST_WORDS)
    if (line.closed) settle()
    else line.once("close", settle)
  })

  /** The namespace's first process; the number of its parent is the child's own until node has taken its exit. */
  const keeper = (): Stat | undefined => {
    if (found === undefined && outer.exitCode === null && outer.signalCode === null) found = childrenOf(pid).map(statOf)[0]
    return found
  }

  /** All that lives in the namespace but the keeper, the program itself first. */
  const members = (): ReadonlyArray<Stat> => {
    const first = isAlone ? undefined : keeper()
    return first === undefined || statOf(first.pid)?.start !== first.start ? [] : below(first.pid)
  }
  const mainOf = (all: ReadonlyArray<Stat>): Stat | undefined => (hasExited() ? undefined : all[0])
  const others = (all: ReadonlyArray<Stat>): ReadonlyArray<Descendant> =>
    all.filter((stat) => stat !== mainOf(all) && isLiving(stat)).map(descendantOf)

  const signalGroup = (signal: Signal) => {
    sent.add(signal)
    const all = members()
    const main = mainOf(all)
    const group = main === undefined ? undefined : main.foreground > 0 ? main.foreground : main.group
    for (const stat of all) if (stat.group === group) sendTo(descendantOf(stat), signal)
  }

  const signalTree = (signal: Signal): ReadonlyArray<Descendant> => {
    sent.add(signal)
    const all = members()
    if (signal !== "SIGKILL") for (const stat of all) sendTo(descendantOf(stat), signal)
    else {
      // With the keeper the kernel ends all of it, and only then the outer process; that one is for a second try.
      const first = keeper()
      if (first !== undefined) sendTo(descendantOf(first), signal)
      if (isKilled || first === undefined) outer.kill(signal)
      isKilled = true
    }
    return others(all)
  }

  const launched = (): Launched => ({
    pid,
    exit: Deferred.await(exit),
    hasExited,
    closed: Effect.suspend(() => {
      // The keeper alone can do nothing any more and need not be waited for, unless somebody was told to end it all.
      if (isAlone && sent.size === 0) return Effect.void
      if (!Deferred.isDoneUnsafe(gone) && !isKilled && !isAlone) {
        line.write("G\n")
        hurry()
      }
      return Deferred.await(gone)
    }),
    signal: (signal) => Effect.sync(() => (hasExited() ? undefined : signalGroup(signal))),
    descendants: Effect.sync(() => others(members())),
    signalTree: (signal) => Effect.sync(() => signalTree(signal)),
    stdin: outer.stdin,
    expect: (signal) => void sent.add(signal),
    isDeaf: () => {
      const first = keeper()
      return first !== undefined && !members().some((stat) => hasInput(stat.pid, inputOf(first.pid)))
    },
  })

  const cell: Cell = {
    pid,
    isUp: Deferred.await(up),
    order: () => void line.write("G\n"),
    letGo: () => void line.destroy(),
    started: Deferred.await(started),
    onCounters: undefined,
  }
  return cell
}

/**
 * A status as the shell gives it: above 128 it may be a signal's number or a program's own. A shell tells of a death by
 * signal; of one it does not tell of, it is known whether that signal was sent.
 */
const exitOf = (status: number, isTold: boolean, sent: ReadonlySet<string>): Exit => {
  const signal = signalName(status - 128)
  return status > 128 && (isTold || (UNTOLD.has(signal) && sent.has(signal))) ? bySignal(signal) : { code: status }
}

/** Everything below a process, parents before children. Orphans are the first process's children, so none is missed. */
const below = (pid: number): ReadonlyArray<Stat> =>
  childrenOf(pid).flatMap((child) => {
    const stat = statOf(child)
    return stat === undefined ? [] : [stat, ...below(child)]
  })

/** The children of all threads of a process, in the order they came. */
const childrenOf = (pid: number): ReadonlyArray<number> =>
  threadsOf(pid).flatMap((thread) => (contentOf(`/proc/${pid}/task/${thread}/children`) ?? "").split(" ").filter(Boolean).map(Number))

const threadsOf = (pid: number): ReadonlyArray<string> => {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

/** The file behind a descriptor as the kernel names it, such as `socket:[1234]`; undefined when it cannot be seen. */
const fileOf = (pid: number, descriptor: string): string | undefined => {
  try {
    return readlinkSync(`/proc/${pid}/fd/${descriptor}`)
  } catch {
    return undefined
  }
}

const inputOf = (keeper: number): string | undefined => fileOf(keeper, "0")

/** A process whose files cannot be seen may have it. */
const hasInput = (pid: number, input: string | undefined): boolean => {
  if (input === undefined) return true
  try {
    return readdirSync(`/proc/${pid}/fd`).some((descriptor) => fileOf(pid, descriptor) === input)
  } catch {
    return true
  }
}

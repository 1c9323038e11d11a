/**
 * A program started in a pid namespace of its own. The namespace's first process is a small shell, the keeper: it makes
 * sure that the server lives before the program may begin, says how the program ended, and stays until it is let go, so
 * that what was left behind can still be seen. When the keeper goes, the kernel ends everything in the namespace; when
 * the server goes, at whatever moment, the keeper goes too. Nothing in the namespace can reach either of them.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { closeSync, openSync, readdirSync, readlinkSync } from "node:fs"
import type { Socket } from "node:net"
import { Deferred, Effect } from "effect"
import { type Signal, SpawnFailed } from "../schema/Process.ts"
import { type Descendant, type Exit, NOT_CONFINED, type SpawnRequest } from "../services/ProcessSpawner.ts"
import type { Holding } from "../services/Sandbox.ts"
import { bySignal, closeAbove, type Launched, optionsOf, type Streams, signalName, spawnFailed, takeTerminal } from "./Launch.ts"
import { contentOf, descendantOf, isLiving, type Stat, sendTo, statOf } from "./ProcessTable.ts"

/** The first two lines of the counters are those of the Internet protocol: their names and their numbers. */
const COUNT = `{ read -r names; read -r values; } </proc/net/snmp; echo "N $names" >&3; echo "N $values" >&3; `

/**
 * The keeper, on descriptor 3 with the server: `S` the program's process is there, and becomes the program if somebody
 * could hear it; when that has ended its exit status, with `A` when the keeper is alone now and goes at once, with `E`
 * when others are left, and then a line from the server. Where counters are wanted they come before, each line behind an `N`. A line that does not come because the server is gone ends it. Its
 * own words on signals (`Killed`) go the same way. An interrupt from a terminal is for the program; the keeper only must
 * not die of it.
 *
 * Bubblewrap binds itself and the keeper to the server's life before the keeper begins; but a server that was gone by
 * then would never be missed. So nothing may begin before the keeper knows that the server lived after that: a dying
 * server loses its end of the line before its children are told, so a word that could be written is the proof.
 */
const keeperOf = (counts: boolean): string => `trap : INT
exec 8>&2 2>&3
(echo S >&3 || exit 99; exec "$@" 2>&8 3>&- 8>&-)
status=$?; exec 8>&-; ${counts ? COUNT : ""}left=; read -r left </proc/1/task/1/children
if [ -z "$left" ]; then echo "A $status" >&3; exit $status; fi
echo "E $status" >&3; read -r line <&3; exit $status`

/** Milliseconds a namespace may take to come up. */
const START_LIMIT = 10_000

/** Milliseconds the line may stay open after all of it has gone. */
const LAST_WORDS = 1000

/** Deaths that a shell passes over in silence. */
const UNTOLD = new Set(["SIGINT", "SIGPIPE"])

/** `problem` reads what a failed start wrote. */
export const launch = (
  request: SpawnRequest,
  mark: string,
  streams: Streams,
  { enter, files = [], onCounters }: Extract<Holding, { readonly by: "namespace" }>,
  problem: () => string,
): Effect.Effect<Launched, SpawnFailed> =>
  Effect.callback((resume) => {
    const fail = (error: unknown) => resume(Effect.fail(spawnFailed(request, error)))
    const opened: Array<number> = []
    try {
      const [program = "", ...options] = enter
      for (const file of files) opened.push(openSync(file, "r"))
      const order = (streams.isTerminal ? takeTerminal("/proc/self/fd/0") : "") + (streams.hasLeaks ? closeAbove(3) : "")
      // Only bash can close a descriptor above 9; the plain shell is faster.
      const keeper = [
        "--chdir",
        request.cwd.path,
        "--",
        streams.hasLeaks ? "/bin/bash" : "/bin/sh",
        "-c",
        order + keeperOf(onCounters !== undefined),
        "sh",
      ]
      const outer = spawn(
        program,
        [...options, ...keeper, ...request.argv],
        optionsOf(request, mark, [...streams.standard, "pipe", ...opened]),
      )
      if (outer.pid === undefined) return void outer.once("error", fail)
      const limit = setTimeout(() => outer.kill("SIGKILL"), START_LIMIT)
      const cell = makeCell(outer, outer.pid, onCounters)
      cell.onStart((launched, words) => {
        clearTimeout(limit)
        resume(
          launched === undefined
            ? Effect.fail(new SpawnFailed({ command: request.argv[0] ?? "", cause: startProblem(words + problem()) }))
            : Effect.succeed(launched),
        )
      })
    } catch (error) {
      fail(error)
    } finally {
      for (const descriptor of opened) closeSync(descriptor)
    }
  })

const startProblem = (words: string): string => `${NOT_CONFINED}${words.trim().split("\n")[0] || "no reason was given"}`

/** What the keeper has said, and what is known of the namespace. */
const makeCell = (outer: ChildProcess, pid: number, onCounters?: (counters: string) => void) => {
  const line = outer.stdio[3] as Socket
  const exit = Deferred.makeUnsafe<Exit>()
  const gone = Deferred.makeUnsafe<void>()
  const sent = new Set<string>()
  let found: Stat | undefined
  let words = ""
  let rest = ""
  let isKilled = false
  let isAlone = false
  let started = (_: Launched | undefined, _words: string): void => {}

  const hasExited = () => Deferred.isDoneUnsafe(exit)
  const end = (how: Exit) => Deferred.doneUnsafe(exit, Effect.succeed(how))
  /** A keeper that is to go and does not is not itself any more: a program of the same user can write into its memory. */
  const hurry = () => {
    const limit = setTimeout(() => outer.kill("SIGKILL"), LAST_WORDS).unref()
    outer.once("exit", () => clearTimeout(limit))
  }
  const heard = (text: string) => {
    if (text === "S") started(launched(), words)
    else if (/^[AE] \d+$/u.test(text)) {
      isAlone = text.startsWith("A")
      if (isAlone) hurry()
      end(exitOf(Number(text.slice(2)), words !== "", sent))
    } else if (onCounters !== undefined && text.startsWith("N ")) onCounters(`${text.slice(2)}\n`)
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
      started(undefined, words)
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

  return {
    /** Tells once whether the program's process is there, or what was said instead. */
    onStart: (tell: (launched: Launched | undefined, words: string) => void) => {
      started = (launched, said) => {
        started = () => {}
        tell(launched, said)
      }
    },
  }
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

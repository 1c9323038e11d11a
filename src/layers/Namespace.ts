/**
 * A program started in a pid namespace of its own, whose first process is a keeper (`Keeper.ts`): at once, or in a
 * namespace that was made before it was known what is to run in it.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { closeSync, openSync, rmSync, writeSync } from "node:fs"
import { Effect } from "effect"
import { SpawnFailed } from "../schema/Process.ts"
import { NOT_CONFINED, type SpawnRequest } from "../services/ProcessSpawner.ts"
import type { Holding } from "../services/Sandbox.ts"
import { keeperOf, orderOf, waitingKeeperOf } from "./Keeper.ts"
import { closeAbove, type Launched, optionsOf, type Streams, spawnFailed, takeTerminal } from "./Launch.ts"
import { type Cell, makeCell } from "./NamespaceCell.ts"
import { MARK } from "./ProcessTree.ts"

/** Milliseconds a namespace may take to come up, and a program to be there. */
const START_LIMIT = 10_000

/** The first descriptor behind the line to the keeper. */
const FIRST_FILE = 4

export type Namespace = Extract<Holding, { readonly by: "namespace" }>

/** `problem` reads what a failed start wrote. */
export const launch = (
  request: SpawnRequest,
  mark: string,
  streams: Streams,
  { enter, files = [], onCounters }: Namespace,
  problem: () => string,
): Effect.Effect<Launched, SpawnFailed> =>
  Effect.suspend(() => {
    const pipesAt = streams.pipes === undefined ? undefined : FIRST_FILE + files.length
    const last = pipesAt === undefined ? FIRST_FILE - 1 : pipesAt + 1
    const before = (streams.isTerminal ? takeTerminal("/proc/self/fd/0") : "") + (streams.hasLeaks ? closeAbove(last) : "")
    // Only bash can close a descriptor above 9; the plain shell is faster.
    const keeper = [streams.hasLeaks ? "/bin/bash" : "/bin/sh", "-c", keeperOf(onCounters !== undefined, pipesAt, before), "sh"]
    try {
      const outer = made(
        [...enter, "--chdir", request.cwd.path, "--", ...keeper, ...request.argv],
        optionsOf(request, mark, [...streams.standard, "pipe"]),
        files,
        streams.pipes,
      )
      const cell = cellOf(outer)
      if (cell === undefined) return Effect.callback((resume) => void outer.once("error", (error) => resume(failed(request, error))))
      cell.onCounters = onCounters
      return begun(request, outer, cell, problem)
    } catch (error) {
      return failed(request, error)
    }
  })

/** A namespace that waits for a program. */
export interface Waiting {
  /** Of the process that made it. */
  readonly pid: number
  /** Completes when it can be used; false when it never can. */
  readonly isUp: Effect.Effect<boolean>
  /** Starts a program with the streams that the namespace was made with, once. Undefined when it cannot be told to run this one. */
  readonly begin: (
    request: SpawnRequest,
    mark: string,
    onCounters: Namespace["onCounters"],
    problem: () => string,
  ) => Effect.Effect<Launched, SpawnFailed> | undefined
  /** Ends one that is not used. */
  readonly discard: () => void
}

/** Makes a namespace ahead of its program; undefined where that fails. `order` is a path for a file that is gone at once. */
export const prepare = (
  { enter, files = [], onCounters }: Namespace,
  mark: string,
  { pipes, standard }: Pick<Streams, "pipes" | "standard">,
  order: string,
): Waiting | undefined => {
  let orders: number | undefined
  const close = () => {
    if (orders !== undefined) closeSync(orders)
    orders = undefined
  }
  try {
    orders = openSync(order, "wx", 0o600)
    const orderAt = FIRST_FILE + files.length
    const script = waitingKeeperOf(onCounters !== undefined, pipes === undefined ? undefined : orderAt + 1, orderAt)
    const nowhere = { cwd: { path: "/", shown: "/" }, env: {} }
    const outer = made(
      [...enter, "--chdir", "/", "--", "/bin/sh", "-c", script, "sh"],
      optionsOf(nowhere, mark, [...standard, "pipe"]),
      [...files, order],
      pipes,
    )
    const cell = cellOf(outer)
    if (cell === undefined) {
      close()
      outer.once("error", () => {})
      return undefined
    }
    return {
      pid: cell.pid,
      isUp: limited(outer, cell.isUp),
      begin: (request, ownMark, tell, problem) => {
        const text = orderOf(request.argv, request.cwd.path, { ...request.env, [MARK]: ownMark })
        if (text === undefined) return undefined
        return Effect.suspend(() => {
          try {
            if (orders !== undefined) writeSync(orders, text)
          } catch (error) {
            return failed(request, error)
          } finally {
            close()
          }
          cell.onCounters = tell
          cell.order()
          return begun(request, outer, cell, problem)
        })
      },
      discard: () => {
        close()
        // Bubblewrap that is killed before it is through leaves a process of its own behind, which waits for ever.
        cell.letGo()
      },
    }
  } catch {
    close()
    return undefined
  } finally {
    rmSync(order, { force: true })
  }
}

/** The process that makes a namespace; `files` are its descriptors behind the others, and then `pipes`. */
const made = (
  argv: ReadonlyArray<string>,
  options: ReturnType<typeof optionsOf>,
  files: ReadonlyArray<string>,
  pipes: ReadonlyArray<number> = [],
): ChildProcess => {
  const opened: Array<number> = []
  try {
    for (const file of files) opened.push(openSync(file, "r"))
    const [program = "", ...rest] = argv
    return spawn(program, rest, { ...options, stdio: [...options.stdio, ...opened, ...pipes] })
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

const cellOf = (outer: ChildProcess): Cell | undefined => (outer.pid === undefined ? undefined : makeCell(outer, outer.pid))

/** Waits until the program is there. */
const begun = (request: SpawnRequest, outer: ChildProcess, cell: Cell, problem: () => string): Effect.Effect<Launched, SpawnFailed> =>
  Effect.mapError(
    limited(outer, cell.started),
    (words) => new SpawnFailed({ command: request.argv[0] ?? "", cause: startProblem(words + problem()) }),
  )

/** What does not come in time is ended, and then comes as a failure. */
const limited = <A, E>(outer: ChildProcess, coming: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const limit = setTimeout(() => outer.kill("SIGKILL"), START_LIMIT)
    return Effect.ensuring(
      coming,
      Effect.sync(() => clearTimeout(limit)),
    )
  })

const startProblem = (words: string): string => `${NOT_CONFINED}${words.trim().split("\n")[0] || "no reason was given"}`

const failed = (request: SpawnRequest, error: unknown) => Effect.fail(spawnFailed(request, error))

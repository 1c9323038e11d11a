/**
 * The streams of a process, on both sides. What a program writes goes through pipes into its spool files, or straight into
 * them where it would lose bytes in a pipe; a given input is a file without a name, an open one a pipe. Or all three are a terminal, and what comes out of that is copied into the spool.
 */
import type { ChildProcess } from "node:child_process"
import { closeSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { Effect } from "effect"
import { StorageFull } from "../schema/Operation.ts"
import type { SpawnFailed, Stdin, TerminalUnavailable } from "../schema/Process.ts"
import { type Child, InputClosed, type SpawnRequest } from "../services/ProcessSpawner.ts"
import { type Launched, type Standard, spawnFailed } from "./Launch.ts"
import type { OpenTerminal, Terminal } from "./NodePty.ts"
import * as NodeSpool from "./NodeSpool.ts"
import type { Pipe, Scribe } from "./Scribe.ts"
import { errorsOf } from "./SpoolFolder.ts"

/** This side of the streams. */
export type OwnSide = Pick<Child, "spool" | "errors" | "losses" | "write" | "pendingInput" | "closeInput" | "resize" | "closed">

export interface Opened {
  readonly standard: Standard
  readonly pipes: readonly [number, number] | undefined
  readonly isTerminal: boolean
  /** Closes what the program has now of its own. */
  readonly release: () => void
  /** Takes back what was opened for a program that could not be started. */
  readonly discard: () => void
  readonly ownSide: (launched: Launched) => OwnSide
}

/** What of a request says which streams it needs. */
type Wanted = Pick<SpawnRequest, "stdin" | "split">

const INTERRUPT = 0x03
const END_OF_FILE = Uint8Array.of(0x04)

/** Opens the streams a request asks for; `path` is where the spool is to be. Output goes through pipes where there is a scribe. */
export const open = (
  request: SpawnRequest,
  path: string,
  openTerminal: OpenTerminal,
  scribe: Scribe | undefined,
): Effect.Effect<Opened, SpawnFailed | StorageFull | TerminalUnavailable> =>
  Effect.gen(function* () {
    const terminal = request.tty === undefined ? undefined : yield* openTerminal(request.tty)
    return yield* Effect.try({
      try: () => (terminal === undefined ? openFiles(request, path, scribe).opened : openTerminalSpool(path, terminal)),
      catch: (error) => storageProblem(request, error),
    })
  })

const storageProblem = (request: SpawnRequest, error: unknown): StorageFull | SpawnFailed =>
  ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "")
    ? new StorageFull({ where: "the server's state folder" })
    : spawnFailed(request, error)

/** What a program without input writes into, opened ahead of it at another path than it is to have. Throws where there is no room. */
export const openAhead = (path: string, scribe: Scribe | undefined): OpenedAhead => {
  const wanted = { stdin: "closed", split: false } as const
  const { opened, pipes } = openFiles(wanted, path, scribe)
  return {
    opened,
    isMovable: Effect.map(Effect.all(pipes.map(({ begun }) => begun)), (all) => all.every(Boolean)),
    at: (final) => {
      renameSync(path, final)
      return { ...opened, ...sideOf(wanted, final, pipes) }
    },
  }
}

export interface OpenedAhead {
  readonly opened: Opened
  /** Completes when the path does not matter any more; false when that never comes. */
  readonly isMovable: Effect.Effect<boolean>
  readonly at: (path: string) => Opened
}

/** Whether a request needs no more than that. */
export const isPlain = ({ split, stdin, tty }: SpawnRequest): boolean => stdin === "closed" && !split && tty === undefined

const openFiles = (
  request: Wanted,
  path: string,
  scribe: Scribe | undefined,
): { readonly opened: Opened; readonly pipes: ReadonlyArray<Pipe> } => {
  const files: Array<number> = []
  const kept = <A extends number | string>(file: A): A => {
    if (typeof file === "number") files.push(file)
    return file
  }
  const release = () => {
    for (const file of files) closeSync(file)
  }
  const pipes: Array<Pipe> = []
  const pipeTo = ({ open }: Scribe, spool: string): number => {
    const pipe = open(spool)
    pipes.push(pipe)
    return kept(pipe.descriptor)
  }
  const outputs = (by: Scribe): readonly [number, number] => {
    const output = pipeTo(by, path)
    return [output, request.split ? pipeTo(by, errorsOf(path)) : output]
  }
  const side = sideOf(request, path, pipes)
  try {
    const input = kept(inputOf(request.stdin, `${path}.in`))
    const create = scribe === undefined ? NodeSpool.createMarked : NodeSpool.create
    const output = kept(create(path))
    const errors = request.split ? kept(create(errorsOf(path))) : output
    const own = { pipes: scribe === undefined ? undefined : outputs(scribe), release, ...side }
    return { opened: { standard: [input, output, errors], isTerminal: false, ...own }, pipes }
  } catch (error) {
    release()
    side.discard()
    throw error
  }
}

const UNWRITTEN = "a part of its output is missing: it could not be written to the server's state folder"
const EMPTIED =
  "it opened its own output anew by name (such as >/dev/stderr), and with that emptied the file it writes into here: what it had written before is gone; >&2 and >>/dev/stderr do no harm"

const sideOf = ({ split }: Wanted, path: string, pipes: ReadonlyArray<Pipe>): Pick<Opened, "discard" | "ownSide"> => {
  const isCopied = Effect.suspend(() => Effect.map(Effect.all(pipes.map(({ copied }) => copied)), (all) => all.every(Boolean)))
  const remove = () => {
    for (const file of [path, errorsOf(path), `${path}.in`]) rmSync(file, { force: true })
  }
  return {
    discard: () => {
      remove()
      // A copy that begins only now makes its spool anew.
      if (pipes.length > 0) Effect.runFork(Effect.andThen(isCopied, Effect.sync(remove)))
    },
    ownSide: ({ closed, isDeaf, stdin }) => {
      const isMarked = pipes.length === 0
      const spool = NodeSpool.open(path, isMarked)
      const errors = split ? NodeSpool.open(errorsOf(path), isMarked) : undefined
      const isWhole = Effect.sync(() => spool.isWhole() && errors?.isWhole() !== false)
      const losses = Effect.map(Effect.all([isCopied, isWhole]), ([copied, whole]) => [
        ...(copied ? [] : [UNWRITTEN]),
        ...(whole ? [] : [EMPTIED]),
      ])
      return { spool, errors, closed, losses, ...pipeSide(stdin, isDeaf), resize: undefined }
    },
  }
}

/** A given text is a file without a name: nobody has to feed it, and it needs no memory here. */
const inputOf = (stdin: Stdin, path: string): number | "ignore" | "pipe" => {
  if (typeof stdin === "string") return stdin === "open" ? "pipe" : "ignore"
  writeFileSync(path, stdin.text, { mode: 0o600, flag: "wx" })
  const file = openSync(path, "r")
  rmSync(path)
  return file
}

const pipeSide = (stdin: ChildProcess["stdin"], isDeaf: () => boolean): Pick<Child, "write" | "pendingInput" | "closeInput"> => {
  // Errors of stdin are answered to whoever writes; one between writes is no news.
  stdin?.on("error", () => {})
  return {
    write: (bytes) =>
      Effect.callback((resume) => {
        if (stdin === null || !stdin.writable || isDeaf()) return resume(Effect.fail(new InputClosed()))
        stdin.write(bytes, (error) => resume(error ? Effect.fail(new InputClosed()) : Effect.void))
      }),
    pendingInput: () => (stdin?.destroyed === false ? stdin.writableLength : 0),
    closeInput: Effect.sync(() => void stdin?.end()),
  }
}

const openTerminalSpool = (path: string, terminal: Terminal): Opened => {
  const { far } = terminal
  const close = () => {
    closeSync(far)
    terminal.destroy()
  }
  try {
    terminal.copyTo(NodeSpool.create(path))
  } catch (error) {
    close()
    throw error
  }
  return {
    ...{ standard: [far, far, far], pipes: undefined, isTerminal: true, release: () => {} },
    discard: () => {
      close()
      rmSync(path, { force: true })
    },
    ownSide: ({ closed, expect }) => ({
      ...{ spool: NodeSpool.open(path, false), errors: undefined, losses: Effect.succeed([]) },
      write: (bytes) => {
        if (bytes.includes(INTERRUPT)) expect("SIGINT")
        return terminal.write(bytes)
      },
      pendingInput: terminal.pending,
      closeInput: Effect.ignore(terminal.write(END_OF_FILE)),
      resize: terminal.resize,
      // Held open here until then: a program that closes its streams before it ends would lose its terminal, and be told so
      // by a signal. The last bytes are still on their way then.
      closed: closed.pipe(Effect.ensuring(Effect.sync(() => closeSync(far))), Effect.andThen(terminal.drained)),
    }),
  }
}

/**
 * The streams of a process, on both sides. What a program writes goes straight into its spool files; a given input is a
 * file without a name, an open one a pipe. Or all three are a terminal, and what comes out of that is copied into the spool.
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

/** This side of the streams. */
export type OwnSide = Pick<Child, "spool" | "errors" | "write" | "pendingInput" | "closeInput" | "resize" | "closed">

export interface Opened {
  readonly standard: Standard
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

const errorsOf = (path: string): string => `${path}.err`

/** Opens the streams a request asks for; `path` is where the spool is to be. */
export const open = (
  request: SpawnRequest,
  path: string,
  openTerminal: OpenTerminal,
): Effect.Effect<Opened, SpawnFailed | StorageFull | TerminalUnavailable> =>
  Effect.gen(function* () {
    const terminal = request.tty === undefined ? undefined : yield* openTerminal(request.tty)
    return yield* Effect.try({
      try: () => (terminal === undefined ? openFiles(request, path) : openTerminalSpool(path, terminal)),
      catch: (error) => storageProblem(request, error),
    })
  })

const storageProblem = (request: SpawnRequest, error: unknown): StorageFull | SpawnFailed =>
  ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "")
    ? new StorageFull({ where: "the server's state folder" })
    : spawnFailed(request, error)

/** What a program without input writes into, opened ahead of it at another path than it is to have. Throws where there is no room. */
export const openAhead = (path: string): { readonly opened: Opened; readonly at: (path: string) => Opened } => {
  const wanted = { stdin: "closed", split: false } as const
  const opened = openFiles(wanted, path)
  return {
    opened,
    at: (final) => {
      renameSync(path, final)
      return { ...opened, ...sideOf(wanted, final) }
    },
  }
}

/** Whether a request needs no more than that. */
export const isPlain = ({ split, stdin, tty }: SpawnRequest): boolean => stdin === "closed" && !split && tty === undefined

const openFiles = (request: Wanted, path: string): Opened => {
  const files: Array<number> = []
  const kept = <A extends number | string>(file: A): A => {
    if (typeof file === "number") files.push(file)
    return file
  }
  const release = () => {
    for (const file of files) closeSync(file)
  }
  const side = sideOf(request, path)
  try {
    const input = kept(inputOf(request.stdin, `${path}.in`))
    const output = kept(NodeSpool.create(path))
    const errors = request.split ? kept(NodeSpool.create(errorsOf(path))) : output
    return { standard: [input, output, errors], isTerminal: false, release, ...side }
  } catch (error) {
    release()
    side.discard()
    throw error
  }
}

const sideOf = ({ split }: Wanted, path: string): Pick<Opened, "discard" | "ownSide"> => ({
  discard: () => {
    for (const file of [path, errorsOf(path), `${path}.in`]) rmSync(file, { force: true })
  },
  ownSide: ({ closed, isDeaf, stdin }) => ({
    ...{ spool: NodeSpool.open(path), errors: split ? NodeSpool.open(errorsOf(path)) : undefined, closed },
    ...pipeSide(stdin, isDeaf),
    resize: undefined,
  }),
})

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
    ...{ standard: [far, far, far], isTerminal: true, release: () => {} },
    discard: () => {
      close()
      rmSync(path, { force: true })
    },
    ownSide: ({ closed, expect }) => ({
      ...{ spool: NodeSpool.open(path), errors: undefined },
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

/**
 * A program being started: what both ways to start one, alone (`Group.ts`) and enclosed (`Namespace.ts`), are given and
 * give back, and how node's reports are read.
 */
import type { ChildProcess } from "node:child_process"
import { constants } from "node:os"
import { getSystemErrorMessage } from "node:util"
import { type Signal, SpawnFailed } from "../schema/Process.ts"
import type { Child, Exit, SpawnRequest } from "../services/ProcessSpawner.ts"
import { MARK } from "./ProcessTree.ts"

/** Standard input, output and error: descriptors, or a pipe to this process. */
export type Standard = readonly [input: number | "ignore" | "pipe", output: number, error: number]

/** How a program gets its streams. */
export interface Streams {
  readonly standard: Standard
  /** Pipes that are output and error of the program alone, not of what leads to it. */
  readonly pipes: readonly [output: number, error: number] | undefined
  /** The streams are a terminal, which is to be the program's own. */
  readonly isTerminal: boolean
  /** Terminals are open here; their near ends come along into a child unless it closes them. */
  readonly hasLeaks: boolean
}

/** Shell text that makes the terminal on stdin the own one of a session's leader, by opening it anew. */
export const takeTerminal = (device: string): string => `exec 0<>${device} 1>&0 2>&0\n`

/** Shell text, for bash alone, that closes every descriptor above `last`. */
export const closeAbove = (last: number): string =>
  `for file in /proc/$$/fd/*; do file=\${file##*/}; if [ "$file" -gt ${last} ] && [ "$file" != 255 ]; then eval "exec $file>&-"; fi; done\n`

export interface Launched extends Pick<Child, "pid" | "exit" | "hasExited" | "closed" | "signal" | "descendants" | "signalTree"> {
  readonly stdin: ChildProcess["stdin"]
  /** Whether nothing in the tree can read the input any more, as far as that can be seen. */
  readonly isDeaf: () => boolean
  /** Tells of a signal that comes from elsewhere, such as a terminal's key. */
  readonly expect: (signal: Signal) => void
}

/** Options of node for a process that leads a session of its own and has only what it is given. */
export const optionsOf = (
  { cwd, env }: Pick<SpawnRequest, "cwd" | "env">,
  mark: string,
  stdio: ReadonlyArray<number | "ignore" | "pipe">,
) => ({
  cwd: cwd.path,
  env: { ...env, [MARK]: mark },
  stdio: [...stdio],
  detached: true,
})

/** What node says when the system could not start a program. */
export const spawnFailed = (request: SpawnRequest, error: unknown): SpawnFailed => {
  const { code = "", errno, message } = error as NodeJS.ErrnoException
  const cause = errno === undefined ? message : `${getSystemErrorMessage(errno)} (${code})`
  return new SpawnFailed({ command: request.argv[0] ?? "", cause })
}

const signals = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))

export const signalName = (number: number): string => signals.get(number) ?? `signal ${number}`

export const bySignal = (name: string): Exit => ({ signal: name })

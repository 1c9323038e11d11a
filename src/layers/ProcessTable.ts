/** The kernel's table of processes as `/proc` shows it: what one of them is, and how it is signalled as just that one. */
import { readFileSync } from "node:fs"
import type { Signal } from "../schema/Process.ts"
import type { Descendant } from "../services/ProcessSpawner.ts"

export interface Stat {
  readonly pid: number
  readonly state: string
  readonly parent: number
  readonly group: number
  readonly session: number
  /** The group that its terminal, if it has one, sends signals to. */
  readonly foreground: number
  /** Clock ticks since boot. */
  readonly start: number
}

/** The name in the second field may hold blanks and parentheses; the others are counted behind it. */
export const statOf = (pid: number): Stat | undefined => {
  const text = contentOf(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const number = (index: number) => Number(fields[index] ?? 0)
  return {
    ...{ pid, state: fields[0] ?? "X", parent: number(1), group: number(2), session: number(3) },
    ...{ foreground: number(5), start: number(19) },
  }
}

/** Start time of a process in clock ticks since boot; undefined when there is none, or no `/proc`. */
export const startOf = (pid: number): number | undefined => statOf(pid)?.start

export const isLiving = ({ state }: Stat): boolean => state !== "Z" && state !== "X"

/** Whether a variable of a process begins like this. */
export const hasMark = (pid: number, mark: string): boolean => `\0${contentOf(`/proc/${pid}/environ`) ?? ""}`.includes(`\0${mark}`)

/** A process may go, or belong to somebody else, at any moment: then there is nothing to read. */
export const contentOf = (path: string): string | undefined => {
  try {
    return readFileSync(path, "latin1")
  } catch {
    return undefined
  }
}

/** Signals a process or, with a negative number, a group. It may be gone by then; what survives is seen afterwards. */
export const send = (pid: number, signal: Signal): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // Whoever signalled looks again.
  }
}

export const descendantOf = ({ pid, start, state }: Stat): Descendant => ({ pid, start: String(start), isBusy: "RD".includes(state) })

/** Signals a process only while the number is still its own. */
export const sendTo = ({ pid, start }: Pick<Descendant, "pid" | "start">, signal: Signal): void => {
  if (String(startOf(pid)) === start) send(pid, signal)
}

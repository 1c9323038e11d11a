/**
 * ServerIdentity by process id and start time, as the kernel tells it; without `/proc`, by process id alone. A process
 * counts as gone only when the kernel says so, never because it could not be asked.
 */
import { readFileSync } from "node:fs"
import { Layer, Predicate } from "effect"
import { ServerIdentity } from "../services/ServerIdentity.ts"

export const layer = Layer.sync(ServerIdentity, () => ServerIdentity.of({ self: identityOf(process.pid), isAlive }))

const UNKNOWN = "unknown"

const identityOf = (pid: number): string => `${pid}.${startOf(pid) ?? UNKNOWN}`

const isAlive = (identity: string): boolean => {
  const pid = Number(identity.split(".")[0])
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  const start = startOf(pid)
  return start === undefined || identity.endsWith(`.${UNKNOWN}`) ? answersSignal(pid) : identity === `${pid}.${start}`
}

/**
 * Boot id and start time in clock ticks since boot: fields 3 and 22 of `/proc/<pid>/stat`, counted behind the name, which may
 * hold blanks. Unknown when there is no such process, it has ended and waits to be reaped, or there is no `/proc`;
 * undefined when it cannot be read.
 */
const startOf = (pid: number): string | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return fields[0] === "Z" || fields[0] === "X" ? UNKNOWN : `${bootId()}-${fields[19]}`
  } catch (fault) {
    return codeOf(fault) === "ENOENT" || codeOf(fault) === "ESRCH" ? UNKNOWN : undefined
  }
}

const bootId = (): string => readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8)

const answersSignal = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (fault) {
    return codeOf(fault) === "EPERM"
  }
}

const codeOf = (fault: unknown): unknown => (Predicate.hasProperty(fault, "code") ? fault.code : undefined)

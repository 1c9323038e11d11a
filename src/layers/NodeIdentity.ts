/** ServerIdentity by process id and start time, as the kernel tells it; without `/proc`, by process id alone. */
import { readFileSync } from "node:fs"
import { Layer } from "effect"
import { ServerIdentity } from "../services/ServerIdentity.ts"

export const layer = Layer.sync(ServerIdentity, () =>
  ServerIdentity.of({ self: identityOf(process.pid), isAlive: (identity) => isAlive(identity) }),
)

const identityOf = (pid: number): string => `${pid}.${startOf(pid) ?? "unknown"}`

const isAlive = (identity: string): boolean => {
  const pid = Number(identity.split(".")[0])
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  const start = startOf(pid)
  return start === undefined ? answersSignal(pid) && identity.endsWith(".unknown") : identity === `${pid}.${start}`
}

/** Boot id and start time in clock ticks since boot: field 22 of `/proc/<pid>/stat`, counted behind the name, which may hold blanks. */
const startOf = (pid: number): string | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    const ticks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8)
    return `${boot}-${ticks}`
  } catch {
    return undefined
  }
}

const answersSignal = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/**
 * Commands of other servers on this machine that find a file mounted read-only now, and would find it open if it were
 * replaced. The kernel says so: which mounts a process sees. A namespace with one process is one made ahead; nothing runs
 * in it yet, and whoever made it looks again before something does.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"

/** Whether some process of this user has a mount on one of the files. */
export const isHeldElsewhere = (files: ReadonlyArray<string>): boolean => {
  const wanted = new Set(files)
  const lives = new Map<string, number>()
  for (const pid of pids()) {
    const namespace = linkOf(`/proc/${pid}/ns/mnt`)
    if (namespace !== undefined && namespace !== OWN) lives.set(namespace, (lives.get(namespace) ?? 0) + 1)
  }
  const looked = new Set<string>()
  return pids().some((pid) => {
    const namespace = linkOf(`/proc/${pid}/ns/mnt`)
    if (namespace === undefined || looked.has(namespace) || (lives.get(namespace) ?? 0) < 2) return false
    looked.add(namespace)
    return mountPointsOf(pid).some((point) => wanted.has(point))
  })
}

const linkOf = (path: string): string | undefined => {
  try {
    return readlinkSync(path)
  } catch {
    // It has ended, or belongs to somebody else.
    return undefined
  }
}

const OWN = linkOf("/proc/self/ns/mnt")

const pids = (): ReadonlyArray<string> => {
  try {
    return readdirSync("/proc").filter((name) => /^\d+$/u.test(name))
  } catch {
    return []
  }
}

/** As the kernel writes them: what would not be plain in a list is an octal escape. */
const mountPointsOf = (pid: string): ReadonlyArray<string> => {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, "utf8")
      .split("\n")
      .map((line) =>
        (line.split(" ")[4] ?? "").replace(/\\([0-7]{3})/gu, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8))),
      )
  } catch {
    return []
  }
}

/**
 * What descends from a process, read from `/proc`. A process belongs to a tree when its parent does, when it is in the
 * main process's group or session, or when it carries the tree's mark in its environment. Outside it stays only what
 * left the session, lost its parent and cleaned its environment; a pid namespace (`Namespace.ts`) holds that too.
 *
 * Looking everywhere costs milliseconds, so a short life is told apart first. The kernel numbers processes in turn: when
 * the last number it gave out is still the main process's own, nothing was ever started and there is nothing to look
 * for. Otherwise, in the first second of a life, only the numbers given out since are looked at; numbers cannot have
 * come round in that time. Without `/proc` a tree is its process group.
 */
import { readdirSync } from "node:fs"
import type { Descendant } from "../services/ProcessSpawner.ts"
import { contentOf, descendantOf, hasMark, isLiving, type Stat, statOf } from "./ProcessTable.ts"

/** The variable that marks a tree. */
export const MARK = "CODESPACE_JOB"

/** Milliseconds of a life in which process numbers cannot come round. */
const YOUNG = 1000
/** Numbers looked at one by one; beyond that a listing is cheaper. */
const FEW = 256

export interface Root {
  readonly pid: number
  /** Start time of the main process in clock ticks since boot; undefined without `/proc`. */
  readonly start: number | undefined
  /** `MARK=value` as it stands in an environment. */
  readonly mark: string
}

/** The living members of a tree but its main process. `age` is the life of the tree in milliseconds. */
export const descendantsOf = (root: Root, age: number): ReadonlyArray<Descendant & { readonly group: number }> => {
  if (root.start === undefined) return groupAlone(root.pid)
  const candidates = candidatesOf(root.pid, age).flatMap((pid) => {
    const stat = pid === root.pid ? undefined : statOf(pid)
    return stat === undefined || stat.start < root.start! || !isLiving(stat) ? [] : [stat]
  })
  const members = new Set<number>([root.pid])
  for (const stat of candidates) if (isMember(stat, root)) members.add(stat.pid)
  for (let size = 0; size !== members.size; ) {
    size = members.size
    for (const { pid, parent } of candidates) if (members.has(parent)) members.add(pid)
  }
  return candidates.filter(({ pid }) => members.has(pid)).map((stat) => ({ ...descendantOf(stat), group: stat.group }))
}

const isMember = (stat: Stat, root: Root): boolean => stat.group === root.pid || stat.session === root.pid || hasMark(stat.pid, root.mark)

const candidatesOf = (pid: number, age: number): ReadonlyArray<number> => {
  const last = age < YOUNG ? lastNumber() : undefined
  if (last === pid) return []
  if (last !== undefined && last > pid && last - pid <= FEW) return Array.from({ length: last - pid }, (_, index) => pid + 1 + index)
  return readdirSync("/proc")
    .filter((name) => /^\d+$/u.test(name))
    .map(Number)
}

/** The last process number the kernel gave out; undefined where it does not tell, and then everything is looked at. */
const lastNumber = (): number | undefined => {
  const last = Number(contentOf("/proc/sys/kernel/ns_last_pid"))
  return Number.isSafeInteger(last) && last > 0 ? last : undefined
}

/** Without `/proc` a group that still has members stands for them all. */
const groupAlone = (pid: number) => {
  try {
    process.kill(-pid, 0)
    return [{ pid, start: "group", isBusy: false, group: pid }]
  } catch {
    return []
  }
}

/**
 * Processes that a server leaves behind when it dies without closing, where no namespace held them. Each server has a folder
 * named after its identity; in it, beside each spool, a note says which process writes to it. The next server ends those
 * processes, and so does one that lives on, once an hour. A number alone is never signalled: start time and boot have to fit.
 */
import { readdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import { contentOf, hasMark, isLiving, type Stat, sendTo, startOf, statOf } from "./ProcessTable.ts"
import { MARK } from "./ProcessTree.ts"

const NOTE = ".pid"
/** How often it is looked again for processes that were just being started. */
const ROUNDS = 20

/** Writes down which process writes to a spool. Without the note it is still found by its mark. */
export const note = (spool: string, pid: number): void => {
  try {
    writeFileSync(spool + NOTE, `${pid} ${startOf(pid)}`, { mode: 0o600 })
  } catch {
    // A full disk must not end a process that runs.
  }
}

/** Moves the note along with its spool. */
export const move = (from: string, to: string): void => {
  try {
    renameSync(from + NOTE, to + NOTE)
  } catch {
    // There may have been no room for it.
  }
}

/** Removes the note with its spool. */
export const forget = (spool: string): void => rmSync(spool + NOTE, { force: true })

export const isNote = (file: string): boolean => file.endsWith(NOTE)

/** Ends what still runs of the dead server of this name, whose notes lie in `folder`. */
export const end = (folder: string, name: string, identity: ServerIdentity["Service"]): void => {
  if (bootOf(name) === bootOf(identity.self)) endProcesses(folder, name)
}

/** The part of an identity that is the same for all processes since the machine started. */
const bootOf = (identity: string): string => identity.slice(identity.indexOf(".") + 1).split("-")[0] ?? ""

const endProcesses = (folder: string, name: string): void => {
  const notes = filesIn(folder).filter(isNote)
  if (notes.length === 0) return
  const roots = notes.map((file) => (contentOf(join(folder, file)) ?? "").split(" "))
  for (let round = 0; round < ROUNDS; round++) {
    const found = processes().filter((stat) => isLeft(stat, roots, `${MARK}=${name}/`))
    for (const { pid, start } of found) sendTo({ pid, start: String(start) }, "SIGKILL")
    if (found.length === 0) return
  }
}

/** Another server may be clearing up at the same time. */
const filesIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

const processes = (): ReadonlyArray<Stat> =>
  readdirSync("/proc").flatMap((name) => (/^\d+$/u.test(name) ? (statOf(Number(name)) ?? []) : []))

const isLeft = (stat: Stat, roots: ReadonlyArray<ReadonlyArray<string>>, mark: string): boolean =>
  isLiving(stat) && (roots.some((root) => isOf(stat, root)) || hasMark(stat.pid, mark))

/** The noted process itself, or a member of its session that began after it. */
const isOf = (stat: Stat, [pid = "", start = ""]: ReadonlyArray<string>): boolean =>
  String(stat.pid) === pid ? String(stat.start) === start : String(stat.session) === pid && String(startOf(Number(pid))) === start

/**
 * The database file of a state folder: opened in WAL mode, checked, and set aside when it is damaged. It promises that no
 * ledger is replaced by an empty one unseen: a damaged file keeps its bytes under another name beside it, and as long as no
 * new file was begun on purpose (`renew`), opening fails and says so.
 */
import { type BigIntStats, existsSync, readdirSync, renameSync, statSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"

export interface FileOptions {
  /** What a recorded fact survives: the end of the process, or a power cut (every commit is synced). */
  readonly durability?: "process" | "power"
  /** Begins a new file although a damaged one was set aside. */
  readonly renew?: boolean
}

export interface OpenFile {
  readonly database: DatabaseSync
  /** Whether the name still leads to this file. Somebody may have moved or removed it, and what is written then would be lost. */
  readonly isThere: () => boolean
  /** Closes it and gives it another name, unless that has happened; gives what to tell. */
  readonly setAside: (why: string) => Damaged
}

/** SQLite's code for a damaged file, as its own errors carry it. */
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26

/** The file was damaged and set aside: `now`, or by somebody before. */
export class Damaged extends Error {
  readonly errcode = SQLITE_CORRUPT
  readonly now: boolean
  constructor(message: string, now = false) {
    super(message)
    this.now = now
  }
}

/** How long SQLite itself waits for another server's write, in milliseconds; it blocks this process, so longer waits are the client's. */
const BLOCKING_WAIT = 20
/** A file up to this size is checked whenever it is opened, in some milliseconds; of a larger one, damage shows when it is met. */
const CHECKED_BYTES = 16 * 1024 * 1024
/** Lets freed pages be given back to the file system. It writes, so only a new file is told. */
const FOR_NEW = "PRAGMA auto_vacuum = INCREMENTAL"
/** The log is emptied while we work and cut to the limit after somebody kept it from that. */
const settings = (durability: FileOptions["durability"]) =>
  `PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 16777216; PRAGMA synchronous = ${durability === "power" ? "FULL" : "NORMAL"}`

/** Whether a fault of SQLite says that the file is damaged. */
export const saysDamaged = (fault: unknown): boolean => {
  const code = codeOf(fault)
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB
}

/** SQLite's primary result code of a fault. */
export const codeOf = (fault: unknown): number | undefined =>
  typeof fault === "object" && fault !== null && "errcode" in fault && typeof fault.errcode === "number" ? fault.errcode & 0xff : undefined

/** Opens the file, or creates it, readable by its owner only (its folder is 0700). Throws SQLite's faults, and `Damaged`. */
export const openFile = (path: string, { durability, renew }: FileOptions = {}): OpenFile => {
  const aside = renew === true ? undefined : waitsForRenewal(path)
  if (aside !== undefined) throw new Damaged(explained(aside))
  const database = new DatabaseSync(path, { timeout: BLOCKING_WAIT })
  const opened = path === ":memory:" ? memory(database) : named(database, path)
  try {
    if (sizeOf(path) === 0) database.exec(FOR_NEW)
    database.exec(settings(durability))
    const wrong = sizeOf(path) <= CHECKED_BYTES ? problemOf(database) : undefined
    if (wrong !== undefined) throw opened.setAside(wrong)
    return opened
  } catch (fault) {
    if (saysDamaged(fault) && !(fault instanceof Damaged)) throw opened.setAside(String((fault as Error).message))
    close(database)
    throw fault
  }
}

const memory = (database: DatabaseSync): OpenFile => ({
  database,
  isThere: () => true,
  setAside: (why) => new Damaged(why),
})

const named = (database: DatabaseSync, path: string): OpenFile => {
  const ours = statOf(path)
  const isThere = () => {
    const now = statOf(path)
    return now !== undefined && now.ino === ours?.ino && now.dev === ours.dev
  }
  const setAside = (why: string): Damaged => {
    close(database)
    // Another server may have been faster; then what lies there now is not ours.
    if (!isThere()) return new Damaged(explained(setAsideBefore(path) ?? basename(path)))
    const name = join(dirname(path), `${stem(path)}.damaged-${ours?.mtimeMs ?? 0n}.sqlite`)
    renameSync(path, name)
    for (const companion of ["-wal", "-shm"]) if (existsSync(path + companion)) renameSync(path + companion, name + companion)
    return new Damaged(explained(basename(name), why), true)
  }
  return { database, isThere, setAside }
}

const explained = (name: string, why?: string): string =>
  `its file was damaged${why === undefined ? "" : ` (${why})`} and is kept as ${name} in the state folder. Files can still be read. ` +
  'Changes, commands and their records wait for the operator: "codespace audit renew" begins a new ledger'

const stem = (path: string): string => basename(path, ".sqlite")

/** The file that was set aside, as long as no new one was begun. */
export const waitsForRenewal = (path: string): string | undefined => (existsSync(path) ? undefined : setAsideBefore(path))

/** The newest file that was set aside. */
const setAsideBefore = (path: string): string | undefined => {
  const folder = dirname(path)
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names
    .filter((name) => name.startsWith(`${stem(path)}.damaged-`) && name.endsWith(".sqlite"))
    .sort()
    .at(-1)
}

/** The first problem that SQLite finds in the structure of the file. */
const problemOf = (database: DatabaseSync): string | undefined => {
  const found = database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"]
  return found === "ok" ? undefined : (String(found).split("\n").at(-1) ?? "")
}

const statOf = (path: string): BigIntStats | undefined => statSync(path, { bigint: true, throwIfNoEntry: false })

const sizeOf = (path: string): number => Number(statOf(path)?.size ?? 0n)

/** Nothing is learned from a fault of closing. */
const close = (database: DatabaseSync): void => {
  try {
    database.close()
  } catch {}
}

/**
 * The folder a server keeps its spools in, and those of servers that are gone. Beside each spool lies the record of its
 * process, by which the next server knows it; what has no record there is of no use to anybody.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { Effect } from "effect"
import type { LeftProcess, Spool } from "../services/ProcessSpawner.ts"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import * as Leftovers from "./Leftovers.ts"
import * as NodeSpool from "./NodeSpool.ts"

const RECORD = ".json"
const ERRORS = ".err"
const NEW = ".new"

/** The path of the second spool of a process whose streams are split. */
export const errorsOf = (spool: string): string => spool + ERRORS

/** Writes a record beside a spool, whole or not at all. A full disk must not end a process that runs. */
export const writeRecord = (spool: string, record: string): Effect.Effect<void> =>
  Effect.sync(() => {
    try {
      writeFileSync(spool + NEW, record, { mode: 0o600 })
      renameSync(spool + NEW, spool + RECORD)
    } catch {
      rmSync(spool + NEW, { force: true })
    }
  })

/** A spool that takes along what lies beside it. */
export const withNotes = (spool: Spool, path: string): Spool => ({
  ...spool,
  remove: Effect.andThen(
    Effect.sync(() => {
      Leftovers.forget(path)
      rmSync(path + RECORD, { force: true })
    }),
    spool.remove,
  ),
})

/**
 * Prepares the folder of this server below `folder`, which is made when missing (0700). What still runs of servers that are
 * gone is ended first.
 */
export const prepare = (folder: string, identity: ServerIdentity["Service"]): string => {
  const own = join(folder, identity.self)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  clear(folder, identity)
  mkdirSync(own, { recursive: true, mode: 0o700 })
  return own
}

/** Ends what still runs of servers that are gone, and removes what of them has no record. */
export const clear = (folder: string, identity: ServerIdentity["Service"]): void => {
  for (const name of deadIn(folder, identity)) {
    Leftovers.end(join(folder, name), name, identity)
    tidy(join(folder, name))
  }
}

/** Removes what has no record, and the folder when nothing is left. */
export const tidy = (folder: string): void => {
  const names = namesIn(folder)
  const recorded = new Set(names.filter((name) => name.endsWith(RECORD)).map((name) => name.slice(0, -RECORD.length)))
  for (const name of names) {
    const [process = ""] = name.split(".")
    if (!recorded.has(process) || Leftovers.isNote(name) || name.endsWith(NEW)) rmSync(join(folder, name), { recursive: true, force: true })
  }
  removeEmpty(folder)
}

const removeEmpty = (folder: string): void => {
  try {
    rmdirSync(folder)
  } catch {
    // It is not empty, or somebody else was faster.
  }
}

/** The processes that servers left which are gone. What was read once is read no more: nobody changes it. */
export const leftIn = (folder: string, identity: ServerIdentity["Service"]): Effect.Effect<ReadonlyArray<LeftProcess>> => {
  const known = new Map<string, LeftProcess>()
  return Effect.sync(() => {
    const found = deadIn(folder, identity).flatMap((name) =>
      namesIn(join(folder, name))
        .filter((file) => file.endsWith(RECORD))
        .map((file) => join(folder, name, file.slice(0, -RECORD.length))),
    )
    const there = new Set(found)
    for (const path of known.keys()) if (!there.has(path)) known.delete(path)
    for (const path of found) {
      const left = known.has(path) ? undefined : leftAt(path)
      if (left !== undefined) known.set(path, left)
    }
    return [...known.values()]
  })
}

const leftAt = (path: string): LeftProcess | undefined => {
  try {
    const record = readFileSync(path + RECORD, "utf8")
    const errors = statSync(errorsOf(path), { throwIfNoEntry: false })
    const last = (spool: Spool): Spool => ({
      ...spool,
      remove: Effect.andThen(
        spool.remove,
        Effect.sync(() => removeEmpty(dirname(path))),
      ),
    })
    return {
      record,
      lastOn: Math.max(statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0, errors?.mtimeMs ?? 0),
      spool: last(withNotes(NodeSpool.open(path), path)),
      errors: errors === undefined ? undefined : last(NodeSpool.open(errorsOf(path))),
    }
  } catch {
    return undefined
  }
}

const deadIn = (folder: string, identity: ServerIdentity["Service"]): ReadonlyArray<string> =>
  namesIn(folder).filter((name) => name !== identity.self && !identity.isAlive(name))

/** Another server may be clearing up at the same time. */
const namesIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

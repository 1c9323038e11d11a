/** What the state folder holds, whether it can be used, and how large it may become. */
import { existsSync, lstatSync, readdirSync, statfsSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Context, DateTime, Duration, Effect, Layer, Result } from "effect"
import { layerRecordsIn } from "../layers/App.ts"
import { waitsForRenewal } from "../layers/DatabaseFile.ts"
import { attempt, existingPart } from "../layers/Folders.ts"
import { placeOf } from "../layers/WorkerSocket.ts"
import { homeOf, stateOf } from "../layers/WorkerUser.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import { SHARE } from "../services/KnownProcesses.ts"
import { Ledger } from "../services/Ledger.ts"
import { type Check, type Finding, note, ok, wrong } from "./Finding.ts"

/** Bytes below which a disk counts as nearly full, and as full. */
const SCARCE = 1024 ** 3
const FULL = 100 * 1024 ** 2
/** How far back the last requests of clients are looked for, in events of the ledger. */
const LOOKED_AT = 2000

/** Looked at before anything opens the folder, since a server closes it to others when it starts. */
export const folder = (path: string): Check =>
  Effect.sync(() => {
    const found = attempt(() => statSync(path))
    if (Result.isFailure(found))
      return found.failure === "does not exist"
        ? ok("state", `${path} is made by the first start`)
        : wrong("state", `${path} ${found.failure}`, `chown it to the user that runs the server: chown -R "$USER" ${path}`)
    const { mode, uid } = found.success
    if (!found.success.isDirectory()) return wrong("state", `${path} is no folder`, "move the file away")
    if (uid !== (process.getuid?.() ?? uid)) return wrong("state", `${path} belongs to another user`, `chown -R "$USER" ${path}`)
    const rights = (mode & 0o777).toString(8)
    if ((mode & 0o077) !== 0)
      return note("state", `${path} is open to others (mode ${rights})`, `chmod 700 ${path} (the server does it when it starts)`)
    return (mode & 0o700) === 0o700
      ? ok("state", `${path}, for its owner only`)
      : wrong("state", `${path} has mode ${rights}`, `chmod 700 ${path}`)
  })

export const disk = (path: string): Check =>
  Effect.sync(() => {
    const found = attempt(() => statfsSync(existingPart(path)))
    if (Result.isFailure(found))
      return wrong("disk", `the disk of ${path} ${found.failure}`, "mount it, or move the state folder with XDG_STATE_HOME")
    const { bavail, bsize } = found.success
    const free = `${bytesText(bavail * bsize)} free where ${path} lies`
    const fix = "make room: patches and output are refused when the disk is full"
    return bavail * bsize < FULL ? wrong("disk", free, fix) : bavail * bsize < SCARCE ? note("disk", free, fix) : ok("disk", free)
  })

/** The path of a socket has a limit that a long home folder passes; only workers have one. */
export const sockets = (path: string): Check =>
  Effect.sync(() => {
    const place = placeOf({ stateFolder: path, environment: "worker", server: "1234567.01234567-1234567890" })
    if (Result.isFailure(place)) return note("sockets", `no worker can be started: ${place.failure}`, "use a shorter path, or no worker")
    if (place.success.startsWith(path)) return ok("sockets", `of workers: in ${dirname(place.success)}`)
    return note(
      "sockets",
      `${path} is too long for the path of a socket; those of workers lie in ${dirname(place.success)}`,
      "set XDG_STATE_HOME to a shorter folder if that is not wanted",
    )
  })

/**
 * The records are looked at as a whole without a change to them, then opened and read. Two findings: the database, and the
 * clients last seen in it.
 */
export const records = (stateFolder: string): Effect.Effect<ReadonlyArray<Finding>> => {
  const file = join(stateFolder, "codespace.sqlite")
  const fix = 'stop all servers and put a backup in its place, or begin a new ledger: "codespace audit renew"'
  const aside = waitsForRenewal(file)
  if (aside !== undefined)
    return Effect.succeed([wrong("database", `${file} was damaged and is kept as ${aside}; changes and commands are refused`, fix)])
  if (!existsSync(file)) return Effect.succeed([ok("database", `${file} is made by the first call`), ok("clients", "none has called yet")])
  const damage = damageOf(file)
  if (damage !== undefined) return Effect.succeed([wrong("database", `${file} is damaged: ${damage}`, fix)])
  return Layer.build(layerRecordsIn(stateFolder)).pipe(
    Effect.flatMap((services) => lastSeen(Context.get(services, Ledger))),
    Effect.map((clients) => [ok("database", `${file}, ${bytesText(statSync(file).size)}, in order`), clients]),
    Effect.catch((error) => Effect.succeed([wrong("database", `${file} cannot be used: ${causeOf(error)}`, fix)])),
    Effect.scoped,
  )
}

/** What SQLite finds wrong in a file; undefined when nothing. */
const damageOf = (file: string): string | undefined => {
  const found = Result.try({
    try: () => {
      const database = new DatabaseSync(file, { readOnly: true })
      try {
        return String(database.prepare("PRAGMA quick_check(1)").get()?.["quick_check"])
      } finally {
        database.close()
      }
    },
    catch: (fault) => (fault instanceof Error ? fault.message : String(fault)),
  })
  return Result.isFailure(found) ? found.failure : found.success === "ok" ? undefined : found.success
}

const lastSeen = Effect.fnUntraced(function* (ledger: Ledger["Service"]) {
  const newest = yield* ledger.newest
  const events = yield* ledger.read({ after: Math.max(0, newest - LOOKED_AT), limit: LOOKED_AT })
  const latest = new Map<string, string>()
  for (const { at, body } of events)
    if (typeof body["caller"] === "string" && typeof body["kind"] === "string")
      latest.set(body["caller"], `${body["caller"]}: ${body["kind"]} at ${DateTime.formatIso(DateTime.makeUnsafe(at))}`)
  const seen = [...latest.values()].reverse().slice(0, 5)
  return ok("clients", seen.length === 0 ? "no recorded call yet" : `last recorded calls: ${seen.join("; ")}`)
})

const causeOf = (error: { readonly message: string; readonly cause?: unknown }): string => {
  const cause = error.cause instanceof Error ? error.cause.message : undefined
  return [error.message, cause].filter((part) => part !== undefined && part !== "").join(": ")
}

/**
 * What is kept, each part beside its own bound: the records, the output of processes, and the journal, which is there while
 * patches are under way. Workers with a user of their own have the last two elsewhere.
 */
export const retention = (stateFolder: string, { retention, workspaces }: Pick<AppConfig["Service"], "retention" | "workspaces">): Check =>
  Effect.sync(() => {
    const homes = [...workspaces.values()].flatMap(({ environment }) =>
      environment.kind === "worker" && environment.user !== undefined
        ? [stateOf(homeOf(stateFolder, environment.name, environment.user))]
        : [],
    )
    const folders = [stateFolder, ...new Set(homes)]
    const sizeOf = (part: string) => folders.reduce((sum, folder) => sum + bytesBelow(join(folder, part)), 0)
    const { operations, output_bytes, processes, state_bytes } = retention
    const ofWorkspaces = [...workspaces.values()].reduce((sum, { profile }) => sum + 2 * SHARE * profile.limits.spool_bytes, 0)
    const room = Math.min(ofWorkspaces, output_bytes)
    const records = recordBytes(join(stateFolder, "codespace.sqlite"))
    const output = sizeOf("spools")
    const ofAll = workspaces.size === 1 ? "of the workspace" : `of all ${workspaces.size} workspaces`
    const found = [
      `records ${bytesText(records)} of at most ${bytesText(state_bytes)}, kept ${spanText(operations)}`,
      `output ${bytesText(output)}${room === 0 ? "" : ` of at most ${bytesText(room)} ${ofAll}`}, kept ${spanText(processes)} after the end`,
      `journal ${bytesText(sizeOf("journal"))} of patches under way`,
    ].join("; ")
    if (records > state_bytes)
      return note(
        "retention",
        found,
        "a running server lets old records go once an hour, but none of the last hour; raise retention.state_bytes if it stays so",
      )
    if (room > 0 && output > room)
      return note(
        "retention",
        found,
        "a server that runs lets older output go; limits.spool_bytes of the profiles and retention.output_bytes bound it",
      )
    return ok("retention", found)
  })

/** Bytes that records take up; room in the file that is free again does not count, as it does not for `state_bytes`. */
const recordBytes = (file: string): number => {
  if (!existsSync(file)) return 0
  const read = attempt(() => {
    const database = new DatabaseSync(file, { readOnly: true })
    try {
      const [pages = 0, free = 0, size = 0] = ["page_count", "freelist_count", "page_size"].map((name) =>
        Number(database.prepare(`PRAGMA ${name}`).get()?.[name]),
      )
      return (pages - free) * size
    } finally {
      database.close()
    }
  })
  return Result.getOrElse(read, () => statSync(file, { throwIfNoEntry: false })?.size ?? 0)
}

/** Bytes on the disk: of an output with a hole in it, without the hole. */
const bytesBelow = (root: string): number => {
  const names = attempt(() => readdirSync(root, { recursive: true, encoding: "utf8" }))
  return Result.getOrElse(names, () => []).reduce((sum, path) => {
    // What servers take away meanwhile has no size.
    const stat = lstatSync(join(root, path), { throwIfNoEntry: false })
    return stat?.isFile() ? sum + Math.min(stat.size, stat.blocks * BLOCK) : sum
  }, 0)
}

/** What `stat` counts blocks in, in bytes, whatever the file system has. */
const BLOCK = 512

const spanText = (span: Duration.Duration): string => Duration.format(span)

const bytesText = (bytes: number): string => {
  const units = ["bytes", "KB", "MB", "GB", "TB"]
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${step === 0 ? bytes : (bytes / 1024 ** step).toFixed(1)} ${units[step]}`
}

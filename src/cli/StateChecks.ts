/** What the state folder holds, whether it can be used, and how large it may become. */
import { existsSync, readdirSync, statfsSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Context, DateTime, Duration, Effect, Layer, Option, Result } from "effect"
import { layerRecordsIn } from "../layers/App.ts"
import { waitsForRenewal } from "../layers/DatabaseFile.ts"
import { attempt, existingPart } from "../layers/Folders.ts"
import { placeOf } from "../layers/WorkerSocket.ts"
import type { AppConfig } from "../services/AppConfig.ts"
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

/** What lies in the state folder by part, and what bounds it. */
export const retention = (stateFolder: string, { operations, processes, state_bytes }: AppConfig["Service"]["retention"]): Check =>
  Effect.sync(() => {
    const parts = new Map<string, number>()
    for (const [path, size] of filesBelow(stateFolder)) {
      const part = path.split("/")[0]?.replace(/^codespace\.sqlite.*/u, "database") ?? ""
      parts.set(part, (parts.get(part) ?? 0) + size)
    }
    const total = [...parts.values()].reduce((sum, size) => sum + size, 0)
    const shown = [...parts].sort(([, one], [, other]) => other - one).map(([part, size]) => `${part} ${bytesText(size)}`)
    const bounds = `finished processes are kept ${spanText(processes)}, operations ${spanText(operations)}`
    const found = `${bytesText(total)} of at most ${bytesText(state_bytes)}${shown.length === 0 ? "" : ` (${shown.join(", ")})`}; ${bounds}`
    return total <= state_bytes
      ? ok("retention", found)
      : note("retention", found, "raise retention.state_bytes, or shorten retention.processes and retention.operations")
  })

const filesBelow = (root: string): ReadonlyArray<readonly [path: string, size: number]> =>
  Option.getOrElse(
    Result.getSuccess(
      attempt(() =>
        readdirSync(root, { recursive: true, encoding: "utf8" }).flatMap((path) => {
          // What servers take away meanwhile has no size.
          const stat = statSync(join(root, path), { throwIfNoEntry: false })
          return stat?.isFile() ? [[path, stat.size] as const] : []
        }),
      ),
    ),
    () => [],
  )

const spanText = (span: Duration.Duration): string => Duration.format(span)

const bytesText = (bytes: number): string => {
  const units = ["bytes", "KB", "MB", "GB", "TB"]
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${step === 0 ? bytes : (bytes / 1024 ** step).toFixed(1)} ${units[step]}`
}

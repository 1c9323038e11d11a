/**
 * Another user for a worker: who that is on this machine, and the folders it gets from a server that runs as root. What it
 * owns lies in one folder; everything above belongs to root, so that it can put nothing in the place of another thing.
 *
 *     /var/lib/codespace-workers/HASH     root 0711, one for each state folder, environment and user
 *       state                             its own, 0700: journal, spools and what its sandbox needs
 *       s, s~SERVER                       its socket: its own while it starts, then root 0700
 *       log                               root 0600, of a detached worker
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Result } from "effect"
import type { WorkerUser } from "../services/AppConfig.ts"
import { attempt } from "./Folders.ts"

/** Where other users' workers keep what is theirs: a folder that every user can pass, as a home or the state folder is not. */
export const WORKERS = "/var/lib/codespace-workers"

/** The user that a configuration names, or in a sentence why a worker cannot run as it. */
export const findUser = (named: string): Result.Result<WorkerUser, string> => {
  const self = process.geteuid?.()
  if (self !== 0)
    return Result.fail(
      `only a server that runs as root can start a worker as another user, and this one runs as user ${self ?? "unknown"}; run it as root, or leave the field out`,
    )
  return Result.flatMap(userOf(named), lessPrivileged)
}

const userOf = (named: string): Result.Result<WorkerUser, string> => {
  const [, uid, gid] = /^(\d+)(?::(\d+))?$/u.exec(named) ?? []
  const entry = entryOf(uid ?? named)
  if (uid === undefined) return entry === undefined ? Result.fail(`there is no user "${named}" on this machine`) : Result.succeed(entry)
  if (Number(uid) > LARGEST || Number(gid ?? 0) > LARGEST) return Result.fail(`there is no user or group with a number above ${LARGEST}`)
  if (gid !== undefined) return Result.succeed({ ...(entry ?? { name: uid, home: "/", shell: SHELL }), uid: Number(uid), gid: Number(gid) })
  return entry === undefined
    ? Result.fail(`user ${uid} has no entry on this machine, so its group is not known; write "${uid}:GID"`)
    : Result.succeed(entry)
}

/** The last number is no user: the kernel takes it for "as before". */
const LARGEST = 2 ** 32 - 2

const lessPrivileged = (user: WorkerUser): Result.Result<WorkerUser, string> =>
  user.uid === 0 || user.gid === 0
    ? Result.fail(`${user.uid === 0 ? "is root" : "is in root's group"}, which takes nothing from the worker; name an ordinary user`)
    : Result.succeed(user)

const SHELL = "/bin/sh"

/** From the system's list of users, wherever it has them. */
const entryOf = (named: string): WorkerUser | undefined => {
  const [program, ...args] = process.platform === "darwin" ? ["id", "-P", named] : ["getent", "passwd", "--", named]
  const asked = spawnSync(program ?? "", args, { encoding: "utf8", timeout: 5000 })
  const lines = asked.error === undefined ? asked.stdout.split("\n") : passwd()
  const fields = lines.map((line) => line.split(":")).find(([name, , uid]) => name === named || uid === named)
  if (fields === undefined) return undefined
  const [name = "", , uid = "", gid = ""] = fields
  const home = fields.at(-2) ?? ""
  const shell = fields.at(-1) ?? ""
  const isShell = shell !== "" && !/\/(?:nologin|false)$/u.test(shell)
  return { name, uid: Number(uid), gid: Number(gid), home: home === "" ? "/" : home, shell: isShell ? shell : SHELL }
}

/** Systems without that program have no other list. */
const passwd = (): ReadonlyArray<string> =>
  Result.getOrElse(
    attempt(() => readFileSync("/etc/passwd", "utf8").split("\n")),
    () => [],
  )

/** The folder with what a user's worker has. */
export const homeOf = (stateFolder: string, environment: string, { gid, uid }: WorkerUser): string =>
  join(WORKERS, createHash("sha256").update(`${stateFolder}\0${environment}\0${uid}:${gid}`).digest("hex").slice(0, 8))

/** The folder for the state of the worker whose home this is. */
export const stateOf = (home: string): string => join(home, "state")

/** Makes all of it, and the folder for a socket; fails with a sentence. */
export const makeHome = (home: string, sockets: string, user: WorkerUser): Result.Result<void, string> =>
  rootFolder(WORKERS).pipe(
    Result.flatMap(() => rootFolder(home)),
    Result.flatMap(() => giveFolder(stateOf(home), user)),
    Result.flatMap(() => attempt(() => void mkdirSync(sockets, { recursive: true, mode: 0o700 }))),
  )

/** A folder of root that others can pass but not look into. */
const rootFolder = (path: string): Result.Result<void, string> => folder(path, 0o711, 0, 0, [0])

/** Makes a folder in one of root's, or takes it as it was left, and gives it to the user (0700). */
export const giveFolder = (path: string, { gid, uid }: WorkerUser): Result.Result<void, string> => folder(path, 0o700, uid, gid, [0, uid])

/** Takes a folder back: from here on only root comes to what lies in it. */
export const takeFolder = (path: string): Result.Result<void, string> => attempt(() => chownSync(path, 0, 0))

const folder = (path: string, mode: number, uid: number, gid: number, owners: ReadonlyArray<number>): Result.Result<void, string> =>
  attempt(() => mkdirSync(path, { recursive: true, mode: 0o700 })).pipe(
    Result.flatMap(() => attempt(() => lstatSync(path))),
    Result.filterOrFail(
      (found) => found.isDirectory() && owners.includes(found.uid),
      () => "belongs to another user, or is no folder",
    ),
    Result.flatMap(() =>
      attempt(() => {
        chownSync(path, uid, gid)
        chmodSync(path, mode)
      }),
    ),
    Result.mapError((reason) => `${path} ${reason}`),
  )

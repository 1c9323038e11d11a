/**
 * Where the socket of a worker lies, and how it is owned. Each socket is named after the identity of its process, so that
 * nobody takes over the name of another: one whose process is gone is removed by whoever sees it, a living one is never
 * touched. A folder has one worker; a second one finds the first by its socket and leaves.
 */
import { createHash } from "node:crypto"
import { chmodSync, readdirSync, rmSync } from "node:fs"
import { createConnection, createServer, type Socket } from "node:net"
import { basename, dirname, join } from "node:path"
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import { Effect, Result, type Scope } from "effect"
import { type Socket as EffectSocket, SocketError, SocketOpenError } from "effect/socket/Socket"
import { RunnerUnavailable } from "../schema/Operation.ts"
import type { WorkerUser } from "../services/AppConfig.ts"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import type { WorkerSettings } from "../services/WorkerHost.ts"
import { attempt } from "./Folders.ts"
import { LONGEST_PATH, ownFolder, shortFolder } from "./SocketFolder.ts"
import { homeOf, makeHome } from "./WorkerUser.ts"

/** Room for the socket's own name: number, boot and start time of its process. */
const LONGEST_NAME = 32

const SUFFIX = ".sock"
const OWNER = "~"

/** A worker's folder: one for the environment, or one for each server where workers end with their server. */
export interface WorkerPlace {
  readonly stateFolder: string
  readonly environment: string
  /** The server whose end is the worker's too. */
  readonly server: string | undefined
  /** Of the worker, where it is not the server's. */
  readonly user?: WorkerUser
}

const nameOf = (name: string, server: string | undefined): string => (server === undefined ? name : `${name}${OWNER}${server}`)

const fits = (folder: string): boolean => Buffer.byteLength(folder) + 1 + LONGEST_NAME <= LONGEST_PATH

/** Where the folder is to be, or in a sentence why no socket can lie there. */
export const placeOf = ({ environment, server, stateFolder, user }: WorkerPlace): Result.Result<string, string> => {
  if (user !== undefined) return Result.succeed(join(homeOf(stateFolder, environment, user), nameOf("s", server)))
  const wanted = join(stateFolder, "workers", nameOf(environment, server))
  const hash = createHash("sha256").update(`${stateFolder}\0${environment}`).digest("hex").slice(0, 8)
  const folder = fits(wanted) ? wanted : join(shortFolder(), nameOf(hash, server))
  return fits(folder)
    ? Result.succeed(folder)
    : Result.fail(
        `the path of its socket would be too long: ${Buffer.byteLength(folder) + 1 + LONGEST_NAME} bytes in ${folder}, where this system allows ${LONGEST_PATH}; point XDG_RUNTIME_DIR or XDG_STATE_HOME to a folder with a shorter path`,
      )
}

/** Makes the folder (0700), or says in a sentence why no socket can lie there. */
export const folderOf = (place: WorkerPlace): Result.Result<string, string> =>
  Result.flatMap(placeOf(place), (folder) => {
    const { user } = place
    const made: Result.Result<unknown, string> =
      user === undefined ? Result.flatMap(ownFolder(dirname(folder)), () => ownFolder(folder)) : makeHome(dirname(folder), folder, user)
    return made.pipe(
      Result.map(() => folder),
      Result.mapError((reason) => `the folder of its socket, ${folder}, ${reason}`),
    )
  })

/** The identity of the worker that owns the folder; what dead ones left is removed. */
export const ownerOf = (folder: string, { isAlive }: ServerIdentity["Service"], but?: string): string | undefined => {
  const names = Result.getOrElse(
    attempt(() => readdirSync(folder).filter((name) => name.endsWith(SUFFIX))),
    () => [],
  )
  const identities = names.map((name) => basename(name, SUFFIX)).filter((identity) => identity !== but)
  for (const identity of identities) if (!isAlive(identity)) rmSync(socketOf(folder, identity), { force: true })
  return identities.find(isAlive)
}

export const socketOf = (folder: string, identity: string): string => join(folder, identity + SUFFIX)

/** Where socket folders lie: those of this user's workers, and of each other user's. */
export const rootsOf = (stateFolder: string, workers: ReadonlyArray<WorkerSettings>): ReadonlyArray<string> => [
  ...[join(stateFolder, "workers"), shortFolder()],
  ...workers.flatMap(({ name, user }) => (user === undefined ? [] : [homeOf(stateFolder, name, user)])),
]

/** The folders of servers that are gone, with the workers that live in them. Folders without a living worker are removed. */
export const leftFolders = (roots: ReadonlyArray<string>, identity: ServerIdentity["Service"]): ReadonlyArray<string> =>
  roots.flatMap((root) => {
    const names = Result.getOrElse(
      attempt(() => readdirSync(root).filter((name) => name.includes(OWNER))),
      () => [],
    )
    return names.flatMap((name) => {
      if (identity.isAlive(name.slice(name.indexOf(OWNER) + 1))) return []
      const folder = join(root, name)
      const owner = ownerOf(folder, identity)
      if (owner === undefined) rmSync(folder, { recursive: true, force: true })
      return owner ?? []
    })
  })

/** A connection as effect knows it. Any number of writers may wait for it to drain. */
export const socketOver = (connection: Socket): Effect.Effect<EffectSocket> =>
  NodeSocket.fromDuplex(Effect.sync(() => connection.setMaxListeners(0)))

/** A connection to a worker, made when it is first read. */
export const connectTo = (path: string): Effect.Effect<EffectSocket> =>
  NodeSocket.fromDuplex(
    Effect.acquireRelease(
      Effect.callback<Socket, SocketError>((resume) => {
        const connection = createConnection({ path }).setMaxListeners(0)
        connection.once("connect", () => resume(Effect.succeed(connection)))
        connection.on("error", (cause) => resume(Effect.fail(new SocketError({ reason: new SocketOpenError({ kind: "Unknown", cause }) }))))
      }),
      (connection) => Effect.sync(() => void connection.destroySoon()),
    ),
  )

/**
 * Takes the folder and listens until the scope ends (0600). Refused when another worker has it. `onSocket` is called with
 * each connection.
 */
export const listen = (
  folder: string,
  identity: ServerIdentity["Service"],
  onSocket: (socket: Socket) => void,
): Effect.Effect<void, RunnerUnavailable, Scope.Scope> =>
  Effect.asVoid(
    Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>, RunnerUnavailable>((resume) => {
        const path = socketOf(folder, identity.self)
        const fail = (cause: string) => resume(Effect.fail(new RunnerUnavailable({ cause })))
        // Nothing is read before its handler reads it.
        const server = createServer({ pauseOnConnect: true }, onSocket)
        server.once("error", (error) => fail(`${path}: ${error.message}`))
        server.listen(path, () => {
          // Another user's worker loses the folder to its server as soon as one listens.
          const kept = attempt(() => {
            chmodSync(path, 0o600)
            return readdirSync(folder)
          })
          if (Result.isFailure(kept)) {
            server.close()
            return fail(`${folder} ${kept.failure}`)
          }
          const other = ownerOf(folder, identity, identity.self)
          if (other === undefined) return resume(Effect.succeed(server))
          server.close()
          fail(`process ${other.split(".")[0]} is the worker of ${folder} already`)
        })
      }),
      (server) => Effect.sync(() => void server.close()),
    ),
  )

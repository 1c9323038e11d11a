/**
 * WorkerHost: starts `codespace worker` as a process of its own and tells it through its standard input what it is for. The
 * worker has a built environment, leaves no core files, has no descriptor of this process but its log, and leads a session
 * of its own. One that ends with its server sees that by the end of its input.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { closeSync, openSync, rmSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { Effect, Layer, type Result } from "effect"
import { RunnerUnavailable } from "../schema/Operation.ts"
import { AppConfig, type WorkerUser } from "../services/AppConfig.ts"
import { baseEnvironment, type Variables } from "../services/ChildEnvironment.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { textOf } from "../services/SettingsText.ts"
import { WorkerHost, type WorkerLine, type WorkerSettings } from "../services/WorkerHost.ts"
import { variables } from "./HostEnvironment.ts"
import { sendTo } from "./ProcessTable.ts"
import { connectTo, folderOf, leftFolders, ownerOf, rootsOf, socketOf } from "./WorkerSocket.ts"
import { giveFolder, stateOf, takeFolder } from "./WorkerUser.ts"

/** What a worker reads from its standard input, in one line. */
export interface WorkerOrder {
  readonly folder: string
  readonly lifetime: WorkerSettings["lifetime"]
  readonly orphanLimitMs: number
  readonly config: AppConfig["Service"]
}

/** The word of a worker that listens; anything else is why it does not. */
export const READY = "ready"

/** How long a worker may take to listen, to end in order, and to be gone when it was killed, in milliseconds. */
const START_LIMIT = 15_000
const CLOSE_LIMIT = 3500
const GONE_LIMIT = 5000
const LOOK_EVERY = 3
/** A detached worker's log starts anew when it has more bytes. */
const LONGEST_LOG = 1_048_576

/** `program` is this program's command line without its arguments. */
export const layer = (program: ReadonlyArray<string>): Layer.Layer<WorkerHost, never, AppConfig | ServerIdentity> =>
  Layer.effect(
    WorkerHost,
    Effect.gen(function* () {
      const config = yield* AppConfig
      const identity = yield* ServerIdentity
      /** Workers that end with this server, by identity. */
      const children = new Map<string, { readonly child: ChildProcess; readonly folder: string }>()

      const kill = (worker: string) =>
        Effect.suspend(() => {
          if (identity.isAlive(worker)) signal(worker)
          return gone(worker, GONE_LIMIT)
        })

      const gone = Effect.fnUntraced(function* (worker: string, limit: number) {
        for (let waited = 0; identity.isAlive(worker) && waited < limit; waited += LOOK_EVERY) yield* Effect.sleep(LOOK_EVERY)
      })

      const close = (worker: string) =>
        Effect.suspend(() => {
          const own = children.get(worker)
          if (own === undefined) return Effect.void
          own.child.stdin?.end()
          return Effect.andThen(
            Effect.andThen(gone(worker, CLOSE_LIMIT), kill(worker)),
            Effect.sync(() => rmSync(own.folder, { recursive: true, force: true })),
          )
        })

      const lineTo = Effect.fnUntraced(function* (folder: string, worker: string) {
        const socket = yield* connectTo(socketOf(folder, worker))
        const line: WorkerLine = {
          socket,
          worker,
          isAlive: () => identity.isAlive(worker),
          kill: kill(worker),
          close: close(worker),
        }
        return line
      })

      const start = Effect.fnUntraced(function* (settings: WorkerSettings, folder: string) {
        const { lifetime, orphanLimitMs, user } = settings
        const stateFolder = user === undefined ? config.stateFolder : stateOf(dirname(folder))
        // Before the worker's user may write there.
        const log = yield* Effect.sync(() => logOf(settings, folder))
        if (user !== undefined) yield* mine(giveFolder(folder, user))
        const child = yield* Effect.sync(() => spawnWorker(program, environmentOf(config, settings), log, user))
        const order: WorkerOrder = { folder, lifetime, orphanLimitMs, config: { ...config, stateFolder } }
        const word = yield* firstWord(child, textOf(order), lifetime)
        const owner = ownerOf(folder, identity)
        if (word !== READY || owner === undefined) return word
        if (lifetime === "gateway") children.set(owner, { child, folder })
        return READY
      })

      const connect = Effect.fnUntraced(function* (settings: WorkerSettings) {
        const place = {
          stateFolder: config.stateFolder,
          environment: settings.name,
          server: settings.lifetime === "gateway" ? identity.self : undefined,
          ...(settings.user === undefined ? {} : { user: settings.user }),
        }
        const folder = yield* mine(folderOf(place))
        const word = ownerOf(folder, identity) === undefined ? yield* start(settings, folder) : READY
        if (settings.user !== undefined) yield* mine(takeFolder(folder))
        // Another server may have started one meanwhile.
        const owner = ownerOf(folder, identity)
        if (owner === undefined)
          return yield* new RunnerUnavailable({ cause: `its worker could not be started: ${word}${whyOf(settings)}` })
        return yield* lineTo(folder, owner)
      })

      const roots = rootsOf(config.stateFolder, workersIn(config))
      const clear = Effect.suspend(() => Effect.forEach(leftFolders(roots, identity), kill, { discard: true }))
      yield* clear
      return WorkerHost.of({ connect, clear })
    }),
  )

/** What has to be made here, or why it cannot be. */
const mine = <A>(made: Result.Result<A, string>): Effect.Effect<A, RunnerUnavailable> =>
  Effect.mapError(Effect.fromResult(made), (cause) => new RunnerUnavailable({ cause }))

const workersIn = ({ workspaces }: AppConfig["Service"]): ReadonlyArray<WorkerSettings> =>
  [...workspaces.values()].flatMap(({ environment }) => (environment.kind === "worker" ? [environment] : []))

const signal = (worker: string): void => {
  const [pid = "", start = ""] = worker.split(".")
  sendTo({ pid: Number(pid), start: start.slice(start.indexOf("-") + 1) }, "SIGKILL")
}

/** What every child gets, and what the profiles of its workspaces let commands have of this server's own. */
const environmentOf = ({ workspaces }: AppConfig["Service"], { name, user }: WorkerSettings): Variables => {
  const host = user === undefined ? variables() : asUser(variables(), user)
  const own = [...workspaces.values()].filter(({ environment }) => environment.kind === "worker" && environment.name === name)
  const allowed = new Set(own.flatMap(({ profile }) => profile.env))
  return { ...baseEnvironment(host), ...Object.fromEntries(Object.entries(host).filter(([variable]) => allowed.has(variable))) }
}

/** What the user's own login would say, and nothing of where this server has its temporary files. */
const asUser = ({ TMPDIR: _, TMP: __, TEMP: ___, ...host }: Variables, { home, name, shell }: WorkerUser): Variables => ({
  ...host,
  ...{ HOME: home, USER: name, LOGNAME: name, SHELL: shell },
})

const whyOf = ({ user }: WorkerSettings): string =>
  user === undefined ? "" : ` (as user ${user.name}; "codespace doctor" tells what it lacks)`

/**
 * Where what it says goes: to this server's log, or for one that outlives it to a file. That one lies where only this
 * server can write, since it opens it.
 */
const logOf = ({ lifetime, user }: WorkerSettings, folder: string): number | "inherit" => {
  if (lifetime === "gateway") return "inherit"
  const path = join(user === undefined ? folder : dirname(folder), "log")
  const isLong = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > LONGEST_LOG
  return openSync(path, isLong ? "w" : "a", 0o600)
}

/** For another user with no group but its own: becoming it drops all others. */
const spawnWorker = (
  program: ReadonlyArray<string>,
  env: Variables,
  log: number | "inherit",
  user: WorkerUser | undefined,
): ChildProcess => {
  const child = spawn("/bin/sh", ["-c", 'ulimit -c 0; exec "$@"', "sh", ...program, "worker"], {
    ...{ cwd: "/", env: { ...env }, stdio: ["pipe", "pipe", log], detached: true },
    ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
  })
  if (log !== "inherit") closeSync(log)
  for (const part of [child, child.stdin, child.stdout]) part?.on("error", () => {})
  child.unref()
  return child
}

/** Gives the order, and waits for the answer. */
const firstWord = (child: ChildProcess, order: string, lifetime: WorkerSettings["lifetime"]): Effect.Effect<string> =>
  Effect.callback<string>((resume) => {
    let said = ""
    const answer = (word: string) => {
      child.stdout?.removeAllListeners("data").destroy()
      resume(Effect.succeed(word))
    }
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      said += text
      if (said.includes("\n")) answer(said.slice(0, said.indexOf("\n")))
    })
    child.once("exit", (code, signalled) => answer(said.trim() || `it ended with ${signalled ?? `code ${code}`}`))
    child.stdin?.write(`${order}\n`)
    if (lifetime === "detached") child.stdin?.end()
    return Effect.sync(() => void child.kill("SIGKILL"))
  }).pipe(Effect.timeoutOrElse({ duration: START_LIMIT, orElse: () => Effect.succeed("it took too long to start") }))

/**
 * WorkerHost: starts `codespace worker` as a process of its own and tells it through its standard input what it is for. The
 * worker has a built environment, leaves no core files, has no descriptor of this process but its log, and leads a session
 * of its own. One that ends with its server sees that by the end of its input.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { closeSync, openSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { Effect, Layer } from "effect"
import { RunnerUnavailable } from "../schema/Operation.ts"
import { AppConfig } from "../services/AppConfig.ts"
import { baseEnvironment, type Variables } from "../services/ChildEnvironment.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { textOf } from "../services/SettingsText.ts"
import { WorkerHost, type WorkerLine, type WorkerSettings } from "../services/WorkerHost.ts"
import { variables } from "./HostEnvironment.ts"
import { sendTo } from "./ProcessTable.ts"
import { connectTo, folderOf, leftFolders, ownerOf, socketOf } from "./WorkerSocket.ts"

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
        const { lifetime, orphanLimitMs } = settings
        const child = yield* Effect.sync(() => spawnWorker(program, environmentOf(config, settings), logOf(settings, folder)))
        const word = yield* firstWord(child, textOf({ folder, lifetime, orphanLimitMs, config } satisfies WorkerOrder), lifetime)
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
        }
        const folder = yield* Effect.mapError(Effect.fromResult(folderOf(place)), (cause) => new RunnerUnavailable({ cause }))
        const word = ownerOf(folder, identity) === undefined ? yield* start(settings, folder) : READY
        // Another server may have started one meanwhile.
        const owner = ownerOf(folder, identity)
        if (owner === undefined) return yield* new RunnerUnavailable({ cause: `its worker could not be started: ${word}` })
        return yield* lineTo(folder, owner)
      })

      const clear = Effect.suspend(() => Effect.forEach(leftFolders(config.stateFolder, identity), kill, { discard: true }))
      yield* clear
      return WorkerHost.of({ connect, clear })
    }),
  )

const signal = (worker: string): void => {
  const [pid = "", start = ""] = worker.split(".")
  sendTo({ pid: Number(pid), start: start.slice(start.indexOf("-") + 1) }, "SIGKILL")
}

/** What every child gets, and what the profiles of its workspaces let commands have of this server's own. */
const environmentOf = ({ workspaces }: AppConfig["Service"], { name }: WorkerSettings): Variables => {
  const host = variables()
  const own = [...workspaces.values()].filter(({ environment }) => environment.kind === "worker" && environment.name === name)
  const allowed = new Set(own.flatMap(({ profile }) => profile.env))
  return { ...baseEnvironment(host), ...Object.fromEntries(Object.entries(host).filter(([variable]) => allowed.has(variable))) }
}

/** Where what it says goes: to this server's log, or for one that outlives it to a file. */
const logOf = ({ lifetime }: WorkerSettings, folder: string): number | "inherit" => {
  if (lifetime === "gateway") return "inherit"
  const path = join(folder, "log")
  const isLong = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > LONGEST_LOG
  return openSync(path, isLong ? "w" : "a", 0o600)
}

const spawnWorker = (program: ReadonlyArray<string>, env: Variables, log: number | "inherit"): ChildProcess => {
  const child = spawn("/bin/sh", ["-c", 'ulimit -c 0; exec "$@"', "sh", ...program, "worker"], {
    ...{ cwd: "/", env: { ...env }, stdio: ["pipe", "pipe", log], detached: true },
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

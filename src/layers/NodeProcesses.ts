/**
 * ProcessSpawner over `node:child_process`. Every child leads a session and a group of its own, in a pid namespace where
 * one can be made; it writes into a spool file that only this user can read, and carries a mark that its descendants
 * inherit. Children are started from this thread, and nothing of their output is held here.
 */
import { closeSync, existsSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Exit, Layer, Scope } from "effect"
import { StorageFull } from "../schema/Operation.ts"
import type { SpawnFailed, Stdin } from "../schema/Process.ts"
import { type Child, InputClosed, ProcessSpawner, type SpawnRequest, type Spool } from "../services/ProcessSpawner.ts"
import { type Holding, Sandbox } from "../services/Sandbox.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { refusalOf } from "./Executable.ts"
import * as Group from "./Group.ts"
import { searchPath, variables } from "./HostEnvironment.ts"
import { type Launched, type Standard, spawnFailed } from "./Launch.ts"
import * as Leftovers from "./Leftovers.ts"
import * as Namespace from "./Namespace.ts"
import * as NodeSpool from "./NodeSpool.ts"
import { MARK } from "./ProcessTree.ts"
import * as Watchdog from "./Watchdog.ts"

/**
 * Spools lie in a folder of this server below `folder`, which is made when missing (0700). The folder goes with the
 * layer; what servers left behind that died before they could clear up, processes and spools, is ended and removed first.
 */
export const layer = (folder: string): Layer.Layer<ProcessSpawner, never, ServerIdentity | Sandbox> =>
  Layer.effect(
    ProcessSpawner,
    Effect.gen(function* () {
      const identity = yield* ServerIdentity
      const { holding } = yield* Sandbox
      const spools = join(folder, identity.self)
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          mkdirSync(folder, { recursive: true, mode: 0o700 })
          Leftovers.clear(folder, identity)
          mkdirSync(spools, { recursive: true, mode: 0o700 })
        }),
        () => Effect.sync(() => rmSync(spools, { recursive: true, force: true })).pipe(Effect.ignoreCause({ log: true })),
      )
      const shell = shellOf()
      const scope = yield* Effect.scope
      // A server that never runs a command needs no watchdog.
      const ready = yield* Effect.cached(Effect.andThen(Scope.provide(Watchdog.start(`${MARK}=${identity.self}/`), scope), holding))
      return ProcessSpawner.of({
        spawn: (request) =>
          Effect.flatMap(ready, (by) => start(request, { path: join(spools, request.id), mark: `${identity.self}/${request.id}`, by })),
        holding,
        hostEnvironment: variables,
        shell: () => shell,
      })
    }),
  )

/** Bash where there is one, since that is what scripts are written for. */
const shellOf = (): string =>
  ["/bin", "/usr/bin", ...searchPath()].map((folder) => join(folder, "bash")).find((file) => existsSync(file)) ?? "/bin/sh"

/** Where a process is started: its spool, its mark, and what holds it. */
interface Place {
  readonly path: string
  readonly mark: string
  readonly by: Holding
}

const start = Effect.fnUntraced(function* (request: SpawnRequest, { by, mark, path }: Place) {
  const refusal = refusalOf(request)
  if (refusal !== undefined) return yield* refusal
  const launched = yield* Effect.acquireUseRelease(
    Effect.try({ try: () => openStandard(request, path), catch: (error) => storageProblem(request, error) }),
    (standard) =>
      by.by === "group"
        ? Group.launch(request, mark, standard)
        : Namespace.launch(request, mark, standard, by.enter, () => NodeSpool.start(path)),
    (standard, exit) =>
      Effect.sync(() => {
        for (const file of new Set(standard)) if (typeof file === "number") closeSync(file)
        if (Exit.isFailure(exit)) removeAll(path)
      }),
  )
  Leftovers.note(path, launched.pid)
  // Errors of stdin are answered to whoever writes; one between writes is no news.
  launched.stdin?.on("error", () => {})
  return childOf(launched, path, request.split)
})

const errorsOf = (path: string): string => `${path}.err`
const removeAll = (path: string): void => {
  for (const file of [path, errorsOf(path), `${path}.in`]) rmSync(file, { force: true })
}

const storageProblem = (request: SpawnRequest, error: unknown): StorageFull | SpawnFailed =>
  ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "")
    ? new StorageFull({ where: "the server's state folder" })
    : spawnFailed(request, error)

/** Both streams into one spool, so that their order is kept; or each into its own. */
const openStandard = (request: SpawnRequest, path: string): Standard => {
  const opened: Array<number> = []
  const kept = <A extends number | string>(file: A): A => {
    if (typeof file === "number") opened.push(file)
    return file
  }
  try {
    const input = kept(inputOf(request.stdin, `${path}.in`))
    const output = kept(NodeSpool.create(path))
    return [input, output, request.split ? kept(NodeSpool.create(errorsOf(path))) : output]
  } catch (error) {
    for (const file of opened) closeSync(file)
    removeAll(path)
    throw error
  }
}

/** A given text is a file without a name: nobody has to feed it, and it needs no memory here. */
const inputOf = (stdin: Stdin, path: string): number | "ignore" | "pipe" => {
  if (typeof stdin === "string") return stdin === "open" ? "pipe" : "ignore"
  writeFileSync(path, stdin.text, { mode: 0o600, flag: "wx" })
  const file = openSync(path, "r")
  rmSync(path)
  return file
}

const childOf = ({ isDeaf, stdin, ...launched }: Launched, path: string, split: boolean): Child => ({
  ...launched,
  spool: withNote(path),
  errors: split ? NodeSpool.open(errorsOf(path)) : undefined,
  write: (bytes) =>
    Effect.callback((resume) => {
      if (stdin === null || !stdin.writable || isDeaf()) return resume(Effect.fail(new InputClosed()))
      stdin.write(bytes, (error) => resume(error ? Effect.fail(new InputClosed()) : Effect.void))
    }),
  pendingInput: () => (stdin?.destroyed === false ? stdin.writableLength : 0),
  closeInput: Effect.sync(() => void stdin?.end()),
})

/** A spool whose note goes with it. */
const withNote = (path: string): Spool => {
  const spool = NodeSpool.open(path)
  return {
    ...spool,
    remove: Effect.andThen(
      Effect.sync(() => Leftovers.forget(path)),
      spool.remove,
    ),
  }
}

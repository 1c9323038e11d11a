/**
 * ProcessSpawner over `node:child_process`. Every child leads a session and a group of its own, in a pid namespace where
 * one can be made; it writes into a spool file that only this user can read, and carries a mark that its descendants
 * inherit. Children are started from this thread, and nothing of their output is held here.
 */
import { randomBytes } from "node:crypto"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { Effect, Exit, Layer, Schedule, Scope, Semaphore } from "effect"
import type { SearchPath } from "../schema/Config.ts"
import { type Child, ProcessSpawner, type SpawnRequest } from "../services/ProcessSpawner.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { refusalOf } from "./Executable.ts"
import * as Group from "./Group.ts"
import * as HostEnvironment from "./HostEnvironment.ts"
import * as Leftovers from "./Leftovers.ts"
import * as Namespace from "./Namespace.ts"
import type { OpenTerminal } from "./NodePty.ts"
import * as NodePty from "./NodePty.ts"
import * as NodeSpool from "./NodeSpool.ts"
import { MARK } from "./ProcessTree.ts"
import { makeReady, type ReadyNamespaces } from "./ReadyNamespaces.ts"
import * as Scribe from "./Scribe.ts"
import * as SpoolFolder from "./SpoolFolder.ts"
import * as Streams from "./Streams.ts"
import * as Watchdog from "./Watchdog.ts"

/** Milliseconds between the looks for what servers left behind that died meanwhile. */
const CLEAR_EVERY = 3_600_000

export interface Options {
  /** Where programs are looked for: a PATH, or as the user's login shell has it. The server's own PATH when absent. */
  readonly searchPath?: SearchPath
  readonly openTerminal?: OpenTerminal
}

/**
 * Spools lie in a folder of this server below `folder`, which is made when missing (0700). They stay when the layer goes, for
 * the next server to read. What still runs of servers that died before they could end it is ended first, and again from
 * time to time.
 */
export const layer = (
  folder: string,
  { openTerminal = NodePty.open, searchPath = "server" }: Options = {},
): Layer.Layer<ProcessSpawner, never, ServerIdentity> =>
  Layer.effect(
    ProcessSpawner,
    Effect.gen(function* () {
      const identity = yield* ServerIdentity
      const spools = yield* Effect.acquireRelease(
        Effect.sync(() => SpoolFolder.prepare(folder, identity)),
        (own) => Effect.sync(() => SpoolFolder.tidy(own)).pipe(Effect.ignoreCause({ log: true })),
      )
      const clear = Effect.sync(() => SpoolFolder.clear(folder, identity))
      yield* Effect.forkScoped(Effect.repeat(Effect.delay(Effect.ignoreCause(clear, { log: true }), CLEAR_EVERY), Schedule.forever))
      const shell = shellOf()
      const terminals = new Set<string>()
      const turn = turnsOf(yield* Semaphore.make(1))
      const scope = yield* Effect.scope
      // One program may have several of these layers, at the same time or one after the other.
      const own = `${identity.self}/${randomBytes(4).toString("hex")}`
      // A server that never runs a command needs no watchdog.
      const guarded = yield* Effect.cached(Scope.provide(Watchdog.start(`${MARK}=${own}/`), scope))
      const markOf = (name: string) => `${own}/${name}`
      const scribe = yield* Scribe.make(spools)
      const ready = yield* makeReady({ folder: spools, markOf, hasLeaks: () => terminals.size > 0, scribe })
      return ProcessSpawner.of({
        spawn: (request) =>
          Effect.andThen(
            guarded,
            start(request, { path: join(spools, request.id), mark: markOf(request.id), openTerminal, terminals, ready, scribe }),
          ),
        record: (id, record) => SpoolFolder.writeRecord(join(spools, id), record),
        left: SpoolFolder.leftIn(folder, identity),
        turn,
        hostEnvironment: yield* Effect.cached(HostEnvironment.variablesWith(searchPath)),
        shell: () => shell,
      })
    }),
  )

/** Bash where there is one, since that is what scripts are written for. */
const shellOf = (): string =>
  ["/bin", "/usr/bin", ...HostEnvironment.searchPath()].map((folder) => join(folder, "bash")).find((file) => existsSync(file)) ?? "/bin/sh"

/**
 * Node does nothing else while it starts a program. Of many that are to be started at once each has a turn of the event loop
 * of its own, so that whoever asks for something else in between waits for one of them, not for all.
 */
const turnsOf = (one: Semaphore.Semaphore): Effect.Effect<void> =>
  one.withPermits(1)(
    Effect.callback<void>((resume) => {
      const turn = setImmediate(() => resume(Effect.void))
      return Effect.sync(() => clearImmediate(turn))
    }),
  )

/** Where a process is started: its spool, its mark, and the terminals there are. */
interface Place {
  readonly openTerminal: OpenTerminal
  /** Spools of those that are open: their near ends leak into every child that does not close them. */
  readonly terminals: Set<string>
  readonly path: string
  readonly mark: string
  readonly ready: ReadyNamespaces
  readonly scribe: Scribe.Scribe | undefined
}

const start = Effect.fnUntraced(function* (request: SpawnRequest, place: Place) {
  const refusal = refusalOf(request)
  if (refusal !== undefined) return yield* refusal
  const { path, ready, terminals } = place
  const { holding } = request
  const early = holding.by === "namespace" ? yield* ready.start(request, holding, place.mark, path) : undefined
  const { launched, opened } = early ?? (yield* startNow(request, place))
  if (early === undefined) Leftovers.note(path, launched.pid)
  if (holding.by === "namespace") ready.makeAfter(holding, launched.exit)
  const { expect: _, isDeaf: __, stdin: ___, ...tree } = launched
  const own = opened.ownSide(launched)
  const child: Child = {
    ...tree,
    ...own,
    closed: Effect.andThen(
      own.closed,
      Effect.sync(() => void terminals.delete(path)),
    ),
    spool: SpoolFolder.withNotes(own.spool, path),
  }
  return child
})

/** Opens the streams and starts the program. */
const startNow = (request: SpawnRequest, { mark, openTerminal, path, scribe, terminals }: Place) =>
  Effect.acquireUseRelease(
    Streams.open(request, path, openTerminal, request.holding.by === "namespace" && request.holding.waitsAtPipes ? scribe : undefined),
    (opened) => {
      if (opened.isTerminal) terminals.add(path)
      const streams = { ...opened, hasLeaks: terminals.size > 0 }
      const launching =
        request.holding.by === "group"
          ? Group.launch(request, mark, streams)
          : Namespace.launch(request, mark, streams, request.holding, () => NodeSpool.start(path))
      return Effect.map(launching, (launched) => ({ launched, opened }))
    },
    (opened, exit) =>
      Effect.sync(() => {
        opened.release()
        if (Exit.isSuccess(exit)) return
        opened.discard()
        terminals.delete(path)
      }),
  )

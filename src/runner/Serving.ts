/**
 * The worker's end of the wire: performs what servers ask, each with the workspaces of its own configuration. An answer to
 * a recorded operation is kept until it is acknowledged, so that whoever asks after a crash learns what became of it.
 */
import { Context, Deferred, Effect, FiberSet, Layer, RcMap, Scope } from "effect"
import { unixPathAddress } from "effect/net/NetAddress"
import { RpcSerialization } from "effect/rpc/RpcSerialization"
import * as RpcServer from "effect/rpc/RpcServer"
import type { Socket } from "effect/socket/Socket"
import { SocketServer } from "effect/socket/SocketServer"
import { RunnerUnavailable } from "../schema/Operation.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../services/AppConfig.ts"
import type { ProcessSupervisor } from "../services/ProcessSupervisor.ts"
import type { CutOperation, Reply, RunRequest } from "../services/Runner.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { settingsFrom } from "../services/SettingsText.ts"
import { Handlers, type LayerUnder, type LayerWorkspace, type WorkspaceTool } from "./Handlers.ts"
import { PROTOCOL, serialization, Wire, type WireOutcome, type WireReply } from "./Wire.ts"

/** Answers kept at most; nobody asks for the oldest any more. */
const KEPT = 1000
/** How long the services of a configuration stay when no server with it is connected: a restart needs them again. */
const IDLE = "10 minutes"
/** Milliseconds between looks whether a dead server's calls have ended, and how long to wait for it. */
const LOOK_EVERY = 5
const CALLS_END_WITHIN = 10_000

/** An answer that was not acknowledged yet; `ended` is there when it left a process running. */
interface Kept {
  readonly reply: WireReply
  readonly lease: RunRequest["lease"]
  readonly ended: Deferred.Deferred<Reply["result"]> | undefined
}

export interface Serving {
  /** Serves one connection until it ends; its calls are interrupted then, and it completes when they are over. */
  readonly connect: (socket: Socket) => Effect.Effect<void>
  /** How many there are. */
  readonly connections: () => number
}

/** Until the scope ends. `layerWorkspace` and `layerUnder` build what one workspace has of its own. */
export const make = Effect.fnUntraced(function* <R>(
  tools: ReadonlyArray<WorkspaceTool>,
  layerWorkspace: LayerWorkspace<R>,
  layerUnder: LayerUnder<R>,
  version: string,
) {
  const config = yield* AppConfig
  const identity = yield* ServerIdentity
  const outer = yield* Effect.context<R | ProcessSupervisor>()
  const journaled = new Set(tools.filter((tool) => tool.journaled).map(({ name }) => name))
  const kept = new Map<string, Kept>()
  /** Recorded operations whose handlers are at work. */
  const underWay = new Set<string>()
  /** The servers that are connected, by connection. */
  const servers = new Map<object, string>()

  const handlersFor = (workspaces: string): Layer.Layer<Handlers> =>
    Handlers.layer(tools, layerWorkspace, layerUnder).pipe(
      Layer.provide(
        Layer.succeed(AppConfig, { ...config, workspaces: settingsFrom<ReadonlyMap<WorkspaceId, WorkspaceSettings>>(workspaces) }),
      ),
      Layer.provide(Layer.succeedContext(outer)),
    )
  const desks = yield* RcMap.make({
    lookup: (workspaces: string) => Layer.build(Layer.fresh(handlersFor(workspaces))),
    idleTimeToLive: IDLE,
  })
  const follow = yield* FiberSet.makeRuntime<never, void>()

  /** Keeps what a recorded call answered, unless the journal has it. */
  const keep = ({ lease, operationId, tool }: RunRequest, { ending, image, result }: Reply): WireReply => {
    const reply: WireReply = { result, ...(image === undefined ? {} : { image }), ...(ending === undefined ? {} : { goesOn: true }) }
    if (operationId === undefined || journaled.has(tool)) return reply
    const ended = ending === undefined ? undefined : Deferred.makeUnsafe<Reply["result"]>()
    kept.set(operationId, { reply, lease, ended })
    if (ending !== undefined && ended !== undefined) follow(Effect.flatMap(ending, (last) => Effect.asVoid(Deferred.succeed(ended, last))))
    for (const [old, { ended: end }] of kept) {
      if (kept.size <= KEPT) break
      if (end === undefined || Deferred.isDoneUnsafe(end)) kept.delete(old)
    }
    return reply
  }

  const perform = (handlers: Handlers["Service"], request: RunRequest): Effect.Effect<WireReply, Refusal> => {
    const { operationId } = request
    if (operationId === undefined) return Effect.map(handlers.handle(request), (reply) => keep(request, reply))
    return Effect.uninterruptibleMask((restore) => {
      underWay.add(operationId)
      return restore(handlers.handle(request)).pipe(
        Effect.map((reply) => keep(request, reply)),
        Effect.ensuring(Effect.sync(() => void underWay.delete(operationId))),
      )
    })
  }

  /** A dead server's last requests may still be unread: nothing is said about its operations before its connections have ended. */
  const deadHaveLeft = Effect.gen(function* () {
    for (let waited = 0; waited < CALLS_END_WITHIN; waited += LOOK_EVERY) {
      if (![...servers.values()].some((server) => !identity.isAlive(server))) return
      yield* Effect.sleep(LOOK_EVERY)
    }
  })

  const outcomes = Effect.fnUntraced(function* (handlers: Handlers["Service"], workspaceId: WorkspaceId, cut: ReadonlyArray<CutOperation>) {
    yield* deadHaveLeft
    const open = cut.filter(({ operationId }) => !underWay.has(operationId))
    const known = yield* handlers.outcomes(
      workspaceId,
      open.filter(({ operationId }) => !kept.has(operationId)),
    )
    const all: Record<string, WireOutcome> = {}
    for (const { operationId } of open) {
      const answer = kept.get(operationId)
      const outcome = known.get(operationId)
      if (answer !== undefined) all[operationId] = repliedBy(answer)
      else if (outcome !== undefined) all[operationId] = outcome
    }
    return all
  })

  const connect = Effect.fnUntraced(function* (socket: Socket) {
    const scope = yield* Effect.scope
    const connection = {}
    const closed = Deferred.makeUnsafe<void>()
    const greeted = Deferred.makeUnsafe<Handlers["Service"]>()
    const calls = new Map<number, Deferred.Deferred<void>>()
    const atDesk = <A, E>(use: (handlers: Handlers["Service"]) => Effect.Effect<A, E>) => Effect.flatMap(Deferred.await(greeted), use)
    const allOver = Effect.suspend(() => Effect.forEach([...calls.values()], Deferred.await, { discard: true }))
    // A call that does not end must not keep the connection counted for ever, and with it the worker.
    const left = Effect.timeoutOption(allOver, CALLS_END_WITHIN)
    yield* Effect.addFinalizer(() => Effect.andThen(left, () => Effect.sync(() => void servers.delete(connection))))

    const handlers = yield* Wire.toHandlers({
      hello: Effect.fnUntraced(function* ({ protocol, server, workspaces }) {
        if (protocol !== PROTOCOL) return yield* new RunnerUnavailable({ cause: otherVersion(identity.self, version) })
        servers.set(connection, server)
        const context = yield* Scope.provide(RcMap.get(desks, workspaces), scope)
        yield* Deferred.succeed(greeted, Context.get(context, Handlers))
        return { worker: identity.self, version }
      }),
      // Registered when it runs: a call that is interrupted before that has no end that could be waited for.
      execute: ({ call, ...request }) =>
        Effect.uninterruptibleMask((restore) => {
          const over = Deferred.makeUnsafe<void>()
          calls.set(call, over)
          const end = Effect.andThen(
            Effect.sync(() => calls.delete(call)),
            Deferred.succeed(over, undefined),
          )
          return Effect.ensuring(restore(atDesk((desk) => perform(desk, request))), end)
        }),
      over: ({ call }) =>
        Effect.suspend(() => {
          const over = calls.get(call)
          return over === undefined ? Effect.void : Deferred.await(over)
        }),
      ended: ({ operationId }) =>
        Effect.suspend(() => {
          const end = kept.get(operationId)?.ended
          return end === undefined ? Effect.succeed({}) : Effect.map(Deferred.await(end), (result) => ({ result }))
        }),
      outcomes: ({ cut, workspaceId }) => atDesk((desk) => outcomes(desk, workspaceId, cut)),
      acknowledge: ({ operation, workspaceId }) =>
        atDesk((desk) => {
          kept.delete(operation.operationId)
          return desk.acknowledge(workspaceId, operation)
        }),
    })
    /** A server of one connection. */
    const one = SocketServer.of({
      address: unixPathAddress(""),
      run: (handle) => Effect.exit(handle(socket)).pipe(Effect.andThen(Deferred.succeed(closed, undefined)), Effect.andThen(Effect.never)),
    })
    yield* RpcServer.make(Wire, { disableTracing: true, disableFatalDefects: true }).pipe(
      Effect.provideServiceEffect(RpcServer.Protocol, RpcServer.makeProtocolSocketServer),
      Effect.provideService(SocketServer, one),
      Effect.provideService(RpcSerialization, serialization),
      Effect.provideContext(handlers),
      Effect.raceFirst(Deferred.await(closed)),
    )
  }, Effect.scoped)

  const serving: Serving = { connect, connections: () => servers.size }
  return serving
})

const repliedBy = ({ lease, reply }: Kept): WireOutcome => ({ kind: "replied", reply, ...(lease === undefined ? {} : { lease }) })

const otherVersion = (worker: string, version: string): string =>
  `the worker that runs is of another version (${version}, process ${worker.split(".")[0]}); it ends with its processes once no server has been connected to it for its orphan_limit, or when you end it`

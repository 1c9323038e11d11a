/**
 * The server's line to one worker: made by the first call that needs it, and made anew when it breaks. A worker that died
 * is started again, one that is silent is ended first, and one that fails again and again is tried ever more rarely.
 */
import { Clock, Deferred, Effect, Exit, Fiber, Predicate, Schedule, Scope, Semaphore } from "effect"
import * as RpcClient from "effect/rpc/RpcClient"
import { RpcClientError } from "effect/rpc/RpcClientError"
import { RpcSerialization } from "effect/rpc/RpcSerialization"
import { Socket } from "effect/socket/Socket"
import { RunnerUnavailable } from "../schema/Operation.ts"
import type { WorkspaceSettings } from "../services/AppConfig.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { textOf } from "../services/SettingsText.ts"
import { WorkerHost, type WorkerLine, type WorkerSettings } from "../services/WorkerHost.ts"
import { PROTOCOL, serialization, Wire } from "./Wire.ts"

/** In milliseconds. */
export interface Patience {
  /** Between looks whether the worker answers. */
  readonly lookEvery: number
  /** Silence after which it counts as hung. */
  readonly silence: number
  /** How long a call waits for a line, and for its outcome when one broke. */
  readonly line: number
}
export const patience: Patience = { lookEvery: 5000, silence: 10_000, line: 20_000 }

/** Milliseconds before a worker that could not be used is tried again: at first, and at most. */
const PAUSE_FIRST = 50
const PAUSE_LONGEST = 5000
/** How often more one call tries. */
const ATTEMPTS = 2
/** Milliseconds after which a worker that fails did work before. */
const GOOD_AFTER = 10_000
/** Milliseconds until a broken line is cleared away; its calls have failed by then. */
const CLEAR_AFTER = 100

const makeClient = (look: Patience, onSilence: Effect.Effect<void>) =>
  Effect.flatMap(
    RpcClient.makeProtocolSocket({
      pingInterval: look.lookEvery,
      pingTimeout: look.silence,
      retryTransientErrors: false,
      // The next line is another connection.
      retryPolicy: Schedule.recurs(0),
      onPingTimeout: onSilence,
    }),
    (protocol) => Effect.provideService(RpcClient.make(Wire, { disableTracing: true, flatten: true }), RpcClient.Protocol, protocol),
  )

export interface Link extends WorkerLine {
  readonly client: Effect.Success<ReturnType<typeof makeClient>>
  /** By the clock, in milliseconds. */
  readonly since: number
  readonly lost: Deferred.Deferred<void>
}

/** The line broke during a call. */
export class LineBroke extends Error {
  readonly _tag = "LineBroke"
}

/** What a call meets when its line breaks, as one failure; everything else stays what it is. */
export const orBroken = <A, E>(call: Effect.Effect<A, E | RpcClientError>): Effect.Effect<A, Exclude<E, RpcClientError> | LineBroke> =>
  call.pipe(
    Effect.catchDefect((defect) => (Predicate.isTagged(defect, "SocketError") ? Effect.fail(new LineBroke()) : Effect.die(defect))),
    Effect.mapError((error) => (error instanceof RpcClientError ? new LineBroke() : (error as Exclude<E, RpcClientError> | LineBroke))),
  )

/** Lines to the environment's worker for these workspaces, until the scope ends. */
export const make = Effect.fnUntraced(function* (
  settings: WorkerSettings,
  workspaces: ReadonlyArray<WorkspaceSettings>,
  look: Patience = patience,
) {
  const host = yield* WorkerHost
  const { self } = yield* ServerIdentity
  // A worker that ends with this server ends its processes first, and their ends come over the line that is still there.
  const scope = yield* Effect.acquireRelease(Scope.make(), (made) =>
    Effect.andThen(
      Effect.suspend(() => usable()?.close ?? Effect.void),
      Scope.close(made, Exit.void),
    ),
  )
  const greeting = { protocol: PROTOCOL, server: self, workspaces: textOf(new Map(workspaces.map((one) => [one.id, one]))) }
  const turn = yield* Semaphore.make(1)
  let link: Link | undefined
  /** Failures in a row, and when the next attempt may be made. */
  let failures = 0
  let notBefore = 0

  const failed = Effect.gen(function* () {
    notBefore = (yield* Clock.currentTimeMillis) + Math.min(PAUSE_LONGEST, PAUSE_FIRST * 2 ** failures)
    failures += 1
  })

  const greet = Effect.fnUntraced(function* (line: WorkerLine, linkScope: Scope.Closeable) {
    const lost = Deferred.makeUnsafe<void>()
    const client = yield* makeClient(look, line.kill).pipe(
      Effect.provideService(RpcClient.ConnectionHooks, {
        onConnect: Effect.void,
        onDisconnect: Effect.asVoid(Deferred.succeed(lost, undefined)),
      }),
      Effect.provideService(Socket, line.socket),
      Effect.provideService(RpcSerialization, serialization),
      Scope.provide(linkScope),
    )
    yield* client("hello", greeting).pipe(
      orBroken,
      Effect.catchTag("LineBroke", () => Effect.fail(new RunnerUnavailable({ cause: "its worker ended while it was greeted" }))),
      Effect.timeoutOrElse({
        duration: look.silence,
        orElse: () => Effect.andThen(line.kill, Effect.fail(new RunnerUnavailable({ cause: "its worker did not answer, and was ended" }))),
      }),
    )
    return { ...line, client, lost, since: yield* Clock.currentTimeMillis }
  })

  /** Where a worker ends with its server, one that cannot be reached is of no use to anybody. */
  const clearAway = Effect.fnUntraced(function* (lost: Link, linkScope: Scope.Closeable) {
    yield* Deferred.await(lost.lost)
    if ((yield* Clock.currentTimeMillis) - lost.since < GOOD_AFTER) yield* failed
    if (settings.lifetime === "gateway") yield* lost.kill
    yield* Effect.sleep(CLEAR_AFTER)
    yield* Scope.close(linkScope, Exit.void)
  })

  const attempt = Effect.gen(function* () {
    const pause = notBefore - (yield* Clock.currentTimeMillis)
    if (pause > 0) yield* Effect.sleep(pause)
    const line = yield* host.connect(settings)
    const linkScope = yield* Scope.fork(scope)
    const made = yield* greet(line, linkScope).pipe(Effect.onError(() => Scope.close(linkScope, Exit.void)))
    yield* Effect.forkIn(clearAway(made, linkScope), scope)
    if ((yield* Clock.currentTimeMillis) - notBefore > GOOD_AFTER) failures = 0
    link = made
    return made
  }).pipe(Effect.tapError(() => failed))

  const usable = () => (link !== undefined && !Deferred.isDoneUnsafe(link.lost) ? link : undefined)
  const made = turn.withPermits(1)(
    Effect.suspend(() => {
      const known = usable()
      return known === undefined ? Effect.retry(attempt, { times: ATTEMPTS }) : Effect.succeed(known)
    }),
  )
  /** Made where there is none, also when the call that wanted it first is cancelled; refused with what was in the way. */
  const current: Effect.Effect<Link, RunnerUnavailable> = Effect.suspend(() => {
    const known = usable()
    return known === undefined
      ? Effect.flatMap(Effect.forkIn(made, scope, { startImmediately: true }), Fiber.join).pipe(
          Effect.timeoutOrElse({
            duration: look.line,
            orElse: () => Effect.fail(new RunnerUnavailable({ cause: "its worker could not be reached in time" })),
          }),
        )
      : Effect.succeed(known)
  })
  return { current, usable }
})

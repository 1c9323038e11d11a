/**
 * The start of a process: is it within its limits, what confines it, what is its environment; and then somebody watches it
 * until it has ended.
 */
import { Clock, Deferred, Effect, Exit, Random, Scope, Semaphore } from "effect"
import { LimitExceeded, type Limits } from "../schema/Policy.ts"
import { type Access, ProcessId, SpawnFailed, type Stdin, type TerminalSize } from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { baseEnvironment, terminalEnvironment, type Variables } from "./ChildEnvironment.ts"
import type { GitWork } from "./GitWork.ts"
import { type KnownProcesses, SHARE } from "./KnownProcesses.ts"
import { type ManagedProcess, now, supervise } from "./ManagedProcess.ts"
import { NOT_CONFINED, type ProcessSpawner } from "./ProcessSpawner.ts"
import type { Confines, Sandbox } from "./Sandbox.ts"

/** Times that a confinement is made anew when the machine changed under it. */
const LOOK_AGAIN = 2

export interface StartRequest extends Confines {
  /** `path` is absolute, `shown` is what the caller knows it by. */
  readonly cwd: { readonly path: string; readonly shown: string }
  /** Program and arguments, not empty. */
  readonly argv: ReadonlyArray<string>
  /** The command as lists show it. */
  readonly command: string
  /** Variables beside those every child has; `environment` makes them. */
  readonly env: Variables
  readonly stdin: Stdin
  readonly split?: boolean
  readonly tty?: TerminalSize
  readonly access: Access
  readonly timeoutMs?: number
  readonly idleTimeoutMs?: number
  readonly limits: Limits
  /** What it makes git do; nothing that writes a configuration when left out. */
  readonly git?: GitWork
}

interface Ground {
  readonly spawner: ProcessSpawner["Service"]
  readonly sandbox: Sandbox["Service"]
  readonly known: KnownProcesses
  /** Lets an effect go on beside everything else. */
  readonly run: (effect: Effect.Effect<void>) => unknown
}

/** `start` starts a process; after `close` it refuses to. */
export const makeStart = Effect.fnUntraced(function* ({ known, run, sandbox, spawner }: Ground) {
  let isClosed = false
  /** Those that are being started count as processes: many may be started at one time. */
  const starting = new Map<ProcessId, WorkspaceId>()
  const liveIn = (workspace: WorkspaceId): number =>
    [...known.live().map(({ workspaceId }) => workspaceId), ...starting.values()].filter((id) => id === workspace).length
  // Of many that end at once each is dealt with in a turn of its own, so that others are answered in between.
  const endings = yield* Semaphore.make(1)
  const turn = endings.withPermits(1)(Effect.yieldNow)

  /** Makes a confinement and starts the program in it. The confinement goes with its scope; with a failure at once. */
  const spawn = Effect.fnUntraced(
    function* (id: ProcessId, { access, argv, cwd, env, git, split = false, stdin, tty, ...confines }: StartRequest) {
      const confinement = yield* Scope.make()
      return yield* Effect.gen(function* () {
        yield* spawner.turn
        const base = baseEnvironment(yield* spawner.hostEnvironment)
        const variables = { ...base, ...(tty === undefined ? {} : terminalEnvironment), ...env }
        const entrance = yield* sandbox.enter(confines, access, git === undefined ? undefined : { work: git, variables })
        yield* spawner.turn
        const child = yield* spawner.spawn({
          ...{ id, argv, cwd, stdin, split, holding: entrance.holding },
          env: entrance.environment(variables),
          ...(tty === undefined ? {} : { tty }),
        })
        return { child, entrance, confinement }
      }).pipe(
        Scope.provide(confinement),
        Effect.onError((cause) => Scope.close(confinement, Exit.failCause(cause))),
      )
    },
    Effect.retry({ times: LOOK_AGAIN, while: isOutrun }),
  )

  const start = Effect.fn("ProcessSupervisor.start")(function* (request: StartRequest) {
    const refusal = refusalOf(request, liveIn(request.workspaceId), isClosed)
    if (refusal !== undefined) return yield* refusal
    const id = yield* newId
    const { stdin, tty } = request
    const startedAt = yield* now
    starting.set(id, request.workspaceId)
    const { child, confinement, entrance } = yield* Effect.ensuring(
      spawn(id, request),
      Effect.sync(() => starting.delete(id)),
    )
    const process: ManagedProcess = {
      id,
      workspaceId: request.workspaceId,
      command: request.command,
      cwd: request.cwd.shown,
      access: request.access,
      startedAt,
      startedOn: yield* Clock.currentTimeMillis,
      timeoutMs: request.timeoutMs ?? request.limits.timeout_ms,
      idleTimeoutMs: request.idleTimeoutMs ?? Number.POSITIVE_INFINITY,
      quota: () => known.quotaOf(request.workspaceId, request.limits.spool_bytes),
      roomBytes: SHARE * request.limits.spool_bytes,
      tty: tty !== undefined,
      level: entrance.level,
      entrance,
      readableTo: Number.POSITIVE_INFINITY,
      child,
      spool: child.spool,
      errors: child.errors,
      ended: Deferred.makeUnsafe(),
      signals: new Set(),
      endedWith: new Set(),
      stdinIsOpen: stdin === "open" || tty !== undefined,
      ending: undefined,
      wish: undefined,
    }
    yield* known.add(process)
    // A terminal has no input of its own that could be given before.
    if (tty !== undefined && typeof stdin !== "string") run(Effect.ignore(child.write(encoder.encode(stdin.text))))
    const watched = Effect.ensuring(supervise(process, turn, known.write), Scope.close(confinement, Exit.void))
    run(Effect.andThen(watched, known.forgetOutdated))
    return id
  }, Effect.uninterruptible)

  const close = Effect.sync(() => {
    isClosed = true
  })
  return { start, close }
})

const encoder = new TextEncoder()

/**
 * What a confinement has to cover, such as a daemon's socket, may go between the look at it and the making. Bubblewrap says
 * so and the program never began; another look finds it gone.
 */
const isOutrun = (failure: { readonly _tag: string; readonly cause?: unknown }): boolean =>
  failure._tag === "SPAWN_FAILED" && String(failure.cause).startsWith(`${NOT_CONFINED}bwrap: `)

const newId = Effect.gen(function* () {
  const [high, low] = [yield* Random.nextIntBetween(0, 0x7fffffff), yield* Random.nextIntBetween(0, 0x7fffffff)]
  return ProcessId.make(`proc_${high.toString(36)}${low.toString(36).padStart(6, "0")}`)
})

const refusalOf = ({ argv, limits, timeoutMs }: StartRequest, alive: number, isClosed: boolean) => {
  if (isClosed) return new SpawnFailed({ command: argv[0] ?? "", cause: "the server is stopping" })
  if (alive >= limits.processes) return new LimitExceeded({ limit: "processes", value: limits.processes, asked: alive + 1 })
  if (timeoutMs !== undefined && timeoutMs > limits.timeout_ms)
    return new LimitExceeded({ limit: "timeout_ms", value: limits.timeout_ms, asked: timeoutMs })
  return undefined
}

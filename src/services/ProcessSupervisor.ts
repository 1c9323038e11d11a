/**
 * Owns every process a caller starts: starts, feeds, reads, signals and stops them, whole trees at a time. A process
 * outlives its call but never this service; when the service closes, all trees end (`server_stop`) within three seconds.
 * Ended processes stay readable, also after a restart of the server, for a time that the operator sets, or until newer
 * ones take their place (`KnownProcesses.ts`).
 */
import { Clock, Context, Deferred, Effect, Exit, FiberSet, Layer, Random, Scope, Semaphore } from "effect"
import { defaults } from "../schema/ConfigDefaults.ts"
import { InvalidArguments, type StorageFull } from "../schema/Operation.ts"
import { LimitExceeded, type Limits, type PolicyDenied, type Profile, type SandboxUnavailable } from "../schema/Policy.ts"
import {
  type Access,
  type CommandNotFound,
  type CwdInvalid,
  defaultOutputBytes,
  type ProcessExited,
  type ProcessFacts,
  ProcessId,
  ProcessNotFound,
  type ProcessSummary,
  type Signal,
  SpawnFailed,
  type Stdin,
  StdinClosed,
  type TerminalSize,
  type TerminalUnavailable,
} from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { allowedEnvironment, baseEnvironment, terminalEnvironment, type Variables } from "./ChildEnvironment.ts"
import type { GitWork } from "./GitWork.ts"
import type { KnownProcess } from "./KnownProcess.ts"
import { type Kept, makeKnownProcesses, SHARE } from "./KnownProcesses.ts"
import { ESCAPE_AFTER, type ManagedProcess, now, requestEnd, supervise } from "./ManagedProcess.ts"
import { offsetOf } from "./OutputPage.ts"
import type { View } from "./OutputView.ts"
import { exited, feed, resize } from "./ProcessInput.ts"
import { awaitGrowth, awaitMore, awaitText, glance, readable, report, summaryOf } from "./ProcessReport.ts"
import { NOT_CONFINED, ProcessSpawner } from "./ProcessSpawner.ts"
import { type Confines, Sandbox } from "./Sandbox.ts"
import { shellCommand } from "./ShellScript.ts"

/** Milliseconds a process has for SIGTERM when the server stops, and all of them together to be gone. */
const STOP_GRACE = 1000
const STOP_LIMIT = 2800
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

export interface ReadRequest {
  readonly cursor?: string
  readonly waitMs: number
  readonly until?: string
  readonly maxBytes: number
  readonly view: View
  readonly stream?: "stdout" | "stderr"
  readonly clean?: boolean
}

export interface WriteRequest {
  readonly data?: string
  readonly close?: boolean
  readonly signal?: Signal
  readonly resize?: TerminalSize
  readonly waitMs: number
  readonly cursor?: string
  readonly maxBytes: number
}

export class ProcessSupervisor extends Context.Service<
  ProcessSupervisor,
  {
    /** Variables a call adds to a child's environment; a name the profile does not list is refused. */
    readonly environment: (profile: Pick<Profile, "name" | "env">, given: Variables) => Effect.Effect<Variables, PolicyDenied>
    /** Fails when a command of these confines would not be run. */
    readonly confinable: (confines: Confines, access: Access) => Effect.Effect<void, SandboxUnavailable>
    /** A script as argv and variables for `start`. */
    readonly script: (text: string) => { readonly argv: ReadonlyArray<string>; readonly env: Variables }
    /** Starts a process. A refusal leaves nothing running. */
    readonly start: (
      request: StartRequest,
    ) => Effect.Effect<
      ProcessId,
      CommandNotFound | CwdInvalid | SpawnFailed | TerminalUnavailable | StorageFull | LimitExceeded | SandboxUnavailable
    >
    /**
     * Output after a cursor. Waits up to `waitMs` for the text `until`; without one, for new output; in either case not
     * longer than until the process has ended. Unread output is given at once.
     */
    readonly read: (id: ProcessId, request: ReadRequest) => Effect.Effect<ProcessFacts, ProcessNotFound | InvalidArguments>
    /** Waits up to `waitMs` for the end, and gives beginning and end of the output. */
    readonly awaitEnd: (id: ProcessId, waitMs: number, maxBytes: number, clean?: boolean) => Effect.Effect<ProcessFacts, ProcessNotFound>
    /** Completes at the end, with beginning and end of the output. */
    readonly ended: (id: ProcessId, maxBytes?: number, clean?: boolean) => Effect.Effect<ProcessFacts, ProcessNotFound>
    /** Writes, closes stdin and signals, in this order, then waits up to `waitMs` for output after the cursor. */
    readonly write: (
      id: ProcessId,
      request: WriteRequest,
    ) => Effect.Effect<ProcessFacts, ProcessNotFound | ProcessExited | StdinClosed | InvalidArguments | LimitExceeded>
    /** SIGTERM to the tree, SIGKILL after the grace; returns when all of it is gone or notes what escaped. */
    readonly terminate: (id: ProcessId, graceMs: number) => Effect.Effect<ProcessFacts, ProcessNotFound>
    /** Live and recent processes, oldest first. */
    readonly list: (workspaceId?: WorkspaceId) => Effect.Effect<ReadonlyArray<ProcessSummary>>
    /** One line of `list`. */
    readonly summary: (id: ProcessId) => Effect.Effect<ProcessSummary, ProcessNotFound>
  }
>()("codespace/services/ProcessSupervisor") {
  /** One for a server. */
  static readonly layer = (kept: Kept = defaults.retention) =>
    Layer.effect(
      ProcessSupervisor,
      Effect.suspend(() => make(kept)),
    )
}

const make = Effect.fnUntraced(function* (kept: Kept) {
  const spawner = yield* ProcessSpawner
  const sandbox = yield* Sandbox
  const known = yield* makeKnownProcesses(spawner, kept)
  let isClosing = false
  // Made before the finalizer below, so that the fibers still watch while it ends their processes.
  const watchers = yield* FiberSet.make<void>()
  const run = yield* FiberSet.runtime(watchers)()
  // Of many that end at once each is dealt with in a turn of its own, so that others are answered in between.
  const endings = yield* Semaphore.make(1)
  const turn = endings.withPermits(1)(Effect.yieldNow)

  /** Those that are being started count as processes: many may be started at one time. */
  const starting = new Map<ProcessId, WorkspaceId>()
  const liveIn = (workspace: WorkspaceId): number =>
    [...known.live().map(({ workspaceId }) => workspaceId), ...starting.values()].filter((id) => id === workspace).length

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      isClosing = true
      return Effect.forEach(known.live(), stop, { concurrency: "unbounded", discard: true })
    }).pipe(Effect.timeoutOption(STOP_LIMIT), Effect.ignoreCause({ log: true })),
  )

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
    const refusal = refusalOf(request, liveIn(request.workspaceId), isClosing)
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

  const awaitEnd = Effect.fn("ProcessSupervisor.awaitEnd")(function* (id: ProcessId, waitMs: number, maxBytes: number, clean?: boolean) {
    const process = yield* known.find(id)
    yield* Effect.timeoutOption(Deferred.await(process.ended), waitMs)
    return yield* glance(process, maxBytes, clean ?? process.tty)
  })

  const ended = Effect.fn("ProcessSupervisor.ended")(function* (id: ProcessId, maxBytes: number = defaultOutputBytes, clean?: boolean) {
    const process = yield* known.find(id)
    yield* Deferred.await(process.ended)
    return yield* glance(process, maxBytes, clean ?? process.tty)
  })

  const read = Effect.fn("ProcessSupervisor.read")(function* (id: ProcessId, request: ReadRequest) {
    const process = yield* known.find(id)
    const { clean = process.tty, maxBytes, until, view } = request
    const spool = yield* spoolFor(process, request.stream)
    const offset = request.cursor === undefined ? 0 : yield* decodeCursor(request.cursor)
    if (request.waitMs > 0) {
      const wait = until === undefined ? awaitMore(process, spool, offset) : awaitText(process, spool, offset, encoder.encode(until))
      yield* Effect.timeoutOption(wait, request.waitMs)
    }
    return yield* report(process, { spool, offset, maxBytes, view, clean })
  })

  const write = Effect.fn("ProcessSupervisor.write")(function* (id: ProcessId, request: WriteRequest) {
    const process = yield* known.find(id)
    if (process.ending !== undefined) return yield* exited(process, process.ending)
    if (!isOwn(process)) return yield* new ProcessNotFound({ process_id: id })
    const writes = request.data !== undefined || request.close === true
    if (writes && !process.stdinIsOpen) return yield* new StdinClosed({ process_id: id })
    const { spool } = process
    const offset = request.cursor === undefined ? yield* readable(process, spool) : yield* decodeCursor(request.cursor)
    const writtenAt = yield* now
    if (request.resize !== undefined) yield* resize(process, request.resize)
    if (process.tty && request.data?.includes(INTERRUPT_KEY)) process.signals.add("SIGINT")
    if (request.data !== undefined && request.data !== "") yield* feed(process, encoder.encode(request.data), request.waitMs)
    if (request.close === true) {
      process.stdinIsOpen = process.tty
      yield* process.child.closeInput
    }
    if (request.signal !== undefined) {
      process.signals.add(request.signal)
      yield* process.child.signal(request.signal)
    }
    const left = request.waitMs - ((yield* now) - writtenAt)
    if (left > 0) yield* Effect.timeoutOption(awaitGrowth(process, spool, offset), left)
    const facts = yield* report(process, { spool, offset, maxBytes: request.maxBytes, view: "follow", clean: process.tty })
    const pending = process.child.pendingInput()
    return pending === 0
      ? facts
      : { ...facts, notes: [...(facts.notes ?? []), `the process has not taken ${pending} bytes of its input yet`] }
  })

  const terminate = Effect.fn("ProcessSupervisor.terminate")(function* (id: ProcessId, graceMs: number) {
    const process = yield* known.find(id)
    if (isOwn(process)) yield* requestEnd(process, "caller", graceMs)
    // Only a process the kernel itself cannot end is still there then; its state says so.
    yield* Effect.timeoutOption(Deferred.await(process.ended), graceMs + 2 * ESCAPE_AFTER)
    return yield* glance(process, defaultOutputBytes, process.tty)
  })

  return ProcessSupervisor.of({
    environment: (profile, given) =>
      Effect.flatMap(spawner.hostEnvironment, (host) => Effect.fromResult(allowedEnvironment(host, profile, given))),
    confinable: (confines, access) => Effect.asVoid(sandbox.examine(confines, access)),
    script: (text) => shellCommand(spawner.shell(), text),
    start,
    read,
    awaitEnd,
    ended,
    write,
    terminate,
    list: (workspaceId) =>
      Effect.map(known.list, (all) =>
        all.filter((process) => workspaceId === undefined || process.workspaceId === workspaceId).map(summaryOf),
      ),
    summary: (id) => Effect.map(known.find(id), summaryOf),
  })
})

const encoder = new TextEncoder()

/** Ctrl-C. */
const INTERRUPT_KEY = "\u0003"

/** One that was left by a server before has ended, so it is never sent anything. */
const isOwn = (process: KnownProcess): process is ManagedProcess => "child" in process

const spoolFor = ({ errors, spool }: KnownProcess, stream: "stdout" | "stderr" | undefined) => {
  if (stream !== "stderr") return Effect.succeed(spool)
  const problem = "stream: stderr is not apart from stdout; only a process started with split has it"
  return errors === undefined ? Effect.fail(new InvalidArguments({ problems: [problem] })) : Effect.succeed(errors)
}

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

const refusalOf = ({ argv, limits, timeoutMs }: StartRequest, alive: number, isClosing: boolean) => {
  if (isClosing) return new SpawnFailed({ command: argv[0] ?? "", cause: "the server is stopping" })
  if (alive >= limits.processes) return new LimitExceeded({ limit: "processes", value: limits.processes, asked: alive + 1 })
  if (timeoutMs !== undefined && timeoutMs > limits.timeout_ms)
    return new LimitExceeded({ limit: "timeout_ms", value: limits.timeout_ms, asked: timeoutMs })
  return undefined
}

const stop = (process: ManagedProcess) => Effect.andThen(requestEnd(process, "server_stop", STOP_GRACE), Deferred.await(process.ended))

const decodeCursor = (cursor: string): Effect.Effect<number, InvalidArguments> =>
  Effect.suspend(() => {
    const offset = offsetOf(cursor)
    const problem = `cursor: found ${JSON.stringify(cursor.slice(0, 40))}, wanted a cursor of an earlier result`
    return offset === undefined ? Effect.fail(new InvalidArguments({ problems: [problem] })) : Effect.succeed(offset)
  })

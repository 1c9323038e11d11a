/**
 * Owns every process a caller starts: starts, feeds, reads, signals and stops them, whole trees at a time. A process
 * outlives its call but never this service; when the service closes, all trees end (`server_stop`) within three seconds.
 * Ended processes stay readable, also after a restart of the server, for a time that the operator sets, or until newer
 * ones take their place (`KnownProcesses.ts`).
 */
import { Context, Deferred, Effect, FiberSet, Layer } from "effect"
import { defaults } from "../schema/ConfigDefaults.ts"
import type { InvalidArguments, StorageFull } from "../schema/Operation.ts"
import type { LimitExceeded, PolicyDenied, Profile, SandboxUnavailable } from "../schema/Policy.ts"
import {
  type Access,
  type CommandNotFound,
  type CwdInvalid,
  defaultOutputBytes,
  type ProcessExited,
  type ProcessFacts,
  type ProcessId,
  ProcessNotFound,
  type ProcessSummary,
  type SpawnFailed,
  type StdinClosed,
  type TerminalUnavailable,
} from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { allowedEnvironment, type Variables } from "./ChildEnvironment.ts"
import type { KnownProcess } from "./KnownProcess.ts"
import { type Kept, makeKnownProcesses } from "./KnownProcesses.ts"
import { ESCAPE_AFTER, type ManagedProcess, requestEnd } from "./ManagedProcess.ts"
import { exited, type WriteRequest, writeTo } from "./ProcessInput.ts"
import { glance, type ReadRequest, readFrom, summaryOf } from "./ProcessReport.ts"
import { ProcessSpawner } from "./ProcessSpawner.ts"
import { makeStart, type StartRequest } from "./ProcessStart.ts"
import { type Confines, Sandbox } from "./Sandbox.ts"
import { shellCommand } from "./ShellScript.ts"

/** Milliseconds a process has for SIGTERM when the server stops, and all of them together to be gone. */
const STOP_GRACE = 1000
const STOP_LIMIT = 2800

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
  // Made before the finalizer below, so that the fibers still watch while it ends their processes.
  const watchers = yield* FiberSet.make<void>()
  const run = yield* FiberSet.runtime(watchers)()
  const { close, start } = yield* makeStart({ spawner, sandbox, known, run })

  yield* Effect.addFinalizer(() =>
    Effect.andThen(
      close,
      Effect.suspend(() => Effect.forEach(known.live(), stop, { concurrency: "unbounded", discard: true })),
    ).pipe(Effect.timeoutOption(STOP_LIMIT), Effect.ignoreCause({ log: true })),
  )

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
    return yield* readFrom(yield* known.find(id), request)
  })

  const write = Effect.fn("ProcessSupervisor.write")(function* (id: ProcessId, request: WriteRequest) {
    const process = yield* known.find(id)
    if (process.ending !== undefined) return yield* exited(process, process.ending)
    return yield* isOwn(process) ? writeTo(process, request) : new ProcessNotFound({ process_id: id })
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

/** One that was left by a server before has ended, so it is never sent anything. */
const isOwn = (process: KnownProcess): process is ManagedProcess => "child" in process

const stop = (process: ManagedProcess) => Effect.andThen(requestEnd(process, "server_stop", STOP_GRACE), Deferred.await(process.ended))

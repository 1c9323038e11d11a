/**
 * The processes that can be listed and read: those that live, those that ended a while ago, and those that servers left
 * which are gone. How long ended ones stay, and how much output all of them keep, is held to here.
 */
import { Clock, Duration, Effect, Schedule, type Scope } from "effect"
import type { ConfigFile } from "../schema/Config.ts"
import { type ProcessId, ProcessNotFound } from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { type KnownProcess, spoolsOf } from "./KnownProcess.ts"
import { type ManagedProcess, now } from "./ManagedProcess.ts"
import { fromRecord, recordOf } from "./ProcessRecord.ts"
import { outdated } from "./ProcessRetention.ts"
import type { LeftProcess, ProcessSpawner } from "./ProcessSpawner.ts"

/** A workspace's live processes together keep this many times the limit of one, and so do its ended ones. */
export const SHARE = 4
/** Milliseconds between the looks for ended processes that have been kept long enough. */
const FORGET_EVERY = 60_000

/** How long ended processes are kept, and how many bytes of output all processes of a server keep together. */
export type Kept = Pick<ConfigFile["retention"], "processes" | "output_bytes">

export interface KnownProcesses {
  readonly find: (id: ProcessId) => Effect.Effect<KnownProcess, ProcessNotFound>
  /** Oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<KnownProcess>>
  readonly live: () => ReadonlyArray<ManagedProcess>
  readonly add: (process: ManagedProcess) => Effect.Effect<void>
  /** Writes down what a later server is to know of a process. */
  readonly write: (process: ManagedProcess) => Effect.Effect<void>
  /** To be done when one has ended. */
  readonly forgetOutdated: Effect.Effect<void>
  /** Bytes of output that one process may keep while others of its workspace, and of all workspaces, live too; `limit` is that of one alone. */
  readonly quotaOf: (workspaceId: WorkspaceId, limit: number) => number
}

export const makeKnownProcesses = (spawner: ProcessSpawner["Service"], kept: Kept): Effect.Effect<KnownProcesses, never, Scope.Scope> =>
  Effect.gen(function* () {
    const keptForMs = Duration.toMillis(kept.processes)
    // Live processes share one half, so the ended ones can have the other.
    const half = kept.output_bytes / 2
    const own = new Map<ProcessId, ManagedProcess>()
    let left = new Map<LeftProcess, KnownProcess>()

    /** Others come and go: a server that shares the folder ends, or forgets what it has of one that is gone. */
    const lookForLeft = Effect.gen(function* () {
      const [time, date] = [yield* now, yield* Clock.currentTimeMillis]
      const found = new Map<LeftProcess, KnownProcess>()
      for (const one of yield* spawner.left) {
        const process = left.get(one) ?? (yield* fromRecord(one, time, date))
        if (process !== undefined) found.set(one, process)
      }
      left = found
    })

    const all = () => [...left.values(), ...own.values()]
    const live = () => [...own.values()].filter((process) => process.ending === undefined)

    const forget = Effect.fnUntraced(function* (process: KnownProcess) {
      own.delete(process.id)
      for (const [one, { id }] of left) if (id === process.id) left.delete(one)
      for (const spool of spoolsOf(process)) yield* spool.remove
    })
    const forgetOutdated = Effect.gen(function* () {
      const ended = all().flatMap((process) => {
        const { ending, roomBytes, workspaceId } = process
        return ending === undefined ? [] : [{ process, workspaceId, roomBytes, ...ending }]
      })
      for (const { process } of outdated(ended, (yield* now) - keptForMs, half)) yield* forget(process)
    })
    const write = Effect.fnUntraced(function* (process: ManagedProcess) {
      yield* spawner.record(process.id, recordOf(process, yield* now, yield* Clock.currentTimeMillis))
    })

    yield* lookForLeft
    yield* Effect.forkScoped(Effect.repeat(Effect.andThen(lookForLeft, forgetOutdated), Schedule.spaced(Math.min(FORGET_EVERY, keptForMs))))
    const known = (id: ProcessId) => own.get(id) ?? [...left.values()].find((process) => process.id === id)
    return {
      find: Effect.fnUntraced(function* (id) {
        if (known(id) === undefined) yield* lookForLeft
        return known(id) ?? (yield* new ProcessNotFound({ process_id: id }))
      }),
      list: Effect.map(lookForLeft, () => all().sort((one, other) => one.startedOn - other.startedOn)),
      live,
      add: (process) =>
        Effect.andThen(
          Effect.sync(() => void own.set(process.id, process)),
          write(process),
        ),
      write,
      forgetOutdated,
      quotaOf: (workspaceId, limit) => {
        const alive = live()
        const beside = alive.filter((process) => process.workspaceId === workspaceId)
        return Math.floor(Math.min(limit, (SHARE * limit) / Math.max(1, beside.length), half / Math.max(1, alive.length)))
      },
    }
  })

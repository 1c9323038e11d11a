/**
 * Port: the process of a worker on this machine, and a line to it. One environment has one worker: its own for each server
 * where it ends with its server, one for all servers on a state folder where it is detached.
 */
import { Context, type Effect } from "effect"
import type { Socket } from "effect/socket/Socket"
import type { RunnerUnavailable } from "../schema/Operation.ts"
import type { EnvironmentSettings } from "./AppConfig.ts"

export type WorkerSettings = Extract<EnvironmentSettings, { readonly kind: "worker" }>

/** A line to a worker that runs. */
export interface WorkerLine {
  readonly socket: Socket
  /** The worker as `ServerIdentity` would say it. */
  readonly worker: string
  /** Whether that process still runs. */
  readonly isAlive: () => boolean
  /** Ends the process now, whatever it does; completes when it is gone. */
  readonly kill: Effect.Effect<void>
  /** Where it ends with its server: asks it to end its processes and itself, and waits for that. Nothing for a detached one. */
  readonly close: Effect.Effect<void>
}

export class WorkerHost extends Context.Service<
  WorkerHost,
  {
    /** A line to the environment's worker, which is started when none runs. Says who owns what is in its way. */
    readonly connect: (settings: WorkerSettings) => Effect.Effect<WorkerLine, RunnerUnavailable>
    /** Ends workers that should have ended with a server that is gone: what they left can be judged only then. */
    readonly clear: Effect.Effect<void>
  }
>()("codespace/services/WorkerHost") {}

/** What every process has that can be listed and read, whether this server started it or one before left it. */
import type { Deferred } from "effect"
import type { Access, EndedBy, NetworkDenial, ProcessId, ProcessState } from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import type { Exit, Spool } from "./ProcessSpawner.ts"
import type { Decided } from "./Sandbox.ts"

export interface KnownProcess {
  readonly id: ProcessId
  readonly workspaceId: WorkspaceId
  readonly command: string
  readonly cwd: string
  readonly access: Access
  readonly tty: boolean
  /** How it was confined, in words. */
  readonly level: string
  /** By `now`, and for people by the calendar in epoch milliseconds. */
  readonly startedAt: number
  readonly startedOn: number
  /** Bytes of output that the ended processes of its workspace may keep together. */
  readonly roomBytes: number
  /** Both streams, or stdout alone when they are split. */
  readonly spool: Spool
  readonly errors: Spool | undefined
  /** Where readable output ends when the disk cannot give any back. */
  readonly readableTo: number
  readonly ending: Ending | undefined
  readonly ended: Deferred.Deferred<Ending>
}

export interface Ending {
  readonly state: ProcessState
  /** Undefined when nobody saw it. */
  readonly exit: Exit | undefined
  readonly endedBy: EndedBy
  readonly durationMs: number
  readonly notes: ReadonlyArray<string>
  /** By `now`. */
  readonly endedAt: number
  /** What its sandbox refused it on the network, and all that its proxy decided. */
  readonly denials: ReadonlyArray<NetworkDenial>
  readonly decided: Decided
  /** Bytes of output that take room on the disk. */
  readonly keptBytes: number
}

export const NOTHING_DECIDED: Decided = { verdicts: [], untold: 0 }

/** The spools of a process: one, or one a stream. */
export const spoolsOf = ({ errors, spool }: Pick<KnownProcess, "spool" | "errors">): ReadonlyArray<Spool> =>
  errors === undefined ? [spool] : [spool, errors]

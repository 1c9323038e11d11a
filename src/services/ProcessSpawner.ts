/**
 * Port: child processes of this machine. An adapter starts one, keeps its output in a file, and can see and signal what
 * descends from it. When a process ends, for which reason, and what is shown of it is decided above (ProcessSupervisor).
 */
import { Context, type Effect, Schema } from "effect"
import type { StorageFull } from "../schema/Operation.ts"
import type { LimitExceeded } from "../schema/Policy.ts"
import type { CommandNotFound, CwdInvalid, Signal, SpawnFailed, Stdin, TerminalSize, TerminalUnavailable } from "../schema/Process.ts"
import type { Variables } from "./ChildEnvironment.ts"
import type { Holding } from "./Sandbox.ts"

/** The process closed its stdin, or it was closed for it. */
export class InputClosed extends Schema.TaggedError<InputClosed>()("InputClosed", {}) {}

/** How the cause of a failure begins when the confinement could not be made: then the program never began. */
export const NOT_CONFINED = "its namespace could not be made: "

export interface SpawnRequest {
  /** Names the spool, and marks every descendant through its environment. */
  readonly id: string
  /** Program, arguments. */
  readonly argv: ReadonlyArray<string>
  readonly cwd: { readonly path: string; readonly shown: string }
  /** The whole environment; nothing is added but the mark. */
  readonly env: Variables
  readonly stdin: Stdin
  /** Keep the streams apart, in two spools, instead of in one in the order of writing. */
  readonly split: boolean
  /** Run in a terminal of this size, which is stdin, stdout and stderr. */
  readonly tty?: TerminalSize
  /** What keeps its tree together, and confines it. */
  readonly holding: Holding
}

/** How a main process ended: with a code, or by a signal. */
export type Exit = { readonly code: number } | { readonly signal: string }

/** A process as one identity: numbers are used again, number and start time together are not. */
export interface Descendant {
  readonly pid: number
  readonly start: string
  /** It has something to do, or waits for a processor or a disk to do it; false where that cannot be seen. */
  readonly isBusy: boolean
}

/** Bytes of a spool from `from` on and before `to`; none when they are equal. */
export interface Gap {
  readonly from: number
  readonly to: number
}

/** What a process wrote, in the order of writing. Offsets and lengths are bytes, and keep their meaning for ever. */
export interface Spool {
  readonly size: Effect.Effect<number>
  /** What was given back; reading there makes no sense. */
  readonly gap: () => Gap
  /** Gives back what lies before `to`, from the gap on, or from `from` on when there is none. False where the disk cannot, and then nothing is lost. */
  readonly giveBack: (from: number, to: number) => Effect.Effect<boolean>
  /** Fewer bytes than asked at the end, none behind it. */
  readonly read: (offset: number, length: number) => Effect.Effect<Uint8Array>
  /** Completes when there is more than `size` bytes. */
  readonly grown: (size: number) => Effect.Effect<void>
  /** Drops what lies behind `size`. */
  readonly cut: (size: number) => Effect.Effect<void>
  readonly remove: Effect.Effect<void>
}

export interface Child {
  readonly pid: number
  /** Completes once the main process is gone. */
  readonly exit: Effect.Effect<Exit>
  readonly hasExited: () => boolean
  /** Lets go of what keeps the tree together once the main process is gone; completes when nothing of it is left. */
  readonly closed: Effect.Effect<void>
  /** Both streams, or stdout alone when they are split. */
  readonly spool: Spool
  readonly errors: Spool | undefined
  /** Completes when all that was written is in the spools, with sentences about what is not. */
  readonly losses: Effect.Effect<ReadonlyArray<string>>
  /** Completes when the pipe took all of it; a process that does not read makes only this caller wait. */
  readonly write: (bytes: Uint8Array) => Effect.Effect<void, InputClosed | LimitExceeded>
  /** Bytes written here that the pipe has not taken yet. */
  readonly pendingInput: () => number
  /** Closes stdin behind what was written; a terminal stays open and only says end of file. */
  readonly closeInput: Effect.Effect<void>
  /** Of a terminal. */
  readonly resize: ((size: TerminalSize) => Effect.Effect<void>) | undefined
  /** Signals the main process and its group; nothing once the main process is gone. */
  readonly signal: (signal: Signal) => Effect.Effect<void>
  /** What lives and descends from the main process, itself not counted, also when that is gone. */
  readonly descendants: Effect.Effect<ReadonlyArray<Descendant>>
  /** Signals the main process and all descendants; gives the descendants that were alive. */
  readonly signalTree: (signal: Signal) => Effect.Effect<ReadonlyArray<Descendant>>
}

/** A process that a server left which is gone. */
export interface LeftProcess {
  /** As it was written down last. */
  readonly record: string
  /** When its output was written last, in milliseconds since the epoch. */
  readonly lastOn: number
  /** Removing it removes the record too. */
  readonly spool: Spool
  readonly errors: Spool | undefined
}

export class ProcessSpawner extends Context.Service<
  ProcessSpawner,
  {
    /** Starts a program in a session of its own. A failure leaves nothing behind. */
    readonly spawn: (
      request: SpawnRequest,
    ) => Effect.Effect<Child, CommandNotFound | CwdInvalid | SpawnFailed | TerminalUnavailable | StorageFull>
    /** Writes down what is known of a process, beside its output; not when there is no room for it. */
    readonly record: (id: string, record: string) => Effect.Effect<void>
    /** What servers wrote down that shared this one's folder and are gone now. Those that live are none of its business. */
    readonly left: Effect.Effect<ReadonlyArray<LeftProcess>>
    /** Waits for a time in which nothing else is being started, so that many starts leave room for other work between them. */
    readonly turn: Effect.Effect<void>
    /** The variables this server was started with, and PATH as the operator wants it; found out once. */
    readonly hostEnvironment: Effect.Effect<Variables>
    /** Path of the shell that scripts run in. */
    readonly shell: () => string
  }
>()("codespace/services/ProcessSpawner") {}

/**
 * Port: the files below one folder, addressed by normal-form paths. No operation follows a symbolic link in any
 * component, so what was checked is what is used, also while a process renames folders underneath (contract §5).
 * An adapter writes these primitives; reading text, finding and patching are built on them.
 */
import { Context, type Effect, Schema, type Scope } from "effect"
import { RunnerUnavailable, StorageFull } from "../schema/Operation.ts"
import { type ConfinedPath, type NotAFile, type PathNotFound, PathProtected, type SymlinkRejected } from "../schema/Workspace.ts"

/** The operating system refused; `code` is its name for why (`ENOSPC`, `EACCES`, …). */
export class DiskFault extends Schema.TaggedError<DiskFault>()("DiskFault", {
  operation: Schema.String,
  path: Schema.String,
  code: Schema.String,
}) {
  override get message() {
    return `${this.operation} "${this.path}" failed: ${this.code}`
  }
}

export interface Entry {
  readonly kind: "file" | "directory" | "symlink" | "special"
  /** Bytes. */
  readonly size: number
  /** Permission bits, at most 0o7777. */
  readonly mode: number
  /** Hard links to the same content. */
  readonly links: number
  readonly device: number
  readonly inode: number
}

/** A file opened for reading; it stays the same file whatever happens to its name. */
export interface OpenFile {
  readonly entry: Entry
  /** Bytes from `position`, at most `length`; fewer at the end of the file, none behind it. */
  readonly read: (position: number, length: number) => Effect.Effect<Uint8Array, DiskFault>
}

export type PathFailure = PathNotFound | NotAFile | SymlinkRejected | DiskFault

/** An open root folder. */
export interface Root {
  /** The root's own path, links resolved once when it was opened. */
  readonly path: string
  /** What its adapter knows it by when another root is given to one of its operations; nobody else looks inside. */
  readonly handle: object
  /** What is there; undefined where nothing is. A link is reported as a link. */
  readonly stat: (path: ConfinedPath) => Effect.Effect<Entry | undefined, SymlinkRejected | DiskFault>
  /** Names and kinds in a folder, in no order. `limit` bounds the answer. */
  readonly list: (path: ConfinedPath) => Effect.Effect<ReadonlyArray<{ readonly name: string; readonly kind: Entry["kind"] }>, PathFailure>
  /** The text of a symbolic link. */
  readonly readLink: (path: ConfinedPath) => Effect.Effect<string, PathFailure>
  /** Opens a regular file. A pipe or device is reported by `entry.kind` and never waited for. */
  readonly open: (path: ConfinedPath) => Effect.Effect<OpenFile, PathFailure, Scope.Scope>
  /** A whole file with its entry, in one step. */
  readonly readFile: (path: ConfinedPath) => Effect.Effect<{ readonly entry: Entry; readonly bytes: Uint8Array }, PathFailure>
  /**
   * Writes a file that must not exist yet; never more readable than `mode`, also while it is written. With `durable` its
   * content outlasts a power cut once this has succeeded; its name does when its folder is synced.
   */
  readonly createFile: (path: ConfinedPath, bytes: Uint8Array, mode: number, durable?: boolean) => Effect.Effect<Entry, PathFailure>
  /** `mode` as the umask allows; 0o777 when left out. */
  readonly makeDirectory: (path: ConfinedPath, mode?: number) => Effect.Effect<void, PathFailure>
  readonly removeDirectory: (path: ConfinedPath) => Effect.Effect<void, PathFailure>
  /** Gives what is at `from` the name `to`, replacing a file that is there in one step. `into` is the root of `to`, this one when left out. */
  readonly rename: (from: ConfinedPath, to: ConfinedPath, into?: Root) => Effect.Effect<void, PathFailure>
  /** Gives the file at `from` a second name; `into` as for `rename`. */
  readonly link: (from: ConfinedPath, to: ConfinedPath, into?: Root) => Effect.Effect<void, PathFailure>
  readonly unlink: (path: ConfinedPath) => Effect.Effect<void, PathFailure>
  /** Makes the names in a folder outlast a power cut. */
  readonly syncDirectory: (path: ConfinedPath) => Effect.Effect<void, PathFailure>
}

export class Disk extends Context.Service<
  Disk,
  {
    /** Opens a root folder until the scope ends. */
    readonly open: (root: string) => Effect.Effect<Root, DiskFault, Scope.Scope>
  }
>()("codespace/services/Disk") {}

/** A fault in the words of a refusal: full, not permitted, or the workspace side is down. */
export const refusalOf = (fault: DiskFault): StorageFull | PathProtected | RunnerUnavailable => {
  if (fault.code === "ENOSPC" || fault.code === "EDQUOT") return new StorageFull({ where: fault.path })
  if (fault.code === "EACCES" || fault.code === "EPERM" || fault.code === "EROFS")
    return new PathProtected({ path: fault.path, rule: `the operating system does not permit it (${fault.code})` })
  return new RunnerUnavailable({ cause: fault.message })
}

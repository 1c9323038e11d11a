/** Port: finds the lines that match a pattern in the files below a folder. Order, pages and permissions are not its business. */
import { Context, type Effect } from "effect"
import type { SearchArguments } from "../schema/Files.ts"
import type { InvalidArguments, RunnerUnavailable } from "../schema/Operation.ts"
import type { ConfinedPath } from "../schema/Workspace.ts"
import type { Root } from "./Disk.ts"
import type { Unreadable } from "./Unreadable.ts"

export interface SearchRequest {
  readonly root: Root
  /** Folder or file to search; no component is a link. */
  readonly start: ConfinedPath
  readonly pattern: string
  readonly literal: boolean
  readonly case: NonNullable<SearchArguments["case"]>
  readonly contextLines: number
  readonly includeIgnored: boolean
  /** A glob that the names of wanted files match, where there is a simple one. Others may come too. */
  readonly name: string | undefined
}

export interface FoundLine {
  readonly line: number
  /** Without its line end; a very long line may be given by its first part. */
  readonly text: string
  /** False for a line of context. */
  readonly isMatch: boolean
}

export interface FoundFile {
  readonly path: ConfinedPath
  /** In the order of the file. */
  readonly lines: ReadonlyArray<FoundLine>
}

/** Longer lines may be cut by an adapter, in characters; below it they come whole. */
export const wholeLine = 600

export class TextSearch extends Context.Service<
  TextSearch,
  {
    /**
     * Calls `onFile` once for each file with a match, in no order; binary files have none. Gives what could not be
     * searched. Interruption ends the search at once.
     */
    readonly search: (
      request: SearchRequest,
      onFile: (file: FoundFile) => void,
    ) => Effect.Effect<ReadonlyArray<Unreadable>, InvalidArguments | RunnerUnavailable>
  }
>()("codespace/services/TextSearch") {}

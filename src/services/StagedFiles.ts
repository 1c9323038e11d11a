/** The files as a change leaves them so far, and in the end the plan: what is different from before, and how to tell it. */
import { absent, type Version } from "../schema/Files.ts"
import type { FileChange } from "../schema/Patch.ts"
import { countChange, type ShownChange } from "./PatchDiff.ts"
import { sameBytes } from "./TextLines.ts"

/** A regular file: its content and its permission bits. */
export interface FileState {
  readonly bytes: Uint8Array
  readonly mode: number
}

/** What is at each path now; a path that is not in it is absent. */
export type Files = ReadonlyMap<string, FileState>

/** A path whose content or mode the plan changes. */
export interface Target {
  readonly path: string
  readonly before: FileState | undefined
  readonly after: FileState | undefined
}

export interface Plan {
  readonly targets: ReadonlyArray<Target>
  /** The same in terms of files: a move is one change of two targets. */
  readonly changes: ReadonlyArray<PlannedChange>
  readonly notes: ReadonlyArray<string>
}

export interface PlannedChange extends ShownChange {
  readonly facts: FileChange
}

export interface StagedFile extends FileState {
  /** The path whose file this was before; undefined for a new one. */
  readonly origin: string | undefined
}

type VersionOf = (bytes: Uint8Array) => Version

export class StagedFiles {
  readonly notes: Array<string> = []
  readonly #before: Files
  /** Paths in the order they were named. */
  readonly #after = new Map<string, StagedFile | undefined>()

  constructor(before: Files) {
    this.#before = before
  }

  /** What is at the path by now. */
  at(path: string): StagedFile | undefined {
    if (this.#after.has(path)) return this.#after.get(path)
    const file = this.#before.get(path)
    return file && { ...file, origin: path }
  }

  put(path: string, file: StagedFile | undefined): void {
    this.#after.set(path, file)
  }

  modeBefore(path: string): number | undefined {
    return this.#before.get(path)?.mode
  }

  outcome(versionOf: VersionOf): Plan {
    const targets = [...this.#after].map(([path, after]) => ({ path, before: this.#before.get(path), after })).filter(isChanged)
    const moved = new Set(targets.flatMap(({ path }) => this.#movedFrom(path) ?? []))
    const changes = targets
      // The source of a move is told with its destination.
      .filter(({ after, path }) => after !== undefined || !moved.has(path))
      .map(({ after, before, path }) => {
        const from = this.#movedFrom(path)
        return planned(path, from, from === undefined ? before : this.#before.get(from), after, versionOf)
      })
    return { targets, changes, notes: this.notes }
  }

  /** A file that was written as it was, told as a change. */
  unchanged(path: string, file: FileState, versionOf: VersionOf): PlannedChange {
    return planned(path, undefined, file, file, versionOf)
  }

  /** The path that the file at a new path had before. */
  #movedFrom(path: string): string | undefined {
    const origin = this.#after.get(path)?.origin
    return origin === path || this.#before.has(path) ? undefined : origin
  }
}

const isChanged = ({ after, before }: Target): boolean => {
  if (before === undefined || after === undefined) return before !== after
  return before.mode !== after.mode || !sameBytes(before.bytes, after.bytes)
}

const planned = (
  path: string,
  from: string | undefined,
  before: FileState | undefined,
  after: FileState | undefined,
  versionOf: VersionOf,
): PlannedChange => {
  const source = from === undefined ? {} : { from }
  const facts = {
    path,
    ...source,
    kind: from !== undefined ? "move" : before === undefined ? "add" : after === undefined ? "delete" : "update",
    before: before === undefined ? absent : versionOf(before.bytes),
    after: after === undefined ? absent : versionOf(after.bytes),
    ...countChange(before?.bytes, after?.bytes),
  } as const
  return { path, ...source, before, after, facts }
}

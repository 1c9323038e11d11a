/**
 * Undoes a transaction from its plan: puts old files back and takes new ones away. It goes by what is on disk, so it may
 * be broken off anywhere and begun again, by this process or the next one. A file that is neither the old nor the new
 * one is someone else's: it stays, and its path is reported.
 */
import { Effect } from "effect"
import type { JournalPlace, JournalTarget } from "../schema/Journal.ts"
import { type ConfinedPath, NotAFile } from "../schema/Workspace.ts"
import { DiskFault, type Entry, type PathFailure, type Root } from "./Disk.ts"
import { folderOf } from "./PrivateFolder.ts"

export interface Undoing {
  readonly workspace: Root
  readonly journal: Root
  /** Whether what is at a target's path now is what the transaction put there. */
  readonly isOurs: (target: JournalTarget, now: Entry) => Effect.Effect<boolean, PathFailure>
  /** Whether the transaction made this folder. */
  readonly hasMade: (folder: ConfinedPath) => boolean
}

/** The root of a place. */
export const rootOf = ({ journal, workspace }: Pick<Undoing, "journal" | "workspace">, { root }: JournalPlace): Root =>
  root === "journal" ? journal : workspace

/** The paths that could not be put back. Targets are undone in the reverse of the order in which they are done. */
export const undo = Effect.fnUntraced(function* (undoing: Undoing, targets: ReadonlyArray<JournalTarget>) {
  const left: Array<string> = []
  for (const target of inOrder(targets).toReversed()) {
    if (!(yield* succeeds(putBack(undoing, target)))) left.push(target.path)
    for (const folder of target.missing.toReversed())
      if (undoing.hasMade(folder) && !(yield* succeeds(removeFolder(undoing.workspace, folder)))) left.push(folder)
  }
  return left
})

/** Files that go come first, since a folder may take the place of one. */
export const inOrder = <T extends { readonly fresh?: unknown }>(targets: ReadonlyArray<T>): ReadonlyArray<T> => [
  ...targets.filter(({ fresh }) => fresh === undefined),
  ...targets.filter(({ fresh }) => fresh !== undefined),
]

const putBack = Effect.fnUntraced(function* (undoing: Undoing, target: JournalTarget): Effect.fn.Return<void, PathFailure> {
  const { fresh, old, path } = target
  const { workspace } = undoing
  const now = yield* workspace.stat(path)
  if (now?.inode === old?.inode) return
  const isOurs = now !== undefined && (yield* undoing.isOurs(target, now))
  if (old === undefined) return isOurs ? yield* workspace.unlink(path) : undefined
  if (now === undefined) yield* makeFolders(workspace, folderOf(path))
  if (now === undefined || isOurs) return yield* rootOf(undoing, old.place).rename(old.place.path, path, workspace)
  // As long as the new file waits in its place, it was never put here.
  if (fresh !== undefined && (yield* rootOf(undoing, fresh.place).stat(fresh.place.path)) !== undefined) return
  return yield* new NotAFile({ path, found: "file of someone else" })
})

/** Folders that were there and that someone has removed meanwhile, such as a command that verified. */
const makeFolders = Effect.fnUntraced(function* (workspace: Root, folder: ConfinedPath): Effect.fn.Return<void, PathFailure> {
  if (folder === "" || (yield* workspace.stat(folder)) !== undefined) return
  yield* makeFolders(workspace, folderOf(folder))
  yield* workspace.makeDirectory(folder)
})

/** A folder in which someone else has put something by now stays. */
const removeFolder = (root: Root, path: ConfinedPath): Effect.Effect<void, PathFailure> =>
  root.removeDirectory(path).pipe(
    Effect.catchTag("PATH_NOT_FOUND", () => Effect.void),
    Effect.catchIf(hasCode("ENOTEMPTY", "EEXIST"), () => Effect.void),
  )

export const hasCode =
  (...codes: ReadonlyArray<string>) =>
  (failure: { readonly _tag: string }): failure is DiskFault =>
    failure instanceof DiskFault && codes.includes(failure.code)

/** Cleaning up is tried again and always ends; what stays wrong is logged, and reported by the caller. */
export const succeeds = (step: Effect.Effect<void, PathFailure>): Effect.Effect<boolean> =>
  step.pipe(
    Effect.retry({ times: 2 }),
    Effect.as(true),
    Effect.catchCause((cause) => Effect.as(Effect.logWarning("a step to undo a patch failed", cause), false)),
  )

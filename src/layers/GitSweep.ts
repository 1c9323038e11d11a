/**
 * What of git's folders no mount can keep away, since a mount needs something to stand on: a `commondir`, which leads git to
 * other hooks and another configuration, and the pointers of linked worktrees, which come and go with them. They are
 * remembered when a repository is first seen, and put back when a command has ended.
 */
import { randomBytes } from "node:crypto"
import { lstatSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { type GitEntry, textOf } from "./GitFolders.ts"

/** Puts back what has changed since; gives a note for each. */
export type Sweep = () => ReadonlyArray<string>

/** Of one server: what is remembered once stays so. */
export const makeSweeps = () => {
  /** What a file said when it was first seen; undefined where there was none. */
  const known = new Map<string, string | undefined>()
  const remember = (path: string): void => {
    if (!known.has(path)) known.set(path, textOf(path))
  }
  return (root: string, entries: ReadonlyArray<GitEntry>): Sweep => {
    for (const { isFolder, path } of entries) {
      if (!isFolder) remember(path)
      else {
        remember(join(path, "commondir"))
        for (const name of worktreesIn(path)) remember(join(path, "worktrees", name, "commondir"))
      }
    }
    const watched = entries.flatMap(({ isFolder, path }) =>
      isFolder ? [join(path, "commondir"), ...worktreesIn(path).map((name) => join(path, "worktrees", name, "commondir"))] : [path],
    )
    return () => watched.flatMap((path) => (putBack(path, known.get(path)) ? [noteOf(path.slice(root.length + 1))] : []))
  }
}

const noteOf = (path: string): string => `"${path}" was put back: it decides which hooks and configuration git uses`

/** A pointer that is gone went with its worktree. */
const putBack = (path: string, before: string | undefined): boolean => {
  const entry = lstatSync(path, { throwIfNoEntry: false })
  if (entry === undefined || (entry.isFile() && textOf(path) === before)) return false
  try {
    if (before === undefined) rmSync(path, { recursive: true, force: true })
    else {
      // Somebody may have put work into it.
      if (entry.isDirectory()) renameSync(path, join(dirname(path), `.git-replaced-${randomBytes(4).toString("hex")}`))
      else rmSync(path)
      writeFileSync(path, before)
    }
    return true
  } catch {
    // Only what is mounted cannot be put back, and that cannot have been changed.
    return false
  }
}

const worktreesIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(join(folder, "worktrees"))
  } catch {
    return []
  }
}

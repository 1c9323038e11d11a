/**
 * What of git's folders no mount can keep away, since a mount needs something to stand on: a `commondir`, which leads git to
 * other hooks and another configuration, and the pointers of linked worktrees, which come and go with them. They are
 * remembered when a repository is first seen, and put back when a command has changed them: at once where the system tells
 * of it, and in any case when the command has ended.
 */
import { randomBytes } from "node:crypto"
import { type FSWatcher, lstatSync, readdirSync, renameSync, rmSync, watch, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { type GitEntry, textOf } from "./GitFolders.ts"

/** Of one command, from its start on. */
export interface Sweep {
  /** Puts back what has changed since, and gives a note for each file that was put back; nothing is looked at any more. */
  readonly end: () => ReadonlyArray<string>
}

/** Folders that are listened to at a time; each takes a little of what the kernel has for that. */
const MOST_FOLDERS = 256

/** Of one server: what is remembered once stays so. */
export const makeSweeps = () => {
  /** What a file said when it was first seen; undefined where there was none. */
  const known = new Map<string, string | undefined>()
  /** Who is told of changes to a file. */
  const listening = new Map<string, Set<() => void>>()
  const folders = new Map<string, { readonly watcher: FSWatcher; readonly inode: number }>()

  const forget = (folder: string): void => {
    folders.get(folder)?.watcher.close()
    folders.delete(folder)
  }

  /** Nothing is heard any more of a folder that was replaced by another. */
  const listen = (folder: string): void => {
    const inode = lstatSync(folder, { throwIfNoEntry: false })?.ino
    if (folders.get(folder)?.inode === inode) return
    forget(folder)
    if (inode === undefined || folders.size >= MOST_FOLDERS) return
    try {
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name !== null) for (const tell of listening.get(join(folder, name)) ?? []) tell()
      })
      folders.set(folder, { watcher, inode })
      watcher.on("error", () => forget(folder))
    } catch {
      // Then it is put back at the end alone.
    }
  }

  return {
    /** What a command in `root` must leave as it is in these repositories. */
    begin: (root: string, entries: ReadonlyArray<GitEntry>): Sweep => {
      const watched = entries.flatMap(({ isFolder, path }) =>
        isFolder ? [join(path, "commondir"), ...worktreesIn(path).map((name) => join(path, "worktrees", name, "commondir"))] : [path],
      )
      const put = new Set<string>()
      const look = (path: string) => () => {
        if (putBack(path, known.get(path))) put.add(path)
      }
      const looks = watched.map((path) => {
        if (!known.has(path)) known.set(path, textOf(path))
        listen(dirname(path))
        const tell = look(path)
        listening.set(path, (listening.get(path) ?? new Set()).add(tell))
        return { path, tell }
      })
      return {
        end: () => {
          for (const { path, tell } of looks) {
            if (listening.get(path)?.delete(tell) !== true) continue
            tell()
            if (listening.get(path)?.size === 0) listening.delete(path)
          }
          return [...put].map((path) => noteOf(path.slice(root.length + 1)))
        },
      }
    },
    /** Listens to nothing any more. */
    close: (): void => {
      for (const folder of folders.keys()) forget(folder)
    },
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

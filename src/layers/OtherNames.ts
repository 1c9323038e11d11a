/**
 * Hard links to files that a profile denies: names of their own, on which a mount must stand too. Denied files have several
 * names so seldom that mostly nothing but the denied files themselves is looked at.
 */
import { lstatSync } from "node:fs"
import { Effect } from "effect"
import type { Mount } from "../services/MountPlan.ts"
import { isPrivate } from "../services/PrivateFolder.ts"
import { entriesOf } from "./Entries.ts"

/** Folders that are looked into before others get a turn. */
const TURN = 256

/** The paths below `root` that are other names of what `denied` covers, as mounts that deny them. */
export const deniedNames = Effect.fnUntraced(function* (root: string, denied: ReadonlyArray<Mount>) {
  const files = new Set<string>()
  const covered = new Set<string>()
  for (const mount of denied) {
    if (mount.kind !== "deny") continue
    covered.add(mount.path)
    if (mount.isFolder) yield* walk(mount.path, new Set(), (path) => note(files, path))
    else note(files, mount.path)
  }
  const mounts: Array<Mount> = []
  if (files.size > 0)
    yield* walk(root, covered, (path) => {
      const file = severalNames(path)
      if (file !== undefined && files.has(file)) mounts.push({ kind: "deny", path, isFolder: false })
    })
  return mounts
})

const note = (files: Set<string>, path: string): void => {
  const file = severalNames(path)
  if (file !== undefined) files.add(file)
}

/** Which file it is, if it has more than one name. */
const severalNames = (path: string): string | undefined => {
  const entry = lstatSync(path, { throwIfNoEntry: false })
  return entry?.isFile() === true && entry.nlink > 1 ? `${entry.dev}:${entry.ino}` : undefined
}

/** All files below a folder but for those at or below a path of `except`. */
const walk = Effect.fnUntraced(function* (folder: string, except: ReadonlySet<string>, onFile: (path: string) => void) {
  const ahead = [folder]
  for (let here = ahead.pop(), turn = 0; here !== undefined; here = ahead.pop(), turn++) {
    if (turn % TURN === TURN - 1) yield* Effect.yieldNow
    for (const entry of entriesOf(here)) {
      const path = `${here}/${entry.name}`
      if (except.has(path) || isPrivate(entry.name)) continue
      if (entry.isDirectory()) ahead.push(path)
      else if (entry.isFile()) onFile(path)
    }
  }
})

/**
 * Whether a path can be come to without any right of root. A confined command has none, so what lies behind a folder that
 * its user may not enter needs no cover; and a cover there could not be made either.
 */
import { accessSync, constants, statSync } from "node:fs"
import { dirname } from "node:path"

/** Asks about the folders above an absolute path without links. */
export const canBeReached = (path: string): boolean => {
  try {
    // Root may enter every folder, so the kernel's answer says nothing of what its commands may.
    if (process.getuid?.() === 0) return foldersAbove(path).every(canBeEntered)
    accessSync(dirname(path), constants.X_OK)
    return true
  } catch {
    return false
  }
}

const foldersAbove = (path: string): ReadonlyArray<string> => {
  const above = dirname(path)
  return above === path ? [path] : [above, ...(above === "/" ? [] : foldersAbove(above))]
}

const canBeEntered = (folder: string): boolean => {
  const { gid, mode, uid } = statSync(folder)
  if (uid === process.getuid?.()) return (mode & constants.S_IXUSR) !== 0
  const isOurs = gid === process.getgid?.() || (process.getgroups?.() ?? []).includes(gid)
  return (mode & (isOurs ? constants.S_IXGRP : constants.S_IXOTH)) !== 0
}

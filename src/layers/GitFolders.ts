/**
 * What of git's folders a command must not change although the workspace is its to write: whatever names programs that
 * git runs, in repositories, submodules and linked worktrees. Found out from what is on the disk; everything else in the
 * folders can be written, so that commits, branches, worktrees and checked-out submodules work.
 *
 * A protected file is a mount of its own, which can neither be replaced nor renamed. So that nobody renames what lies
 * around it and puts another in its place, each folder on the way is pinned too.
 */
import { lstatSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { isBelow, type Mount } from "../services/MountPlan.ts"
import { foldersIn } from "./Entries.ts"

/** A `.git` in a workspace: the folder of a repository, or a file that names it. */
export interface GitEntry {
  readonly path: string
  readonly isFolder: boolean
}

/** Folders of submodules lie in each other; deeper ones are not looked for. */
const DEEPEST = 12

/** The mounts for the repositories below `root`, which is a real path. Deeper folders first or last makes no difference. */
export const gitMounts = (root: string, entries: ReadonlyArray<GitEntry>): ReadonlyArray<Mount> =>
  entries.flatMap((entry) => {
    const around = pinsBetween(root, entry.path)
    if (entry.isFolder) return [...around, { kind: "pin", path: entry.path }, ...repositoryMounts(entry.path)]
    const found = namedBy(entry.path)
    // A worktree of a repository in this workspace comes and goes by `git worktree`; its pointer is looked after when the command has ended.
    if (found?.isWorktree === true && isBelow(root, found.common) && dirname(entry.path) !== root) return []
    const outside: ReadonlyArray<Mount> =
      found === undefined || isBelow(root, found.common)
        ? []
        : [
            { kind: "write", path: found.common },
            ...pinsBetween(found.common, found.folder),
            ...repositoryMounts(found.common),
            ...ownFiles(found),
          ]
    return [...around, { kind: "read", path: entry.path }, ...outside]
  })

/** The repository outside of `root` whose linked worktree or submodule `root` is itself. */
export const repositoryAround = (root: string): string | undefined => {
  const found = isFolder(join(root, ".git")) ? undefined : namedBy(join(root, ".git"))
  return found === undefined || isBelow(root, found.common) ? undefined : found.common
}

/** The folders above a path, up to and without `root`. */
export const pinsBetween = (root: string, path: string): ReadonlyArray<Mount> => {
  const folder = dirname(path)
  return folder === root || !isBelow(root, folder) ? [] : [...pinsBetween(root, folder), { kind: "pin", path: folder }]
}

interface Named {
  /** The git folder that the file names. */
  readonly folder: string
  /** Where hooks, configuration and objects are: that folder, or the repository a worktree belongs to. */
  readonly common: string
  readonly isWorktree: boolean
}

/** Of the worktree or submodule a command runs in, what says where its repository is. */
const ownFiles = ({ folder, isWorktree }: Named): ReadonlyArray<Mount> =>
  isWorktree ? ["commondir", "gitdir"].flatMap((name) => readOnly(join(folder, name))) : []

/**
 * The folder a `.git` file names, if that folder says in turn that it belongs to this file. Without it whoever writes such
 * a file could have any folder opened to the next command.
 */
export const namedBy = (file: string): Named | undefined => {
  try {
    const target = /^gitdir: (.+)$/mu.exec(readFileSync(file, "utf8").slice(0, 8192))?.[1]
    if (target === undefined) return undefined
    const folder = realpathSync.native(resolve(dirname(file), target.trim()))
    const common = textOf(join(folder, "commondir"))
    if (common !== undefined) {
      const back = textOf(join(folder, "gitdir"))
      const real = realpathSync.native(resolve(folder, common.trim()))
      const belongs =
        back !== undefined && realpathSync.native(resolve(folder, back.trim())) === file && dirname(folder) === join(real, "worktrees")
      return belongs && isRepository(real) ? { folder, common: real, isWorktree: true } : undefined
    }
    const tree = /^\s*worktree\s*=\s*"?([^"\n]+)"?\s*$/mu.exec(textOf(join(folder, "config")) ?? "")?.[1]
    const belongs = tree !== undefined && realpathSync.native(resolve(folder, tree)) === dirname(file)
    return belongs && isRepository(folder) ? { folder, common: folder, isWorktree: false } : undefined
  } catch {
    return undefined
  }
}

/** What is protected in the git folder of a repository, and in those of its submodules and worktrees. */
const repositoryMounts = (folder: string, depth = 0): ReadonlyArray<Mount> => {
  const hasWorktreeConfig = /^\s*worktreeconfig\s*(=\s*(true|yes|on|1)\s*)?$/imu.test(textOf(join(folder, "config")) ?? "")
  const configOf = (of: string) =>
    hasWorktreeConfig ? made(join(of, "config.worktree"), (path) => writeFileSync(path, "", { flag: "wx" })) : []
  return [
    ...["config", "commondir", "info/attributes"].flatMap((name) => readOnly(join(folder, name))),
    ...(isRepository(folder) ? made(join(folder, "hooks"), (path) => mkdirSync(path)) : readOnly(join(folder, "hooks"))),
    ...configOf(folder),
    ...foldersIn(join(folder, "worktrees")).flatMap((name) => [
      ...configOf(join(folder, "worktrees", name)),
      ...(depth < DEEPEST ? submoduleMounts(join(folder, "worktrees", name, "modules"), depth + 1) : []),
    ]),
    ...(depth < DEEPEST ? submoduleMounts(join(folder, "modules"), depth + 1) : []),
  ]
}

/** A submodule's name may have slashes in it, so its folder may lie deeper. */
const submoduleMounts = (folder: string, depth: number): ReadonlyArray<Mount> =>
  foldersIn(folder).flatMap((name) => {
    const path = join(folder, name)
    const inside = looksLikeOne(path) ? repositoryMounts(path, depth) : depth < DEEPEST ? submoduleMounts(path, depth + 1) : []
    return inside.length === 0 ? [] : [{ kind: "pin", path: folder }, { kind: "pin", path }, ...inside]
  })

const isRepository = (folder: string): boolean =>
  isFolder(join(folder, "objects")) && lstatSync(join(folder, "HEAD"), quietly) !== undefined

/** Also when a command has taken away what makes it a repository, to put it back later. */
const looksLikeOne = (folder: string): boolean =>
  ["HEAD", "config", "hooks", "objects"].some((name) => lstatSync(join(folder, name), quietly) !== undefined)

const quietly = { throwIfNoEntry: false } as const

const isFolder = (path: string): boolean => lstatSync(path, quietly)?.isDirectory() ?? false

/** A link cannot be held in place by a mount; what it leads to is as writable as elsewhere. */
const readOnly = (path: string): ReadonlyArray<Mount> => {
  const entry = lstatSync(path, quietly)
  return entry === undefined || entry.isSymbolicLink() ? [] : [{ kind: "read", path }]
}

/** What git would run if it were there cannot be kept away, only be there already, as git itself makes it: empty. */
const made = (path: string, make: (path: string) => void): ReadonlyArray<Mount> => {
  try {
    if (lstatSync(path, quietly) === undefined) make(path)
  } catch {
    // Not ours to write, so not a command's either.
  }
  return readOnly(path)
}

/** The text of a file; undefined where there is none to read. */
export const textOf = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return undefined
  }
}

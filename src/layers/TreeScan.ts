/**
 * Looks through a workspace for what a sandbox has to know before a command starts: the repositories in it, and where the
 * profile's rules let a command do other things than around it. Links are not followed.
 */
import { type Dirent, realpathSync, statSync } from "node:fs"
import { Effect } from "effect"
import type { FileAccess, Profile } from "../schema/Policy.ts"
import type { ConfinedPath } from "../schema/Workspace.ts"
import type { Mount } from "../services/MountPlan.ts"
import { fileAccess } from "../services/Policy.ts"
import { hasPathRules } from "../services/Restrictions.ts"
import { entriesOf } from "./Entries.ts"
import type { GitEntry } from "./GitFolders.ts"

export interface TreeScan {
  /** What may be done with files in the root that no rule names. */
  readonly access: Exclude<Mounted, "deny">
  readonly git: ReadonlyArray<GitEntry>
  /** What the rules make of single paths. */
  readonly mounts: ReadonlyArray<Mount>
  /** False when time or number were not enough to see all of it. */
  readonly isComplete: boolean
}

/** As long as this the scan holds the thread before others get a turn, in milliseconds. */
const TURN = 8
/** Milliseconds after which it ends with what it has. */
const TIME_LIMIT = 10_000
/** Each costs the start of every command, and more the more there are. */
const MOST_MOUNTS = 1000

/** Repositories are not looked for in there, where no rule makes it necessary. */
const PASSED_OVER = new Set(["node_modules", ".git"])

/** A name that stands for any file a rule does not name: what holds for it holds for new files in a folder. */
const ANY_NAME = "\u{f8ff}"

/** What a command finds a path to be. */
type Mounted = Exclude<FileAccess, "ask">

interface Folder {
  /** From the root, with a slash behind it; empty for the root itself. */
  readonly base: string
  /** What may be done with files in it that no rule names. */
  readonly access: Mounted
}

/** `root` is a real path. Folders of packages are looked through only where rules could be about them. */
export const scanTree = Effect.fnUntraced(function* (root: string, profile: Profile, isReadOnly: boolean) {
  const hasRules = hasPathRules(profile)
  const git: Array<GitEntry> = []
  const mounts: Array<Mount> = []
  const began = performance.now()
  let turnBegan = began

  /** Nobody can be asked about what a command writes, so what asks is read-only for it. */
  const accessOf = (path: string): Mounted => {
    const { access } = fileAccess(profile, path as ConfinedPath)
    return access === "ask" || (isReadOnly && access === "write") ? "read" : access
  }
  const inRoot = accessOf(hasRules ? ANY_NAME : "")
  const top = inRoot === "write" ? "write" : "read"
  const ahead: Array<Folder> = [{ base: "", access: top }]
  const found = (isComplete: boolean): TreeScan => ({ access: top, git, mounts, isComplete })

  const look = (entry: Dirent, folder: Folder): void => {
    const path = folder.base + entry.name
    const absolute = `${root}/${path}`
    const isFolder = entry.isDirectory()
    if (entry.name === ".git" && (isFolder || entry.isFile())) git.push({ path: absolute, isFolder })
    if (!hasRules) {
      if (isFolder && !PASSED_OVER.has(entry.name)) ahead.push({ base: `${path}/`, access: folder.access })
      return
    }
    // A folder in which everything is denied is denied itself: what comes to be in it is then denied too.
    const access = accessOf(path) === "deny" ? "deny" : isFolder ? accessOf(`${path}/${ANY_NAME}`) : accessOf(path)
    if (entry.isSymbolicLink()) mounts.push(...(access === "deny" ? deniedTarget(absolute) : []))
    else if (access === "deny") mounts.push({ kind: "deny", path: absolute, isFolder })
    else {
      if (access !== folder.access && (isFolder || entry.isFile())) mounts.push({ kind: access, path: absolute })
      if (isFolder) ahead.push({ base: `${path}/`, access })
    }
  }

  for (let folder = ahead.pop(); folder !== undefined; folder = ahead.pop()) {
    const now = performance.now()
    if (now - began > TIME_LIMIT || mounts.length > MOST_MOUNTS) return found(false)
    if (now - turnBegan > TURN) {
      yield* Effect.yieldNow
      turnBegan = performance.now()
    }
    const entries = entriesOf(`${root}/${folder.base}`)
    // Such a folder is a repository, whatever it is called.
    if (["HEAD", "objects", "refs"].every((name) => entries.some((entry) => entry.name === name)) && folder.base !== "")
      git.push({ path: `${root}/${folder.base.slice(0, -1)}`, isFolder: true })
    for (const entry of entries) look(entry, folder)
  }
  return found(true)
})

/** A mount cannot stand on a link; what it leads to is denied instead. */
const deniedTarget = (link: string): ReadonlyArray<Mount> => {
  try {
    const path = realpathSync.native(link)
    return [{ kind: "deny", path, isFolder: statSync(path).isDirectory() }]
  } catch {
    return []
  }
}

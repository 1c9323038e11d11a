/**
 * Walks the files below a folder: by the rules of .gitignore files, without links, without `.git`, and without what the
 * profile denies. What is passed over is counted by rule; a folder that cannot be listed is reported and does not end it.
 */
import { Clock, Effect } from "effect"
import { ConfinedPath } from "../schema/Workspace.ts"
import type { Entry, Root } from "./Disk.ts"
import { type IgnoreFile, isIgnored, parseIgnore } from "./GitIgnore.ts"
import type { PathGlob } from "./PathGlob.ts"
import { isPrivate } from "./PrivateFolder.ts"
import { maximumUnreadable, type Unreadable } from "./Unreadable.ts"

export interface TreeWalk {
  readonly root: Root
  /** The folder to begin in. It is asked for by name, so no rule hides it. */
  readonly start: ConfinedPath
  readonly glob: PathGlob
  readonly includeIgnored: boolean
  readonly canRead: (path: ConfinedPath) => boolean
  /** Milliseconds after which it ends with what it has. */
  readonly timeLimit: number
}

export interface TreeWalkEnd {
  /** Files tested against the glob. */
  readonly considered: number
  readonly leftOut: Record<string, number>
  readonly unreadable: Array<Unreadable>
  /** False when the time was over first. */
  readonly complete: boolean
}

interface Folder {
  /** Its path with a slash behind it, or nothing for the root. */
  readonly base: string
  readonly ignores: ReadonlyArray<IgnoreFile>
}

/** As long as this the walk holds the thread before others get a turn, in milliseconds. */
const turn = 10
const maximumIgnoreBytes = 1_000_000

/** Calls `onFile` for every file that matches and no rule hides, in no order. Links are among the files. */
export const walkTree = Effect.fnUntraced(function* (
  walk: TreeWalk,
  onFile: (path: ConfinedPath, kind: Entry["kind"]) => void,
): Effect.fn.Return<TreeWalkEnd> {
  const { root, start, glob, includeIgnored, canRead } = walk
  const startBase = baseOf(start)
  const leftOut: Record<string, number> = {}
  const unreadable: Array<Unreadable> = []
  const leave = (rule: string) => {
    leftOut[rule] = (leftOut[rule] ?? 0) + 1
  }
  const report = (path: string, reason: string) => {
    if (unreadable.length < maximumUnreadable) unreadable.push({ path: path || ".", reason })
  }
  let considered = 0

  /** Whether a rule hides the path; says which. */
  const isHidden = (path: ConfinedPath, name: string, isFolder: boolean, ignores: ReadonlyArray<IgnoreFile>): boolean => {
    if (isFolder && name === ".git") leave(".git folders")
    else if (isFolder && isPrivate(name)) leave("folders of the server")
    else if (!canRead(path)) leave("denied by profile")
    else if (isIgnored(ignores, path, name, isFolder)) leave("gitignore")
    else return false
    return true
  }

  const began = yield* Clock.currentTimeMillis
  let turnBegan = began
  const ahead: Array<Folder> = [{ base: startBase, ignores: includeIgnored ? [] : yield* ignoresAbove(root, start) }]
  for (let folder = ahead.pop(); folder !== undefined; folder = ahead.pop()) {
    const now = yield* Clock.currentTimeMillis
    if (now - began > walk.timeLimit) return { considered, leftOut, unreadable, complete: false }
    if (now - turnBegan > turn) {
      yield* Effect.yieldNow
      turnBegan = yield* Clock.currentTimeMillis
    }
    const { base } = folder
    const entries = yield* root.list(pathOf(base)).pipe(
      Effect.catch((failure) => {
        // A folder that went away while it was walked is no trouble.
        if (failure._tag !== "PATH_NOT_FOUND") report(pathOf(base), failure._tag === "DiskFault" ? failure.code : failure._tag)
        return Effect.succeed([])
      }),
    )
    const ignores = includeIgnored ? [] : yield* ignoresIn(root, folder, entries)
    const localBase = base.slice(startBase.length)
    for (const { name, kind } of entries) {
      if (name.includes("\ufffd") && !(yield* exists(root, ConfinedPath.make(base + name)))) {
        report(base + name, "its name is not UTF-8")
        continue
      }
      if (kind === "directory") {
        const path = ConfinedPath.make(base + name)
        if (!isHidden(path, name, true, ignores)) ahead.push({ base: `${path}/`, ignores })
        continue
      }
      considered++
      if (!glob.matches(localBase, name)) continue
      const path = ConfinedPath.make(base + name)
      if (kind === "special") leave("not a regular file")
      else if (!isHidden(path, name, false, ignores)) onFile(path, kind)
    }
  }
  return { considered, leftOut, unreadable, complete: true }
})

/** The rules of the folders above one, for what lies in it. */
export const ignoresAbove = Effect.fnUntraced(function* (root: Root, path: ConfinedPath) {
  const names = path === "" ? [] : path.split("/")
  let ignores: ReadonlyArray<IgnoreFile> = []
  for (let depth = 0; depth < names.length; depth++) {
    const base = names
      .slice(0, depth)
      .map((name) => `${name}/`)
      .join("")
    const here = yield* Effect.filter([".git", ".gitignore"], (name) => exists(root, ConfinedPath.make(base + name)))
    ignores = yield* ignoresIn(
      root,
      { base, ignores },
      here.map((name) => ({ name })),
    )
  }
  return ignores
})

const exists = (root: Root, path: ConfinedPath) =>
  root.stat(path).pipe(
    Effect.map((entry) => entry !== undefined),
    Effect.orElseSucceed(() => false),
  )

/** The rules for what lies in a folder. Those above a repository end at it. */
const ignoresIn = Effect.fnUntraced(function* (root: Root, { base, ignores }: Folder, entries: ReadonlyArray<{ readonly name: string }>) {
  let all = ignores
  if (entries.some(({ name }) => name === ".git")) all = yield* added([], root, base, ".git/info/exclude")
  if (entries.some(({ name }) => name === ".gitignore")) all = yield* added(all, root, base, ".gitignore")
  return all
})

/** A file of rules that cannot be read has none, as for git. */
const added = (ignores: ReadonlyArray<IgnoreFile>, root: Root, base: string, file: string) =>
  root.readFile(ConfinedPath.make(base + file)).pipe(
    Effect.map(({ bytes }) => {
      const rules = parseIgnore(new TextDecoder().decode(bytes.subarray(0, maximumIgnoreBytes)))
      return rules.length === 0 ? ignores : [...ignores, { base, rules }]
    }),
    Effect.orElseSucceed(() => ignores),
  )

const baseOf = (path: ConfinedPath): string => (path === "" ? "" : `${path}/`)

const pathOf = (base: string): ConfinedPath => ConfinedPath.make(base.slice(0, -1))

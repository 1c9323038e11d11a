/** Finds files by name, in the order of their paths, and says what was left out and by which rule. */
import { Effect } from "effect"
import type { FindArguments, FindResult } from "../schema/Files.ts"
import type { ConfinedPath } from "../schema/Workspace.ts"
import { readCursor, writeCursor } from "./Cursor.ts"
import { compareText, firstSorted, fitting } from "./FirstSorted.ts"
import { locateGlob } from "./GlobStart.ts"
import { type TreeWalkEnd, walkTree } from "./TreeWalk.ts"
import { unreadableField } from "./Unreadable.ts"
import type { Workspace } from "./Workspace.ts"

const defaultLimit = 200
/** Characters of all paths together, by default and when the caller set a limit. */
const defaultSize = 40_000
const maximumSize = 150_000
const timeLimit = 10_000

export const findPaths = Effect.fnUntraced(function* (workspace: Workspace["Service"], args: FindArguments) {
  const after = args.cursor === undefined ? "" : yield* readCursor(args.cursor)
  const limit = args.limit ?? defaultLimit
  const found = firstSorted(limit, compareText)
  const offer = (path: ConfinedPath) => {
    if (path > after) found.offer(path)
  }
  const start = yield* locateGlob(workspace, args.glob)
  if (start !== undefined && !start.isFolder) offer(start.path)
  if (start === undefined || !start.isFolder) return makeResult(found.take(), start === undefined ? 0 : 1, nothingElse, args)

  const links: Array<ConfinedPath> = []
  const end = yield* walkTree(
    {
      root: workspace.root,
      start: start.path,
      glob: start.glob,
      includeIgnored: args.include_ignored ?? false,
      canRead: workspace.canRead,
      timeLimit,
    },
    (path, kind) => (kind === "symlink" ? links.push(path) : offer(path)),
  )
  for (const path of links) yield* checkLink(workspace, path, offer, end)
  return makeResult(found.take(), end.considered, end, args)
})

/** A link counts as a file when it leads to one that may be read. */
const checkLink = Effect.fnUntraced(function* (
  workspace: Workspace["Service"],
  path: ConfinedPath,
  offer: (path: ConfinedPath) => void,
  end: Pick<TreeWalkEnd, "leftOut" | "unreadable">,
) {
  const leave = (rule: string) => {
    end.leftOut[rule] = (end.leftOut[rule] ?? 0) + 1
  }
  const report = (reason: string) => Effect.sync(() => void end.unreadable.push({ path, reason }))
  yield* workspace.resolveRead(path).pipe(
    Effect.flatMap(workspace.root.stat),
    Effect.map((entry) => (entry?.kind === "directory" ? leave("links to folders") : offer(path))),
    Effect.catchTags({
      POLICY_DENIED: () => Effect.sync(() => leave("denied by profile")),
      PATH_ESCAPE: () => Effect.sync(() => leave("links out of the workspace")),
      PATH_NOT_FOUND: () => report("a link to nothing"),
      SYMLINK_REJECTED: () => report("a link into a loop"),
    }),
    Effect.catch((failure) => report(failure._tag)),
  )
})

const nothingElse: Pick<TreeWalkEnd, "leftOut" | "unreadable" | "complete"> = { leftOut: {}, unreadable: [], complete: true }

const makeResult = (
  { first, more }: { readonly first: ReadonlyArray<string>; readonly more: number },
  considered: number,
  { leftOut, unreadable, complete }: Pick<TreeWalkEnd, "leftOut" | "unreadable" | "complete">,
  args: FindArguments,
): FindResult => {
  const paths = fitting(first, args.limit === undefined ? defaultSize : maximumSize, (path) => path.length)
  const behind = more + first.length - paths.length
  const last = paths[paths.length - 1]
  return {
    paths,
    considered,
    truncated: behind > 0 || !complete,
    ...(behind > 0 && last !== undefined ? { cursor: writeCursor(last) } : {}),
    left_out: { ...leftOut, ...(behind > 0 ? { limit: behind } : {}) },
    ...unreadableField(unreadable, complete ? undefined : `not all was looked at within ${timeLimit / 1000} seconds`),
  }
}

/** Searches file contents, in the order of paths and lines, and says what was left out and by which rule. */
import { Effect, Option } from "effect"
import type { SearchArguments, SearchMatch, SearchResult } from "../schema/Files.ts"
import { InvalidArguments } from "../schema/Operation.ts"
import { ConfinedPath } from "../schema/Workspace.ts"
import { readCursor, writeCursor } from "./Cursor.ts"
import type { DiskFault } from "./Disk.ts"
import { compareText, firstSorted, fitting } from "./FirstSorted.ts"
import { type IgnoreFile, isIgnored } from "./GitIgnore.ts"
import { type GlobStart, locateGlob } from "./GlobStart.ts"
import { everything } from "./PathGlob.ts"
import type { FoundFile, FoundLine, TextSearch } from "./TextSearch.ts"
import { ignoresAbove, type TreeWalkEnd, walkTree } from "./TreeWalk.ts"
import { type Unreadable, unreadableField } from "./Unreadable.ts"
import type { ResolveRefusal, Workspace } from "./Workspace.ts"

const defaultLimit = 100
/** Characters of all matches together, by default and when the caller set a limit. */
const defaultSize = 40_000
const maximumSize = 150_000
const maximumLine = 500
const timeLimit = 20_000

type Place = Pick<SearchMatch, "path" | "line">

const comparePlaces = (a: Place, b: Place): number => compareText(a.path, b.path) || a.line - b.line

const wholeWorkspace: GlobStart = { path: ConfinedPath.make(""), isFolder: true, glob: everything }

/** Which files a search goes through, as a value that a cache can tell from others. */
export interface Scanned {
  readonly glob: string | undefined
  readonly includeIgnored: boolean
}

export type CountLeftOut = (scanned: Scanned) => Effect.Effect<Record<string, number>, ResolveRefusal | DiskFault>

export const searchFiles = Effect.fnUntraced(function* (
  workspace: Workspace["Service"],
  engine: TextSearch["Service"],
  countLeftOut: CountLeftOut,
  args: SearchArguments,
) {
  if (/[\0\n]/u.test(args.pattern))
    return yield* new InvalidArguments({ problems: ["pattern: a search goes line by line, so it can hold no line end and no NUL"] })
  const after = args.cursor === undefined ? undefined : yield* placeOf(args.cursor)
  const start = yield* startOf(workspace, args.glob)
  const found = firstSorted<SearchMatch>(args.limit ?? defaultLimit, comparePlaces)
  let filesMatched = 0
  if (start === undefined) return makeResult(args, found.take(), filesMatched, { leftOut: {}, unreadable: [], complete: true })

  const includeIgnored = args.include_ignored ?? false
  const wanted = filterOf(
    workspace,
    start,
    includeIgnored ? [] : yield* ignoresAbove(workspace.root, start.path),
    yield* workspace.deniedNames,
  )
  const onFile = (file: FoundFile): void => {
    if (!wanted(file.path)) return
    filesMatched++
    for (const [at, { isMatch }] of file.lines.entries()) {
      if (!isMatch) continue
      const match = makeMatch(file, at, args.context_lines ?? 0)
      if (after === undefined || comparePlaces(match, after) > 0) found.offer(match)
    }
  }
  const searching = engine.search(
    {
      root: workspace.root,
      start: start.path,
      pattern: args.pattern,
      literal: args.literal ?? false,
      case: args.case ?? "sensitive",
      contextLines: args.context_lines ?? 0,
      includeIgnored,
      name: start.glob.name,
    },
    onFile,
  )
  // Counting does not ask what matched: how much a profile hides must say nothing about what is in it.
  const [unreadable, walked] = yield* Effect.all(
    [Effect.timeoutOption(searching, timeLimit), countLeftOut({ glob: args.glob, includeIgnored })],
    { concurrency: 2 },
  )
  return makeResult(args, found.take(), filesMatched, {
    leftOut: walked,
    unreadable: Option.getOrElse(unreadable, () => []).filter(({ path }) => workspace.canRead(ConfinedPath.make(path))),
    complete: Option.isSome(unreadable),
  })
})

/**
 * Counts by rule what a search does not look into. It walks the whole tree for that, which takes a good part of the time
 * of the search itself: its caller keeps the answer for a while.
 */
export const leftOutOf = Effect.fnUntraced(function* (workspace: Workspace["Service"], { glob, includeIgnored }: Scanned) {
  const start = yield* startOf(workspace, glob)
  if (start === undefined || !start.isFolder) return {}
  const { root, canRead } = workspace
  const end = yield* walkTree({ root, start: start.path, glob: start.glob, includeIgnored, canRead, timeLimit }, () => {})
  return end.leftOut
})

const startOf = (workspace: Workspace["Service"], glob: string | undefined) =>
  glob === undefined ? Effect.succeed(wholeWorkspace) : locateGlob(workspace, glob)

const placeOf = Effect.fnUntraced(function* (cursor: string) {
  const [, line, path] = /^(\d+):(.*)$/su.exec(yield* readCursor(cursor)) ?? []
  if (line === undefined || path === undefined) return yield* new InvalidArguments({ problems: ["cursor: not one that a search gave"] })
  return { path, line: Number(line) }
})

/** Which of the files an engine found are meant. It knows neither globs nor profiles, and no rules above its start. */
const filterOf = (
  workspace: Workspace["Service"],
  { path: start, isFolder, glob }: GlobStart,
  above: ReadonlyArray<IgnoreFile>,
  denied: ReadonlySet<string>,
) => {
  const base = start === "" ? "" : `${start}/`
  const hiddenFromAbove = (path: string): boolean => {
    if (above.length === 0) return false
    for (let slash = path.indexOf("/", base.length); slash !== -1; slash = path.indexOf("/", slash + 1)) {
      const folder = path.slice(0, slash)
      if (isIgnored(above, folder, nameOf(folder), true)) return true
    }
    return isIgnored(above, path, nameOf(path), false)
  }
  return (path: ConfinedPath): boolean => {
    if (denied.has(path)) return false
    if (!isFolder) return true
    const name = nameOf(path)
    return glob.matches(path.slice(base.length, path.length - name.length), name) && workspace.canRead(path) && !hiddenFromAbove(path)
  }
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

const makeMatch = ({ path, lines }: FoundFile, at: number, contextLines: number): SearchMatch => {
  const { line, text } = lines[at]!
  const near = (from: number, to: number) =>
    lines
      .slice(Math.max(0, from), to)
      .filter((other) => Math.abs(other.line - line) <= contextLines)
      .map((other) => cutLine(other).text)
  const before = near(at - contextLines, at)
  const after = near(at + 1, at + 1 + contextLines)
  return {
    path,
    line,
    ...cutLine({ text }),
    ...(before.length > 0 ? { before } : {}),
    ...(after.length > 0 ? { after } : {}),
  }
}

const cutLine = ({ text }: Pick<FoundLine, "text">): Pick<SearchMatch, "text" | "cut"> => {
  if (text.length <= maximumLine) return { text }
  const unit = text.charCodeAt(maximumLine - 1)
  const endsInside = unit >= 0xd800 && unit <= 0xdbff
  return { text: `${text.slice(0, endsInside ? maximumLine - 1 : maximumLine)}…`, cut: true }
}

const makeResult = (
  args: SearchArguments,
  { first, more }: { readonly first: ReadonlyArray<SearchMatch>; readonly more: number },
  filesMatched: number,
  { leftOut, unreadable, complete }: Pick<TreeWalkEnd, "leftOut" | "complete"> & { readonly unreadable: ReadonlyArray<Unreadable> },
): SearchResult => {
  const matches = fitting(first, args.limit === undefined ? defaultSize : maximumSize, sizeOf)
  const behind = more + first.length - matches.length
  const last = matches[matches.length - 1]
  return {
    matches,
    files_matched: filesMatched,
    truncated: behind > 0 || !complete,
    ...(behind > 0 && last !== undefined ? { cursor: writeCursor(`${last.line}:${last.path}`) } : {}),
    left_out: { ...leftOut, ...(behind > 0 ? { limit: behind } : {}) },
    ...unreadableField(unreadable, complete ? undefined : `not all was searched within ${timeLimit / 1000} seconds`),
  }
}

const sizeOf = ({ path, text, before = [], after = [] }: SearchMatch): number =>
  [path, text, ...before, ...after].reduce((size, part) => size + part.length, 0)

/**
 * TextSearch without another program, for machines where none is at hand. It reads file after file, and its patterns are
 * those of JavaScript: a pattern that backtracks without end holds the thread, which the other adapter cannot.
 */
import { Effect, Layer } from "effect"
import { InvalidArguments } from "../schema/Operation.ts"
import type { ConfinedPath } from "../schema/Workspace.ts"
import { everything } from "./PathGlob.ts"
import { type FoundLine, type SearchRequest, TextSearch } from "./TextSearch.ts"
import { walkTree } from "./TreeWalk.ts"
import type { Unreadable } from "./Unreadable.ts"

const maximumBytes = 10_000_000
/** Files between two turns for other work. */
const filesPerTurn = 32

const search: TextSearch["Service"]["search"] = Effect.fn("PlainSearch.search")(function* (request, onFile) {
  const pattern = yield* compilePattern(request)
  const unreadable: Array<Unreadable> = []
  const paths = yield* filesOf(request, unreadable)
  for (const [at, path] of paths.entries()) {
    if (at % filesPerTurn === filesPerTurn - 1) yield* Effect.yieldNow
    const text = yield* textOf(request, path, unreadable)
    const lines = text === undefined ? [] : linesOf(text, pattern, request.contextLines)
    if (lines.length > 0) onFile({ path, lines })
  }
  return unreadable
})

export const layer = Layer.succeed(TextSearch, { search })

const filesOf = Effect.fnUntraced(function* ({ root, start, includeIgnored }: SearchRequest, unreadable: Array<Unreadable>) {
  const entry = yield* root.stat(start).pipe(Effect.orElseSucceed(() => undefined))
  if (entry?.kind === "file") return [start]
  const paths: Array<ConfinedPath> = []
  const end = yield* walkTree(
    { root, start, glob: everything, includeIgnored, canRead: () => true, timeLimit: Number.POSITIVE_INFINITY },
    (path, kind) => kind === "file" && paths.push(path),
  )
  unreadable.push(...end.unreadable)
  return paths
})

/** The text of a file; undefined for what is binary, too large, or cannot be read. */
const textOf = Effect.fnUntraced(function* ({ root }: SearchRequest, path: ConfinedPath, unreadable: Array<Unreadable>) {
  const report = (reason: string) => Effect.sync(() => void unreadable.push({ path, reason }))
  const entry = yield* root.stat(path).pipe(Effect.orElseSucceed(() => undefined))
  if (entry === undefined || entry.kind !== "file") return undefined
  if (entry.size > maximumBytes) return yield* Effect.as(report(`larger than ${maximumBytes} bytes`), undefined)
  const file = yield* root
    .readFile(path)
    .pipe(Effect.catch((failure) => Effect.as(report(failure._tag === "DiskFault" ? failure.code : failure._tag), undefined)))
  return file === undefined || file.bytes.includes(0) ? undefined : new TextDecoder().decode(file.bytes)
})

const compilePattern = ({ pattern, literal, case: letterCase }: SearchRequest): Effect.Effect<RegExp, InvalidArguments> => {
  const source = literal ? pattern.replaceAll(/[\\^$.*+?()[\]{}|]/gu, "\\$&") : pattern
  const insensitive = letterCase === "insensitive" || (letterCase === "smart" && pattern === pattern.toLowerCase())
  return Effect.try({
    try: () => new RegExp(source, insensitive ? "iu" : "u"),
    catch: (cause) => new InvalidArguments({ problems: [`pattern: ${String(cause)}`] }),
  })
}

const linesOf = (text: string, pattern: RegExp, contextLines: number): ReadonlyArray<FoundLine> => {
  const texts = text.split("\n")
  if (texts[texts.length - 1] === "") texts.pop()
  const plain = texts.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line))
  const matching = new Set<number>()
  for (const [at, line] of plain.entries()) if (pattern.test(line)) matching.add(at)
  const shown = new Set<number>()
  for (const at of matching)
    for (let near = Math.max(0, at - contextLines); near <= Math.min(plain.length - 1, at + contextLines); near++) shown.add(near)
  return [...shown].sort((a, b) => a - b).map((at) => ({ line: at + 1, text: plain[at] ?? "", isMatch: matching.has(at) }))
}

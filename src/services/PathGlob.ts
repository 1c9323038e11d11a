/**
 * The globs of find and search. `*` and `?` stay within a name, `**` spans folders, `{a,b}` are alternatives, hidden names
 * match like others, and a pattern is anchored at the workspace root. Pure.
 *
 * The names before the first wildcard are split off as a fixed prefix, so that a walk can start there; the rest is tested
 * from that folder on. The name is tested first: most files fail there, at little cost.
 */
import { Glob } from "effect"

export interface PathGlob {
  /** The folder, or the whole path when nothing is wild, as it was written. */
  readonly prefix: string
  /** No wildcards: the prefix is all there is. */
  readonly isExact: boolean
  /** A simple glob that every matching file's name matches; undefined where there is none. */
  readonly name: string | undefined
  /** Whether a file matches; its folder counts from the prefix and ends in a slash, or is empty. */
  readonly matches: (folder: string, name: string) => boolean
}

/** All files below a folder. */
export const everything: PathGlob = { prefix: ".", isExact: false, name: undefined, matches: () => true }

export const compileGlob = (written: string): PathGlob => {
  const segments = splitSegments(written)
  const firstWild = segments.findIndex((segment) => wild.test(segment))
  if (firstWild === -1) return { prefix: unescaped(written), isExact: true, name: undefined, matches: () => true }
  const prefix = unescaped(segments.slice(0, firstWild).join("/")) || (written.startsWith("/") ? "/" : ".")
  const rest = segments.slice(firstWild)
  // A pattern for folders means all in them.
  if (rest[rest.length - 1] === "") rest[rest.length - 1] = "**"
  return { prefix, isExact: false, ...compileRest(rest) }
}

const compileRest = (segments: ReadonlyArray<string>): Pick<PathGlob, "name" | "matches"> => {
  const last = segments[segments.length - 1] ?? ""
  if (last === "**") {
    const matchesPath = segments.length === 1 ? () => true : matcher(segments.join("/"))
    return { name: undefined, matches: (folder, name) => matchesPath(folder + name) }
  }
  const name = simpleName.test(last) ? last : undefined
  const suffix = plainSuffix(last)
  const matchesName = suffix === undefined ? matcher(last) : (file: string) => file.endsWith(suffix)
  if (segments.length === 2 && segments[0] === "**") return { name, matches: (_folder, file) => matchesName(file) }
  const matchesPath = matcher(segments.join("/"))
  return { name, matches: (folder, file) => matchesName(file) && matchesPath(folder + file) }
}

/** Folders are named `[id]` too: brackets also stand for themselves. */
const matcher = (pattern: string): ((path: string) => boolean) => {
  const glob = Glob.make(pattern, { dot: true })
  if (!pattern.includes("[")) return (path) => Glob.match(glob, path)
  const literal = Glob.make(pattern.replaceAll("[", "\\["), { dot: true })
  return (path) => Glob.match(glob, path) || Glob.match(literal, path)
}

/** `.ts` of `*.ts`; undefined where the name is wild in any other way. */
const plainSuffix = (segment: string): string | undefined =>
  segment.startsWith("*") && !/[*?[{\\]/u.test(segment.slice(1)) ? segment.slice(1) : undefined

const wild = /(?<!\\)[*?[{]/u

const simpleName = /^(?:[\w.*? -]|\{[\w.*? ,-]*\})+$/u

const unescaped = (text: string): string => text.replaceAll(/\\(.)/gu, "$1")

/** The text between slashes; a slash inside braces belongs to its segment. */
const splitSegments = (glob: string): Array<string> => {
  const segments = [""]
  let depth = 0
  for (let at = 0; at < glob.length; at++) {
    const character = glob.charAt(at)
    const escaped = glob[at - 1] === "\\"
    if (character === "{" && !escaped) depth++
    if (character === "}" && !escaped && depth > 0) depth--
    if (character === "/" && depth === 0) segments.push("")
    else segments.push((segments.pop() ?? "") + character)
  }
  return segments
}

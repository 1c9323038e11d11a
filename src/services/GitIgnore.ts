/** The rules of .gitignore files, as git reads them. Pure. */
import { Glob } from "effect"

export interface IgnoreRule {
  /** `!pattern`: takes back what an earlier rule ignored. */
  readonly keeps: boolean
  readonly foldersOnly: boolean
  /** `path` from the folder of the file the rule stands in. */
  readonly matches: (path: string, name: string) => boolean
}

/** The rules of one file and the folder they count from: its path with a slash behind it, or nothing for the root. */
export interface IgnoreFile {
  readonly base: string
  readonly rules: ReadonlyArray<IgnoreRule>
}

/** Whether rules ignore a path; the last rule of the deepest file that says anything decides. */
export const isIgnored = (files: ReadonlyArray<IgnoreFile>, path: string, name: string, isFolder: boolean): boolean => {
  for (let at = files.length - 1; at >= 0; at--) {
    const { base, rules } = files[at]!
    const local = path.slice(base.length)
    for (let index = rules.length - 1; index >= 0; index--) {
      const rule = rules[index]!
      if ((isFolder || !rule.foldersOnly) && rule.matches(local, name)) return !rule.keeps
    }
  }
  return false
}

export const parseIgnore = (text: string): ReadonlyArray<IgnoreRule> =>
  text
    .replace(/^\uFEFF/u, "")
    .split(/\r?\n/u)
    .map((line) => line.replace(/(?<!\\)[ \t]+$/u, ""))
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map(parseRule)

const parseRule = (line: string): IgnoreRule => {
  const keeps = line.startsWith("!")
  const written = keeps ? line.slice(1) : line
  const foldersOnly = written.endsWith("/")
  const pattern = foldersOnly ? written.slice(0, -1) : written
  return { keeps, foldersOnly, matches: compile(pattern) }
}

const compile = (pattern: string): IgnoreRule["matches"] => {
  const anchored = pattern.includes("/")
  const body = pattern.replace(/^\//u, "")
  if (!/[*?[\\]/u.test(body)) return anchored ? (path) => path === body : (_path, name) => name === body
  if (!anchored && /^\*[^*?[\\]+$/u.test(body)) return endsWith(body.slice(1))
  // Braces mean nothing to git, and `folder/**` is what lies in the folder, not the folder.
  const glob = Glob.make(body.replaceAll(/[{}]/gu, "\\$&").replace(/\/\*\*$/u, "/**/*"), { dot: true })
  return anchored ? (path) => Glob.match(glob, path) : (_path, name) => Glob.match(glob, name)
}

const endsWith = (suffix: string) => (_path: string, name: string) => name.endsWith(suffix)

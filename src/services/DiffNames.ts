/**
 * What stands above the hunks of a file in a unified diff: its names, in the forms of `diff` and of git, and git's headers
 * about modes, new, deleted and renamed files. What git can say and a patch here cannot do is refused by name.
 */
import { Result } from "effect"
import type { InvalidPatch } from "../schema/Patch.ts"
import { invalid } from "./HunkText.ts"

/** The lines of the diff and how far they are read. Readers move on behind what they took. */
export interface DiffLines {
  readonly lines: ReadonlyArray<string>
  at: number
}

/** What stands above a file's hunks. */
export interface Names {
  old: string | undefined
  new: string | undefined
  oldMode: number | undefined
  newMode: number | undefined
  created: boolean
  deleted: boolean
  renamed: boolean
}

/** Whether the two lines with a file's names are here. */
export const startsNames = (lines: ReadonlyArray<string>, index: number): boolean =>
  (lines[index] ?? "").startsWith("--- ") && (lines[index + 1] ?? "").startsWith("+++ ")

/** How git and diff say that a binary file differs. */
export const binary = /^(GIT binary patch$|Binary files .* differ$)/u

export const readNames = (cursor: DiffLines): Result.Result<Names, InvalidPatch> =>
  Result.gen(function* () {
    const { lines } = cursor
    const names: Names = {
      old: undefined,
      new: undefined,
      oldMode: undefined,
      newMode: undefined,
      created: false,
      deleted: false,
      renamed: false,
    }
    const git = (lines[cursor.at] ?? "").startsWith("diff --git ")
    if (git) {
      const both = readBoth((lines[cursor.at] ?? "").slice("diff --git ".length))
      names.old = both
      names.new = both
      cursor.at++
      while (cursor.at < lines.length && takeGitHeader(names, lines[cursor.at] ?? "")) cursor.at++
      const type = (names.newMode ?? names.oldMode ?? 0o100000) & 0o170000
      if (type !== 0o100000) return yield* invalid(lines, cursor.at - 1, "regular files only, no links or submodules")
      const text = lines[cursor.at] ?? ""
      if (/^copy from /u.test(text)) return yield* invalid(lines, cursor.at, "a new file with its text; copies are not made")
      if (binary.test(text)) return yield* invalid(lines, cursor.at, "a change of text; binary files cannot be patched")
    }
    if (!startsNames(lines, cursor.at)) return names
    const [oldName, newName] = [fileName(lines[cursor.at]?.slice(4) ?? ""), fileName(lines[cursor.at + 1]?.slice(4) ?? "")]
    const pair = withoutPrefixes(oldName, newName) ?? { old: oldName, new: newName }
    // A rename without hunks has no such lines: these may already be the next file's.
    if (names.renamed && (pair.old !== names.old || pair.new !== names.new)) return names
    takeNames(names, oldName, newName, git)
    cursor.at += 2
    return names
  })

const takeGitHeader = (names: Names, text: string): boolean => {
  const found = /^(old mode|new mode|new file mode|deleted file mode|rename from|rename to|index|(?:dis)?similarity index) (.*)$/u.exec(
    text,
  )
  if (found === null) return false
  const value = found[2] ?? ""
  switch (found[1]) {
    case "old mode":
      names.oldMode = Number.parseInt(value, 8)
      break
    case "new mode":
      names.newMode = Number.parseInt(value, 8)
      break
    case "new file mode":
      names.newMode = Number.parseInt(value, 8)
      names.created = true
      break
    case "deleted file mode":
      names.oldMode = Number.parseInt(value, 8)
      names.deleted = true
      break
    case "rename from":
      names.old = fileName(value)
      names.renamed = true
      break
    case "rename to":
      names.new = fileName(value)
      names.renamed = true
      break
  }
  return true
}

const takeNames = (names: Names, oldName: string, newName: string, git: boolean): void => {
  const nothing = "/dev/null"
  if (names.renamed) return
  if (oldName === nothing) {
    names.created = true
    names.new = unprefixed(newName) ?? newName
  } else if (newName === nothing) {
    names.deleted = true
    names.old = unprefixed(oldName) ?? oldName
  } else {
    const pair = withoutPrefixes(oldName, newName)
    // Other names than a/ and b/ are a backup and its file, as in `diff -u x.orig x`: the file is the new one.
    names.renamed = pair !== undefined && pair.old !== pair.new && !git
    names.old = pair?.old ?? oldName
    names.new = pair?.new ?? newName
  }
}

/** The two different one-letter folders that git puts before the names of a pair. */
const withoutPrefixes = (oldName: string, newName: string): { readonly old: string; readonly new: string } | undefined => {
  const [old, fresh] = [unprefixed(oldName), unprefixed(newName)]
  return old === undefined || fresh === undefined || oldName.charAt(0) === newName.charAt(0) ? undefined : { old, new: fresh }
}

const unprefixed = (name: string): string | undefined => /^[abciow12]\/(.+)$/u.exec(name)?.[1]

/** The one path that `diff --git` names twice; undefined when the two differ, and other headers tell. */
const readBoth = (text: string): string | undefined => {
  for (let space = text.indexOf(" "); space !== -1; space = text.indexOf(" ", space + 1)) {
    const [old, fresh] = [fileName(text.slice(0, space)), fileName(text.slice(space + 1))]
    if (old === fresh) return old
    const pair = withoutPrefixes(old, fresh)
    if (pair !== undefined && pair.old === pair.new) return pair.old
  }
  return undefined
}

/** A name without the time behind its tab and without git's quotes. */
const fileName = (text: string): string => {
  const name = text.split("\t")[0]?.trimEnd() ?? ""
  return /^".*"$/u.test(name) ? unquoted(name.slice(1, -1)) : name
}

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", a: "\x07", b: "\b", f: "\f", v: "\v" }

/** Git writes the bytes of a name that are not ASCII as octal escapes. */
const unquoted = (text: string): string => {
  const bytes: Array<number> = []
  for (const [part] of text.matchAll(/\\[0-7]{3}|\\.|[^\\]/gsu)) {
    if (/^\\[0-7]{3}$/u.test(part)) bytes.push(Number.parseInt(part.slice(1), 8))
    else bytes.push(...new TextEncoder().encode(part.startsWith("\\") ? (escapes[part.charAt(1)] ?? part.charAt(1)) : part))
  }
  return new TextDecoder().decode(new Uint8Array(bytes))
}

/**
 * Reads unified diffs, with or without git's headers. Pure. Prose, mail headers and index lines around the files are
 * skipped; a changed line that belongs to no hunk is not. Counts in hunk headers may be wrong: they only tell a removed
 * line "-- a" from the header of the next file.
 */
import { Result } from "effect"
import type { Hunk, InvalidPatch, Section } from "../schema/Patch.ts"
import { sectionHeader } from "./CodexPatch.ts"
import { emptyDraft, finish, invalid, readHeader, takeLine } from "./HunkText.ts"

/** Whether a file's part of a unified diff starts at this line. */
export const startsUnifiedDiff = (lines: ReadonlyArray<string>, index: number): boolean =>
  (lines[index] ?? "").startsWith("diff --git ") || startsNames(lines, index)

const startsNames = (lines: ReadonlyArray<string>, index: number): boolean =>
  (lines[index] ?? "").startsWith("--- ") && (lines[index + 1] ?? "").startsWith("+++ ")

interface Cursor {
  readonly lines: ReadonlyArray<string>
  readonly nextFilled: ReadonlyArray<number>
  at: number
}

type Read<A> = Result.Result<A, InvalidPatch>

/** The sections of a diff whose first file starts at line `begin` (from 0). */
export const readUnifiedDiff = (lines: ReadonlyArray<string>, begin: number): Read<ReadonlyArray<Section>> =>
  Result.gen(function* () {
    const cursor: Cursor = { lines, nextFilled: filledAfter(lines), at: begin }
    const sections: Array<Section> = []
    while (cursor.at < lines.length) {
      if (startsUnifiedDiff(lines, cursor.at)) sections.push(yield* readFile(cursor))
      else {
        yield* skipProse(cursor)
        cursor.at++
      }
    }
    return sections
  })

/** What is around the files says nothing; what looks like a change that would be lost is refused. */
const skipProse = ({ lines, at }: Cursor): Read<void> => {
  const text = lines[at] ?? ""
  if (/^(@@|[-+](?!-* *$))/u.test(text))
    return invalid(lines, at, 'a line of a hunk under its "@@" header, or the "--- " and "+++ " lines of a file')
  if (binary.test(text)) return invalid(lines, at, "a change of text; binary files cannot be patched")
  if (sectionHeader(text) !== undefined) return invalid(lines, at, "more of the unified diff; one patch has one format")
  return Result.succeed(undefined)
}

const binary = /^(GIT binary patch$|Binary files .* differ$)/u

/** What stands above a file's hunks. */
interface Names {
  old: string | undefined
  new: string | undefined
  oldMode: number | undefined
  newMode: number | undefined
  created: boolean
  deleted: boolean
  renamed: boolean
}

const readFile = (cursor: Cursor): Read<Section> =>
  Result.gen(function* () {
    const start = cursor.at
    const names = yield* readNames(cursor)
    const hunks = yield* readHunks(cursor)
    const path = names.deleted ? names.old : names.new
    const line = start + 1
    if (path === undefined) return yield* invalid(cursor.lines, start, 'the path of a file, in the "--- " and "+++ " lines')
    const mode = names.newMode === undefined || names.newMode === names.oldMode ? {} : { executable: (names.newMode & 0o100) !== 0 }
    if (names.deleted) return { kind: "delete", path, line, hunks }
    if (names.created) return { kind: "add", path, line, text: yield* createdText(cursor, hunks), ...mode }
    if (names.renamed && names.old !== undefined) return { kind: "update", path: names.old, line, moveTo: path, ...mode, hunks }
    if (hunks.length === 0 && names.newMode === undefined)
      return yield* invalid(cursor.lines, cursor.at, "a hunk: an @@ line and its lines")
    return { kind: "update", path, line, ...mode, hunks }
  })

const createdText = ({ lines }: Cursor, hunks: ReadonlyArray<Hunk>): Read<string> => {
  const all = hunks.flatMap((hunk) => hunk.lines.slice(0, hunk.lines.length - hunk.looseTail))
  const old = all.find((line) => line.kind !== "add")
  if (old !== undefined) return invalid(lines, old.line - 1, 'only lines starting with "+", because the file is new')
  const text = all.map((line) => `${line.text}\n`).join("")
  return Result.succeed(hunks.at(-1)?.finalNewline === false ? text.slice(0, -1) : text)
}

// --- names ----------------------------------------------------------------------------------------------------------

const readNames = (cursor: Cursor): Read<Names> =>
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

// --- hunks ----------------------------------------------------------------------------------------------------------

const readHunks = (cursor: Cursor): Read<ReadonlyArray<Hunk>> =>
  Result.gen(function* () {
    const hunks: Array<Hunk> = []
    while ((cursor.lines[cursor.at] ?? "").startsWith("@@")) hunks.push(yield* readHunk(cursor))
    return hunks
  })

const readHunk = (cursor: Cursor): Read<Hunk> =>
  Result.gen(function* () {
    const { lines } = cursor
    const draft = emptyDraft(cursor.at)
    if (lines[cursor.at]?.startsWith("@@@")) return yield* invalid(lines, cursor.at, "a diff against one version, not a merge's")
    const header = readHeader(lines[cursor.at] ?? "")
    const anchor = (lines[cursor.at] ?? "").slice(2).trim()
    draft.header = header
    if (header === undefined && anchor !== "" && anchor !== "... @@") draft.anchors.push({ text: anchor, line: cursor.at + 1 })
    // How many lines the header still announces; without numbers a hunk may end anywhere.
    let old = header?.oldCount ?? 0
    let fresh = header?.newCount ?? 0
    for (cursor.at++; cursor.at < lines.length; cursor.at++) {
      const text = lines[cursor.at] ?? ""
      const complete = old <= 0 && fresh <= 0
      if (text.startsWith("@@") || text.startsWith("diff --git ")) break
      if (complete && (startsNames(lines, cursor.at) || text.trimEnd() === "--" || isSpacing(cursor))) break
      if (takeLine(draft, text, cursor.at)) {
        const kind = text.startsWith("\\") ? undefined : draft.lines.at(-1)?.kind
        if (kind === "keep" || kind === "remove") old--
        if (kind === "keep" || kind === "add") fresh--
        continue
      }
      if (complete) break
      return yield* invalid(lines, cursor.at, 'a line starting with " ", "-" or "+", or the next "@@"')
    }
    return yield* finish(draft, lines)
  })

/** Blank lines before something that is no line of a hunk. */
const isSpacing = ({ at, lines, nextFilled }: Cursor): boolean => {
  const next = nextFilled[at] ?? at
  return next > at && (next === lines.length || !/^[-+ \\]/u.test(lines[next] ?? "") || startsNames(lines, next))
}

/** For each line, where the next one stands that is not empty: itself, mostly. */
const filledAfter = (lines: ReadonlyArray<string>): ReadonlyArray<number> => {
  const next = lines.map((_, index) => index)
  for (let index = lines.length - 1; index >= 0; index--) if (lines[index] === "") next[index] = next[index + 1] ?? lines.length
  return next
}

/**
 * Turns a change into a plan: for each path, what is there before and after. Pure, no disk: the contents come in, the
 * plan goes out, or one refusal that says what does not fit. A plan changes at least one thing, or is refused.
 *
 *     patch text --PatchText--> sections --here--> staged files --StagedFiles--> plan
 *
 * PatchText finds the patch and has CodexPatch or UnifiedDiff read it. For the hunks of a section, HunkMatch finds the
 * lines that change, and TextLines changes them in the file's bytes. LiteralEdit does the same for exact replacements.
 */
import { Result } from "effect"
import type { PatchSettings } from "../schema/Config.ts"
import { EncodingUnsupported, type Version } from "../schema/Files.ts"
import {
  AddFileExists,
  type ContextAmbiguous,
  type ContextNotFound,
  type Edit,
  type Hunk,
  InvalidPatch,
  MoveDestinationExists,
  type Section,
} from "../schema/Patch.ts"
import { PathNotFound } from "../schema/Workspace.ts"
import { placeHunks } from "./HunkMatch.ts"
import { applyEdits } from "./LiteralEdit.ts"
import { type Files, type Plan, type StagedFile, StagedFiles } from "./StagedFiles.ts"
import { applyChanges, foreignEncoding, isUtf8, textLines } from "./TextLines.ts"

export { parse, touchedPaths } from "./PatchText.ts"
export { type FileState, type Files, type Plan, type PlannedChange, replanned, sameState, type Target } from "./StagedFiles.ts"

export type PlanRefusal =
  | InvalidPatch
  | ContextNotFound
  | ContextAmbiguous
  | AddFileExists
  | MoveDestinationExists
  | EncodingUnsupported
  | PathNotFound

type Ambiguity = PatchSettings["ambiguity"]
type VersionOf = (bytes: Uint8Array) => Version
type Planned<A> = Result.Result<A, PlanRefusal>

/** Mode of a file that was not there before. */
const newFileMode = 0o644

/** The sections with other paths, as a workspace resolves them. */
export const withPaths = (sections: ReadonlyArray<Section>, resolved: (written: string) => string): ReadonlyArray<Section> =>
  sections.map((section) => ({
    ...section,
    path: resolved(section.path),
    ...(section.kind === "update" && section.moveTo !== undefined ? { moveTo: resolved(section.moveTo) } : {}),
  }))

/** Sections take effect in order, each on what the ones before left. */
export const plan = (
  sections: ReadonlyArray<Section>,
  files: Files,
  versionOf: VersionOf,
  ambiguity: Ambiguity = "refuse",
): Planned<Plan> =>
  Result.gen(function* () {
    const staged = new StagedFiles(files)
    for (const [index, section] of sections.entries()) yield* planSection({ staged, versionOf, ambiguity, number: index + 1 }, section)
    const planned = staged.outcome(versionOf)
    return planned.targets.length > 0 ? planned : yield* nothingChanged("a patch after which every file is as before")
  })

/** Exact replacements in one file. */
export const planEdits = (path: string, edits: ReadonlyArray<Edit>, files: Files, versionOf: VersionOf): Planned<Plan> =>
  Result.gen(function* () {
    const staged = new StagedFiles(files)
    const file = yield* textAt(staged, path)
    const added = edits.map((edit) => edit.new)
    staged.put(path, { ...file, bytes: yield* inOneEncoding(path, file, yield* applyEdits(path, file.bytes, edits), added) })
    const planned = staged.outcome(versionOf)
    return planned.targets.length > 0 ? planned : yield* nothingChanged("edits after which the file is as before")
  })

/** One whole file. Writing what is there already is planned, and reported as an update of no lines. */
export const planWrite = (path: string, content: string, files: Files, versionOf: VersionOf): Planned<Plan> => {
  if (!content.isWellFormed())
    return Result.fail(new InvalidPatch({ line: 0, found: "half of a surrogate pair", wanted: "text that can be written as UTF-8" }))
  const staged = new StagedFiles(files)
  const file = files.get(path)
  staged.put(path, { bytes: utf8(content), mode: file?.mode ?? newFileMode, origin: path })
  const planned = staged.outcome(versionOf)
  if (planned.targets.length > 0 || file === undefined) return Result.succeed(planned)
  return Result.succeed({ targets: [], changes: [staged.unchanged(path, file, versionOf)], notes: ["The file held this content already."] })
}

const nothingChanged = (found: string) =>
  Result.fail(
    new InvalidPatch({ line: 0, found, wanted: "at least one change; the lines to remove and to add are the same, or there are none" }),
  )

// --- one section ----------------------------------------------------------------------------------------------------

/** What a section is planned with. */
interface Planning {
  readonly staged: StagedFiles
  readonly versionOf: VersionOf
  readonly ambiguity: Ambiguity
  /** Which section of the patch it is, from 1. */
  readonly number: number
}

type SectionOf<Kind extends Section["kind"]> = Section & { readonly kind: Kind }

const planSection = (planning: Planning, section: Section): Planned<void> => {
  switch (section.kind) {
    case "add":
      return planAdd(planning, section)
    case "delete":
      return planDelete(planning, section)
    case "update":
      return planUpdate(planning, section)
  }
}

const planAdd = ({ staged, versionOf }: Planning, { executable, path, text }: SectionOf<"add">): Planned<void> => {
  const there = staged.at(path)
  if (there !== undefined) return Result.fail(new AddFileExists({ path, version: versionOf(there.bytes) }))
  // Deleted and added again is one update of the file, so its mode stays.
  const mode = staged.modeBefore(path) ?? newFileMode
  return Result.succeed(staged.put(path, { bytes: utf8(text), mode: modeWith(mode, executable), origin: undefined }))
}

const planDelete = (planning: Planning, { hunks, line, path }: SectionOf<"delete">): Planned<void> =>
  Result.gen(function* () {
    const file = yield* fileAt(planning.staged, path, hunks)
    const left = (yield* applyHunks(planning, path, file, hunks)).length
    const found = `a deletion of "${path}" that leaves ${left} of its bytes`
    if (hunks.length > 0 && left > 0) return yield* Result.fail(new InvalidPatch({ line, found, wanted: "all its lines removed" }))
    planning.staged.put(path, undefined)
  })

const planUpdate = (planning: Planning, { executable, hunks, moveTo, path }: SectionOf<"update">): Planned<void> =>
  Result.gen(function* () {
    const { staged } = planning
    const file = yield* fileAt(staged, path, hunks)
    const next = { ...file, bytes: yield* applyHunks(planning, path, file, hunks), mode: modeWith(file.mode, executable) }
    if (moveTo === undefined || moveTo === path) return staged.put(path, next)
    if (staged.at(moveTo) !== undefined) return yield* Result.fail(new MoveDestinationExists({ path, destination: moveTo }))
    staged.put(path, undefined)
    staged.put(moveTo, next)
  })

const applyHunks = (
  { ambiguity, number, staged }: Planning,
  path: string,
  file: StagedFile,
  hunks: ReadonlyArray<Hunk>,
): Planned<Uint8Array> =>
  Result.gen(function* () {
    if (hunks.length === 0) return file.bytes
    const lines = textLines(file.bytes, hunks.some(spellsMark))
    const { changes, notes } = yield* placeHunks({ path, section: number }, lines, hunks, ambiguity)
    staged.notes.push(...notes)
    const finalNewline = hunks.findLast((hunk) => hunk.finalNewline !== undefined)?.finalNewline
    const added = changes.flatMap((change) => change.add)
    return yield* inOneEncoding(path, file, applyChanges(lines, changes, finalNewline), added)
  })

/** Whether the byte order mark stands in the hunk, which it need not to leave it as it is. */
const spellsMark = (hunk: Hunk): boolean => hunk.lines.some(({ kind, text }) => kind !== "add" && text.startsWith("\ufeff"))

// --- what is required of a file -------------------------------------------------------------------------------------

/** Only who looks into a file needs it to be text: anything can be moved, deleted, or made executable. */
const fileAt = (staged: StagedFiles, path: string, hunks: ReadonlyArray<Hunk>) =>
  hunks.length > 0 ? textAt(staged, path) : presentAt(staged, path)

const presentAt = (staged: StagedFiles, path: string): Result.Result<StagedFile, PathNotFound> => {
  const file = staged.at(path)
  return file === undefined ? Result.fail(new PathNotFound({ path })) : Result.succeed(file)
}

const textAt = (staged: StagedFiles, path: string): Result.Result<StagedFile, PathNotFound | EncodingUnsupported> =>
  Result.flatMap(presentAt(staged, path), (file) => {
    const found = foreignEncoding(file.bytes)
    return found === undefined ? Result.succeed(file) : Result.fail(new EncodingUnsupported({ path, found }))
  })

/** A file in Latin-1, say, can be edited as long as what comes into it is the same bytes in every encoding. */
const inOneEncoding = (
  path: string,
  { bytes }: StagedFile,
  changed: Uint8Array,
  added: ReadonlyArray<string>,
): Result.Result<Uint8Array, EncodingUnsupported> =>
  added.every((text) => ascii.test(text)) || isUtf8(bytes)
    ? Result.succeed(changed)
    : Result.fail(new EncodingUnsupported({ path, found: "not UTF-8 throughout and takes only ASCII text" }))

const ascii = /^[\x00-\x7f]*$/u

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

/** Whoever may read the file may then run it, or nobody may. */
const modeWith = (mode: number, executable: boolean | undefined): number =>
  executable === undefined ? mode : executable ? mode | ((mode & 0o444) >> 2) : mode & ~0o111

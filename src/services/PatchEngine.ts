/**
 * Turns a change into a plan: for each path, what is there before and after. Pure, no disk: the contents come in, the
 * plan goes out, or one refusal that says what does not fit. A plan changes at least one thing, or is refused.
 */
import { Result } from "effect"
import { absent, EncodingUnsupported, type Version } from "../schema/Files.ts"
import {
  AddFileExists,
  type ContextAmbiguous,
  type ContextNotFound,
  type Edit,
  type FileChange,
  type Hunk,
  InvalidPatch,
  MoveDestinationExists,
  type Section,
} from "../schema/Patch.ts"
import { PathNotFound } from "../schema/Workspace.ts"
import { placeHunks } from "./HunkMatch.ts"
import { applyEdits } from "./LiteralEdit.ts"
import { countChange, type ShownChange } from "./PatchDiff.ts"
import { applyChanges, foreignEncoding, sameBytes, textLines } from "./TextLines.ts"

export { parse, touchedPaths } from "./PatchText.ts"

/** A regular file: its content and its permission bits. */
export interface FileState {
  readonly bytes: Uint8Array
  readonly mode: number
}

/** What is at each path now; a path that is not in it is absent. */
export type Files = ReadonlyMap<string, FileState>

/** A path whose content or mode the plan changes. */
export interface Target {
  readonly path: string
  readonly before: FileState | undefined
  readonly after: FileState | undefined
}

export interface Plan {
  readonly targets: ReadonlyArray<Target>
  /** The same in terms of files: a move is one change of two targets. */
  readonly changes: ReadonlyArray<PlannedChange>
  readonly notes: ReadonlyArray<string>
}

export interface PlannedChange extends ShownChange {
  readonly facts: FileChange
}

export type PlanRefusal =
  | InvalidPatch
  | ContextNotFound
  | ContextAmbiguous
  | AddFileExists
  | MoveDestinationExists
  | EncodingUnsupported
  | PathNotFound

type VersionOf = (bytes: Uint8Array) => Version
type Planned<A> = Result.Result<A, PlanRefusal>

/** Mode of a file that was not there before. */
export const newFileMode = 0o644

/** The sections with other paths, as a workspace resolves them. */
export const withPaths = (sections: ReadonlyArray<Section>, resolved: (written: string) => string): ReadonlyArray<Section> =>
  sections.map((section) => ({
    ...section,
    path: resolved(section.path),
    ...(section.kind === "update" && section.moveTo !== undefined ? { moveTo: resolved(section.moveTo) } : {}),
  }))

/** Sections take effect in order, each on what the ones before left. */
export const plan = (sections: ReadonlyArray<Section>, files: Files, versionOf: VersionOf): Planned<Plan> =>
  Result.gen(function* () {
    const staged = stage(files)
    for (const section of sections) yield* planSection(staged, section, versionOf)
    const planned = outcome(staged, versionOf)
    return planned.targets.length > 0 ? planned : yield* nothingChanged("a patch after which every file is as before")
  })

/** Exact replacements in one file. */
export const planEdits = (path: string, edits: ReadonlyArray<Edit>, files: Files, versionOf: VersionOf): Planned<Plan> =>
  Result.gen(function* () {
    const staged = stage(files)
    const file = yield* textAt(staged, path)
    put(staged, path, { ...file, bytes: yield* applyEdits(path, file.bytes, edits) })
    const planned = outcome(staged, versionOf)
    return planned.targets.length > 0 ? planned : yield* nothingChanged("edits after which the file is as before")
  })

/** One whole file. Writing what is there already is planned, and reported as an update of no lines. */
export const planWrite = (path: string, content: string, files: Files, versionOf: VersionOf): Planned<Plan> => {
  if (!content.isWellFormed())
    return Result.fail(new InvalidPatch({ line: 0, found: "half of a surrogate pair", wanted: "text that can be written as UTF-8" }))
  const staged = stage(files)
  const mode = files.get(path)?.mode ?? newFileMode
  put(staged, path, { bytes: new TextEncoder().encode(content), mode, origin: path })
  const planned = outcome(staged, versionOf)
  const file = files.get(path)
  if (planned.targets.length > 0 || file === undefined) return Result.succeed(planned)
  const version = versionOf(file.bytes)
  const facts = { path, kind: "update", before: version, after: version, added: 0, removed: 0 } as const
  return Result.succeed({
    ...planned,
    changes: [{ path, before: file, after: file, facts }],
    notes: ["The file held this content already."],
  })
}

const nothingChanged = (found: string) =>
  Result.fail(
    new InvalidPatch({ line: 0, found, wanted: "at least one change; the lines to remove and to add are the same, or there are none" }),
  )

// --- the staged state -----------------------------------------------------------------------------------------------

interface StagedFile extends FileState {
  /** The path whose file this was before; undefined for a new one. */
  readonly origin: string | undefined
}

interface Staged {
  readonly before: Files
  /** Paths in the order they were named. */
  readonly after: Map<string, StagedFile | undefined>
  readonly notes: Array<string>
}

const stage = (before: Files): Staged => ({ before, after: new Map(), notes: [] })

const put = (staged: Staged, path: string, file: StagedFile | undefined): void => {
  staged.after.set(path, file)
}

const at = ({ after, before }: Staged, path: string): StagedFile | undefined => {
  if (after.has(path)) return after.get(path)
  const file = before.get(path)
  return file && { ...file, origin: path }
}

const presentAt = (staged: Staged, path: string): Result.Result<StagedFile, PathNotFound> => {
  const file = at(staged, path)
  return file === undefined ? Result.fail(new PathNotFound({ path })) : Result.succeed(file)
}

const textAt = (staged: Staged, path: string): Result.Result<StagedFile, PathNotFound | EncodingUnsupported> =>
  Result.flatMap(presentAt(staged, path), (file) => {
    const found = foreignEncoding(file.bytes)
    return found === undefined ? Result.succeed(file) : Result.fail(new EncodingUnsupported({ path, found }))
  })

const planSection = (staged: Staged, section: Section, versionOf: VersionOf): Planned<void> => {
  switch (section.kind) {
    case "add":
      return planAdd(staged, section, versionOf)
    case "delete":
      return planDelete(staged, section)
    case "update":
      return planUpdate(staged, section)
  }
}

const planAdd = (staged: Staged, { mode, path, text }: Section & { readonly kind: "add" }, versionOf: VersionOf): Planned<void> => {
  const there = at(staged, path)
  if (there !== undefined) return Result.fail(new AddFileExists({ path, version: versionOf(there.bytes) }))
  // Deleted and added again is one update of the file, so its mode stays.
  const kept = staged.before.get(path)?.mode ?? newFileMode
  return Result.succeed(put(staged, path, { bytes: new TextEncoder().encode(text), mode: mode ?? kept, origin: undefined }))
}

const planDelete = (staged: Staged, { hunks, line, path }: Section & { readonly kind: "delete" }): Planned<void> =>
  Result.gen(function* () {
    const file = yield* hunks.length > 0 ? textAt(staged, path) : presentAt(staged, path)
    const left = yield* applyHunks(staged, path, file.bytes, hunks)
    if (hunks.length > 0 && left.length > 0)
      return yield* Result.fail(
        new InvalidPatch({
          line,
          found: `a deletion of "${path}" that leaves ${left.length} of its bytes`,
          wanted: "all its lines removed",
        }),
      )
    put(staged, path, undefined)
  })

const planUpdate = (staged: Staged, { hunks, mode, moveTo, path }: Section & { readonly kind: "update" }): Planned<void> =>
  Result.gen(function* () {
    const file = yield* hunks.length > 0 ? textAt(staged, path) : presentAt(staged, path)
    const next = { ...file, bytes: yield* applyHunks(staged, path, file.bytes, hunks), mode: mode ?? file.mode }
    if (moveTo === undefined || moveTo === path) return put(staged, path, next)
    if (at(staged, moveTo) !== undefined) return yield* Result.fail(new MoveDestinationExists({ path, destination: moveTo }))
    put(staged, path, undefined)
    put(staged, moveTo, next)
  })

const applyHunks = (staged: Staged, path: string, bytes: Uint8Array, hunks: ReadonlyArray<Hunk>): Planned<Uint8Array> => {
  if (hunks.length === 0) return Result.succeed(bytes)
  const file = textLines(bytes)
  return Result.map(placeHunks(path, file, hunks), ({ changes, notes }) => {
    staged.notes.push(...notes)
    return applyChanges(file, changes, hunks.findLast((hunk) => hunk.finalNewline !== undefined)?.finalNewline)
  })
}

// --- the outcome ----------------------------------------------------------------------------------------------------

const outcome = (staged: Staged, versionOf: VersionOf): Plan => {
  const paths = [...staged.after.keys()]
  const targets = paths.map((path) => ({ path, before: staged.before.get(path), after: staged.after.get(path) })).filter(isChanged)
  const moved = new Set(targets.flatMap(({ path }) => movedFrom(staged, path) ?? []))
  const changes = targets
    // The source of a move is told with its destination.
    .filter(({ after, path }) => after !== undefined || !moved.has(path))
    .map((target) => describe(target, movedFrom(staged, target.path), staged.before, versionOf))
  return { targets, changes, notes: staged.notes }
}

const isChanged = ({ after, before }: Target): boolean => {
  if (before === undefined || after === undefined) return before !== after
  return before.mode !== after.mode || !sameBytes(before.bytes, after.bytes)
}

/** The path that the file at a new path had before. */
const movedFrom = ({ after, before }: Staged, path: string): string | undefined => {
  const origin = after.get(path)?.origin
  return origin === path || before.has(path) ? undefined : origin
}

const describe = ({ after, before, path }: Target, from: string | undefined, files: Files, versionOf: VersionOf): PlannedChange => {
  const old = from === undefined ? before : files.get(from)
  const facts = {
    path,
    ...(from === undefined ? {} : { from }),
    kind: from !== undefined ? "move" : before === undefined ? "add" : after === undefined ? "delete" : "update",
    before: old === undefined ? absent : versionOf(old.bytes),
    after: after === undefined ? absent : versionOf(after.bytes),
    ...countChange(old?.bytes, after?.bytes),
  } as const
  return { path, ...(from === undefined ? {} : { from }), before: old, after, facts }
}

/**
 * The part of a patch that touches the disk: all targets of a plan get their new content, or none does.
 *
 * New contents are staged under random names beside their targets, old ones keep a second name there. The commit then
 * only renames, links and unlinks, so undoing it is renaming back: the old file returns itself, with its mode and times.
 * Failure, interruption and defect all end in the abort. A crash of this process does not; see `stage` and `commit`,
 * between which a record of the plan would stand.
 */
import { Cause, Effect, Exit, Option, Random } from "effect"
import { absent, type Version } from "../schema/Files.ts"
import type { RunnerUnavailable, StorageFull } from "../schema/Operation.ts"
import { PatchFailed, VersionConflict } from "../schema/Patch.ts"
import { ConfinedPath, type NotAFile, type PathNotFound, type PathProtected, type SymlinkRejected } from "../schema/Workspace.ts"
import { type Entry, type PathFailure, type Root, refusalOf } from "./Disk.ts"
import type { FileState } from "./PatchEngine.ts"
import { sameBytes } from "./TextLines.ts"

/** A target with its folders looked up. */
export interface PlacedTarget {
  readonly path: ConfinedPath
  readonly before: FileState | undefined
  readonly after: FileState | undefined
  /** The deepest folder above it that exists. */
  readonly folder: ConfinedPath
  /** Folders to make, outermost first. */
  readonly missing: ReadonlyArray<ConfinedPath>
}

export type CommitRefusal =
  | PatchFailed
  | VersionConflict
  | StorageFull
  | PathProtected
  | RunnerUnavailable
  | PathNotFound
  | NotAFile
  | SymlinkRejected

type StepFailure = PathFailure | VersionConflict | PatchFailed

/** What one transaction has on disk besides its targets, and how to undo what it did to them. */
interface Work {
  readonly root: Root
  readonly versionOf: (bytes: Uint8Array) => Version
  readonly temporary: Set<ConfinedPath>
  readonly undo: Array<{ readonly path: ConfinedPath; readonly run: Effect.Effect<void, StepFailure> }>
}

/** A target whose new content lies ready and whose old content has a second name. */
interface StagedTarget extends PlacedTarget {
  readonly fresh: { readonly path: ConfinedPath; readonly entry: Entry | undefined } | undefined
  readonly old: { readonly path: ConfinedPath; readonly entry: Entry | undefined } | undefined
}

/** Brings every target to its planned state, or restores all of them. Can be interrupted until the commit begins. */
export const performPlan = Effect.fn("PatchCommit.performPlan")(function* (
  root: Root,
  targets: ReadonlyArray<PlacedTarget>,
  versionOf: (bytes: Uint8Array) => Version,
): Effect.fn.Return<ReadonlyArray<string>, CommitRefusal> {
  const work: Work = { root, versionOf, temporary: new Set(), undo: [] }
  return yield* Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(Effect.flatMap(restore(stage(work, targets)), (staged) => commit(work, staged)))
      if (Exit.isFailure(exit)) return yield* abort(work, exit.cause)
      const left = yield* removeTemporary(work)
      return left.map((path) => `The temporary file "${path}" could not be removed.`)
    }),
  )
})

// --- stage ----------------------------------------------------------------------------------------------------------

/** Writes all new contents, then holds on to the old ones and makes sure that they are those the plan was made for. */
const stage = Effect.fnUntraced(function* (work: Work, targets: ReadonlyArray<PlacedTarget>) {
  const written: Array<PlacedTarget & Pick<StagedTarget, "fresh">> = []
  for (const target of targets) written.push({ ...target, fresh: yield* writeFresh(work, target) })
  const staged: Array<StagedTarget> = []
  for (const target of written) staged.push({ ...target, old: yield* keepOld(work, target) })
  return staged
})

const writeFresh = Effect.fnUntraced(function* (work: Work, { after, folder }: PlacedTarget) {
  if (after === undefined) return undefined
  const path = yield* temporaryIn(work, folder)
  yield* work.root.createFile(path, after.bytes, after.mode)
  return { path, entry: yield* work.root.stat(path) }
})

const keepOld = Effect.fnUntraced(function* (work: Work, { before, folder, path }: PlacedTarget) {
  const { root } = work
  const entry = yield* root.stat(path)
  if (before === undefined && entry === undefined) return undefined
  if (before === undefined || entry === undefined) return yield* conflict(work, path, before)
  const copy = yield* temporaryIn(work, folder)
  yield* root.link(path, copy).pipe(
    Effect.catchIf(isWithoutLinks, () => root.createFile(copy, before.bytes, before.mode)),
    Effect.catchTag("PATH_NOT_FOUND", () => conflict(work, path, before)),
  )
  const now = yield* root.readFile(path).pipe(Effect.catchTag("PATH_NOT_FOUND", () => conflict(work, path, before)))
  if (!sameBytes(now.bytes, before.bytes)) return yield* conflict(work, path, before)
  return { path: copy, entry }
})

/** A random name; the file is registered before it is made, so that no interruption can lose it. */
const temporaryIn = Effect.fnUntraced(function* ({ temporary }: Work, folder: ConfinedPath) {
  const parts = [yield* Random.nextIntBetween(0, 2 ** 32), yield* Random.nextIntBetween(0, 2 ** 32)]
  const name = `.codespace-${parts.map((part) => part.toString(16).padStart(8, "0")).join("")}.tmp`
  const path = ConfinedPath.make(folder === "" ? name : `${folder}/${name}`)
  temporary.add(path)
  return path
})

const hasCode =
  (...codes: ReadonlyArray<string>) =>
  (failure: StepFailure): boolean =>
    failure._tag === "DiskFault" && codes.includes(failure.code)

/** The file system, or the owner of the file, allows no second name. */
const isWithoutLinks = hasCode("EPERM", "EXDEV", "EMLINK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS")

const conflict = Effect.fnUntraced(function* ({ root, versionOf }: Work, path: ConfinedPath, before: FileState | undefined) {
  const current = yield* root.readFile(path).pipe(
    Effect.map(({ bytes }) => versionOf(bytes)),
    Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(absent)),
  )
  return yield* new VersionConflict({ path, expected: before === undefined ? absent : versionOf(before.bytes), current })
})

// --- commit ---------------------------------------------------------------------------------------------------------

/** Files that go first, since a folder may take the place of one; then folders and files that come; then a look at all. */
const commit = Effect.fnUntraced(function* (work: Work, staged: ReadonlyArray<StagedTarget>) {
  for (const target of staged) if (target.after === undefined) yield* undoable(work, target, work.root.unlink(target.path))
  for (const target of staged) {
    if (target.fresh === undefined) continue
    yield* Effect.forEach(target.missing, (folder) => makeFolder(work, folder), { discard: true })
    const put = target.before === undefined ? putNew(work, target, target.fresh.path) : work.root.rename(target.fresh.path, target.path)
    yield* undoable(work, target, put)
  }
  yield* Effect.forEach(staged, (target) => verify(work, target), { discard: true })
})

const undoable = (work: Work, target: StagedTarget, step: Effect.Effect<void, StepFailure>) =>
  Effect.suspend(() => {
    work.undo.push({ path: target.path, run: putBack(work, target) })
    return step
  })

/** A second name fails where something is, a rename would replace it. */
const putNew = (work: Work, { before, path }: StagedTarget, fresh: ConfinedPath) =>
  work.root.link(fresh, path).pipe(
    Effect.catchIf(hasCode("EEXIST"), () => conflict(work, path, before)),
    Effect.catchIf(isWithoutLinks, () => work.root.rename(fresh, path)),
  )

const makeFolder = Effect.fnUntraced(function* ({ root, undo }: Work, path: ConfinedPath) {
  if ((yield* root.stat(path))?.kind === "directory") return
  undo.push({ path, run: removeFolder(root, path) })
  yield* root.makeDirectory(path).pipe(Effect.catchIf(hasCode("EEXIST"), () => Effect.void))
})

/** A folder in which someone else has put something by now stays. */
const removeFolder = (root: Root, path: ConfinedPath): Effect.Effect<void, StepFailure> =>
  root.removeDirectory(path).pipe(
    Effect.catchTag("PATH_NOT_FOUND", () => Effect.void),
    Effect.catchIf(hasCode("ENOTEMPTY", "EEXIST"), () => Effect.void),
  )

const verify = Effect.fnUntraced(function* ({ root }: Work, { after, before, path }: StagedTarget) {
  const wrong = (cause: string) => new PatchFailed({ status: "failed_rolled_back", cause, paths: [path] })
  if (after === undefined) {
    if ((yield* root.stat(path))?.kind === "file") return yield* wrong(`"${path}" is still there`)
    return
  }
  const { bytes, entry } = yield* root.readFile(path)
  if (!sameBytes(bytes, after.bytes)) return yield* wrong(`"${path}" does not hold what was written`)
  if (before !== undefined && entry.mode !== after.mode) return yield* wrong(`"${path}" does not have its mode`)
})

// --- abort ----------------------------------------------------------------------------------------------------------

/** Undoes everything in reverse order, then fails with what went wrong. */
const abort = Effect.fnUntraced(function* (work: Work, cause: Cause.Cause<StepFailure>): Effect.fn.Return<never, CommitRefusal> {
  const left: Array<string> = []
  for (const { path, run } of work.undo.toReversed()) if (!(yield* succeeds(run))) left.push(path)
  // What could not be put back stays under its second name for a person to find.
  if (left.length > 0) left.push(...(yield* Effect.filter([...work.temporary], (path) => isThere(work.root, path))))
  else left.push(...(yield* removeTemporary(work)))
  if (left.length === 0) return yield* Effect.failCause(Cause.map(cause, inWords))
  const failed = new PatchFailed({ status: "failed_partial", cause: reasonOf(cause), paths: left })
  yield* Effect.logError("a patch could not be undone", failed, cause)
  return yield* Cause.hasInterrupts(cause) || Cause.hasDies(cause)
    ? Effect.failCause(Cause.combine(Cause.fail(failed), Cause.map(cause, inWords)))
    : failed
})

/** Puts the old file back, or takes the new one away; a file that is neither is someone else's, and stays. */
const putBack = Effect.fnUntraced(function* (
  { root, versionOf }: Work,
  { fresh, old, path }: StagedTarget,
): Effect.fn.Return<void, StepFailure> {
  const now = yield* root.stat(path)
  const isFresh = isSame(now, fresh?.entry)
  if (old === undefined) return isFresh ? yield* root.unlink(path) : undefined
  if (isSame(now, old.entry)) return
  if (now === undefined || isFresh) return yield* root.rename(old.path, path)
  const { bytes } = yield* root.readFile(path)
  return yield* new VersionConflict({ path, expected: absent, current: versionOf(bytes) })
})

const isSame = (a: Entry | undefined, b: Entry | undefined): boolean =>
  a !== undefined && b !== undefined && a.inode === b.inode && a.device === b.device

/** The temporary files that are still there. */
const removeTemporary = ({ root, temporary }: Work): Effect.Effect<ReadonlyArray<ConfinedPath>> =>
  Effect.filter([...temporary], (path) =>
    Effect.map(succeeds(root.unlink(path).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.void))), (removed) => !removed),
  )

const isThere = (root: Root, path: ConfinedPath): Effect.Effect<boolean> =>
  Effect.map(Effect.exit(root.stat(path)), (exit) => Exit.isFailure(exit) || exit.value !== undefined)

/** Cleaning up is tried again and always ends; what stays wrong is logged, and reported by the caller. */
const succeeds = (step: Effect.Effect<void, StepFailure>): Effect.Effect<boolean> =>
  step.pipe(
    Effect.retry({ times: 2 }),
    Effect.as(true),
    Effect.catchCause((cause) => Effect.as(Effect.logWarning("a step to undo a patch failed", cause), false)),
  )

/** A fault as a refusal: what the caller can do something about has its own code. */
const inWords = (failure: StepFailure): CommitRefusal => {
  if (failure._tag !== "DiskFault") return failure
  const refusal = refusalOf(failure)
  return refusal._tag === "RUNNER_UNAVAILABLE"
    ? new PatchFailed({ status: "failed_rolled_back", cause: failure.message, paths: [failure.path] })
    : refusal
}

const reasonOf = (cause: Cause.Cause<StepFailure>): string =>
  Option.match(Cause.findErrorOption(cause), {
    onSome: (failure) => failure.message,
    onNone: () => (Cause.hasDies(cause) ? "a defect of the server" : "the call was interrupted"),
  })

/**
 * The part of a patch that touches the disk: all targets of a plan get their new content, or none does.
 *
 * New contents are staged outside of everybody's sight, old ones get a second name there, and the plan is written down.
 * From then on whoever reads it can undo everything, so failure, interruption, defect and the death of this process all
 * end the same way. The commit only renames, links and unlinks; undoing it returns the old files themselves, with their
 * modes and times. The patch counts as made when its plan is marked so, after the disk was read back, the operator's hooks
 * have had the files, and, where the caller wants it, a command has agreed.
 */
import { Cause, Effect, Exit, Option, Random } from "effect"
import { absent, type Version } from "../schema/Files.ts"
import type { JournalPlace, JournalPlan, JournalTarget } from "../schema/Journal.ts"
import type { RunnerUnavailable, StorageFull } from "../schema/Operation.ts"
import { type Delta, PatchFailed, type Verified, type VerifyFailed, VersionConflict } from "../schema/Patch.ts"
import { ConfinedPath, NotAFile, type PathNotFound, type PathProtected, type SymlinkRejected } from "../schema/Workspace.ts"
import { type PathFailure, type Root, refusalOf } from "./Disk.ts"
import {
  conclude,
  filePath,
  isMarked,
  type Journaled,
  makePrivateFolder,
  notePlaces,
  prepare,
  removeIfThere,
  removeMark,
  removePrivateFolder,
} from "./JournalMarks.ts"
import { syncTargets } from "./JournalRecovery.ts"
import type { FileState, Files } from "./PatchEngine.ts"
import type { PatchJournal } from "./PatchJournal.ts"
import { hasCode, inOrder, rootOf, succeeds, undo } from "./PatchUndo.ts"
import { inFolder, privateFolderIn } from "./PrivateFolder.ts"
import { sameBytes } from "./TextLines.ts"

/** A target with its folders looked up. */
export interface PlacedTarget {
  readonly path: ConfinedPath
  readonly before: FileState | undefined
  readonly after: FileState | undefined
  /** The deepest folder above it that exists, and its device. */
  readonly folder: ConfinedPath
  readonly device: number
  /** Folders to make, outermost first. */
  readonly missing: ReadonlyArray<ConfinedPath>
}

export type CommitRefusal =
  | PatchFailed
  | VerifyFailed
  | VersionConflict
  | StorageFull
  | PathProtected
  | RunnerUnavailable
  | PathNotFound
  | NotAFile
  | SymlinkRejected

type StepFailure = PathFailure | VersionConflict | PatchFailed | VerifyFailed

/** What a patch is made on, and for whom. */
export interface CommitSite {
  readonly root: Root
  readonly journal: PatchJournal["Service"]
  readonly versionOf: (bytes: Uint8Array) => Version
}

export interface CommitRequest {
  readonly targets: ReadonlyArray<PlacedTarget>
  /** What is answered when it has happened. */
  readonly delta: Delta
  /** The recorded operation it belongs to. */
  readonly operationId?: string | undefined
  /** Commands that may change the targets, with everything on disk, and what is answered for the files as they then are. */
  readonly hooked?: Hooked | undefined
  /** Decides, with everything on disk, whether the patch stays. */
  readonly verify?: Effect.Effect<Verified, VerifyFailed> | undefined
}

interface Hooked {
  /** Gives what is to be noted. */
  readonly run: Effect.Effect<ReadonlyArray<string>, VerifyFailed>
  readonly delta: (now: Files, notes: ReadonlyArray<string>) => Delta
}

/** What one transaction has on disk besides its targets, and how far it has come. */
interface Work extends CommitSite, CommitRequest {
  readonly journaled: Journaled
  /** Files that have to be gone at the end. */
  readonly temporary: Set<JournalPlace>
  /** Those of them that are second names of files which stay. */
  readonly shared: Set<JournalPlace>
  /** Private folders in the workspace, by the folder they were made in. */
  readonly places: Map<ConfinedPath, ConfinedPath>
  /** Targets and folders that may have been changed. */
  readonly begun: Set<ConfinedPath>
  plan: JournalPlan | undefined
  /** What is at the targets from here on is part of the transaction, whoever put it there: commands run. */
  isOpen: boolean
}

/** A target whose new content lies ready and whose old content has a second name. */
type StagedTarget = PlacedTarget & JournalTarget

/** Brings every target to its planned state, or restores all of them. Can be interrupted until the commit begins, and while a command runs. */
export const performPlan = Effect.fn("PatchCommit.performPlan")(function* (
  site: CommitSite,
  request: CommitRequest,
): Effect.fn.Return<Delta, CommitRefusal> {
  return yield* perform(site, request).pipe(Effect.catchCause((cause) => Effect.failCause(Cause.map(cause, inWords))))
})

const perform = (site: CommitSite, request: CommitRequest): Effect.Effect<Delta, StepFailure> =>
  performOnce(site, request).pipe(
    Effect.catchIf(hasCode("EXDEV"), (failure) => (site.journal.comeNearer() ? perform(site, request) : Effect.fail(failure))),
  )

const performOnce = (site: CommitSite, request: CommitRequest) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const journaled = yield* restore(site.journal.begin(request.operationId))
      const work: Work = {
        ...site,
        ...request,
        journaled,
        temporary: new Set(),
        shared: new Set(),
        places: new Map(),
        begun: new Set(),
        plan: undefined,
        isOpen: false,
      }
      const exit = yield* Effect.exit(
        Effect.gen(function* () {
          const staged = yield* restore(stage(work))
          yield* commit(work, staged)
          work.isOpen = runsCommands(work)
          const delta = work.hooked === undefined ? work.delta : yield* follow(work, staged, work.hooked, restore)
          return yield* seal(work, work.verify === undefined ? delta : { ...delta, verify: yield* restore(work.verify) })
        }),
      )
      if (Exit.isFailure(exit)) return yield* abort(work, exit.cause)
      yield* cleanPlaces(work)
      yield* dropShared(work)
      yield* site.journal.finished(journaled, inJournal(work))
      return exit.value
    }),
  )

// --- stage ----------------------------------------------------------------------------------------------------------

/** Writes all new contents, then holds on to the old ones and makes sure that they are those the plan was made for. */
const stage = Effect.fnUntraced(function* (work: Work) {
  yield* makePlaces(work)
  const fresh: Array<JournalTarget["fresh"]> = []
  for (const [index, target] of work.targets.entries()) fresh.push(yield* writeFresh(work, target, index))
  const staged: Array<StagedTarget> = []
  for (const [index, target] of work.targets.entries()) {
    const old = yield* keepOld(work, target, index)
    const next = fresh[index]
    staged.push({ ...target, ...(next === undefined ? {} : { fresh: next }), ...(old === undefined ? {} : { old }) })
  }
  const plan: JournalPlan = {
    durable: work.journal.durable,
    verifies: runsCommands(work),
    targets: staged.map(({ fresh, missing, old, path }) => ({
      path,
      missing,
      ...(fresh === undefined ? {} : { fresh }),
      ...(old === undefined ? {} : { old }),
    })),
    delta: work.delta,
  }
  if (plan.durable) for (const place of work.places.values()) yield* work.root.syncDirectory(place)
  work.plan = plan
  yield* prepare(work.journaled, plan)
  return staged
})

/** Private folders, where a file cannot come from the journal. They are noted first: a crash must not lose one. */
const makePlaces = Effect.fnUntraced(function* ({ journal, journaled, places, root, targets }: Work) {
  for (const target of targets) {
    const folder = folderNear(journal, target)
    if (folder === undefined || places.has(folder)) continue
    const parts = [yield* Random.nextIntBetween(0, 2 ** 32), yield* Random.nextIntBetween(0, 2 ** 32)]
    places.set(folder, privateFolderIn(folder, parts.map((part) => part.toString(16).padStart(8, "0")).join("")))
  }
  if (places.size === 0) return
  yield* notePlaces(journaled, [...places.values()], journal.durable)
  for (const place of places.values()) yield* makePrivateFolder(root, place)
})

/** The folder of the workspace in which a target's files have to lie; undefined where the journal is near enough. */
const folderNear = (journal: PatchJournal["Service"], { device, folder }: PlacedTarget): ConfinedPath | undefined => {
  const distance = journal.distanceTo(device)
  return distance === "journal" ? undefined : distance === "root" ? ConfinedPath.make("") : folder
}

/** A name for a file; it is registered before it is made, so that no interruption can lose it. */
const placeFor = (work: Work, target: PlacedTarget, kind: "n" | "o", index: number): JournalPlace => {
  const name = filePath(work.journaled, kind, index)
  const folder = folderNear(work.journal, target)
  const near = folder === undefined ? undefined : work.places.get(folder)
  const place: JournalPlace = near === undefined ? { root: "journal", path: name } : { root: "workspace", path: inFolder(near, name) }
  work.temporary.add(place)
  return place
}

const rootAt = ({ journaled, root }: Work, place: JournalPlace): Root => rootOf({ journal: journaled.folder, workspace: root }, place)

const writeFresh = Effect.fnUntraced(function* (work: Work, target: PlacedTarget, index: number) {
  const { after } = target
  if (after === undefined) return undefined
  const place = placeFor(work, target, "n", index)
  const { inode } = yield* rootAt(work, place).createFile(place.path, after.bytes, after.mode, work.journal.durable)
  return { place, inode, version: work.versionOf(after.bytes) }
})

const keepOld = Effect.fnUntraced(function* (work: Work, target: PlacedTarget, index: number) {
  const { before, path } = target
  if (before === undefined) return (yield* work.root.stat(path)) === undefined ? undefined : yield* conflict(work, path, before)
  const place = placeFor(work, target, "o", index)
  const root = rootAt(work, place)
  yield* work.root.link(path, place.path, root).pipe(
    Effect.catchIf(isWithoutLinks, () => copyOld(work, target, place)),
    Effect.catchTag(["PATH_NOT_FOUND", "SYMLINK_REJECTED"], () => conflict(work, path, before)),
  )
  const kept = yield* root.readFile(place.path)
  if (kept.entry.kind !== "file" || !sameBytes(kept.bytes, before.bytes)) return yield* conflict(work, path, before)
  // Besides the target's name and this one.
  if (kept.entry.links > 2) work.shared.add(place)
  return { place, inode: kept.entry.inode }
})

/** The file system, or the owner of the file, allows no second name. */
const isWithoutLinks = hasCode("EPERM", "EMLINK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS")

const copyOld = Effect.fnUntraced(function* (work: Work, { before, path }: PlacedTarget, place: JournalPlace) {
  const now = yield* work.root.readFile(path)
  if (before === undefined || !sameBytes(now.bytes, before.bytes)) return yield* conflict(work, path, before)
  yield* rootAt(work, place).createFile(place.path, before.bytes, before.mode, work.journal.durable)
})

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
  for (const target of inOrder(staged)) {
    const { fresh, path } = target
    work.begun.add(path)
    for (const folder of target.missing) yield* makeFolder(work, folder)
    if (fresh === undefined) yield* work.root.unlink(path)
    else if (target.before === undefined) yield* putNew(work, target, fresh.place)
    else {
      yield* rootAt(work, fresh.place).rename(fresh.place.path, path, work.root)
      work.temporary.delete(fresh.place)
    }
  }
  for (const target of staged) yield* look(work, target)
})

/** A second name fails where something is, a rename would replace it. */
const putNew = (work: Work, { before, path }: StagedTarget, place: JournalPlace) =>
  rootAt(work, place)
    .link(place.path, path, work.root)
    .pipe(
      Effect.tap(() => Effect.sync(() => work.shared.add(place))),
      Effect.catchIf(hasCode("EEXIST"), () => conflict(work, path, before)),
      Effect.catchIf(isWithoutLinks, () => rootAt(work, place).rename(place.path, path, work.root)),
    )

const makeFolder = Effect.fnUntraced(function* ({ begun, root }: Work, path: ConfinedPath) {
  if ((yield* root.stat(path))?.kind === "directory") return
  begun.add(path)
  yield* root.makeDirectory(path).pipe(Effect.catchIf(hasCode("EEXIST"), () => Effect.void))
})

/** What is on disk, against the plan. */
const look = Effect.fnUntraced(function* ({ root }: Work, { after, before, path }: StagedTarget) {
  const wrong = (cause: string) => new PatchFailed({ status: "failed_rolled_back", cause, paths: [path] })
  if (after === undefined) {
    if ((yield* root.stat(path))?.kind === "file") return yield* wrong(`"${path}" is still there`)
    return
  }
  const { bytes, entry } = yield* root.readFile(path)
  if (!sameBytes(bytes, after.bytes)) return yield* wrong(`"${path}" does not hold what was written`)
  if (before !== undefined && entry.mode !== after.mode) return yield* wrong(`"${path}" does not have its mode`)
})

const runsCommands = ({ hooked, verify }: CommitRequest): boolean => hooked !== undefined || verify !== undefined

/** Lets the hooks at the files, and takes what they leave at the targets for what was planned. */
const follow = Effect.fnUntraced(function* (
  work: Work,
  staged: ReadonlyArray<StagedTarget>,
  hooked: Hooked,
  restore: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>,
) {
  const notes = yield* restore(hooked.run)
  const now = new Map<string, FileState>()
  for (const target of staged) {
    const file = yield* lookAgain(work, target)
    if (file === undefined) continue
    now.set(target.path, file)
    if (work.journal.durable) yield* work.root.syncFile(target.path)
  }
  return hooked.delta(now, notes)
})

/** What a hook has left at a target: a regular file or nothing, or a folder where the patch itself made way for one. */
const lookAgain = Effect.fnUntraced(
  function* ({ root }: Work, { after, path }: StagedTarget): Effect.fn.Return<FileState | undefined, PathFailure> {
    const there = yield* root.stat(path)
    if (there === undefined || (there.kind === "directory" && after === undefined)) return undefined
    if (there.kind !== "file") return yield* new NotAFile({ path, found: there.kind })
    const { bytes, entry } = yield* root.readFile(path)
    return { bytes, mode: entry.mode }
  },
  (looked, _work, { path }) =>
    Effect.catchTag(looked, ["NOT_A_FILE", "SYMLINK_REJECTED", "PATH_NOT_FOUND"], () =>
      Effect.fail(
        new PatchFailed({ status: "failed_rolled_back", cause: `a hook left something else than a file at "${path}"`, paths: [path] }),
      ),
    ),
)

/** From the mark on it has happened, as `last` says. */
const seal = Effect.fnUntraced(function* (work: Work, last: Delta) {
  const { delta, journaled, plan } = work
  if (plan === undefined) return last
  if (plan.durable) yield* syncTargets(work.root, plan)
  yield* conclude(journaled, "done", plan.durable, last === delta ? undefined : { ...plan, delta: last }).pipe(
    // Whoever looks finds it done, so it is.
    Effect.catch((failure) => Effect.flatMap(isMarked(journaled, "done"), (isDone) => (isDone ? Effect.void : Effect.fail(failure)))),
  )
  return last
})

/** What cannot be removed lies in the journal, and goes with the next recovery. */
const cleanUp = Effect.fnUntraced(function* (work: Work) {
  for (const path of inJournal(work)) yield* succeeds(removeIfThere(work.journaled.folder, path))
  yield* cleanPlaces(work)
})

/**
 * Takes our names off files that stay, at once: the next patch counts names, and would tell of ours as somebody's. A name
 * that is not the last one costs little to remove.
 */
const dropShared = Effect.fnUntraced(function* ({ journaled, shared, temporary }: Work) {
  for (const place of shared)
    if (place.root === "journal" && (yield* succeeds(removeIfThere(journaled.folder, place.path)))) temporary.delete(place)
})

const inJournal = ({ temporary }: Work): ReadonlyArray<ConfinedPath> =>
  [...temporary].filter(({ root }) => root === "journal").map(({ path }) => path)

const cleanPlaces = Effect.fnUntraced(function* ({ journaled, places, root }: Work) {
  for (const place of places.values()) yield* succeeds(removePrivateFolder(root, place))
  if (places.size > 0) yield* succeeds(removeMark(journaled, "places"))
})

// --- abort ----------------------------------------------------------------------------------------------------------

/** Undoes everything in reverse order, then fails with what went wrong. */
const abort = Effect.fnUntraced(function* (work: Work, cause: Cause.Cause<StepFailure>): Effect.fn.Return<never, StepFailure> {
  const { begun, isOpen, journaled, plan } = work
  const left = yield* undo(
    {
      workspace: work.root,
      journal: journaled.folder,
      isOurs: ({ fresh }, now) => Effect.succeed(isOpen || (fresh !== undefined && now.inode === fresh.inode)),
      hasMade: (folder) => begun.has(folder),
    },
    plan?.targets.filter(({ path }) => begun.has(path)) ?? [],
  )
  if (plan?.durable === true) yield* succeeds(syncTargets(work.root, plan))
  if (left.length === 0) {
    // The plan goes before what it names.
    if (plan === undefined || (yield* succeeds(removeMark(journaled, "plan")))) yield* cleanUp(work)
    return yield* Effect.failCause(cause)
  }
  // What could not be put back stays in the journal for a person to find.
  if (plan !== undefined) yield* succeeds(conclude(journaled, "stuck", plan.durable, { ...plan, left }))
  const failed = new PatchFailed({ status: "failed_partial", cause: reasonOf(cause), paths: left })
  yield* Effect.logError(
    "a patch could not be undone; earlier contents are kept",
    `${journaled.folder.path}/${journaled.name}.*`,
    failed,
    cause,
  )
  return yield* Cause.hasInterrupts(cause) || Cause.hasDies(cause) ? Effect.failCause(Cause.combine(Cause.fail(failed), cause)) : failed
})

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
    onSome: (failure) => {
      if (failure._tag === "PATCH_FAILED") return failure.cause
      return failure._tag === "VERIFY_FAILED" ? `the ${failure.hook ?? "verify command"} ${failure.cause}` : failure.message
    },
    onNone: () => (Cause.hasDies(cause) ? "a defect of the server" : "the call was interrupted"),
  })

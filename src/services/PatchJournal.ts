/**
 * The journal of a workspace's patches. It promises that no transaction stays half done: one that a server left behind is
 * undone before anything else happens in the workspace, and what became of a recorded one can be asked for until it is
 * acknowledged. Transactions of a server that lives are never touched.
 *
 * It lies in the state folder: `journal/<workspace>/<server>~<random>/`, one folder for each server that works in the
 * workspace. A folder of a dead server is taken over by renaming it, which only one of several can do. Others wait for it.
 */
import { Context, Effect, FiberHandle, Layer, Random, Scope, Semaphore } from "effect"
import type { JournalPlan, Outcome } from "../schema/Journal.ts"
import { ConfinedPath } from "../schema/Workspace.ts"
import { Digest } from "./Digest.ts"
import { Disk, DiskFault, type PathFailure, type Root } from "./Disk.ts"
import { type Journaled, markPath, readMark, removeIfThere } from "./JournalMarks.ts"
import { isRecorded, recoverFolder } from "./JournalRecovery.ts"
import { hasCode } from "./PatchUndo.ts"
import { ServerIdentity } from "./ServerIdentity.ts"
import { Workspace } from "./Workspace.ts"

export interface JournalSettings {
  /** Absolute; exists. */
  readonly stateFolder: string
  /** What a patch that was answered for survives: the end of this process, or of the machine. */
  readonly durability: "process" | "power"
}

/**
 * Where the files of a transaction lie beside its targets: in the journal, out of everybody's sight; or, where another
 * file system begins in between, in a private folder in the workspace's root, or in one right beside the target.
 */
export type Distance = "journal" | "root" | "folder"
const distances: ReadonlyArray<Distance> = ["journal", "root", "folder"]

export class PatchJournal extends Context.Service<
  PatchJournal,
  {
    /** Patches are to survive a power cut. */
    readonly durable: boolean
    /** Where the files for a target in a folder on this device lie. Ask after `begin`. */
    readonly distanceTo: (device: number) => Distance
    /** Moving a file turned out to be impossible from so far; false when it cannot come nearer. */
    readonly comeNearer: () => boolean
    /** Room for one transaction; what dead servers left unfinished in this workspace is undone first. */
    readonly begin: (operationId: string | undefined) => Effect.Effect<Journaled, PathFailure>
    /**
     * The transaction happened. Its mark is kept until it is acknowledged, when somebody recorded it; then mark and `files`
     * go, a moment later: to remove a file that is still on its way to the disk takes longer than all the rest.
     */
    readonly finished: (journaled: Journaled, files: ReadonlyArray<ConfinedPath>) => Effect.Effect<void>
    /** What became of recorded operations. One that is under way, or in another workspace's journal, has no outcome yet. */
    readonly outcomes: (operationIds: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, Outcome>, PathFailure>
    /** The outcome is recorded elsewhere now. */
    readonly acknowledge: (operationId: string) => Effect.Effect<void>
  }
>()("codespace/services/PatchJournal") {
  /** Recovers while it is built. */
  static readonly layer = (settings: JournalSettings): Layer.Layer<PatchJournal, DiskFault, Workspace | Disk | Digest | ServerIdentity> =>
    Layer.effect(PatchJournal, make(settings))
}

/** Milliseconds until the files of an acknowledged transaction are removed. */
const SWEEP_AFTER = 1000
/** Milliseconds between looks at another server's recovery, and how long to wait for it. */
const LOOK_EVERY = 10
const WAIT_LIMIT = 10_000

const recoveringSuffix = ".recovering"
const nobody = "nobody"

const random = Effect.gen(function* () {
  const parts = [yield* Random.nextIntBetween(0, 2 ** 32), yield* Random.nextIntBetween(0, 2 ** 32)]
  return parts.map((part) => part.toString(16).padStart(8, "0")).join("")
})

const make = Effect.fnUntraced(function* ({ durability, stateFolder }: JournalSettings) {
  const workspace = yield* Workspace
  const disk = yield* Disk
  const digest = yield* Digest
  const identity = yield* ServerIdentity
  const scope = yield* Effect.scope
  const state = yield* disk.open(stateFolder)
  const all = ConfinedPath.make("journal")
  const here = ConfinedPath.make(`journal/${digest.sha256(workspace.root.path).slice(0, 32)}`)
  const self = `${identity.self}~${(yield* random).slice(0, 8)}`
  const turn = yield* Semaphore.make(1)
  /** Recorded transactions of this server that happened and are not acknowledged, with the files they still have. */
  const finished = new Map<string, ReadonlyArray<ConfinedPath>>()
  const garbage: Array<ConfinedPath> = []
  const sweeper = yield* FiberHandle.make()
  let own: { readonly folder: Root; readonly name: ConfinedPath; readonly device: number } | undefined
  let rootDevice = 0
  let nearest = 0

  const folders = (below: ConfinedPath) =>
    state.list(below).pipe(
      Effect.map((entries) => entries.filter(({ kind }) => kind === "directory").map(({ name }) => name)),
      Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed([])),
    )
  const inHere = (name: string) => ConfinedPath.make(`${here}/${name}`)
  const openFolder = (path: ConfinedPath) => disk.open(`${state.path}/${path}`)
  const mine = Effect.map(random, (suffix) => `${self}~${suffix}`)

  /** Takes a dead server's folder over, settles what is in it, and keeps what somebody may still ask for. */
  const takeOver = Effect.fnUntraced(function* (name: string) {
    const claimed = inHere(`${yield* mine}${recoveringSuffix}`)
    const isTaken = yield* state.rename(inHere(name), claimed).pipe(
      Effect.as(true),
      Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(false)),
    )
    if (!isTaken) return
    yield* Effect.scoped(
      Effect.flatMap(openFolder(claimed), (journal) => recoverFolder({ workspace: workspace.root, journal, versionOf: digest.version })),
    ).pipe(
      // Given back, so that the next one begins again.
      Effect.onError(() => Effect.ignore(Effect.flatMap(random, (suffix) => state.rename(claimed, inHere(`${nobody}~${suffix}`))))),
    )
    const kept = inHere(yield* mine)
    yield* state.rename(claimed, kept)
    yield* removeIfEmpty(kept)
  }, Effect.uninterruptible)

  const removeIfEmpty = (folder: ConfinedPath) => Effect.ignore(state.removeDirectory(folder))

  /** Until no dead server's folder is left, and no other server is at work on one. */
  const recover = Effect.fnUntraced(function* () {
    for (let waited = 0; ; waited += LOOK_EVERY) {
      let isBusy = false
      for (const name of yield* folders(here)) {
        if (name.startsWith(self)) continue
        if (!identity.isAlive(name.slice(0, name.indexOf("~")))) yield* takeOver(name)
        else if (name.endsWith(recoveringSuffix)) isBusy = true
      }
      if (!isBusy) return
      if (waited >= WAIT_LIMIT)
        return yield* new DiskFault({ operation: "wait for another server's recovery of", path: workspace.root.path, code: "EBUSY" })
      yield* Effect.sleep(LOOK_EVERY)
    }
  }, turn.withPermits(1))

  const openOwn = Effect.fnUntraced(function* () {
    if (own !== undefined) return own
    const name = inHere(yield* mine)
    for (const folder of [all, here, name]) yield* state.makeDirectory(folder, 0o700).pipe(Effect.catchIf(isThere, () => Effect.void))
    const folder = yield* Scope.provide(openFolder(name), scope)
    const [at, root] = [yield* folder.stat(ConfinedPath.make("")), yield* workspace.root.stat(ConfinedPath.make(""))]
    rootDevice = root?.device ?? 0
    own = { folder, name, device: at?.device ?? 0 }
    return own
  }, turn.withPermits(1))

  const begin = Effect.fnUntraced(function* (operationId: string | undefined) {
    yield* recover()
    const { folder } = own ?? (yield* openOwn())
    return { folder, name: operationId ?? (yield* random) }
  })

  const distanceTo = (device: number): Distance => {
    const index = own?.device === device ? 0 : rootDevice === device ? 1 : 2
    return distances[Math.max(index, nearest)] ?? "folder"
  }

  /** Which of these operations have files in the journal of a workspace, and where. */
  const lookUp = Effect.fnUntraced(function* (operationIds: ReadonlySet<string>, journal: ConfinedPath) {
    const found: Array<{ readonly id: string; readonly mark: string; readonly folder: ConfinedPath }> = []
    for (const name of yield* folders(journal)) {
      const folder = ConfinedPath.make(`${journal}/${name}`)
      const files = yield* state.list(folder).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed([])))
      for (const file of files) {
        const [id = "", mark = ""] = file.name.split(".")
        if (operationIds.has(id)) found.push({ id, mark, folder })
      }
    }
    return found
  })

  /** What a mark stands for; undefined for a file that is none, or a transaction under way. */
  const outcomeOf = Effect.fnUntraced(function* (id: string, mark: string, path: ConfinedPath) {
    if (mark === "undone") return { kind: "rolled_back" } satisfies Outcome
    if (mark !== "done" && mark !== "stuck") return undefined
    const plan: JournalPlan | undefined = yield* Effect.scoped(
      Effect.flatMap(openFolder(path), (folder) => readMark({ folder, name: id }, mark)),
    )
    if (plan === undefined) return undefined
    const outcome: Outcome = mark === "done" ? { kind: "committed", delta: plan.delta } : { kind: "attention", paths: plan.left ?? [] }
    return outcome
  })

  const outcomes = Effect.fn("PatchJournal.outcomes")(function* (operationIds: ReadonlyArray<string>) {
    yield* recover()
    const asked = new Set(operationIds)
    const known = new Map<string, Outcome>()
    const seen = new Set<string>()
    for (const { folder, id, mark } of yield* lookUp(asked, here)) {
      seen.add(id)
      const outcome = yield* outcomeOf(id, mark, folder)
      if (outcome !== undefined) known.set(id, outcome)
    }
    const others = (yield* folders(all)).map((name) => ConfinedPath.make(`${all}/${name}`)).filter((journal) => journal !== here)
    for (const journal of others) for (const { id } of yield* lookUp(asked, journal)) seen.add(id)
    // What has left no file never began, or was undone by its own server.
    for (const id of asked) if (!seen.has(id)) known.set(id, { kind: "rolled_back" })
    return known
  })

  /** Through the state folder, which is still open when the layer closes. */
  const sweep = Effect.suspend(() =>
    Effect.forEach(
      garbage.splice(0),
      (file) => Effect.ignore(removeIfThere(state, ConfinedPath.make(`${own?.name}/${file}`)), { log: true }),
      {
        discard: true,
      },
    ),
  )
  const discard = (files: ReadonlyArray<ConfinedPath>) =>
    Effect.suspend(() => {
      garbage.push(...files)
      return Effect.asVoid(FiberHandle.run(sweeper, Effect.delay(sweep, SWEEP_AFTER), { onlyIfMissing: true }))
    })

  const acknowledge = Effect.fn("PatchJournal.acknowledge")(
    function* (operationId: string) {
      const files = finished.get(operationId)
      finished.delete(operationId)
      if (files !== undefined) return yield* discard(files)
      for (const { folder, id, mark } of yield* lookUp(new Set([operationId]), here)) {
        if (mark === "done" || mark === "undone") yield* removeIfThere(state, ConfinedPath.make(`${folder}/${id}.${mark}`))
        if (folder !== own?.name) yield* removeIfEmpty(folder)
      }
    },
    Effect.ignore({ log: true }),
  )

  yield* recover().pipe(Effect.mapError((failure) => faultOf(failure, here)))
  yield* Effect.addFinalizer(() => Effect.suspend(() => (own === undefined ? Effect.void : Effect.andThen(sweep, removeIfEmpty(own.name)))))

  return PatchJournal.of({
    durable: durability === "power",
    distanceTo,
    comeNearer: () => ++nearest < distances.length,
    begin,
    finished: (journaled, files) => {
      const all = [...files, markPath(journaled, "done")]
      return isRecorded(journaled.name) ? Effect.sync(() => void finished.set(journaled.name, all)) : discard(all)
    },
    outcomes,
    acknowledge,
  })
})

const isThere = hasCode("EEXIST")

const faultOf = (failure: PathFailure, path: string): DiskFault =>
  failure._tag === "DiskFault" ? failure : new DiskFault({ operation: "recover", path, code: failure._tag })

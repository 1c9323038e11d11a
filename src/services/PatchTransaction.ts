/**
 * Applies a change to a workspace's files whole or not at all, and reports what changed.
 *
 * The disk is looked at once to plan and once more right before the commit, so a change made in between by someone else
 * is met by a refusal, never overwritten. With `check_only` everything happens up to the first write.
 */
import { Context, Effect, Layer } from "effect"
import { absent, type EncodingUnsupported } from "../schema/Files.ts"
import { type Delta, type Edit, type InvalidPatch, VersionConflict } from "../schema/Patch.ts"
import { ConfinedPath, NotAFile, SpecialFileRejected, SymlinkRejected } from "../schema/Workspace.ts"
import { Digest } from "./Digest.ts"
import { type DiskFault, type Entry, type Root, refusalOf } from "./Disk.ts"
import { type CommitRefusal, type CommitRequest, type PlacedTarget, performPlan } from "./PatchCommit.ts"
import { unifiedDiff } from "./PatchDiff.ts"
import {
  type FileState,
  type Files,
  type Plan,
  type PlanRefusal,
  parse,
  plan,
  planEdits,
  planWrite,
  replanned,
  sameState,
  type Target,
  withPaths,
} from "./PatchEngine.ts"
import type { Hooks } from "./PatchHooks.ts"
import { PatchJournal } from "./PatchJournal.ts"
import { pathsOf } from "./PatchText.ts"
import { type ResolveRefusal, Workspace } from "./Workspace.ts"

/** A change as a caller names it. */
export type PatchIntent =
  | { readonly kind: "patch"; readonly patch: string }
  | { readonly kind: "edit"; readonly path: string; readonly edits: ReadonlyArray<Edit> }
  | { readonly kind: "write"; readonly path: string; readonly content: string }

export interface PatchOptions extends Pick<CommitRequest, "operationId" | "verify"> {
  /** Version by path, as written; also of paths that the change does not name. */
  readonly expected_versions?: Readonly<Record<string, string>>
  readonly check_only?: boolean
  /** The operator's commands around the patch. */
  readonly hooks?: Hooks
}

export type PatchRefusal = InvalidPatch | EncodingUnsupported | PlanRefusal | CommitRefusal | ResolveRefusal

const noHooks: Hooks = () => ({ names: [], run: Effect.succeed([]) })

/** Bytes of a preview's diff. */
const diffLimit = 30_000

export class PatchTransaction extends Context.Service<
  PatchTransaction,
  {
    /**
     * Applies the change, or refuses it with every byte and mode as it was. Interruption before the commit, or while
     * a command runs, undoes it; so does the next server when this one dies.
     */
    readonly apply: (intent: PatchIntent, options?: PatchOptions) => Effect.Effect<Delta, PatchRefusal>
  }
>()("codespace/services/PatchTransaction") {
  static readonly layer = Layer.effect(
    PatchTransaction,
    Effect.gen(function* () {
      const workspace = yield* Workspace
      const journal = yield* PatchJournal
      const digest = yield* Digest
      return PatchTransaction.of({ apply: makeApply(workspace, journal, digest) })
    }),
  )
}

const makeApply = (workspace: Workspace["Service"], journal: PatchJournal["Service"], digest: Digest["Service"]) => {
  const { root } = workspace
  const site = { root, journal, versionOf: digest.version }

  const resolveAll = Effect.fnUntraced(function* (written: ReadonlyArray<string>) {
    const resolved = new Map<string, ConfinedPath>()
    for (const path of written) resolved.set(path, yield* workspace.resolveWrite(path))
    return resolved
  })

  /** Where an expected version holds nowhere near the patch, the path only has to be readable. */
  const checkExpected = Effect.fnUntraced(function* (
    expected: Readonly<Record<string, string>>,
    named: ReadonlyMap<string, ConfinedPath>,
    files: ReadonlyMap<string, FileState>,
  ) {
    for (const [written, version] of Object.entries(expected)) {
      const path =
        named.get(written) ??
        (yield* workspace.resolveRead(written).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(undefined))))
      const file = path === undefined ? undefined : (files.get(path) ?? (yield* readState(root, path))?.state)
      const current = file === undefined ? absent : digest.version(file.bytes)
      if (current !== version) return yield* new VersionConflict({ path: path ?? written, expected: version, current })
    }
  })

  return Effect.fn("PatchTransaction.apply")(function* (intent: PatchIntent, options: PatchOptions = {}) {
    const sections = intent.kind === "patch" ? yield* Effect.fromResult(parse(intent.patch)) : []
    const named = yield* resolveAll(intent.kind === "patch" ? pathsOf(sections) : [intent.path])
    const resolved = (written: string): string => named.get(written) ?? written
    const { files, links } = yield* readAll(root, new Set(named.values()))
    yield* checkExpected(options.expected_versions ?? {}, named, files)
    const planned = yield* Effect.fromResult(
      intent.kind === "patch"
        ? plan(withPaths(sections, resolved), files, digest.version, workspace.patch.ambiguity)
        : intent.kind === "edit"
          ? planEdits(resolved(intent.path), intent.edits, files, digest.version)
          : planWrite(resolved(intent.path), intent.content, files, digest.version),
    )
    const targets = yield* placeTargets(root, planned.targets)
    const { check_only, hooks = noHooks, operationId, verify } = options
    const before = hooks("before_patch", pathsWith("before", planned.targets))
    const after = hooks("after_patch", pathsWith("after", planned.targets))
    const notes = [...planned.notes, ...linkNotes(planned.targets, links)]
    if (check_only === true) return preview(planned, [...notes, ...hookNotes("hooks would run", [...before.names, ...after.names])])
    notes.push(...(yield* before.run), ...hookNotes("hooks ran", [...before.names, ...after.names]))
    const deltaOf = (now: Files, told: ReadonlyArray<string>) =>
      delta("applied", replanned(planned, now, digest.version), [...notes, ...told, ...changeNotes(planned.targets, now)])
    const hooked = after.names.length === 0 ? undefined : { run: after.run, delta: deltaOf }
    return yield* performPlan(site, { targets, delta: delta("applied", planned, notes), operationId, hooked, verify })
  }, faultsInWords)
}

/** The files that are there on one side of the patch. */
const pathsWith = (side: "before" | "after", targets: ReadonlyArray<Target>): ReadonlyArray<string> =>
  targets.filter((target) => target[side] !== undefined).map(({ path }) => path)

const hookNotes = (what: string, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.length === 0 ? [] : [`${what}: ${names.join(", ")}`]

/** Files that a note names. */
const namedFiles = 20

/** What hooks have made of the files of a patch. */
const changeNotes = (targets: ReadonlyArray<Target>, now: Files): ReadonlyArray<string> => {
  const changed = targets.filter(({ after, path }) => !sameState(after, now.get(path))).map(({ path }) => `"${path}"`)
  if (changed.length === 0) return []
  const more = changed.length > namedFiles ? ` and ${changed.length - namedFiles} more` : ""
  return [`hooks changed ${changed.slice(0, namedFiles).join(", ")}${more}: versions and line counts are those after them`]
}

const delta = (status: "applied" | "checked", { changes }: Plan, notes: ReadonlyArray<string>): Delta => ({
  status,
  changes: changes.map(({ facts }) => facts),
  ...(notes.length > 0 ? { notes } : {}),
})

const preview = (planned: Plan, notes: ReadonlyArray<string>): Delta => {
  const { leftOut, text } = unifiedDiff(planned.changes, diffLimit)
  const cut = leftOut > 0 ? [`The diff is cut: ${leftOut} more bytes are left out.`] : []
  return { ...delta("checked", planned, [...notes, ...cut]), diff: text }
}

// --- looking at the disk --------------------------------------------------------------------------------------------

/** Undefined where nothing is. Only regular files are read. */
const readState = Effect.fnUntraced(function* (root: Root, path: ConfinedPath) {
  const file = yield* root.readFile(path).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(undefined)))
  if (file === undefined) return undefined
  if (file.entry.kind !== "file") return yield* new SpecialFileRejected({ path })
  return { state: { bytes: file.bytes, mode: file.entry.mode } satisfies FileState, links: file.entry.links }
})

const readAll = Effect.fnUntraced(function* (root: Root, paths: ReadonlySet<ConfinedPath>) {
  const files = new Map<string, FileState>()
  const links = new Map<string, number>()
  for (const path of paths) {
    const found = yield* readState(root, path)
    if (found === undefined) continue
    files.set(path, found.state)
    links.set(path, found.links)
  }
  return { files, links }
})

const linkNotes = (targets: ReadonlyArray<Target>, links: ReadonlyMap<string, number>): ReadonlyArray<string> =>
  targets.flatMap(({ after, before, path }) => {
    const count = links.get(path) ?? 1
    return before === undefined || after === undefined || count === 1
      ? []
      : [`"${path}" had ${count} hard links. This path has a file of its own now; the other names keep the old content.`]
  })

/** Finds each target's folders, and refuses where a file stands in the place of one. */
const placeTargets = Effect.fnUntraced(function* (root: Root, targets: ReadonlyArray<Target>) {
  const planned = new Map(targets.map((target) => [target.path, target]))
  const top = yield* root.stat(ConfinedPath.make(""))
  const seen = new Map<string, Entry | undefined>()
  const placed: Array<PlacedTarget> = []
  for (const { after, before, path } of targets) {
    const names = path.split("/").slice(0, -1)
    const missing: Array<ConfinedPath> = []
    let folder = ConfinedPath.make("")
    let device = top?.device ?? 0
    for (let end = 1; end <= names.length; end++) {
      const above = ConfinedPath.make(names.slice(0, end).join("/"))
      if (!seen.has(above)) seen.set(above, yield* root.stat(above))
      const there = seen.get(above)
      const kind = planned.has(above) ? (planned.get(above)?.after === undefined ? undefined : "file") : there?.kind
      if (kind === "symlink") return yield* new SymlinkRejected({ path, component: above })
      if (kind === "file" || kind === "special") return yield* new NotAFile({ path: above, found: "file where a folder is needed" })
      if (kind === "directory") {
        folder = above
        device = there?.device ?? device
      } else missing.push(above)
    }
    placed.push({ path: ConfinedPath.make(path), before, after, folder, device, missing })
  }
  return placed
})

/** Faults before the first write, as refusals. */
const faultsInWords = <A>(effect: Effect.Effect<A, PatchRefusal | DiskFault>): Effect.Effect<A, PatchRefusal> =>
  Effect.catchTag(effect, "DiskFault", (fault) => Effect.fail(refusalOf(fault)))

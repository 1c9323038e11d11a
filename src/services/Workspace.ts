/**
 * One open workspace: its root, its profile, and the way from what a caller wrote to a path it may use.
 *
 * A path that comes out of here names a place inside the root that the profile allows for this use. What is there may
 * change a moment later; Disk holds the same rules again when the path is used.
 */
import { Context, Effect, Layer, Result, type Scope } from "effect"
import type { HookSettings, PatchSettings } from "../schema/Config.ts"
import { PolicyDenied, type Profile } from "../schema/Policy.ts"
import {
  ConfinedPath,
  NotAFile,
  PathEscape,
  PathNotFound,
  PathProtected,
  type PathRefusal,
  SpecialFileRejected,
  SymlinkRejected,
  type WorkspaceId,
} from "../schema/Workspace.ts"
import { Disk, type DiskFault, type Entry, type OpenFile, type Root, refusalOf } from "./Disk.ts"
import { guardedByGitFolder } from "./GitFolder.ts"
import { lookAlikes } from "./LookAlikes.ts"
import { type DeniedLinks, deniedElsewhere, deniedLinks, deniesNothing, otherNames } from "./OtherNames.ts"
import { decide, fileAccess, refusalOf as refusalOfDecision } from "./Policy.ts"
import { isPrivate } from "./PrivateFolder.ts"
import type { Confines } from "./Sandbox.ts"

export type ResolveRefusal = PathRefusal | PolicyDenied | ReturnType<typeof refusalOf>

export interface WorkspaceSettings {
  readonly id: WorkspaceId
  /** An absolute path as the operator wrote it; links in it are resolved once. */
  readonly root: string
  readonly profile: Profile
  readonly sandbox: Confines["sandbox"]
  readonly patch: PatchSettings
  readonly hooks: HookSettings
}

export class Workspace extends Context.Service<
  Workspace,
  {
    readonly id: WorkspaceId
    readonly profile: Profile
    /** Whether the operator wants its commands confined. */
    readonly sandbox: Confines["sandbox"]
    /** How the operator wants patches to be made here. */
    readonly patch: PatchSettings
    /** The commands that the operator has run around patches here. */
    readonly hooks: HookSettings
    readonly root: Root
    /** A path that exists and may be read; links are followed to what they name inside the root. */
    readonly resolveRead: (written: string) => Effect.Effect<ConfinedPath, ResolveRefusal>
    /** The same, opened for reading in one step until the scope ends. */
    readonly openRead: (
      written: string,
    ) => Effect.Effect<{ readonly path: ConfinedPath; readonly file: OpenFile }, ResolveRefusal, Scope.Scope>
    /** A path where a file may be written; there may be a regular file or nothing. No component is a link. */
    readonly resolveWrite: (written: string) => Effect.Effect<ConfinedPath, ResolveRefusal>
    /** A folder that exists and may be read, for a command to run in. */
    readonly resolveFolder: (written: string) => Effect.Effect<ConfinedPath, ResolveRefusal>
    /** Whether the profile shows this path at all. */
    readonly canRead: (path: ConfinedPath) => boolean
    /** Paths that the profile shows, of files that it denies under another name; looked for anew, though not more often than every other second. */
    readonly deniedNames: Effect.Effect<ReadonlySet<string>>
  }
>()("codespace/services/Workspace") {
  /** Opens the root until the layer closes. */
  static readonly layer = (settings: WorkspaceSettings): Layer.Layer<Workspace, DiskFault, Disk> =>
    Layer.effect(
      Workspace,
      Effect.gen(function* () {
        const disk = yield* Disk
        return yield* onRoot(settings, yield* disk.open(settings.root))
      }),
    )

  /** An open workspace under a stricter profile. */
  static readonly layerUnder = (open: Workspace["Service"], settings: WorkspaceSettings): Layer.Layer<Workspace> =>
    Layer.effect(Workspace, onRoot(settings, open.root))
}

/** What a command in a workspace is held to. */
export const confinesOf = ({ id, profile, root, sandbox }: Workspace["Service"]): Confines => ({
  workspaceId: id,
  root: root.path,
  profile,
  sandbox,
})

/**
 * The normal form of what a caller wrote, without looking at the disk. An absolute path must lie below one of the
 * spellings of the root. What leaves the root, is empty, or holds a NUL is an escape.
 */
export const confine = (roots: ReadonlyArray<string>, written: string): Result.Result<ConfinedPath, PathEscape> => {
  const outside = () => Result.fail(new PathEscape({ path: written }))
  if (written === "" || written.includes("\0")) return outside()
  const names: Array<string> = []
  const relative = belowRoot(roots, written)
  for (const name of relative?.split("/") ?? [".."]) {
    if (name === "" || name === ".") continue
    if (name !== "..") names.push(name)
    else if (names.pop() === undefined) return outside()
  }
  return Result.succeed(ConfinedPath.make(names.join("/")))
}

/** A relative path as it is, an absolute one without the root it starts with; undefined outside of all roots. */
const belowRoot = (roots: ReadonlyArray<string>, path: string): string | undefined => {
  if (!path.startsWith("/")) return path
  for (const root of roots) {
    const folder = root.endsWith("/") ? root : `${root}/`
    if (path.startsWith(folder)) return path.slice(folder.length)
    if (`${path}/` === folder) return "."
  }
  return undefined
}

/** How long is known which denied files have other names. */
const LINKS_KEPT = "2 seconds"

const noNames: ReadonlySet<string> = new Set()

/** As many links as Linux follows in one path. */
const maximumLinks = 40

const onRoot = Effect.fnUntraced(function* (settings: WorkspaceSettings, root: Root) {
  const links = yield* Effect.cachedWithTTL(deniedLinks(root, settings.profile), LINKS_KEPT)
  const names = yield* Effect.cachedWithTTL(
    Effect.flatMap(links, (denied) => otherNames(root, settings.profile, denied)),
    LINKS_KEPT,
  )
  return makeWorkspace(settings, root, links, names)
})

const makeWorkspace = (
  { hooks, id, patch, profile, root: rootAsWritten, sandbox }: WorkspaceSettings,
  root: Root,
  links: Effect.Effect<DeniedLinks>,
  names: Effect.Effect<ReadonlySet<string>>,
): Workspace["Service"] => {
  const roots = [root.path, rootAsWritten]
  const hidesNothing = deniesNothing(profile)
  const canRead = (path: ConfinedPath) => !isPrivate(path) && (hidesNothing || fileAccess(profile, path).access !== "deny")

  const allowed = (path: ConfinedPath, use: "read" | "write") =>
    Effect.suspend(() => {
      if (isPrivate(path)) return Effect.fail(new PathProtected({ path, rule: "the server keeps files of a patch there" }))
      const refusal = refusalOfDecision(profile, decide(profile, { [use]: [path] }))
      return refusal === undefined ? Effect.succeed(path) : Effect.fail(refusal)
    })

  /** Lets an entry through that is no other name of what the profile denies. */
  const only = <E extends Entry | undefined>(entry: E, path: ConfinedPath, use: "reading" | "writing"): Effect.Effect<E, PolicyDenied> => {
    if (hidesNothing || entry === undefined || entry.links < 2 || entry.kind !== "file") return Effect.succeed(entry)
    return Effect.flatMap(links, (denied) => {
      const rule = deniedElsewhere(denied, entry)
      const subject = `${use} "${path}", which is another name of a file that it denies`
      return rule === undefined ? Effect.succeed(entry) : Effect.fail(new PolicyDenied({ profile: profile.name, rule, subject }))
    })
  }

  const notFound = Effect.fnUntraced(function* (path: ConfinedPath) {
    const similar = yield* lookAlikes(root, canRead, path)
    return yield* new PathNotFound({ path, ...(similar.length > 0 ? { similar } : {}) })
  })

  /** What is at the end of a path, and the path without links. */
  const follow = Effect.fnUntraced(function* (written: string) {
    const path = yield* allowed(yield* Effect.fromResult(confine(roots, written)), "read")
    const entry = yield* root.stat(path).pipe(Effect.catchTag("SYMLINK_REJECTED", () => Effect.succeed("passes a link" as const)))
    if (entry === undefined) return yield* notFound(path)
    if (entry !== "passes a link" && entry.kind !== "symlink") return { path, entry: yield* only(entry, path, "reading") }
    return yield* followLinks(path, written)
  })

  /** Goes name by name, so that `..` in a link's text means the folder it stands in for the system too. */
  const followLinks = Effect.fnUntraced(function* (path: ConfinedPath, written: string) {
    const outside = new PathEscape({ path: written })
    const ahead = path.split("/").reverse()
    const names: Array<string> = []
    let links = 0
    let entry: Entry | undefined
    for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
      if (name === "" || name === ".") continue
      if (name === "..") {
        if (names.pop() === undefined) return yield* outside
        continue
      }
      const here = ConfinedPath.make([...names, name].join("/"))
      entry = yield* root.stat(here)
      if (entry === undefined) return yield* notFound(yield* allowed(here, "read"))
      if (entry.kind !== "symlink") {
        names.push(name)
        continue
      }
      if (++links > maximumLinks) return yield* new SymlinkRejected({ path, component: here })
      const target = yield* root.readLink(here)
      const relative = belowRoot(roots, target)
      if (relative === undefined) return yield* outside
      if (target.startsWith("/")) names.length = 0
      ahead.push(...relative.split("/").reverse())
    }
    const end = yield* allowed(ConfinedPath.make(names.join("/")), "read")
    entry = yield* only(yield* root.stat(end), end, "reading")
    return entry === undefined ? yield* notFound(end) : { path: end, entry }
  })

  const resolveRead = Effect.fnUntraced(function* (written: string) {
    return (yield* follow(written)).path
  }, inWords)

  const openAt = (path: ConfinedPath) =>
    Effect.flatMap(root.open(path), (file) => Effect.as(only(file.entry, path, "reading"), { path, file }))
  const openRead = Effect.fnUntraced(function* (written: string) {
    const path = yield* allowed(yield* Effect.fromResult(confine(roots, written)), "read")
    // Most paths have no link in them, and then there is nothing to look at before the file itself.
    return yield* openAt(path).pipe(
      Effect.catchTags({
        SYMLINK_REJECTED: () => Effect.flatMap(followLinks(path, written), (end) => openAt(end.path)),
        PATH_NOT_FOUND: () => notFound(path),
      }),
    )
  }, inWords)

  const resolveFolder = Effect.fnUntraced(function* (written: string) {
    const { path, entry } = yield* follow(written)
    return entry.kind === "directory" ? path : yield* new PathNotFound({ path: `${path}/` })
  }, inWords)

  const resolveWrite = Effect.fnUntraced(function* (written: string) {
    const path = yield* allowed(yield* Effect.fromResult(confine(roots, written)), "write")
    const rule = yield* guardedByGitFolder(root, path)
    if (rule !== undefined) return yield* new PathProtected({ path, rule })
    const entry = yield* only(yield* root.stat(path), path, "writing")
    switch (entry?.kind) {
      case "directory":
        return yield* new NotAFile({ path, found: "directory" })
      case "symlink":
        return yield* new SymlinkRejected({ path, component: path })
      case "special":
        return yield* new SpecialFileRejected({ path })
      default:
        return path
    }
  }, inWords)

  const deniedNames = hidesNothing ? Effect.succeed(noNames) : names

  return Workspace.of({
    ...{ id, profile, sandbox, patch, hooks, root },
    ...{ resolveRead, openRead, resolveWrite, resolveFolder, canRead, deniedNames },
  })
}

/** Faults of the disk as refusals; the rest are refusals already. */
const inWords = <A, R>(effect: Effect.Effect<A, ResolveRefusal | DiskFault, R>): Effect.Effect<A, ResolveRefusal, R> =>
  Effect.catchTag(effect, "DiskFault", (fault) => Effect.fail(refusalOf(fault)))

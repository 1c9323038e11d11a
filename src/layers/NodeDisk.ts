/**
 * Disk over node:fs, synchronous: a call on a local disk takes less time than handing it to a thread. How it keeps away
 * from links is the business of its walk.
 */
import * as fs from "node:fs"
import { Effect, Layer } from "effect"
import { type ConfinedPath, ConfinedPath as makePath, NotAFile, PathNotFound, SymlinkRejected } from "../schema/Workspace.ts"
import { Disk, DiskFault, type Entry, type OpenFile, type PathFailure, type Root } from "../services/Disk.ts"
import { codeOf, entryOf, errno, hasDescriptorPaths, kindOf, namesOf, type Walk, walkByDescriptors, walkByNames } from "./NodeWalk.ts"

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW = 0, O_RDONLY, O_WRONLY } = fs.constants

export const layerDescriptors = Layer.succeed(Disk, { open: (root) => openRoot(root, walkByDescriptors) })

export const layerPortable = Layer.succeed(Disk, { open: (root) => openRoot(root, walkByNames) })

/** The safer of the two ways that works on this machine. */
export const layer = Layer.unwrap(Effect.sync(() => (hasDescriptorPaths() ? layerDescriptors : layerPortable)))

/** An open folder: the way into it, until it is closed. */
class OpenFolder {
  readonly real: string
  readonly #walk: Walk
  #isOpen = true
  constructor(real: string, walk: Walk) {
    this.real = real
    this.#walk = walk
  }
  /** The number of a closed descriptor may belong to another file by now. */
  get walk(): Walk {
    if (!this.#isOpen) throw errno("EBADF")
    return this.#walk
  }
  close(): void {
    this.#isOpen = false
    this.#walk.close()
  }
}

const openRoot = Effect.fn("Disk.open")(function* (root: string, makeWalk: (real: string) => Walk) {
  const folder = yield* Effect.acquireRelease(
    Effect.try({
      try: () => {
        const real = fs.realpathSync.native(root)
        return new OpenFolder(real, makeWalk(real))
      },
      catch: (cause) => new DiskFault({ operation: "open workspace", path: root, code: codeOf(cause) }),
    }),
    (opened) => Effect.sync(() => opened.close()),
  )
  return makeRoot(folder)
})

/** The folder behind a root that another root was given. */
const folderOf = ({ handle, path }: Root): OpenFolder => {
  if (handle instanceof OpenFolder) return handle
  throw new Error(`"${path}" was opened by another disk`)
}

const makeRoot = (folder: OpenFolder): Root => {
  const attempt = <A>(operation: string, path: ConfinedPath, run: (walk: Walk) => A): Effect.Effect<A, PathFailure> =>
    Effect.try({ try: () => run(folder.walk), catch: (cause) => explain(folder, operation, path, codeOf(cause)) })
  const change = (operation: string, path: ConfinedPath, use: (place: string) => void) =>
    attempt(operation, path, (walk) => walk.at(path, use))
  const changeBoth = (
    operation: string,
    from: ConfinedPath,
    to: ConfinedPath,
    into: Root | undefined,
    use: (from: string, to: string) => void,
  ): Effect.Effect<void, PathFailure> =>
    Effect.suspend(() => {
      const other = into === undefined ? folder : folderOf(into)
      return Effect.try({
        try: () => folder.walk.at(from, (old) => other.walk.at(to, (place) => use(old, place))),
        catch: (cause) => {
          const code = codeOf(cause)
          return code === "ELOOP" || !isThere(folder, from) ? explain(folder, operation, from, code) : explain(other, operation, to, code)
        },
      })
    })
  return {
    path: folder.real,
    handle: folder,
    stat: (path) =>
      attempt("stat", path, (walk) => statAt(walk, path)).pipe(
        Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(undefined)),
        Effect.catchTag("NOT_A_FILE", () => Effect.succeed(undefined)),
      ),
    list: (path) => attempt("list", path, (walk) => walk.list(path).map((entry) => ({ name: entry.name, kind: kindOf(entry) }))),
    readLink: (path) => attempt("read link", path, (walk) => walk.at(path, (place) => fs.readlinkSync(place))),
    open: (path) =>
      Effect.acquireRelease(
        attempt("open", path, (walk) => walk.open(path)),
        ({ descriptor }) => Effect.sync(() => descriptor !== undefined && fs.closeSync(descriptor)),
      ).pipe(Effect.map(({ entry, descriptor }) => openFile(path, entry, descriptor))),
    readFile: (path) => attempt("read", path, (walk) => readWhole(walk, path)),
    createFile: (path, bytes, mode, durable = false) =>
      attempt("create", path, (walk) => walk.at(path, (place) => createAt(place, bytes, mode, durable))),
    makeDirectory: (path, mode) => change("make folder", path, (place) => void fs.mkdirSync(place, { mode: mode ?? 0o777 })),
    removeDirectory: (path) => change("remove folder", path, (place) => fs.rmdirSync(place)),
    rename: (from, to, into) => changeBoth("rename", from, to, into, (old, place) => fs.renameSync(old, place)),
    link: (from, to, into) => changeBoth("link", from, to, into, linkAt),
    unlink: (path) => change("unlink", path, (place) => fs.unlinkSync(place)),
    syncDirectory: (path) => change("sync folder", path, syncAt),
  }
}

const openFile = (path: ConfinedPath, entry: Entry, descriptor: number | undefined): OpenFile => ({
  entry,
  read: (position, length) =>
    Effect.try({
      try: () => {
        if (descriptor === undefined) throw errno("EINVAL")
        const bytes = Buffer.allocUnsafe(length)
        return bytes.subarray(0, readFully(descriptor, bytes, position))
      },
      catch: (cause) => new DiskFault({ operation: "read", path, code: codeOf(cause) }),
    }),
})

/** How many bytes were there; fewer than asked for only at the end of the file. */
const readFully = (descriptor: number, bytes: Uint8Array, position: number): number => {
  let filled = 0
  while (filled < bytes.length) {
    const count = fs.readSync(descriptor, bytes, filled, bytes.length - filled, position + filled)
    if (count === 0) break
    filled += count
  }
  return filled
}

const readWhole = (walk: Walk, path: ConfinedPath) => {
  const { entry, descriptor } = walk.open(path)
  if (descriptor === undefined) return { entry, bytes: new Uint8Array(0) }
  try {
    return { entry, bytes: fs.readFileSync(descriptor) }
  } finally {
    fs.closeSync(descriptor)
  }
}

/** The mode is exact before the first byte is written, and a file that could not be filled does not stay. */
const createAt = (place: string, bytes: Uint8Array, mode: number, durable: boolean): Entry => {
  const descriptor = fs.openSync(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode & 0o600)
  try {
    fs.fchmodSync(descriptor, mode)
    let written = 0
    while (written < bytes.length) written += fs.writeSync(descriptor, bytes, written)
    if (durable) fs.fsyncSync(descriptor)
    return entryOf(fs.fstatSync(descriptor))
  } catch (cause) {
    fs.unlinkSync(place)
    throw cause
  } finally {
    fs.closeSync(descriptor)
  }
}

const syncAt = (place: string): void => {
  const descriptor = fs.openSync(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}

/** The look comes first because link(2) follows links on some systems. */
const linkAt = (from: string, to: string): void => {
  if (fs.lstatSync(from).isSymbolicLink()) throw errno("ELOOP")
  fs.linkSync(from, to)
}

const statAt = (walk: Walk, path: ConfinedPath): Entry | undefined => {
  const stats = walk.at(path, (place) => fs.lstatSync(place, { throwIfNoEntry: false }))
  return stats && entryOf(stats)
}

const explain = (folder: OpenFolder, operation: string, path: ConfinedPath, code: string): PathFailure => {
  switch (code) {
    case "ENOENT":
      return new PathNotFound({ path })
    case "EISDIR":
      return new NotAFile({ path, found: "directory" })
    case "ELOOP":
      return new SymlinkRejected({ path, component: firstLink(folder, path) ?? path })
    case "ENOTDIR": {
      const component = firstLink(folder, path)
      return component === undefined ? new PathNotFound({ path }) : new SymlinkRejected({ path, component })
    }
    default:
      return new DiskFault({ operation, path, code })
  }
}

const isThere = (folder: OpenFolder, path: ConfinedPath): boolean => {
  try {
    return statAt(folder.walk, path) !== undefined
  } catch (cause) {
    codeOf(cause)
    return false
  }
}

/** The first component that is a link, if one still is. */
const firstLink = (folder: OpenFolder, path: ConfinedPath): string | undefined => {
  const names = namesOf(path)
  for (let end = 1; end <= names.length; end++) {
    const component = makePath.make(names.slice(0, end).join("/"))
    try {
      if (statAt(folder.walk, component)?.kind === "symlink") return component
    } catch (cause) {
      codeOf(cause)
      return undefined
    }
  }
  return undefined
}

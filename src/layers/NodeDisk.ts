/**
 * Disk over node:fs, synchronous: a call on a local disk takes less time than handing it to a thread. How it keeps away
 * from links is the business of its walk.
 */
import * as fs from "node:fs"
import { Effect, Layer } from "effect"
import { type ConfinedPath, ConfinedPath as makePath, NotAFile, PathNotFound, SymlinkRejected } from "../schema/Workspace.ts"
import { Disk, DiskFault, type Entry, type OpenFile, type PathFailure, type Root } from "../services/Disk.ts"
import { codeOf, entryOf, errno, hasDescriptorPaths, kindOf, namesOf, type Walk, walkByDescriptors, walkByNames } from "./NodeWalk.ts"

const { O_CREAT, O_EXCL, O_NOFOLLOW = 0, O_WRONLY } = fs.constants

export const layerDescriptors = Layer.succeed(Disk, { open: (root) => openRoot(root, walkByDescriptors) })

export const layerPortable = Layer.succeed(Disk, { open: (root) => openRoot(root, walkByNames) })

/** The safer of the two ways that works on this machine. */
export const layer = Layer.unwrap(Effect.sync(() => (hasDescriptorPaths() ? layerDescriptors : layerPortable)))

const openRoot = Effect.fn("Disk.open")(function* (root: string, makeWalk: (real: string) => Walk) {
  const { real, walk, status } = yield* Effect.acquireRelease(
    Effect.try({
      try: () => {
        const real = fs.realpathSync.native(root)
        return { real, walk: makeWalk(real), status: { isOpen: true } }
      },
      catch: (cause) => new DiskFault({ operation: "open workspace", path: root, code: codeOf(cause) }),
    }),
    ({ walk, status }) =>
      Effect.sync(() => {
        status.isOpen = false
        walk.close()
      }),
  )
  return makeRoot(real, walk, status)
})

const makeRoot = (real: string, walk: Walk, status: { readonly isOpen: boolean }): Root => {
  const attempt = <A>(operation: string, path: ConfinedPath, run: () => A, from = path): Effect.Effect<A, PathFailure> =>
    Effect.try({
      try: () => {
        // The number of a closed descriptor may belong to another file by now.
        if (!status.isOpen) throw errno("EBADF")
        return run()
      },
      catch: (cause) => {
        const code = codeOf(cause)
        return explain(walk, operation, code === "ELOOP" || !isThere(walk, from) ? from : path, code)
      },
    })
  const change = (operation: string, path: ConfinedPath, use: (place: string) => void) => attempt(operation, path, () => walk.at(path, use))
  const changeBoth = (operation: string, from: ConfinedPath, to: ConfinedPath, use: (from: string, to: string) => void) =>
    attempt(operation, to, () => walk.at(from, (old) => walk.at(to, (place) => use(old, place))), from)
  return {
    path: real,
    stat: (path) =>
      attempt("stat", path, () => statAt(walk, path)).pipe(
        Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(undefined)),
        Effect.catchTag("NOT_A_FILE", () => Effect.succeed(undefined)),
      ),
    list: (path) => attempt("list", path, () => walk.list(path).map((entry) => ({ name: entry.name, kind: kindOf(entry) }))),
    readLink: (path) => attempt("read link", path, () => walk.at(path, (place) => fs.readlinkSync(place))),
    open: (path) =>
      Effect.acquireRelease(
        attempt("open", path, () => walk.open(path)),
        ({ descriptor }) => Effect.sync(() => descriptor !== undefined && fs.closeSync(descriptor)),
      ).pipe(Effect.map(({ entry, descriptor }) => openFile(path, entry, descriptor))),
    readFile: (path) => attempt("read", path, () => readWhole(walk, path)),
    createFile: (path, bytes, mode) => change("create", path, (place) => createAt(place, bytes, mode)),
    makeDirectory: (path) => change("make folder", path, (place) => fs.mkdirSync(place)),
    removeDirectory: (path) => change("remove folder", path, (place) => fs.rmdirSync(place)),
    rename: (from, to) => changeBoth("rename", from, to, (old, place) => fs.renameSync(old, place)),
    link: (from, to) => changeBoth("link", from, to, linkAt),
    unlink: (path) => change("unlink", path, (place) => fs.unlinkSync(place)),
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
const createAt = (place: string, bytes: Uint8Array, mode: number): void => {
  const descriptor = fs.openSync(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode & 0o600)
  try {
    fs.fchmodSync(descriptor, mode)
    let written = 0
    while (written < bytes.length) written += fs.writeSync(descriptor, bytes, written)
  } catch (cause) {
    fs.unlinkSync(place)
    throw cause
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

const explain = (walk: Walk, operation: string, path: ConfinedPath, code: string): PathFailure => {
  switch (code) {
    case "ENOENT":
      return new PathNotFound({ path })
    case "EISDIR":
      return new NotAFile({ path, found: "directory" })
    case "ELOOP":
      return new SymlinkRejected({ path, component: firstLink(walk, path) ?? path })
    case "ENOTDIR": {
      const component = firstLink(walk, path)
      return component === undefined ? new PathNotFound({ path }) : new SymlinkRejected({ path, component })
    }
    default:
      return new DiskFault({ operation, path, code })
  }
}

const isThere = (walk: Walk, path: ConfinedPath): boolean => {
  try {
    return statAt(walk, path) !== undefined
  } catch (cause) {
    codeOf(cause)
    return false
  }
}

/** The first component that is a link, if one still is. */
const firstLink = (walk: Walk, path: ConfinedPath): string | undefined => {
  const names = namesOf(path)
  for (let end = 1; end <= names.length; end++) {
    const component = makePath.make(names.slice(0, end).join("/"))
    try {
      if (statAt(walk, component)?.kind === "symlink") return component
    } catch (cause) {
      codeOf(cause)
      return undefined
    }
  }
  return undefined
}

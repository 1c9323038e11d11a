/**
 * Two ways from a path to something node:fs can use without following a link.
 *
 * By descriptors, where the system names open ones in `/proc/self/fd`: a folder is opened first, then it is made sure
 * that no link led there, and only then is it used, by its descriptor; so a folder exchanged for a link in mid-call
 * changes nothing. By names elsewhere: each component is looked at before use. Last components are safe there too, but a
 * folder above may be exchanged in the short time between look and use.
 */
import * as fs from "node:fs"
import { Predicate } from "effect"
import type { ConfinedPath } from "../schema/Workspace.ts"
import type { Entry } from "../services/Disk.ts"

const { O_DIRECTORY, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY } = fs.constants
/** Linux: a descriptor that names a place and opens nothing there. Node does not export it. */
const O_PATH = 0o10000000

/** How a path becomes something node:fs can use without meeting a link. What these throw is an errno error. */
export interface Walk {
  /** Calls `use` with a path whose last component is still unchecked and all before it are folders, no links. */
  readonly at: <A>(path: ConfinedPath, use: (place: string) => A) => A
  /** The names in a folder that is no link. */
  readonly list: (path: ConfinedPath) => Array<fs.Dirent>
  /** Opens what is no link for reading. A pipe, device or socket yields its entry and no descriptor. */
  readonly open: (path: ConfinedPath) => { readonly entry: Entry; readonly descriptor: number | undefined }
  readonly close: () => void
}

const placeIn = (descriptor: number, name: string) => `/proc/self/fd/${descriptor}/${name}`

export const hasDescriptorPaths = (): boolean => {
  if (process.platform !== "linux") return false
  const descriptor = fs.openSync("/", O_PATH | O_DIRECTORY)
  try {
    return fs.lstatSync(placeIn(descriptor, "."), { throwIfNoEntry: false })?.ino === fs.statSync("/").ino
  } finally {
    fs.closeSync(descriptor)
  }
}

/** Undefined where it cannot be opened; the careful way will say why. */
const openOrNothing = (place: string): number | undefined => {
  try {
    return fs.openSync(place, O_PATH | O_DIRECTORY | O_NOFOLLOW)
  } catch (cause) {
    codeOf(cause)
    return undefined
  }
}

const targetOf = (descriptor: number): string | undefined => {
  try {
    return fs.readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch (cause) {
    codeOf(cause)
    return undefined
  }
}

export const walkByDescriptors = (real: string): Walk => {
  const root = fs.openSync(real, O_PATH | O_DIRECTORY | O_NOFOLLOW)
  const base = real === "/" ? "" : real
  /** Opens the folder in one step, and keeps it when the system says that it lies where its name says. */
  const openAtOnce = (names: ReadonlyArray<string>): number | undefined => {
    const path = names.join("/")
    const folder = openOrNothing(placeIn(root, path))
    if (folder === undefined || targetOf(folder) === `${base}/${path}`) return folder
    fs.closeSync(folder)
    return undefined
  }
  /** Opens name by name, and meets every link on the way. */
  const openByNames = (names: ReadonlyArray<string>): number => {
    let folder = root
    try {
      for (const name of names) {
        const next = fs.openSync(placeIn(folder, name), O_PATH | O_DIRECTORY | O_NOFOLLOW)
        if (folder !== root) fs.closeSync(folder)
        folder = next
      }
      return folder
    } catch (cause) {
      if (folder !== root) fs.closeSync(folder)
      throw cause
    }
  }
  const inFolder = <A>(names: ReadonlyArray<string>, use: (folder: number) => A): A => {
    const folder = (names.length > 1 ? openAtOnce(names) : undefined) ?? openByNames(names)
    try {
      return use(folder)
    } finally {
      if (folder !== root) fs.closeSync(folder)
    }
  }
  const at: Walk["at"] = (path, use) => {
    const names = namesOf(path)
    const last = names.pop() ?? "."
    return inFolder(names, (folder) => use(placeIn(folder, last)))
  }
  return {
    at,
    list: (path) => inFolder(namesOf(path), (folder) => fs.readdirSync(placeIn(folder, "."), { withFileTypes: true })),
    open: (path) =>
      at(path, (place) => {
        // Names the file without opening it; what it is decides whether it is opened, and that cannot change any more.
        const named = fs.openSync(place, O_PATH | O_NOFOLLOW)
        try {
          const entry = readable(entryOf(fs.fstatSync(named)))
          return { entry, descriptor: entry.kind === "file" ? fs.openSync(`/proc/self/fd/${named}`, O_RDONLY) : undefined }
        } finally {
          fs.closeSync(named)
        }
      }),
    close: () => fs.closeSync(root),
  }
}

export const walkByNames = (real: string): Walk => {
  if (!fs.statSync(real).isDirectory()) throw errno("ENOTDIR")
  const base = real.endsWith("/") ? real.slice(0, -1) : real
  const at: Walk["at"] = (path, use) => {
    const names = namesOf(path)
    const last = names.pop()
    let place = base
    for (const name of names) {
      place = `${place}/${name}`
      if (!fs.lstatSync(place).isDirectory()) throw errno("ENOTDIR")
    }
    return use(last === undefined ? `${place}/.` : `${place}/${last}`)
  }
  return {
    at,
    list: (path) =>
      at(path, (place) => {
        if (!fs.lstatSync(place).isDirectory()) throw errno("ENOTDIR")
        return fs.readdirSync(place, { withFileTypes: true })
      }),
    open: (path) =>
      at(path, (place) => {
        const seen = readable(entryOf(fs.lstatSync(place)))
        if (seen.kind !== "file") return { entry: seen, descriptor: undefined }
        const descriptor = fs.openSync(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        const entry = entryOf(fs.fstatSync(descriptor))
        if (entry.kind === "file") return { entry, descriptor }
        fs.closeSync(descriptor)
        return { entry: readable(entry), descriptor: undefined }
      }),
    close: () => {},
  }
}

/** The components of a path in normal form; one that is not in it never reaches the system. */
export const namesOf = (path: ConfinedPath): Array<string> => {
  if (path === "") return []
  if (notNormal.test(path)) throw errno("EINVAL")
  return path.split("/")
}

const notNormal = /(?:^|\/)\.{0,2}(?:\/|$)|\0/u

export const kindOf = (stats: fs.Stats | fs.Dirent): Entry["kind"] =>
  stats.isFile() ? "file" : stats.isDirectory() ? "directory" : stats.isSymbolicLink() ? "symlink" : "special"

export const entryOf = (stats: fs.Stats): Entry => ({
  kind: kindOf(stats),
  size: stats.size,
  mode: stats.mode & 0o7777,
  links: stats.nlink,
  device: stats.dev,
  inode: stats.ino,
})

/** What may be handed out as an open file; folders and links are errors of the caller. */
const readable = (entry: Entry): Entry => {
  if (entry.kind === "directory") throw errno("EISDIR")
  if (entry.kind === "symlink") throw errno("ELOOP")
  return entry
}

export const errno = (code: string) => Object.assign(new Error(code), { code })

/** The system's name for an error; anything else that was thrown is a defect and goes on. */
export const codeOf = (cause: unknown): string => {
  if (Predicate.hasProperty(cause, "code") && typeof cause.code === "string" && /^E[A-Z0-9]+$/.test(cause.code)) return cause.code
  throw cause
}

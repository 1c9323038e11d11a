/**
 * What git's own work may change is recorded before it begins: configurations, and what says where a submodule's repository
 * is. Afterwards every setting that differs is looked at; what is no such work puts the old text back, and a submodule that
 * came to be keeps nothing that makes git run programs.
 */
import { randomBytes } from "node:crypto"
import { chownSync, existsSync, lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { configText, ofWork, settingsOf, strangeChange } from "../services/GitConfig.ts"
import { isBelow, type Mount } from "../services/MountPlan.ts"
import { foldersIn } from "./Entries.ts"
import type { FoundGit } from "./GitBelow.ts"
import { namedBy, pinsBetween } from "./GitFolders.ts"
import { hooksIn } from "./GitHooks.ts"

/** What was there before. Texts are bytes, one a letter. */
export interface Before {
  readonly root: string
  /** Where it may write. */
  readonly places: ReadonlyArray<string>
  /** Git folders, those of submodules and worktrees included. */
  readonly folders: ReadonlyArray<string>
  readonly configs: Readonly<Record<string, string>>
  /** What a `.git` that is a file says. */
  readonly pointers: Readonly<Record<string, string>>
  /** Locks of configurations that somebody had left. */
  readonly locks: ReadonlyArray<string>
}

export const recordOf = ({ folders, pointers }: FoundGit, root: string, places: ReadonlyArray<string>): Before => {
  const own = folders.filter((folder) => places.some((place) => isBelow(place, folder)))
  const configs = own.map((folder) => join(folder, "config"))
  return {
    root,
    places,
    folders: own,
    configs: textsOf(configs),
    pointers: textsOf(pointers.filter((path) => isBelow(root, path) && dirname(path) !== root)),
    locks: configs.map((path) => `${path}.lock`).filter((path) => existsSync(path)),
  }
}

const textsOf = (paths: ReadonlyArray<string>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    paths.flatMap((path) => {
      const text = textAt(path)
      return text === undefined ? [] : [[path, text]]
    }),
  )

export const readRecord = (path: string): Before | undefined => {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Before
  } catch {
    // Half of one was never in force.
    return undefined
  }
}

/** Configurations, and what says where a submodule's repository is, are left out; so is what holds the folders around that. */
export const keeperOf = ({ configs, pointers, root }: Before) => {
  const files = new Set([...Object.keys(configs), ...Object.keys(pointers)])
  const held = new Set(Object.keys(pointers).flatMap((path) => pinsBetween(root, path).map((pin) => pin.path)))
  return (mount: Mount): boolean => !(mount.kind === "read" && files.has(mount.path)) && !(mount.kind === "pin" && held.has(mount.path))
}

/** Puts right what is no work of git's own; gives a note for each. Nothing is done twice. */
export const settle = (record: Before): ReadonlyArray<string> => {
  const { configs, folders, locks, pointers, root } = record
  const shown = (path: string): string => (isBelow(root, path) ? path.slice(root.length + 1) : path)
  const notes: Array<string> = []
  for (const [path, before] of Object.entries(configs)) {
    if (!existsSync(dirname(path))) continue
    const now = textAt(path)
    if (now === before) continue
    const [was, is] = [settingsOf(before), now === undefined ? undefined : settingsOf(now)]
    const strange = was === undefined || is === undefined ? "its form" : strangeChange(was, is, placeOf(record, dirname(path), false))
    if (strange === undefined) continue
    putText(path, before)
    notes.push(`"${shown(path)}" was put back, since ${strange} had been changed in it`)
  }
  for (const path of Object.keys(configs).map((config) => `${config}.lock`))
    if (!locks.includes(path) && existsSync(path)) rmSync(path, { force: true })
  for (const folder of newModules(folders))
    notes.push(...cleaned(record, folder).map((what) => `${what} in "${shown(folder)}" was taken away`))
  for (const [path, before] of Object.entries(pointers)) {
    const now = textAt(path)
    if (now === before || (now === undefined && lstatSync(path, quietly) === undefined)) continue
    const named = namedBy(path)
    if (named !== undefined && folders.some((folder) => isBelow(folder, named.common))) continue
    putText(path, before)
    notes.push(`"${shown(path)}" was put back: it decides which hooks and configuration git uses`)
  }
  return notes
}

const placeOf = ({ root }: Before, folder: string, isNew: boolean) => ({
  isNew,
  holdsWorktree: (path: string) =>
    folder.includes("/modules/") &&
    isBelow(root, resolve(folder, path)) &&
    !/(^|\/)\.git(\/|$)/iu.test(resolve(folder, path).slice(root.length)),
})

/** Of submodules that came to be below these git folders. */
const newModules = (folders: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set(folders)
  const below = (folder: string): ReadonlyArray<string> =>
    foldersIn(folder).flatMap((name) => {
      const path = join(folder, name)
      const isOne = existsSync(join(path, "HEAD")) || existsSync(join(path, "config"))
      const inner = below(isOne ? join(path, "modules") : path)
      return isOne && !known.has(path) ? [path, ...inner] : inner
    })
  return folders.flatMap((folder) => below(join(folder, "modules")))
}

/** Takes away what makes git run programs in a new submodule's folder; gives what that was. */
const cleaned = (record: Before, folder: string): ReadonlyArray<string> => {
  const config = join(folder, "config")
  const place = placeOf(record, folder, true)
  const text = textAt(config)
  const settings = text === undefined ? undefined : settingsOf(text)
  const done: Array<string> = []
  if (lstatSync(config, quietly) !== undefined && (settings === undefined || strangeChange([], settings, place) !== undefined)) {
    putText(config, configText(ofWork(settings ?? [], place)))
    done.push("what is not its own in the configuration")
  }
  for (const name of ["commondir", "config.worktree"])
    if (lstatSync(join(folder, name), quietly) !== undefined) {
      rmSync(join(folder, name), { recursive: true, force: true })
      done.push(`"${name}"`)
    }
  for (const name of hooksIn(folder)) {
    rmSync(join(folder, "hooks", name), { recursive: true, force: true })
    done.push(`the hook "${name}"`)
  }
  return done
}

const quietly = { throwIfNoEntry: false } as const

/** Of a file that is one; undefined otherwise. */
export const textAt = (path: string): string | undefined => {
  try {
    return lstatSync(path).isFile() ? readFileSync(path, "latin1") : undefined
  } catch {
    return undefined
  }
}

/** Whole or not at all, with mode and owner of what stands there. */
const putText = (path: string, text: string): void => {
  const there = lstatSync(path, quietly)
  const beside = join(dirname(path), `.codespace-${randomBytes(8).toString("hex")}`)
  writeFileSync(beside, text, { encoding: "latin1", flag: "wx", mode: there?.isFile() === true ? there.mode & 0o777 : 0o644 })
  const owner = lstatSync(dirname(path))
  if (process.getuid?.() === 0) chownSync(beside, owner.uid, owner.gid)
  if (there?.isDirectory() === true) rmSync(path, { recursive: true, force: true })
  renameSync(beside, path)
}

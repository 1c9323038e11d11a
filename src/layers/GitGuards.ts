/**
 * Lets git itself write the configuration of a repository, which no other command may. Git replaces the file, and a mount
 * on it forbids that; so for a command that is git's own work and nothing else it is not mounted but recorded. When the
 * command has ended, what changed is looked at setting by setting, and anything that is no such work puts the old text
 * back. The record lies in the state folder, so that the next server looks after what a killed one left.
 *
 * While such a command runs, no other may: replacing a file takes away the mounts on it in every other namespace.
 */
import { randomBytes } from "node:crypto"
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { dirname, isAbsolute, join, resolve } from "node:path"
import { Deferred, Effect, type Scope } from "effect"
import type { Access } from "../schema/Process.ts"
import { configText, hooksPathIn, ofWork, programIn, type Setting, settingsOf, strangeChange } from "../services/GitConfig.ts"
import { isBelow, type Mount } from "../services/MountPlan.ts"
import { hasPathRules, isReadOnly } from "../services/Restrictions.ts"
import type { Confines, GitCall } from "../services/Sandbox.ts"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import { type FoundGit, gitBelow } from "./GitBelow.ts"
import { namedBy, pinsBetween, repositoryAround } from "./GitFolders.ts"
import { ownersHooksPath } from "./OwnersGit.ts"

/** What a command is let do with configuration. */
export interface Admission {
  /** Whether a mount is made for it. */
  readonly keeps: (mount: Mount) => boolean
  /** Beside its own variables. */
  readonly variables: (given: Readonly<Record<string, string>>) => Readonly<Record<string, string>>
  /** To be called when nothing of the command is left; gives a note for each thing that was put right. */
  readonly settle: () => ReadonlyArray<string>
  /** Notes for a command that fails. */
  readonly ifItFails: ReadonlyArray<string>
}

export interface GitGuards {
  /** Waits until no command that may write configuration runs in the same place; the command is known until the scope ends. */
  readonly admit: (
    confines: Confines,
    access: Access,
    call: GitCall | undefined,
    temporary: string,
  ) => Effect.Effect<Admission, never, Scope.Scope>
}

/** A command that lives, or is about to. */
interface Running {
  readonly places: ReadonlyArray<string>
  /** It may write configuration: others wait for `ended`. */
  isGit: boolean
  readonly ended: Deferred.Deferred<void>
}

const nothing: Admission = { keeps: () => true, variables: (given) => given, settle: () => [], ifItFails: [] }

/** Records lie in `folder`. What dead servers left is looked after first. */
export const makeGitGuards = (folder: string, identity: ServerIdentity["Service"]): Effect.Effect<GitGuards> =>
  Effect.gen(function* () {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const running = new Set<Running>()
    let number = 0

    const repair = Effect.suspend(() => {
      const notes = readdirSync(folder).flatMap((name) => {
        if (identity.isAlive(name.slice(0, name.lastIndexOf("-")))) return []
        const path = join(folder, name)
        const record = readRecord(path)
        const said = record === undefined ? [] : settle(record)
        rmSync(path, { force: true })
        return said
      })
      return notes.length === 0 ? Effect.void : Effect.logWarning(...notes)
    })
    yield* repair

    const near = (places: ReadonlyArray<string>) => (other: Running) =>
      places.some((place) => other.places.some((there) => isBelow(place, there) || isBelow(there, place)))

    /** Waits for git's own work of others. One that wants to do such work may when nothing else lives there. */
    const enter = Effect.fnUntraced(function* (places: ReadonlyArray<string>, wantsGit: boolean) {
      while (true) {
        const there = [...running].filter(near(places))
        const git = there.find(({ isGit }) => isGit)
        if (git !== undefined) {
          yield* Effect.interruptible(Deferred.await(git.ended))
          continue
        }
        const isGit = wantsGit && there.length === 0
        const own: Running = { places, isGit, ended: Deferred.makeUnsafe() }
        yield* Effect.acquireRelease(
          Effect.sync(() => void running.add(own)),
          () =>
            Effect.sync(() => {
              running.delete(own)
              Deferred.doneUnsafe(own.ended, Effect.void)
            }),
        )
        return own
      }
    })

    const admit: GitGuards["admit"] = Effect.fnUntraced(function* (confines, access, call, temporary) {
      const { profile, root } = confines
      if (isReadOnly(profile, access) && !hasPathRules(profile)) return nothing
      yield* repair
      const around = repositoryAround(root)
      const places = around === undefined ? [root] : [root, around]
      const work = call?.work ?? { _tag: "none" }
      const own = yield* enter(places, work._tag === "known")
      if (work._tag === "none") return nothing
      const refused = (why: string): Admission => {
        own.isGit = false
        Deferred.doneUnsafe(own.ended, Effect.void)
        // Git may go on without what it could not write down.
        return work._tag === "known" && work.isCertain
          ? { ...nothing, settle: () => [noteOf(why)] }
          : { ...nothing, ifItFails: [noteOf(why)] }
      }
      if (work._tag === "unknown") return refused(work.why)
      if (!own.isGit) return refused("another command runs in the workspace; stop it first")
      const found = yield* gitBelow([...places, temporary])
      if (found === undefined) return refused("the workspace is too large to look at every repository in it")
      const why = whyNot(found, places, call?.variables ?? {}, work.runsHooks)
      if (why !== undefined) return refused(why)
      const record = recordOf(found, root, places)
      const path = join(folder, `${identity.self}-${++number}`)
      writeFileSync(`${path}.new`, JSON.stringify(record), { mode: 0o600 })
      renameSync(`${path}.new`, path)
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          settle(record)
          rmSync(path, { force: true })
        }).pipe(Effect.ignoreCause({ log: true })),
      )
      return { keeps: keeperOf(record), variables: withSettings, settle: () => settle(record), ifItFails: [] }
    })
    return { admit }
  })

const noteOf = (why: string): string =>
  `git can write the configuration of a repository only in a call that runs nothing but git: ${why}. Run the git command as a call of its own.`

/** They count more than any file: neither hooks nor programs of a repository run, and none is found that only lies there. */
const withSettings = (given: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const first = Number(given["GIT_CONFIG_COUNT"] ?? 0)
  return {
    ...given,
    GIT_CONFIG_COUNT: String(first + SETTINGS.length),
    ...Object.fromEntries(
      SETTINGS.flatMap(([key, value], at) => [
        [`GIT_CONFIG_KEY_${first + at}`, key],
        [`GIT_CONFIG_VALUE_${first + at}`, value],
      ]),
    ),
  }
}

const SETTINGS: ReadonlyArray<readonly [key: string, value: string]> = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["safe.bareRepository", "explicit"],
  ["protocol.ext.allow", "never"],
]

/** Why git could run something of the workspace on the way; undefined when it cannot. */
const whyNot = (
  { folders }: FoundGit,
  places: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>>,
  runsHooks: boolean,
): string | undefined => {
  const isInside = (path: string): boolean => places.some((place) => isBelow(place, nearestReal(path)))
  const search = (variables["PATH"] ?? "").split(":").find((entry) => !isAbsolute(entry) || isInside(entry))
  if (search !== undefined) return `programs are looked for in "${search}", where commands can write`
  const home = variables["HOME"]
  const own = home === undefined ? [] : [join(home, ".gitconfig"), join(variables["XDG_CONFIG_HOME"] ?? join(home, ".config"), "git")]
  const global = own.find(isInside)
  if (global !== undefined) return `"${global}" lies in the workspace`
  for (const folder of folders) {
    const settings = [join(folder, "config"), join(folder, "config.worktree")].map(settingsIn)
    const unread = settings.includes(undefined)
    if (unread) return `the configuration in "${folder}" is in a form that is not understood here`
    const all = settings.flatMap((some) => some ?? [])
    const program = programIn(all)
    if (program !== undefined) return `"${program}" in the configuration in "${folder}" may name a program of the workspace`
    if (runsHooks && (hooksPathIn(all) !== undefined || hooksIn(folder).length > 0)) return `hooks would run ("${folder}")`
  }
  return runsHooks && ownersHooksPath(variables) ? "hooks would run (core.hooksPath of the user)" : undefined
}

const nearestReal = (path: string): string => {
  try {
    return realpathSync.native(path)
  } catch {
    return dirname(path) === path ? path : join(nearestReal(dirname(path)), path.slice(dirname(path).length))
  }
}

/** Empty where there is no file; undefined where it is not understood. */
const settingsIn = (path: string): ReadonlyArray<Setting> | undefined => {
  const text = textAt(path)
  return text === undefined ? (lstatSync(path, quietly) === undefined ? [] : undefined) : settingsOf(text)
}

/** Names of the hooks that git would run. */
const hooksIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(join(folder, "hooks")).filter((name) => !name.endsWith(".sample"))
  } catch {
    return []
  }
}

/** What was there before. Texts are bytes, one a letter. */
interface Before {
  readonly root: string
  /** Git folders, those of submodules and worktrees included. */
  readonly folders: ReadonlyArray<string>
  readonly configs: Readonly<Record<string, string>>
  /** What a `.git` that is a file says. */
  readonly pointers: Readonly<Record<string, string>>
  /** Locks of configurations that somebody had left. */
  readonly locks: ReadonlyArray<string>
}

const recordOf = ({ folders, pointers }: FoundGit, root: string, places: ReadonlyArray<string>): Before => {
  const own = folders.filter((folder) => places.some((place) => isBelow(place, folder)))
  const configs = own.map((folder) => join(folder, "config"))
  return {
    root,
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

const readRecord = (path: string): Before | undefined => {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Before
  } catch {
    // Half of one was never in force.
    return undefined
  }
}

/** Configurations, and what says where a submodule's repository is, are left out; so is what holds the folders around that. */
const keeperOf = ({ configs, pointers, root }: Before) => {
  const files = new Set([...Object.keys(configs), ...Object.keys(pointers)])
  const held = new Set(Object.keys(pointers).flatMap((path) => pinsBetween(root, path).map((pin) => pin.path)))
  return (mount: Mount): boolean => !(mount.kind === "read" && files.has(mount.path)) && !(mount.kind === "pin" && held.has(mount.path))
}

/** Puts right what is no work of git's own; gives a note for each. Nothing is done twice. */
const settle = (record: Before): ReadonlyArray<string> => {
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
    namesIn(folder).flatMap((name) => {
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

/** Folders only; links are not followed. */
const namesIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  } catch {
    return []
  }
}

/** Of a file that is one; undefined otherwise. */
const textAt = (path: string): string | undefined => {
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

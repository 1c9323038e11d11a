/**
 * Lets git itself write the configuration of a repository, which no other command may. Git replaces the file, and a mount
 * on it forbids that; so for a command that is git's own work and nothing else it is not mounted but recorded. When the
 * command has ended, what changed is looked at setting by setting, and anything that is no such work puts the old text
 * back. The record lies in the state folder, so that the next server looks after what a killed one left.
 *
 * While such a command runs, no other may: replacing a file takes away the mounts on it in every other namespace.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Deferred, Effect, type Scope } from "effect"
import type { Access } from "../schema/Process.ts"
import type { Variables } from "../services/ChildEnvironment.ts"
import { GIT_CONFIG } from "../services/GitCommands.ts"
import { isBelow, type Mount } from "../services/MountPlan.ts"
import { hasPathRules, isReadOnly } from "../services/Restrictions.ts"
import type { Confines, GitCall } from "../services/Sandbox.ts"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import { gitBelow } from "./GitBelow.ts"
import { repositoryAround } from "./GitFolders.ts"
import { hazardIn, withoutPrograms } from "./GitHazards.ts"
import { isHeldElsewhere } from "./GitHolders.ts"
import { type Before, keeperOf, readRecord, recordOf, settle } from "./GitRecord.ts"

/** What a command is let do with configuration. */
export interface Admission {
  /** Whether a mount is made for it. */
  readonly keeps: (mount: Mount) => boolean
  /** Beside its own variables. */
  readonly variables: (given: Variables) => Variables
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

/** Milliseconds between looks at what another server's command does. */
const LOOK_EVERY = 50

const nothing: Admission = { keeps: () => true, variables: (given) => given, settle: () => [], ifItFails: [] }

/** Records lie in `folder`. What dead servers left is looked after first. */
export const makeGitGuards = (folder: string, identity: ServerIdentity["Service"]): Effect.Effect<GitGuards> =>
  Effect.gen(function* () {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const running = new Set<Running>()
    let number = 0

    const repair = Effect.suspend(() => {
      const notes = recordsIn(folder).flatMap((name) => {
        if (identity.isAlive(name.slice(0, name.lastIndexOf("-")))) return []
        const path = join(folder, name)
        const record = readRecord(path)
        const said = record === undefined ? [] : settled(record)
        if (said !== undefined) rmSync(path, { force: true })
        return said ?? [NOT_SETTLED]
      })
      return notes.length === 0 ? Effect.void : Effect.logWarning(...notes)
    })
    yield* repair

    /** Another server's command that may write configuration in one of the places now. */
    const isElsewhere = (places: ReadonlyArray<string>): boolean =>
      recordsIn(folder).some((name) => {
        const other = name.startsWith(`${identity.self}-`) ? undefined : readRecord(join(folder, name))
        return other?.places !== undefined && areNear(places, other.places)
      })

    /** Waits for git's own work of others. One that wants to do such work may when nothing else lives there. */
    const enter = Effect.fnUntraced(function* (places: ReadonlyArray<string>, wantsGit: boolean) {
      while (true) {
        const there = [...running].filter((other) => areNear(places, other.places))
        const git = there.find(({ isGit }) => isGit)
        if (git !== undefined) {
          yield* Effect.interruptible(Deferred.await(git.ended))
          continue
        }
        if (isElsewhere(places)) {
          yield* Effect.interruptible(Effect.andThen(Effect.sleep(LOOK_EVERY), repair))
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
      const why = hazardIn(found, places, call?.variables ?? {}, work.runsHooks)
      if (why !== undefined) return refused(why)
      const record = recordOf(found, root, places)
      if (isHeldElsewhere(Object.keys(record.configs))) return refused("a command of another server runs in the workspace; stop it first")
      const path = join(folder, `${identity.self}-${++number}`)
      if (!isWritten(path, JSON.stringify(record))) return refused("what it may change cannot be recorded")
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          // One that stays is for the next server.
          if (settled(record) !== undefined) rmSync(path, { force: true })
        }).pipe(Effect.ignoreCause({ log: true })),
      )
      return {
        keeps: keeperOf(record),
        variables: (given) => withoutPrograms(given, places),
        settle: () => settled(record) ?? [NOT_SETTLED],
        ifItFails: [],
      }
    })
    return { admit }
  })

/** Whether something may lie in a place of both. */
const areNear = (places: ReadonlyArray<string>, others: ReadonlyArray<string>): boolean =>
  places.some((place) => others.some((other) => isBelow(place, other) || isBelow(other, place)))

/** None where somebody took the folder away. */
const recordsIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Undefined when it could not be done. */
const settled = (record: Before): ReadonlyArray<string> | undefined => {
  try {
    return settle(record)
  } catch {
    return undefined
  }
}

const NOT_SETTLED = "what git changed in the configuration of a repository could not be put right; the next server tries again"

const isWritten = (path: string, text: string): boolean => {
  try {
    writeFileSync(`${path}.new`, text, { mode: 0o600 })
    renameSync(`${path}.new`, path)
    return true
  } catch {
    rmSync(`${path}.new`, { force: true })
    return false
  }
}

const noteOf = (why: string): string =>
  why === GIT_CONFIG
    ? "git config cannot write the configuration of a repository that was there before, in no call; git -c NAME=VALUE sets some of it for one command."
    : `git can write the configuration of a repository only in a call that runs nothing but git: ${why}. Run the git command as a call of its own.`

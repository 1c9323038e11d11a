/** What in a workspace could make git run a program of it, although its words are harmless; and what keeps it from some of that. */
import { existsSync, lstatSync, realpathSync } from "node:fs"
import { dirname, isAbsolute, join } from "node:path"
import type { Variables } from "../services/ChildEnvironment.ts"
import { hooksPathIn, programIn, type Setting, settingsOf } from "../services/GitConfig.ts"
import { isBelow } from "../services/MountPlan.ts"
import type { FoundGit } from "./GitBelow.ts"
import { hooksIn } from "./GitHooks.ts"
import { textAt } from "./GitRecord.ts"
import { ownersHooksPath } from "./OwnersGit.ts"

/**
 * Variables that count more than any file: neither hooks nor programs of a repository run, none is found that only lies there,
 * and none is looked for where commands can write.
 */
export const withoutPrograms = (given: Variables, places: ReadonlyArray<string>): Variables => {
  const first = Number(given["GIT_CONFIG_COUNT"] ?? 0)
  return {
    ...given,
    PATH: searchedOutside(given, places).join(":"),
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

/** What git and a login shell read of the user's; it may be a link into the workspace. */
const READ_AT_HOME = [".gitconfig", ".profile", ".bash_profile", ".bash_login", ".bashrc"]

/** Why git could run something of the workspace on the way; undefined when it cannot. */
export const hazardIn = (
  { folders }: FoundGit,
  places: ReadonlyArray<string>,
  variables: Variables,
  runsHooks: boolean,
): string | undefined => {
  const isInside = insideOf(places)
  if (!searchedOutside(variables, places).some((folder) => existsSync(join(folder, "git"))))
    return `git is looked for only where commands can write ("${variables["PATH"] ?? ""}")`
  const home = variables["HOME"]
  const own = home === undefined ? [] : READ_AT_HOME.map((name) => join(home, name))
  const global = [...own, join(variables["XDG_CONFIG_HOME"] ?? join(home ?? "/", ".config"), "git")].find(isInside)
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

const insideOf =
  (places: ReadonlyArray<string>) =>
  (path: string): boolean =>
    places.some((place) => isBelow(place, path) || isBelow(place, nearestReal(path)))

/** The folders of PATH that no command can write in. What starts a server puts folders of a project there, `npm` for one. */
const searchedOutside = (variables: Variables, places: ReadonlyArray<string>): ReadonlyArray<string> => {
  const isInside = insideOf(places)
  return (variables["PATH"] ?? "").split(":").filter((folder) => isAbsolute(folder) && !isInside(folder) && !isMadeThere(folder))
}

/** In there a command finds a folder of its workspace's, but for what exists on the host and is shown. */
const isMadeThere = (path: string): boolean => /^\/(var\/)?tmp(\/|$)/u.test(path) && !existsSync(path)

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

const quietly = { throwIfNoEntry: false } as const

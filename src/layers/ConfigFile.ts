/**
 * AppConfig from the configuration file and the folders of the command line. The file is the one named by `--config`,
 * else by CODESPACE_CONFIG, else `codespace/config.json` in the user's configuration folder, else none. Folders of the
 * command line are workspaces beside those of the file. Everything that is wrong is told at once.
 */
import { readFileSync } from "node:fs"
import { homedir } from "node:os"
import { basename, dirname, isAbsolute, join, resolve } from "node:path"
import { Effect, Layer, Result } from "effect"
import type { ConfigFile } from "../schema/Config.ts"
import { defaults, noHooks, patchDefaults } from "../schema/ConfigDefaults.ts"
import { ConfigInvalid, type ConfigProblem, fieldPath } from "../schema/ConfigProblem.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import {
  AppConfig,
  allProfiles,
  namingProblems,
  resolveEnvironment,
  resolveProfile,
  type WorkerUser,
  type WorkspaceSettings,
} from "../services/AppConfig.ts"
import { attempt, contains, privateFolder, realFolder, realPlace } from "./Folders.ts"

export interface ConfigOptions {
  /** A file named on the command line. */
  readonly config?: string
  /** Folders named on the command line; each is a workspace under its own name, with profile `workspace-write`. */
  readonly folders: ReadonlyArray<string>
  /** For what looks at the state alone: no workspace need be registered. */
  readonly workspacesOptional?: true
  /** Instead of the environment of this process. */
  readonly environment?: Environment
}

type Environment = Readonly<Record<string, string | undefined>>

export const layer = (options: ConfigOptions): Layer.Layer<AppConfig, ConfigInvalid> => Layer.effect(AppConfig, load(options))

/** Where the configuration file is looked for, or made: the one that is named, else the user's own; and the state folder. */
export const placeFor = (named: string | undefined, environment: Environment = process.env) => {
  const variable = variablesOf(environment)
  const places = standardPlaces(variable)
  const given = named ?? variable("CODESPACE_CONFIG")
  return { file: given === "" ? places.config : resolve(fromHome(given, places.home)), isStandard: given === "", state: places.state }
}

/** The name a folder gets as a workspace when nobody gives it another. */
export const nameFor = (folder: string): string => idFor(resolve(folder))

/** A workspace before its profile and environment are looked up; `at` is the field or folder that problems name. */
interface Registration extends Omit<WorkspaceSettings, "id" | "profile" | "environment" | "realRoot"> {
  readonly id: string
  readonly at: string
  readonly profile: string
  readonly environment: string
}
type Found = Registration & { readonly realRoot: string }

const load = Effect.fn("ConfigFile.load")(function* (options: ConfigOptions) {
  const variable = variablesOf(options.environment ?? process.env)
  const places = standardPlaces(variable)
  const source = yield* Effect.fromResult(findFile(options.config ?? variable("CODESPACE_CONFIG"), places))
  const origin = source === undefined ? {} : { file: source.path }
  const refuse = (problems: ReadonlyArray<ConfigProblem>) => new ConfigInvalid({ ...origin, problems })

  const { file, unfit }: Decoded =
    source === undefined ? { file: defaults, unfit: [] } : yield* Effect.mapError(decoded(source.text), refuse)
  const [lost, configured] = separated(inFile(file, places.home, dirname(source?.path ?? places.config)).map(withRealRoot))
  const [unusable, given] = separated(options.folders.map(onCommandLine).map(withRealRoot))
  const workspaces = [...configured, ...distinctNames(given)]
  const workers = yield* workerUsers(file)
  const [strangers, users] = separated(workers.found)
  const problems = [
    ...namingProblems(file),
    ...unfit,
    ...strangers,
    ...lost,
    ...unusable,
    ...clashes(configured, workspaces.slice(configured.length)),
    ...exposures(workspaces, [...ownFolders(places, source?.path), ...workers.folders]),
  ]
  if (problems.length > 0) return yield* refuse(problems)
  if (workspaces.length === 0 && options.workspacesOptional === undefined) return yield* refuse([noWorkspace(places.config)])

  const stateFolder = yield* Effect.fromResult(privateFolder(places.state)).pipe(
    Effect.mapError((reason) => refuse([{ at: `the state folder ${places.state}`, problem: reason }])),
  )
  const settings = workspaces.map((workspace) => settingsOf(workspace, file, new Map(users)))
  return AppConfig.of({
    workspaces: new Map(settings.map((one) => [one.id, one])),
    profiles: allProfiles(file.profiles),
    http: file.http,
    tools: file.tools,
    approvals: file.approvals,
    path: file.path,
    retention: file.retention,
    stateFolder,
    ...(source === undefined ? {} : { configFile: source.path }),
  })
})

interface Decoded {
  readonly file: ConfigFile
  /** What is wrong with its rules. */
  readonly unfit: ReadonlyArray<ConfigProblem>
}

/** Parser, decoder and what knows the rules are loaded when there is a file to read. */
const decoded = Effect.fnUntraced(function* (text: string) {
  const [{ parseConfig }, { decodeConfig }, { ruleProblems }] = yield* Effect.promise(() =>
    Promise.all([import("./ConfigText.ts"), import("../schema/Config.ts"), import("../services/RuleProblems.ts")]),
  )
  const file = yield* Effect.fromResult(Result.flatMap(parseConfig(text), decodeConfig))
  return { file, unfit: ruleProblems(file) }
})

/** The users that environments name, by environment, and where their state lies. What knows of them is loaded when there are any. */
const workerUsers = Effect.fnUntraced(function* ({ environments }: ConfigFile) {
  const named = Object.entries(environments).flatMap(([name, { user }]) => (user === undefined ? [] : [{ name, user }]))
  if (named.length === 0) return { found: [], folders: [] }
  const { findUser, WORKERS } = yield* Effect.promise(() => import("./WorkerUser.ts"))
  const found = named.map(({ name, user }) =>
    findUser(user).pipe(
      Result.map((one) => [name, one] as const),
      Result.mapError((problem) => ({ at: fieldPath(["environments", name, "user"]), problem })),
    ),
  )
  return { found, folders: [{ holds: "state", path: realPlace(WORKERS) }] }
})

const separated = <A>(
  results: ReadonlyArray<Result.Result<A, ConfigProblem>>,
): readonly [ReadonlyArray<ConfigProblem>, ReadonlyArray<A>] => [
  results.flatMap((result) => (Result.isFailure(result) ? [result.failure] : [])),
  results.flatMap((result) => (Result.isSuccess(result) ? [result.success] : [])),
]

interface Places {
  readonly home: string
  readonly config: string
  readonly state: string
}

type Variable = (name: string) => string

/** An environment variable by name; empty counts as not set, as the XDG rules want it. */
const variablesOf =
  (environment: Environment): Variable =>
  (name) =>
    environment[name] ?? ""

const standardPlaces = (variable: Variable): Places => {
  const home = variable("HOME") || homedir()
  const folderOf = (name: string, standard: string) => {
    const named = variable(name)
    return join(isAbsolute(named) ? named : join(home, standard), "codespace")
  }
  return { home, config: join(folderOf("XDG_CONFIG_HOME", ".config"), "config.json"), state: folderOf("XDG_STATE_HOME", ".local/state") }
}

const fromHome = (path: string, home: string): string => (path === "~" || path.startsWith("~/") ? join(home, path.slice(1)) : path)

interface Source {
  readonly path: string
  readonly text: string
}

/** The file to read and its text. A file that somebody named must be there; the standard one need not. */
const findFile = (named: string, places: Places): Result.Result<Source | undefined, ConfigInvalid> => {
  const path = named === "" ? places.config : resolve(fromHome(named, places.home))
  const read = attempt(() => readFileSync(path, "utf8"))
  if (Result.isSuccess(read)) return Result.succeed({ path, text: read.success })
  if (named === "" && read.failure === "does not exist") return Result.succeed(undefined)
  return Result.fail(new ConfigInvalid({ problems: [{ at: path, problem: read.failure }] }))
}

const inFile = (file: ConfigFile, home: string, folder: string): ReadonlyArray<Registration> =>
  Object.entries(file.workspaces).map(([id, { approvals, environment, hooks, patch, profile, root, sandbox }]) => ({
    id,
    at: fieldPath(["workspaces", id, "root"]),
    root: resolve(folder, fromHome(root, home)),
    profile,
    environment,
    sandbox,
    approvals,
    patch,
    hooks,
  }))

const onCommandLine = (folder: string): Registration => {
  const root = resolve(folder)
  return {
    id: idFor(root),
    at: `folder ${folder}`,
    root,
    profile: "workspace-write",
    environment: "host",
    sandbox: "auto",
    approvals: "off",
    patch: patchDefaults,
    hooks: noHooks,
  }
}

/** A folder's name in the letters an id may have. */
const idFor = (root: string): string => {
  const name = basename(root)
    .replace(/[^A-Za-z0-9._-]+/gu, "-")
    .slice(0, 60)
  return /[A-Za-z0-9]/u.test(name) ? name : "workspace"
}

const withRealRoot = (registration: Registration): Result.Result<Found, ConfigProblem> =>
  realFolder(registration.root).pipe(
    Result.map((realRoot) => ({ ...registration, realRoot })),
    Result.mapError((reason) => ({ at: registration.at, problem: `${registration.root} ${reason}` })),
  )

/** One workspace a folder, however often it was named; of equal names the second becomes `name-2`, and so on. */
const distinctNames = (given: ReadonlyArray<Found>): ReadonlyArray<Found> => {
  const byName = new Map<string, Found>()
  const roots = new Set<string>()
  for (const one of given) {
    if (roots.has(one.realRoot)) continue
    const names = [one.id, ...given.map((_, place) => `${one.id}-${place + 2}`)]
    const id = names.find((name) => !byName.has(name)) ?? one.id
    byName.set(id, { ...one, id })
    roots.add(one.realRoot)
  }
  return [...byName.values()]
}

const clashes = (configured: ReadonlyArray<Found>, given: ReadonlyArray<Found>): ReadonlyArray<ConfigProblem> =>
  given.flatMap(({ at, id }) => {
    const other = configured.find((one) => one.id === id)
    if (other === undefined) return []
    return {
      at,
      problem: `the configuration file has a workspace "${id}" already (${other.root}); leave the folder out or rename one of them`,
    }
  })

/** Folders with the server's own files, by real path. A link to the file is followed: what it points to counts too. */
const ownFolders = (places: Places, configFile: string | undefined) => {
  const files = [places.config, ...(configFile === undefined ? [] : [configFile])]
  const configFolders = new Set(files.flatMap((file) => [realPlace(dirname(file)), dirname(realPlace(file))]))
  return [{ holds: "state", path: realPlace(places.state) }, ...[...configFolders].map((path) => ({ holds: "configuration", path }))]
}

const exposures = (
  workspaces: ReadonlyArray<Found>,
  own: ReadonlyArray<{ readonly holds: string; readonly path: string }>,
): ReadonlyArray<ConfigProblem> =>
  workspaces.flatMap(({ at, realRoot }) => [
    ...own
      .filter(({ path }) => contains(realRoot, path))
      .map(({ holds, path }) => ({
        at,
        problem: `the server's ${holds} folder ${path} lies in it, so a call could change the server; choose another root, or move that folder`,
      })),
    ...own
      .filter(({ holds, path }) => holds === "state" && path !== realRoot && contains(path, realRoot))
      .map(({ path }) => ({
        at,
        problem: `it lies in the server's state folder ${path}, so a call could change the server; choose another root`,
      })),
  ])

const noWorkspace = (standardFile: string): ConfigProblem => ({
  at: "workspaces",
  problem: `there is none; name a folder on the command line (codespace mcp DIR), or register one in ${standardFile}`,
})

/** Names and ids were checked before, so a profile that cannot be resolved here is a defect. */
const settingsOf = (
  { approvals, environment, hooks, id, patch, profile, realRoot, root, sandbox }: Found,
  file: ConfigFile,
  users: ReadonlyMap<string, WorkerUser>,
): WorkspaceSettings => ({
  id: id as WorkspaceId,
  root,
  realRoot,
  profile: Result.getOrThrow(resolveProfile(profile, file.profiles, "")),
  environment: resolveEnvironment(environment, file.environments, users),
  sandbox,
  approvals,
  patch,
  hooks,
})

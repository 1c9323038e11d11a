/**
 * AppConfig from the configuration file and the folders of the command line. The file is the one named by `--config`,
 * else by CODESPACE_CONFIG, else `codespace/config.json` in the user's configuration folder, else none. Folders of the
 * command line are workspaces beside those of the file. Everything that is wrong is told at once.
 */
import { homedir } from "node:os"
import { basename, dirname, isAbsolute, join, resolve } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Config, Effect, FileSystem, Layer, Result } from "effect"
import { type ConfigFile, ConfigInvalid, decodeConfig, standardPatchSettings } from "../schema/Config.ts"
import { type ConfigProblem, fieldPath } from "../schema/ConfigProblem.ts"
import { WorkspaceId } from "../schema/Workspace.ts"
import { AppConfig, namingProblems, resolveProfile, type WorkspaceSettings } from "../services/AppConfig.ts"
import { parseConfig } from "./ConfigText.ts"
import { contains, privateFolder, realFolder, realPlace, reasonOf } from "./Folders.ts"

export interface ConfigOptions {
  /** A file named on the command line. */
  readonly config?: string
  /** Folders named on the command line; each is a workspace under its own name, with profile `workspace-write`. */
  readonly folders: ReadonlyArray<string>
}

export const layer = (options: ConfigOptions): Layer.Layer<AppConfig, ConfigInvalid> =>
  Layer.effect(AppConfig, load(options)).pipe(Layer.provide(NodeFileSystem.layer))

/** A workspace before its profile is looked up; `at` is the field or folder that problems name. */
interface Registration extends Omit<WorkspaceSettings, "id" | "profile" | "realRoot"> {
  readonly id: string
  readonly at: string
  readonly profile: string
}
type Found = Registration & { readonly realRoot: string }

const load = Effect.fn("ConfigFile.load")(function* (options: ConfigOptions) {
  const places = yield* standardPlaces
  const source = yield* findFile(options.config, places)
  const origin = source === undefined ? {} : { file: source.path }
  const refuse = (problems: ReadonlyArray<ConfigProblem>) => Effect.fail(new ConfigInvalid({ ...origin, problems }))

  const value = source === undefined ? Result.succeed({}) : parseConfig(source.text)
  const file = yield* Effect.fromResult(Result.flatMap(value, decodeConfig)).pipe(Effect.catch(refuse))
  const [configured, lost] = yield* Effect.partition(inFile(file, places.home, dirname(source?.path ?? places.config)), withRealRoot)
  const [given, unusable] = yield* Effect.partition(options.folders.map(onCommandLine), withRealRoot)
  const workspaces = [...configured, ...distinctNames(given)]
  const problems = [
    ...namingProblems(file),
    ...lost,
    ...unusable,
    ...clashes(configured, workspaces.slice(configured.length)),
    ...exposures(workspaces, yield* ownFolders(places, source?.path)),
  ]
  if (problems.length > 0) return yield* refuse(problems)
  if (workspaces.length === 0) return yield* refuse([noWorkspace(places.config)])

  const stateFolder = yield* privateFolder(places.state).pipe(
    Effect.catch((reason) => refuse([{ at: `the state folder ${places.state}`, problem: reason }])),
  )
  const settings = workspaces.map((workspace) => settingsOf(workspace, file))
  return AppConfig.of({
    workspaces: new Map(settings.map((one) => [one.id, one])),
    http: file.http,
    tools: file.tools,
    retention: file.retention,
    stateFolder,
    ...(source === undefined ? {} : { configFile: source.path }),
  })
})

interface Places {
  readonly home: string
  readonly config: string
  readonly state: string
}

/** An environment variable; empty counts as not set, as the XDG rules want it. */
const variable = (name: string) => Config.String(name).pipe(Config.withDefault(""), Effect.orDie)

const standardPlaces = Effect.gen(function* () {
  const home = (yield* variable("HOME")) || homedir()
  const folderOf = Effect.fnUntraced(function* (name: string, standard: string) {
    const named = yield* variable(name)
    return join(isAbsolute(named) ? named : join(home, standard), "codespace")
  })
  return {
    home,
    config: join(yield* folderOf("XDG_CONFIG_HOME", ".config"), "config.json"),
    state: yield* folderOf("XDG_STATE_HOME", ".local/state"),
  } satisfies Places
})

const fromHome = (path: string, home: string): string => (path === "~" || path.startsWith("~/") ? join(home, path.slice(1)) : path)

/** The file to read and its text. A file that somebody named must be there; the standard one need not. */
const findFile = Effect.fnUntraced(function* (flag: string | undefined, places: Places) {
  const fs = yield* FileSystem.FileSystem
  const named = flag ?? (yield* variable("CODESPACE_CONFIG"))
  const path = named === "" ? places.config : resolve(fromHome(named, places.home))
  return yield* fs.readFileString(path).pipe(
    Effect.map((text) => ({ path, text })),
    Effect.catch((fault) => {
      if (named === "" && fault.reason._tag === "NotFound") return Effect.succeed(undefined)
      return Effect.fail(new ConfigInvalid({ problems: [{ at: path, problem: reasonOf(fault) }] }))
    }),
  )
})

const inFile = (file: ConfigFile, home: string, folder: string): ReadonlyArray<Registration> =>
  Object.entries(file.workspaces).map(([id, { patch, profile, root, sandbox }]) => ({
    id,
    at: fieldPath(["workspaces", id, "root"]),
    root: resolve(folder, fromHome(root, home)),
    profile,
    sandbox,
    patch,
  }))

const onCommandLine = (folder: string): Registration => {
  const root = resolve(folder)
  return { id: idFor(root), at: `folder ${folder}`, root, profile: "workspace-write", sandbox: "auto", patch: standardPatchSettings }
}

/** A folder's name in the letters an id may have. */
const idFor = (root: string): string => {
  const name = basename(root)
    .replace(/[^A-Za-z0-9._-]+/gu, "-")
    .slice(0, 60)
  return /[A-Za-z0-9]/u.test(name) ? name : "workspace"
}

const withRealRoot = (registration: Registration) =>
  realFolder(registration.root).pipe(
    Effect.map((realRoot): Found => ({ ...registration, realRoot })),
    Effect.mapError((reason): ConfigProblem => ({ at: registration.at, problem: `${registration.root} ${reason}` })),
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
const ownFolders = Effect.fnUntraced(function* (places: Places, configFile: string | undefined) {
  const files = [places.config, ...(configFile === undefined ? [] : [configFile])]
  const configFolders = yield* Effect.forEach(files, (file) => Effect.all([realPlace(dirname(file)), Effect.map(realPlace(file), dirname)]))
  return [
    { holds: "state", path: yield* realPlace(places.state) },
    ...[...new Set(configFolders.flat())].map((path) => ({ holds: "configuration", path })),
  ]
})

const exposures = (
  workspaces: ReadonlyArray<Found>,
  own: ReadonlyArray<{ readonly holds: string; readonly path: string }>,
): ReadonlyArray<ConfigProblem> =>
  workspaces.flatMap(({ at, realRoot }) =>
    own
      .filter(({ path }) => contains(realRoot, path))
      .map(({ holds, path }) => ({
        at,
        problem: `the server's ${holds} folder ${path} lies in it, so a call could change the server; choose another root, or move that folder`,
      })),
  )

const noWorkspace = (standardFile: string): ConfigProblem => ({
  at: "workspaces",
  problem: `there is none; name a folder on the command line (codespace mcp DIR), or register one in ${standardFile}`,
})

/** The names were checked before, so a profile that cannot be resolved here is a defect. */
const settingsOf = ({ id, patch, profile, realRoot, root, sandbox }: Found, file: ConfigFile): WorkspaceSettings => ({
  id: WorkspaceId.make(id),
  root,
  realRoot,
  profile: Result.getOrThrow(resolveProfile(profile, file.profiles, "")),
  sandbox,
  patch,
})

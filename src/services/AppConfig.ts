/**
 * The configuration as the server uses it, read once at the start: every name looked up, every profile complete, every
 * root an existing folder. Where it comes from is the business of the layer that provides it.
 */
import { Context, Duration, Result } from "effect"
import type { ConfigFile, EnvironmentEntry, HookSettings, PatchSettings, ProfileEntry, SearchPath, ToolChoice } from "../schema/Config.ts"
import { type ConfigProblem, fieldPath } from "../schema/ConfigProblem.ts"
import type { Profile } from "../schema/Policy.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"

/** The user of a worker that is not its server's: the numbers the kernel goes by, and what commands are told. */
export interface WorkerUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
  readonly shell: string
}

/** Where a workspace's work runs: in this process, or in a worker. */
export type EnvironmentSettings =
  | { readonly kind: "host" }
  | {
      readonly kind: "worker"
      readonly name: string
      /** It ends with its server, or outlives it. */
      readonly lifetime: "gateway" | "detached"
      /** How long a detached one goes on while no server is connected, in milliseconds. */
      readonly orphanLimitMs: number
      /** Absent where it is the server's. */
      readonly user?: WorkerUser
    }

export interface WorkspaceSettings {
  readonly id: WorkspaceId
  /** Absolute, as the operator wrote it. */
  readonly root: string
  /** The same folder with its links resolved, once. */
  readonly realRoot: string
  readonly profile: Profile
  readonly environment: EnvironmentSettings
  readonly sandbox: "auto" | "required" | "off"
  readonly approvals: "off" | "confirm"
  readonly patch: PatchSettings
  readonly hooks: HookSettings
}

export class AppConfig extends Context.Service<
  AppConfig,
  {
    readonly workspaces: ReadonlyMap<WorkspaceId, WorkspaceSettings>
    /** Every profile by name, the built-in ones among them. */
    readonly profiles: ReadonlyMap<string, Profile>
    readonly http: {
      readonly host: string
      readonly port: number
      readonly hosts: ReadonlyArray<string>
      readonly origins: ReadonlyArray<string>
      readonly per_caller: { readonly calls: number; readonly sessions: number; readonly bytes: number }
      readonly issuer: string | null
      readonly login: "on" | "off"
    }
    readonly tools: ReadonlyArray<ToolChoice>
    readonly approvals: ConfigFile["approvals"]
    /** Where commands are looked for. */
    readonly path: SearchPath
    readonly retention: ConfigFile["retention"]
    /** Absolute and real; exists, and only the server's user can enter it. */
    readonly stateFolder: string
    /** The file it was read from, if there was one. */
    readonly configFile?: string
  }
>()("codespace/services/AppConfig") {}

/** The profiles of a file by name, beside the built-in ones. */
export type ProfileEntries = Readonly<Record<string, ProfileEntry>>

const limits = { processes: 16, spool_bytes: 256 * 1024 * 1024, timeout_ms: 30 * 60 * 1000 }

/**
 * The profiles every configuration has. `workspace-write` has the network: installing, fetching and pushing are everyday
 * work, and files and network are axes of their own.
 */
export const builtInProfiles: ReadonlyMap<string, Profile> = new Map(
  [
    {
      name: "read-only",
      files: [{ glob: "**", access: "read" }],
      exec: "off",
      network: "off",
      commands: [],
      env: [],
      limits,
    } satisfies Profile,
    {
      name: "workspace-write",
      files: [{ glob: "**", access: "write" }],
      exec: "on",
      network: "on",
      commands: [],
      env: [],
      limits,
    } satisfies Profile,
  ].map((profile) => [profile.name, profile]),
)

/**
 * A profile with everything it extends worked in: rules and environment names add to the parent's, the rest replaces it.
 * A profile that extends nothing starts from `read-only`. `at` is the field that names it, for the problem.
 */
export const resolveProfile = (name: string, entries: ProfileEntries, at: string): Result.Result<Profile, ConfigProblem> =>
  resolve(name, entries, at, [])

const resolve = (
  name: string,
  entries: ProfileEntries,
  at: string,
  through: ReadonlyArray<string>,
): Result.Result<Profile, ConfigProblem> => {
  const builtIn = builtInProfiles.get(name)
  if (builtIn !== undefined) return Result.succeed(builtIn)
  if (through.includes(name))
    return Result.fail({ at, problem: `profiles extend each other in a circle: ${[...through, name].join(" -> ")}` })
  const entry = Object.hasOwn(entries, name) ? entries[name] : undefined
  if (entry === undefined) {
    const known = [...builtInProfiles.keys(), ...Object.keys(entries)]
    return Result.fail({ at, problem: `there is no profile "${name}"; known are ${known.join(", ")}` })
  }
  return Result.map(resolve(entry.extends, entries, fieldPath(["profiles", name, "extends"]), [...through, name]), (parent) =>
    extend(parent, name, entry),
  )
}

const extend = (parent: Profile, name: string, entry: ProfileEntry): Profile => ({
  name,
  files: [...parent.files, ...entry.files],
  exec: entry.exec ?? parent.exec,
  network: entry.network ?? parent.network,
  commands: [...parent.commands, ...entry.commands],
  env: [...new Set([...parent.env, ...entry.env])],
  limits: {
    processes: entry.limits.processes ?? parent.limits.processes,
    spool_bytes: entry.limits.spool_bytes ?? parent.limits.spool_bytes,
    timeout_ms: entry.limits.timeout === undefined ? parent.limits.timeout_ms : Duration.toMillis(entry.limits.timeout),
  },
})

/** Every profile of a file whose names were checked, beside the built-in ones. */
export const allProfiles = (entries: ProfileEntries): ReadonlyMap<string, Profile> =>
  new Map([
    ...builtInProfiles,
    ...Object.keys(entries).map((name) => [name, Result.getOrThrow(resolveProfile(name, entries, ""))] as const),
  ])
/** The environments every configuration has; a file may give them other settings. */
const builtInEnvironments: Readonly<Record<string, EnvironmentEntry>> = { host: { kind: "host" }, worker: { kind: "worker" } }

type EnvironmentEntries = Readonly<Record<string, EnvironmentEntry>>

const environmentNames = (entries: EnvironmentEntries) => [...new Set([...Object.keys(builtInEnvironments), ...Object.keys(entries)])]

/** An environment by its name, which is known; `users` are those that environments name, by environment. */
export const resolveEnvironment = (
  name: string,
  entries: EnvironmentEntries,
  users: ReadonlyMap<string, WorkerUser> = new Map(),
): EnvironmentSettings => {
  const { kind, lifetime = "gateway", orphan_limit = Duration.hours(1) } = entries[name] ?? builtInEnvironments[name] ?? { kind: "host" }
  if (kind === "host") return { kind }
  const user = users.get(name)
  return { kind, name, lifetime, orphanLimitMs: Duration.toMillis(orphan_limit), ...(user === undefined ? {} : { user }) }
}

/** What is wrong with the names in a file that decoded: profiles that cannot be resolved or take a built-in name, unknown environments. */
export const namingProblems = (file: ConfigFile): ReadonlyArray<ConfigProblem> => {
  const problems: Array<ConfigProblem> = []
  const check = (result: Result.Result<Profile, ConfigProblem>) => {
    if (Result.isFailure(result)) problems.push(result.failure)
  }
  for (const name of Object.keys(file.profiles)) {
    const at = fieldPath(["profiles", name])
    if (builtInProfiles.has(name)) problems.push({ at, problem: `"${name}" is built in; give the profile another name` })
    else check(resolveProfile(name, file.profiles, at))
  }
  for (const [id, { environment, profile }] of Object.entries(file.workspaces)) {
    if (!Object.hasOwn(file.profiles, profile)) check(resolveProfile(profile, file.profiles, fieldPath(["workspaces", id, "profile"])))
    const known = environmentNames(file.environments)
    if (!known.includes(environment)) {
      const problem = `there is no environment "${environment}"; known are ${known.join(", ")}`
      problems.push({ at: fieldPath(["workspaces", id, "environment"]), problem })
    }
  }
  return problems
}

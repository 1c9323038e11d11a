/**
 * What a caller may use: its workspaces, and each of them under a profile that is held to the caller's highest. A caller
 * whose highest profile is not in the configuration any more may use nothing, since nobody can tell what it was. Pure.
 */
import { Result } from "effect"
import { Unauthorized, type WorkspaceId, WorkspaceNotFound } from "../schema/Workspace.ts"
import type { AppConfig, WorkspaceSettings } from "./AppConfig.ts"
import type { Caller } from "./Caller.ts"
import { narrowed } from "./NarrowedProfile.ts"

type Config = Pick<AppConfig["Service"], "workspaces" | "profiles">
type Rights = Pick<Caller["Service"], "name" | "workspaces" | "highest">

/** A workspace as this caller may use it. */
export const workspaceFor = (
  config: Config,
  caller: Rights,
  workspaceId: string,
): Result.Result<WorkspaceSettings, WorkspaceNotFound | Unauthorized> => {
  const settings = config.workspaces.get(workspaceId as WorkspaceId)
  if (settings === undefined) {
    const known = [...config.workspaces.keys()].filter((id) => isAmong(caller, id))
    return Result.fail(new WorkspaceNotFound({ workspace_id: workspaceId, known }))
  }
  const who = { workspace_id: workspaceId, caller: caller.name }
  if (!isAmong(caller, workspaceId)) return Result.fail(new Unauthorized(who))
  const allowed = heldTo(config, settings, caller.highest)
  return allowed === undefined ? Result.fail(new Unauthorized({ ...who, lost_profile: caller.highest ?? "" })) : Result.succeed(allowed)
}

/** All workspaces that this caller may use. */
export const workspacesOf = (config: Config, caller: Rights): ReadonlyArray<WorkspaceSettings> =>
  [...config.workspaces.values()].flatMap((settings) =>
    isAmong(caller, settings.id) ? (heldTo(config, settings, caller.highest) ?? []) : [],
  )

const isAmong = ({ workspaces }: Rights, id: string): boolean => workspaces?.includes(id) ?? true

const heldTo = (config: Config, settings: WorkspaceSettings, highest: string | undefined): WorkspaceSettings | undefined => {
  if (highest === undefined) return settings
  const ceiling = config.profiles.get(highest)
  return ceiling === undefined ? undefined : narrowedSettings(settings, ceiling)
}

/** Made once for each pair: a profile's rules are compiled once, too. */
const narrowedSettings = (() => {
  const known = new WeakMap<WorkspaceSettings, Map<unknown, WorkspaceSettings>>()
  return (settings: WorkspaceSettings, ceiling: WorkspaceSettings["profile"]): WorkspaceSettings => {
    const before = known.get(settings) ?? new Map<unknown, WorkspaceSettings>()
    known.set(settings, before)
    const made = before.get(ceiling) ?? { ...settings, profile: narrowed(settings.profile, ceiling) }
    before.set(ceiling, made)
    return made
  }
})()

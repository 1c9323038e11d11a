/** What of a profile only a sandbox can hold against a command. Pure. */
import { type Profile, SandboxUnavailable } from "../schema/Policy.ts"
import type { Access } from "../schema/Process.ts"
import type { ConfinedPath } from "../schema/Workspace.ts"
import { fileAccess } from "./Policy.ts"
import type { Confines } from "./Sandbox.ts"

/** Whether a command finds the workspace read-only, but for what single rules open. */
export const isReadOnly = (profile: Profile, access: Access): boolean =>
  access === "read_only" || fileAccess(profile, "" as ConfinedPath).access !== "write"

/** Whether paths differ in what may be done with them. */
export const hasPathRules = (profile: Profile): boolean => profile.files.some(({ glob }) => glob !== "**")

/** What a command must be kept from, in words; empty when it may do all that the server's user can. */
export const restrictionsOf = (profile: Profile, access: Access): ReadonlyArray<string> => [
  ...(access === "read_only"
    ? ["access read_only"]
    : isReadOnly(profile, access)
      ? [`the read-only files of profile "${profile.name}"`]
      : []),
  ...(hasPathRules(profile) ? [`the file rules of profile "${profile.name}"`] : []),
  ...(profile.network === "on" ? [] : [`the network rule of profile "${profile.name}"`]),
]

/**
 * Why a command may not run where nothing confines it; undefined when it may. `required` wants a sandbox for whatever the
 * profile says, `auto` for what the profile restricts, and even where it is `off` nothing read-only runs without.
 */
export const unconfinable = ({ profile, sandbox }: Confines, access: Access, why: string): SandboxUnavailable | undefined => {
  const refused = (wanted: string) => new SandboxUnavailable({ wanted, cause: why })
  if (sandbox === "required") return refused("this workspace (sandbox: required)")
  const restrictions = restrictionsOf(profile, access)
  const binding = sandbox === "off" ? restrictions.slice(0, isReadOnly(profile, access) ? 1 : 0) : restrictions
  return binding.length === 0 ? undefined : refused(binding.join(", "))
}

/**
 * The configuration without a file, field by field. The decoder fills the fields that a file leaves out from here.
 */
import { Duration } from "effect"

export const defaults = {
  workspaces: {},
  profiles: {},
  environments: { host: { kind: "host" } },
  path: "server",
  approvals: { resolver: "operator", expires: Duration.hours(1) },
  http: {
    host: "127.0.0.1",
    port: 8787,
    hosts: [],
    origins: [],
    per_caller: { calls: 64, sessions: 50, bytes: 64 * 1024 ** 2 },
    issuer: null,
    login: "on",
  },
  tools: ["all"],
  retention: { processes: Duration.days(7), operations: Duration.days(90), output_bytes: 5 * 1024 ** 3, state_bytes: 5 * 1024 ** 3 },
} as const

/** What a workspace says of patches when it says nothing. */
export const patchDefaults = { ambiguity: "refuse", durability: "process" } as const

/** Which commands run around patches when a workspace names none. */
export const noHooks = { before_patch: [], after_patch: [] } as const

/** The argument of a hook's command that the paths of a patch take the place of. */
export const filesPlaceholder = "{files}"

/** Profiles, what a call touches, and the decision about it. */
import { Schema } from "effect"
import type { ConfinedPath } from "./Workspace.ts"

export const FileAccess = Schema.Literals(["read", "write", "deny"])
export type FileAccess = typeof FileAccess.Type

const whyNoGlob = (glob: string): string | undefined => {
  if (glob === "") return "a glob must not be empty; ** is every path"
  if (/^[/!]/u.test(glob)) return `${glob} can match nothing: globs are relative to the workspace root and cannot be negated`
  if (glob.split("/").includes("..")) return `${glob} can match nothing: no path in a workspace has a ".." in it`
  if (/[/\\]$/u.test(glob)) return `${glob} can match nothing: end it with /** for all that is in a folder`
  return undefined
}

/** One line of a profile. The glob is relative to the workspace root; one that could never match is refused. */
export const FileRule = Schema.Struct({
  glob: Schema.String.check(Schema.makeFilter(whyNoGlob)),
  access: FileAccess,
  reason: Schema.optionalKey(Schema.String),
})
export type FileRule = typeof FileRule.Type

const hostPattern = /^((\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:\d{1,5})?$/iu

/** A host that commands may reach: a name, `*.` before one for all below it, or an address; `:port` restricts it. */
const NetworkHost = Schema.String.check(
  Schema.isPattern(hostPattern, { expected: 'a host such as "api.example.org:443" or "*.example.org"' }),
)

export const NetworkAccess = Schema.Union([Schema.Literals(["off", "loopback", "on"]), Schema.Struct({ allow: Schema.Array(NetworkHost) })])
export type NetworkAccess = typeof NetworkAccess.Type

/** Limits of a profile; bytes and milliseconds. */
export interface Limits {
  readonly processes: number
  readonly spool_bytes: number
  readonly timeout_ms: number
}

/** A profile as the policy uses it: everything resolved, nothing inherited any more. */
export interface Profile {
  readonly name: string
  readonly files: ReadonlyArray<FileRule>
  readonly exec: "on" | "off"
  readonly network: NetworkAccess
  readonly env: ReadonlyArray<string>
  readonly limits: Limits
}

/** What a call would read, write or run. Paths are in normal form. */
export interface Touches {
  readonly read?: ReadonlyArray<ConfinedPath>
  readonly write?: ReadonlyArray<ConfinedPath>
  /** The command runs in the workspace and can write wherever the profile lets a command write. */
  readonly exec?: ReadonlyArray<string>
}

/** A rule as a refusal names it: where it comes from and what it says. */
export interface AppliedRule {
  readonly rule: string
  readonly subject: string
}

export type Decision =
  | { readonly _tag: "allow" }
  | ({ readonly _tag: "ask" } & AppliedRule)
  | ({ readonly _tag: "deny" } & AppliedRule)
  /** A path no profile can open up. */
  | ({ readonly _tag: "protected" } & AppliedRule)

export class PolicyDenied extends Schema.TaggedError<PolicyDenied>()("POLICY_DENIED", {
  subject: Schema.String,
  rule: Schema.String,
  profile: Schema.String,
}) {
  readonly retry = "never"
  override get message() {
    return `profile "${this.profile}" does not allow ${this.subject} (rule: ${this.rule}). Only the operator can change a profile.`
  }
}

export class SandboxUnavailable extends Schema.TaggedError<SandboxUnavailable>()("SANDBOX_UNAVAILABLE", {
  wanted: Schema.String,
  cause: Schema.String,
}) {
  readonly retry = "never"
  override get message() {
    return `${this.wanted} needs a sandbox, and ${this.cause}. Nothing was run. Reading and patching still work.`
  }
}

export class LimitExceeded extends Schema.TaggedError<LimitExceeded>()("LIMIT_EXCEEDED", {
  limit: Schema.String,
  value: Schema.Int,
  asked: Schema.Int,
}) {
  readonly retry = "change_request"
  override get message() {
    return `the limit ${this.limit} is ${this.value}, asked for ${this.asked}. Ask for less, or end what holds it.`
  }
}

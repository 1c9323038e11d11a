/** Profiles, what a call touches, and the decision about it. */
import { Schema } from "effect"
import { excerpt } from "./Retry.ts"
import { ExamplePath, RuleGlob } from "./RuleGlob.ts"
import type { ConfinedPath } from "./Workspace.ts"

/** `ask`: a call may write it once a person has allowed the call; for a command it is read-only. */
export const FileAccess = Schema.Literals(["read", "write", "ask", "deny"])
export type FileAccess = typeof FileAccess.Type

/** One line of a profile. The glob is relative to the workspace root; one that could never match is refused. Examples are checked when the file is read. */
export const FileRule = Schema.Struct({
  glob: RuleGlob,
  access: FileAccess,
  reason: Schema.optionalKey(Schema.String),
  examples: Schema.optionalKey(
    Schema.Struct({
      match: Schema.optionalKey(Schema.Array(ExamplePath)),
      not_match: Schema.optionalKey(Schema.Array(ExamplePath)),
    }),
  ),
})
export type FileRule = typeof FileRule.Type

const hostPattern = /^((\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:\d{1,5})?$/iu

/** A host that commands may reach: a name, `*.` before one for all below it, or an address; `:port` restricts it. */
const HostName = Schema.String.check(Schema.isPattern(hostPattern, { expected: 'a host such as "api.example.org:443" or "*.example.org"' }))
const HostExamples = Schema.optionalKey(Schema.Array(Schema.String))

/** One line of a list of hosts. Examples are hosts with or without a port (443 when left out); they are checked when the file is read. */
export const HostRule = Schema.Struct({
  host: HostName,
  reason: Schema.optionalKey(Schema.String),
  examples: Schema.optionalKey(Schema.Struct({ match: HostExamples, not_match: HostExamples })),
})
export type HostRule = typeof HostRule.Type

/** A host alone, or with why it is there. */
export const AllowedHost = Schema.Union([HostName, HostRule])
export type AllowedHost = typeof AllowedHost.Type

export const NetworkAccess = Schema.Union([Schema.Literals(["off", "loopback", "on"]), Schema.Struct({ allow: Schema.Array(AllowedHost) })])
export type NetworkAccess = typeof NetworkAccess.Type

const Token = Schema.String.check(Schema.isMinLength(1, { expected: "a word that is not empty" }))

const whyNoArgv = (argv: ReadonlyArray<string>): string | undefined => {
  const [program = "", ...others] = argv
  if (argv.length === 0) return "must name a program"
  if (/\s/u.test(program)) return `${excerpt(program, 60)} is no program: write each word as an element of its own, such as ["git", "push"]`
  if (program.includes("/")) return `${program} has a folder in it: name the program alone; it is matched wherever it lies`
  const wild = argv.find((token) => /^\*+$/u.test(token)) ?? (/[*?]/u.test(program) ? program : undefined)
  if (wild !== undefined) return `${wild} is no wildcard here: a rule holds for all further arguments; leave it out`
  if (program.startsWith("-")) return `${program} is an option, not a program`
  return others.includes("--") ? "-- is in every command that wants it; leave it out" : undefined
}

const Argv = Schema.Array(Token).check(Schema.makeFilter(whyNoArgv))
const Examples = Schema.Array(Schema.Array(Token).check(Schema.isMinLength(1, { expected: "a command that is not empty" })))

/** One line about commands: the program and the arguments it is about. Examples are checked when the file is read. */
export const CommandRule = Schema.Struct({
  argv: Argv,
  decision: Schema.Literals(["allow", "ask", "deny"]),
  reason: Schema.optionalKey(Schema.String),
  examples: Schema.optionalKey(Schema.Struct({ match: Schema.optionalKey(Examples), not_match: Schema.optionalKey(Examples) })),
})
export type CommandRule = typeof CommandRule.Type

/**
 * Words of a command that only its run decides: exactly one, or any number of them. Each begins with `prefix` and ends
 * with `suffix`.
 */
export interface UnknownWords {
  readonly prefix: string
  readonly suffix: string
  readonly one: boolean
}
export type CommandWord = string | UnknownWords

/** One program with its arguments, as a command line or a script would run it. */
export interface SimpleCommand {
  /** Empty for a line that runs nothing and only sets variables. */
  readonly words: ReadonlyArray<CommandWord>
  /** It may be a command, or only arguments of one. */
  readonly guessed?: boolean
  /** Variables are set for it, or its output goes into a file. */
  readonly altered?: boolean
  /** Names of the variables, when they are all that alters it. */
  readonly variables?: ReadonlyArray<string>
  /** All it does is to run commands that stand beside it. */
  readonly carries?: boolean
  /** What it would run besides and nobody can see, in words. */
  readonly unseen?: string
}

/** What a call would run: a program with its arguments, or a script for the shell; and how it was understood. */
export interface Execution {
  readonly line: { readonly argv: ReadonlyArray<string> } | { readonly script: string }
  /** Every command in it; absent as long as nobody has read it. */
  readonly commands?: ReadonlyArray<SimpleCommand>
}

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
  readonly commands: ReadonlyArray<CommandRule>
  readonly env: ReadonlyArray<string>
  readonly limits: Limits
}

/** What a call would read, write or run. Paths are in normal form. */
export interface Touches {
  readonly read?: ReadonlyArray<ConfinedPath>
  readonly write?: ReadonlyArray<ConfinedPath>
  /** The command runs in the workspace and can write wherever the profile lets a command write. */
  readonly exec?: Execution
}

/** A rule as a refusal names it: where it comes from and what it says. */
export interface AppliedRule {
  readonly rule: string
  readonly subject: string
}

export type Decision =
  /** With the rule that allowed it, where one covers all of it. */
  | { readonly _tag: "allow"; readonly rule?: string }
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

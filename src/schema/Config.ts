/**
 * The configuration file (contract §15): its fields, their defaults, and why a file is refused. What this version cannot
 * do is refused in words where it is asked for, never accepted and ignored.
 */
import { Duration, Effect, Result, Schema } from "effect"
import { ConfigProblem, problemsIn } from "./ConfigProblem.ts"
import { FileRule, NetworkAccess } from "./Policy.ts"

/** Everything wrong with a configuration at once; `file` is absent when none was read. */
export class ConfigInvalid extends Schema.TaggedError<ConfigInvalid>()("ConfigInvalid", {
  file: Schema.optionalKey(Schema.String),
  problems: Schema.Array(ConfigProblem),
}) {
  override get message() {
    const lines = this.problems.map(({ at, problem }) => (at === "" ? `  ${problem}` : `  ${at}: ${problem}`))
    return [`the configuration${this.file === undefined ? "" : ` ${this.file}`} cannot be used:`, ...lines].join("\n")
  }
}

/** A field that may be left out. */
const field = <S extends Schema.Top>(schema: S, whenAbsent: NoInfer<S["Type"]>) =>
  schema.pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(whenAbsent)))

/** Lets only the value through that asks for nothing which this version lacks. */
const only = <A>(isDefault: (value: A) => boolean, feature: string, write: string) =>
  Schema.makeFilter<A>((value) =>
    isDefault(value) ? undefined : `${feature} not available in this version; leave the field out or write ${write}`,
  )

/** A name in the file: a workspace's, a profile's, an environment's. */
const Name = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9._-]{1,64}$/u, { expected: "1 to 64 letters, digits, dots, dashes or underscores" }),
)
const Text = Schema.String.check(Schema.isMinLength(1, { expected: "a text that is not empty" }))
const atLeast = (minimum: number) => Schema.Int.check(Schema.isGreaterThanOrEqualTo(minimum))

const timePattern = /^\d+(\.\d+)? (millis|seconds?|minutes?|hours?|days?|weeks?)$/u

/** A time as text, such as `30 minutes`. */
const Span = Schema.String.check(Schema.isPattern(timePattern, { expected: 'a time such as "30 minutes" or "7 days"' })).pipe(
  Schema.decodeTo(Schema.DurationFromString),
  Schema.check(Schema.makeFilter((span) => (Duration.isZero(span) ? "must be longer than nothing" : undefined))),
)

const PatchSettings = Schema.Struct({
  ambiguity: field(Schema.Literals(["refuse", "first"]), "refuse").annotate({
    description: "What becomes of a hunk that fits several places: it is refused, or takes the first and the result says so",
  }),
  durability: field(
    Schema.Literals(["process", "power"]).check(only((value) => value === "process", "patches that survive a power cut are", '"process"')),
    "process",
  ),
})

export type PatchSettings = typeof PatchSettings.Type

export const standardPatchSettings: PatchSettings = { ambiguity: "refuse", durability: "process" }

export const WorkspaceEntry = Schema.Struct({
  root: Text.annotate({ description: "The folder; ~ is the home folder, and a relative one is taken from the file's own folder" }),
  profile: field(Name, "read-only"),
  environment: field(Name, "host"),
  sandbox: field(Schema.Literals(["auto", "required", "off"]), "auto"),
  approvals: field(Schema.Literals(["off", "confirm"]).check(only((value) => value === "off", "approvals are", '"off"')), "off"),
  patch: field(PatchSettings, standardPatchSettings),
  hooks: field(Schema.Record(Schema.String, Schema.Json).check(only((value) => Object.keys(value).length === 0, "hooks are", "{}")), {}),
})
export type WorkspaceEntry = typeof WorkspaceEntry.Type

export const ProfileEntry = Schema.Struct({
  extends: field(Name, "read-only"),
  files: field(Schema.Array(FileRule), []),
  exec: Schema.optionalKey(Schema.Literals(["off", "on"])),
  network: Schema.optionalKey(NetworkAccess),
  commands: field(Schema.Array(Schema.Json).check(only((value) => value.length === 0, "rules about commands are", "[]")), []),
  env: field(
    Schema.Array(Schema.String.check(Schema.isPattern(/^[A-Za-z_][A-Za-z0-9_]*$/u, { expected: "the name of an environment variable" }))),
    [],
  ),
  limits: field(
    Schema.Struct({
      processes: Schema.optionalKey(atLeast(1)),
      spool_bytes: Schema.optionalKey(atLeast(1)),
      timeout: Schema.optionalKey(Span),
    }),
    {},
  ),
})
export type ProfileEntry = typeof ProfileEntry.Type

const EnvironmentEntry = Schema.Struct({
  kind: Schema.Literals(["host", "worker"]).check(only((value) => value === "host", "worker environments are", '"host"')),
})

/** Sets of tools, and the single tools, that a file can pick. */
export const ToolChoice = Schema.Literals([
  "all",
  "files",
  "patch",
  "process",
  "workspace_info",
  "read",
  "find",
  "search",
  "apply_patch",
  "edit",
  "write",
  "exec_command",
  "write_stdin",
  "read_process",
  "list_processes",
  "terminate_process",
  "operation_status",
])
export type ToolChoice = typeof ToolChoice.Type

const Http = Schema.Struct({
  host: field(Text, "127.0.0.1"),
  port: field(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65535 })), 8787).annotate({ description: "0 takes any free port" }),
  hosts: field(Schema.Array(Text), []),
  origins: field(Schema.Array(Text), []),
  issuer: field(Schema.NullOr(Schema.String).check(only((value) => value === null, "tokens of an OAuth issuer are", "null")), null),
})

const Approvals = Schema.Struct({
  resolver: field(
    Schema.Literals(["operator", "caller"]).check(only((value) => value === "operator", "approvals are", '"operator"')),
    "operator",
  ),
  expires: field(Span.check(only((value) => Duration.toHours(value) === 1, "approvals are", '"1 hour"')), Duration.hours(1)),
})

const Retention = Schema.Struct({
  processes: field(Span, Duration.days(7)),
  operations: field(Span, Duration.days(90)),
  state_bytes: field(atLeast(1), 5 * 1024 ** 3),
})

export const ConfigFile = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String.annotate({ description: "For editors" })),
  workspaces: field(Schema.Record(Name, WorkspaceEntry), {}),
  profiles: field(Schema.Record(Name, ProfileEntry), {}),
  environments: field(Schema.Record(Name, EnvironmentEntry), { host: { kind: "host" } }),
  approvals: field(Approvals, { resolver: "operator", expires: Duration.hours(1) }),
  http: field(Http, { host: "127.0.0.1", port: 8787, hosts: [], origins: [], issuer: null }),
  tools: field(Schema.Array(ToolChoice).check(Schema.isMinLength(1, { expected: "at least one tool or set of tools" })), ["all"]),
  retention: field(Retention, { processes: Duration.days(7), operations: Duration.days(90), state_bytes: 5 * 1024 ** 3 }),
})
export type ConfigFile = typeof ConfigFile.Type

const decode = Schema.decodeUnknownResult(ConfigFile)

/** Reads what a configuration file's text stands for; on failure every problem with the field it is about. */
export const decodeConfig = (value: unknown): Result.Result<ConfigFile, ReadonlyArray<ConfigProblem>> =>
  Result.mapError(decode(value, { errors: "all", onExcessProperty: "error", reportInput: true }), ({ issue }) => problemsIn(issue))

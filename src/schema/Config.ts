/**
 * The configuration file (contract §15): its fields, their defaults, and why a file is refused. What this version cannot
 * do is refused in words where it is asked for, never accepted and ignored.
 */
import { Duration, Effect, Result, Schema, SchemaIssue } from "effect"
import { defaults, filesPlaceholder, noHooks, patchDefaults } from "./ConfigDefaults.ts"
import { type ConfigProblem, fieldPath } from "./ConfigProblem.ts"
import { CommandRule, FileRule, NetworkAccess } from "./Policy.ts"
import { Command } from "./Process.ts"
import { excerpt } from "./Retry.ts"

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
  ambiguity: field(Schema.Literals(["refuse", "first"]), patchDefaults.ambiguity).annotate({
    description: "What becomes of a hunk that fits several places: it is refused, or takes the first and the result says so",
  }),
  durability: field(Schema.Literals(["process", "power"]), patchDefaults.durability).annotate({
    description: "What an answered patch survives: the end of the server's process, or a power cut (slower: every file is synced)",
  }),
})

export type PatchSettings = typeof PatchSettings.Type

const whyNoHook = ([program = "", ...args]: ReadonlyArray<string>): string | undefined => {
  if (program === "" || program.includes(filesPlaceholder)) return "must begin with the program to run"
  return args.some((arg) => arg !== filesPlaceholder && arg.includes(filesPlaceholder))
    ? `${filesPlaceholder} stands for one argument for each file, so it must be an argument of its own`
    : undefined
}

const Hook = Schema.Struct({
  command: Command.check(Schema.makeFilter(whyNoHook)).annotate({
    description:
      "Program and its arguments; no shell is involved. The argument {files} stands for the patch's files that are there, one argument each",
  }),
  on_failure: field(Schema.Literals(["reject", "warn"]), "reject").annotate({
    description: "What becomes of the patch when the command fails: it is refused or rolled back, or stays and its result says so",
  }),
  timeout: field(Span, Duration.minutes(1)).annotate({ description: "The command has failed after this time" }),
})
/** A command of the operator that runs before or after a patch. */
export type Hook = typeof Hook.Type

const HookSettings = Schema.Struct({
  before_patch: field(Schema.Array(Hook), noHooks.before_patch).annotate({ description: "Run in order before anything is written" }),
  after_patch: field(Schema.Array(Hook), noHooks.after_patch).annotate({
    description: "Run in order once the files are written; what they change in the patch's files joins it",
  }),
})
export type HookSettings = typeof HookSettings.Type

export const WorkspaceEntry = Schema.Struct({
  root: Text.annotate({ description: "The folder; ~ is the home folder, and a relative one is taken from the file's own folder" }),
  profile: field(Name, "read-only").annotate({
    description: "What its callers may read, write, run and reach: read-only, workspace-write, or one of the profiles here",
  }),
  environment: field(Name, "host").annotate({ description: "Where its work runs: host, or one of the environments here" }),
  sandbox: field(Schema.Literals(["auto", "required", "off"]), "auto").annotate({
    description:
      "auto: commands are held as well as this machine can; required: none runs unless all of the profile is enforced; off: none is held",
  }),
  approvals: field(Schema.Literals(["off", "confirm"]), "off").annotate({
    description: "confirm: every change and command that the profile allows waits for a person",
  }),
  patch: field(PatchSettings, patchDefaults),
  hooks: field(HookSettings, noHooks),
})
export type WorkspaceEntry = typeof WorkspaceEntry.Type

export const ProfileEntry = Schema.Struct({
  extends: field(Name, "read-only").annotate({ description: "The profile whose rules come first; what this one leaves out is as there" }),
  files: field(Schema.Array(FileRule), []).annotate({
    description: "What may be read and written, by glob; the last rule that matches counts, and deny beats all",
  }),
  exec: Schema.optionalKey(Schema.Literals(["off", "on"])).annotate({ description: "Whether commands may run" }),
  network: Schema.optionalKey(NetworkAccess).annotate({
    description: "What commands may reach: nothing, this machine, the named hosts, or everything",
  }),
  commands: field(Schema.Array(CommandRule), []).annotate({
    description: "Which commands run, wait for a person or are refused, by their first words; the strictest rule that matches counts",
  }),
  env: field(
    Schema.Array(Schema.String.check(Schema.isPattern(/^[A-Za-z_][A-Za-z0-9_]*$/u, { expected: "the name of an environment variable" }))),
    [],
  ).annotate({ description: "Variables of the server's environment that commands get besides the usual ones, and that calls may set" }),
  limits: field(
    Schema.Struct({
      processes: Schema.optionalKey(atLeast(1)).annotate({ description: "Processes at a time; 16 in the built-in profiles" }),
      spool_bytes: Schema.optionalKey(atLeast(1)).annotate({ description: "Bytes of output kept of one process; 256 MB there" }),
      timeout: Schema.optionalKey(Span).annotate({ description: 'How long a command may run; "30 minutes" there' }),
    }),
    {},
  ),
})
export type ProfileEntry = typeof ProfileEntry.Type

const EnvironmentEntry = Schema.Struct({
  kind: Schema.Literals(["host", "worker"]).annotate({
    description: "Where work runs: in the server itself, or in a process of its own on this machine, behind a Unix socket",
  }),
  lifetime: Schema.optionalKey(Schema.Literals(["gateway", "detached"])).annotate({
    description: "Of a worker: it ends with its server (gateway, the default), or it and its processes outlive it (detached)",
  }),
  orphan_limit: Schema.optionalKey(Span).annotate({
    description: 'Of a detached worker: how long it goes on, with its processes, while no server is connected to it; default "1 hour"',
  }),
  user: Schema.optionalKey(Text).annotate({
    description:
      "Of a worker of a server that runs as root: the user it runs as, by name or as UID or UID:GID, with no other group and a state folder of its own; default: the server's user",
  }),
}).check(
  Schema.makeFilter(({ kind, lifetime, orphan_limit, user }) => {
    if (kind === "host" && lifetime !== undefined)
      return { path: ["lifetime"], issue: "is for a worker; the host environment ends with its server" }
    if (kind === "host" && user !== undefined)
      return { path: ["user"], issue: "is for a worker; the host environment is the server itself" }
    return orphan_limit !== undefined && lifetime !== "detached"
      ? { path: ["orphan_limit"], issue: 'is for a worker with "lifetime": "detached"; another ends with its server' }
      : undefined
  }),
)
export type EnvironmentEntry = typeof EnvironmentEntry.Type

/** Where commands are looked for: as the server does, as the user's login shell does, or in the folders named. */
const SearchPath = Schema.Union([
  Schema.Literals(["server", "login-shell"]),
  Schema.Array(Schema.String.check(Schema.isPattern(/^\/[^:]*$/u, { expected: "an absolute folder without a colon" }))).check(
    Schema.isMinLength(1, { expected: "at least one folder" }),
  ),
])
export type SearchPath = typeof SearchPath.Type

/** Sets of tools, and the single tools, that a file can pick. */
export const ToolChoice = Schema.Literals([
  "all",
  "files",
  "patch",
  "process",
  "works",
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
  "operation_list",
  "work_open",
  "steer_status",
  "steer_claim_next",
  "steer_complete",
  "work_finish",
  "approvals",
  "approval_create",
  "approval_resolve",
  "operation_resume",
])
export type ToolChoice = typeof ToolChoice.Type

const whyNoIssuer = (issuer: string): string | undefined => {
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined
  const isOwnMachine = url?.protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname)
  if (url?.protocol !== "https:" && !isOwnMachine) return "must be an https address"
  return url.search !== "" || url.hash !== "" ? "has a query or a fragment, which no issuer has" : undefined
}

/** A name as Host headers have it. */
const HostName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9.-]+$/u, { expected: 'a name such as "code.example.org", without scheme and port' }),
)

/** An origin as browsers send it. */
const Origin = Schema.String.check(
  Schema.isPattern(/^[a-z][a-z0-9+.-]*:\/\/[^/?#\sA-Z]+$/u, {
    expected: 'an origin such as "https://app.example.org:8443", without a path',
  }),
)

const Http = Schema.Struct({
  host: field(
    Text.check(
      only((host) => ["127.0.0.1", "::1", "localhost"].includes(host), "addresses other than this machine's own are", '"127.0.0.1"'),
    ),
    defaults.http.host,
  ).annotate({ description: "The address to listen on, of this machine alone" }),
  port: field(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65535 })), 8787).annotate({ description: "0 takes any free port" }),
  hosts: field(Schema.Array(HostName), defaults.http.hosts).annotate({
    description: "Names under which a tunnel or a proxy, which speaks TLS, reaches this server",
  }),
  origins: field(Schema.Array(Origin), defaults.http.origins).annotate({
    description: "Origins of web pages that may call it",
  }),
  per_caller: field(
    Schema.Struct({
      calls: field(atLeast(1), defaults.http.per_caller.calls).annotate({ description: "Calls that run" }),
      sessions: field(atLeast(1), defaults.http.per_caller.sessions).annotate({ description: "Sessions; the longest unused give way" }),
      bytes: field(atLeast(1), defaults.http.per_caller.bytes).annotate({ description: "Bytes of requests that are being answered" }),
    }),
    defaults.http.per_caller,
  ).annotate({ description: "What one caller may take up at once; what is beyond is refused with LIMIT_EXCEEDED" }),
  issuer: field(Schema.NullOr(Schema.String.check(Schema.makeFilter(whyNoIssuer))), defaults.http.issuer).annotate({
    description: "The OAuth server whose tokens count, as its metadata names it; null where clients log in here",
  }),
  login: field(Schema.Literals(["on", "off"]), defaults.http.login).annotate({
    description: "Whether clients without a token may ask the operator to log them in; an issuer takes the place of it",
  }),
})

const Approvals = Schema.Struct({
  resolver: field(Schema.Literals(["operator", "caller"]), "operator").annotate({
    description: "Who may grant: the operator alone, or also the caller whose call is held",
  }),
  expires: field(Span, Duration.hours(1)).annotate({ description: "A held call that nobody decided about is given up after this time" }),
})

const Retention = Schema.Struct({
  processes: field(Span, defaults.retention.processes).annotate({ description: "How long an ended process and its output are kept" }),
  operations: field(Span, defaults.retention.operations).annotate({ description: "How long the records of an operation are kept" }),
  output_bytes: field(atLeast(1), defaults.retention.output_bytes).annotate({
    description: "Bytes of output that the processes of all workspaces keep together: live ones share one half, ended ones the other",
  }),
  state_bytes: field(atLeast(1), defaults.retention.state_bytes).annotate({
    description: "How large the records may become before older ones go",
  }),
})

export const ConfigFile = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String.annotate({ description: "For editors" })),
  workspaces: field(Schema.Record(Name, WorkspaceEntry), defaults.workspaces),
  profiles: field(Schema.Record(Name, ProfileEntry), defaults.profiles),
  environments: field(Schema.Record(Name, EnvironmentEntry), defaults.environments),
  path: field(SearchPath, defaults.path).annotate({
    description:
      'PATH of every command: "server" for the one the server was started with, "login-shell" to ask the user\'s shell once (for at most 2 seconds; the server\'s own folders follow), or a list of folders',
  }),
  approvals: field(Approvals, defaults.approvals),
  http: field(Http, defaults.http),
  tools: field(
    Schema.Array(ToolChoice).check(Schema.isMinLength(1, { expected: "at least one tool or set of tools" })),
    defaults.tools,
  ).annotate({
    description: "Tools and sets of tools that are offered; all leaves out those that no workspace could use",
  }),
  retention: field(Retention, defaults.retention),
})
export type ConfigFile = typeof ConfigFile.Type

const decode = Schema.decodeUnknownResult(ConfigFile)

/** Reads what a configuration file's text stands for; on failure every problem with the field it is about. */
export const decodeConfig = (value: unknown): Result.Result<ConfigFile, ReadonlyArray<ConfigProblem>> =>
  Result.mapError(decode(value, { errors: "all", onExcessProperty: "error", reportInput: true }), ({ issue }) => problemsIn(issue))

/** Every problem of a failed decoding. */
const problemsIn = (issue: SchemaIssue.Issue): ReadonlyArray<ConfigProblem> =>
  format(issue).issues.map(({ path, message }) => ({ at: fieldPath(path ?? []), problem: excerpt(message, 800) }))

const unknownField = ({ ast }: SchemaIssue.UnexpectedKey): string => {
  if (ast._tag !== "Objects") return "is not known"
  const known = ast.propertySignatures.map(({ name }) => String(name))
  return known.length > 0
    ? `is no field here; known are ${known.join(", ")}`
    : "is no valid name; use 1 to 64 letters, digits, dots, dashes or underscores"
}

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    if (issue._tag === "MissingKey") return "is missing; it has no default"
    if (issue._tag === "UnexpectedKey") return unknownField(issue)
    return SchemaIssue.defaultLeafHook(issue)
  },
})

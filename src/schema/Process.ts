/** Processes: what is asked, the facts that come back, and why one cannot start or be written to. */
import { Effect, Schema } from "effect"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const ProcessId = Schema.String.check(Schema.isPattern(/^proc_[0-9a-z]+$/u))
  .pipe(Schema.brand("ProcessId"))
  .annotate({ description: "From exec_command" })
export type ProcessId = typeof ProcessId.Type

export const ProcessState = Schema.Literals(["running", "exited", "signalled", "timed_out", "terminated", "lost"])
export type ProcessState = typeof ProcessState.Type

export const EndedBy = Schema.Literals(["itself", "caller", "timeout", "limit", "server_stop", "unknown_external"])
export type EndedBy = typeof EndedBy.Type

export const Access = Schema.Literals(["exclusive", "shared", "read_only"])
export type Access = typeof Access.Type

/** Signals a caller may send. */
export const Signal = Schema.Literals(["SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT"])
export type Signal = typeof Signal.Type

/** A page of what a process wrote; `cursor` is the byte offset after it. */
const StreamFacts = Schema.Struct({
  output: Schema.String,
  cursor: Schema.String.annotate({ description: "Pass it to read_process for what follows" }),
  total_bytes: Count.annotate({ description: "Bytes written so far" }),
  omitted_bytes: Count.annotate({ description: "Bytes that this page leaves out" }),
  omitted_cursor: Schema.optionalKey(Schema.String.annotate({ description: "Pass it to read_process for what was left out" })),
  dropped_bytes: Schema.optionalKey(
    Count.annotate({ description: "Bytes that are gone, since the profile's limit was reached: beginning and end are kept" }),
  ),
})
export type StreamFacts = typeof StreamFacts.Type

/** A place that a command wanted to reach over the network and could not, because its profile says so. */
export const NetworkDenial = Schema.Struct({
  host: Schema.optionalKey(Schema.String),
  port: Schema.optionalKey(Schema.Int),
  reason: Schema.String,
  count: Count,
})
export type NetworkDenial = typeof NetworkDenial.Type

/** What its proxy decided about a place, each kind of decision once. It has names and ports alone, nothing of what was said there. */
export const NetworkVerdict = Schema.Struct({
  verdict: Schema.Literals(["allowed", "denied", "failed"]).annotate({ description: "failed: allowed, but not reached" }),
  host: Schema.optionalKey(Schema.String),
  port: Schema.optionalKey(Schema.Int),
  reason: Schema.String.annotate({ description: "The rule that allowed it, or why it was not made" }),
  count: Count,
})
export type NetworkVerdict = typeof NetworkVerdict.Type

/** The facts about a process and a page of its output. */
export const ProcessFacts = Schema.Struct({
  process_id: ProcessId,
  state: ProcessState,
  exit_code: Schema.optionalKey(Schema.Int),
  signal: Schema.optionalKey(Schema.String),
  ended_by: Schema.optionalKey(EndedBy),
  duration_ms: Count,
  ...StreamFacts.fields,
  output: Schema.String.annotate({ description: "stdout and stderr in the order of writing, or stdout alone when they are split" }),
  stderr: Schema.optionalKey(StreamFacts.annotate({ description: "Of a split process" })),
  eof: Schema.Boolean.annotate({ description: "The process has ended and all its output is behind the cursor" }),
  sandbox: Schema.optionalKey(
    Schema.String.annotate({ description: "What confined it, and to what; not in results of the first version" }),
  ),
  network_denials: Schema.optionalKey(Schema.Array(NetworkDenial)),
  network_verdicts: Schema.optionalKey(
    Schema.Array(NetworkVerdict).annotate({ description: "All that its proxy decided, once it has ended; the first 30 kinds" }),
  ),
  network_untold: Schema.optionalKey(Count.annotate({ description: "Decisions beyond those" })),
  notes: Schema.optionalKey(Schema.Array(Schema.String)),
})
export type ProcessFacts = typeof ProcessFacts.Type

export const ExecResult = Schema.Struct({ operation_id: Schema.String, ...ProcessFacts.fields })
export type ExecResult = typeof ExecResult.Type

export const ProcessSummary = Schema.Struct({
  process_id: ProcessId,
  workspace_id: Schema.String,
  command: Schema.String,
  cwd: Schema.String,
  state: ProcessState,
  started_at: Schema.String,
  exit_code: Schema.optionalKey(Schema.Int),
  access: Access,
  tty: Schema.Boolean,
})
export type ProcessSummary = typeof ProcessSummary.Type

const milliseconds = (description: string, minimum: number, maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum, maximum })).annotate({ description })
const text = (description: string, maximum: number) => Schema.String.check(Schema.isMaxLength(maximum)).annotate({ description })
const otherwise = <A>(value: A) => Schema.withDecodingDefaultTypeKey<Schema.Codec<A>>(Effect.succeed(value))

/** The kernel takes no NUL in an argument, a variable or a path. */
const withoutNul = (maximum: number) =>
  Schema.String.check(
    Schema.makeFilter((value: string) => (value.includes("\0") ? "must not contain a NUL character" : undefined)),
    // Last, since a description goes to the last check and is lost on one that JSON Schema cannot say.
    Schema.isMaxLength(maximum),
  )
/** One argument or variable may have 128 KiB at most on Linux. */
const LONGEST_ARGUMENT = 131_000
const LONGEST_WAIT = 50_000
const LONGEST_TIMEOUT = 86_400_000
const LONGEST_INPUT = 1_000_000

/** Bytes of output a result carries when the caller does not say. */
export const defaultOutputBytes = 30_000

const cursor = Schema.String.check(Schema.isMaxLength(20)).annotate({ description: "From an earlier result" })
const outputBytes = Schema.Int.check(Schema.isBetween({ minimum: 16, maximum: 200_000 }))
  .annotate({ description: "Output at most; default 30000" })
  .pipe(otherwise(defaultOutputBytes))

const cleanFlag = Schema.Boolean.annotate({
  description: "Lines as they stand after carriage returns, without control codes; default only for a tty",
})

const side = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))
export const TerminalSize = Schema.Struct({ rows: side, cols: side })
export type TerminalSize = typeof TerminalSize.Type

export const Command = Schema.Array(withoutNul(LONGEST_ARGUMENT))
  .check(Schema.isMinLength(1), Schema.isMaxLength(10_000))
  .annotate({ description: "Program and its arguments; no shell is involved" })

export const Script = withoutNul(100_000).annotate({ description: "Text for the shell, instead of command" })

/** Exactly one of `command` and `script` is given; the handler checks it. */
export const ExecArguments = Schema.Struct({
  command: Schema.optionalKey(Command),
  script: Schema.optionalKey(Script),
  cwd: Schema.optionalKey(withoutNul(4096).annotate({ description: "Folder to run in, relative to the workspace root" })),
  env: Schema.optionalKey(
    Schema.Record(Schema.String, withoutNul(LONGEST_ARGUMENT)).annotate({
      description: "Variables to set; the profile lists the allowed names",
    }),
  ),
  stdin: text("closed (default); open: feed it with write_stdin; any other text is its whole input", LONGEST_INPUT).pipe(
    otherwise("closed"),
  ),
  access: Access.annotate({
    description: "exclusive (default): alone; shared: beside others, for servers and watchers; read_only: changes no file",
  }).pipe(otherwise<Access>("exclusive")),
  timeout_ms: Schema.optionalKey(milliseconds("End the process after this time; default is the profile's limit", 1, LONGEST_TIMEOUT)),
  idle_timeout_ms: Schema.optionalKey(milliseconds("End the process after this time without output", 1, LONGEST_TIMEOUT)),
  yield_ms: milliseconds("How long to wait for the end; the process goes on after it. Default 10000", 0, LONGEST_WAIT).pipe(
    otherwise(10_000),
  ),
  max_output_bytes: outputBytes,
  tty: Schema.optionalKey(
    TerminalSize.annotate({ description: "Run in a terminal of this size; it takes input with write_stdin, whatever stdin says" }),
  ),
  split: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Keep stderr apart from stdout; the order between them is lost. Default false" }),
  ),
  clean: Schema.optionalKey(cleanFlag),
})
export type ExecArguments = typeof ExecArguments.Type

/** What a process reads. A text that is just one of the two words needs a newline to be input. */
export type Stdin = "closed" | "open" | { readonly text: string }
export const stdinOf = (asked: string): Stdin => (asked === "closed" || asked === "open" ? asked : { text: asked })

export const WriteStdinArguments = Schema.Struct({
  process_id: ProcessId,
  data: Schema.optionalKey(text("Text to write, newline included; in a terminal also keys, such as \\u0003 for Ctrl-C", LONGEST_INPUT)),
  close: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Close stdin after data (in a terminal: Ctrl-D); the program reads end of file" }),
  ),
  signal: Schema.optionalKey(Signal.annotate({ description: "To the process and its group, after data" })),
  resize: Schema.optionalKey(TerminalSize.annotate({ description: "New size of its terminal, set before data" })),
  yield_ms: milliseconds("How long to wait for output; returns when some arrives. Default 1000", 0, LONGEST_WAIT).pipe(otherwise(1000)),
  cursor: Schema.optionalKey(cursor.annotate({ description: "Return output from this cursor on; default is what comes after the write" })),
})
export type WriteStdinArguments = typeof WriteStdinArguments.Type

export const ReadProcessArguments = Schema.Struct({
  process_id: ProcessId,
  cursor: Schema.optionalKey(cursor),
  wait_ms: milliseconds("How long to wait for the end, new output or the text of until. Default 0", 0, LONGEST_WAIT).pipe(otherwise(0)),
  until: Schema.optionalKey(
    Schema.NonEmptyString.check(Schema.isMaxLength(1000)).annotate({
      description: "Wait until the output after cursor contains this text",
    }),
  ),
  max_bytes: outputBytes,
  stream: Schema.optionalKey(
    Schema.Literals(["stdout", "stderr"]).annotate({ description: "Of a split process: which one. Default stdout" }),
  ),
  clean: Schema.optionalKey(cleanFlag),
})
export type ReadProcessArguments = typeof ReadProcessArguments.Type

export const TerminateProcessArguments = Schema.Struct({
  process_id: ProcessId,
  grace_ms: milliseconds("Time between SIGTERM and SIGKILL. Default 2000", 0, 30_000).pipe(otherwise(2000)),
})
export type TerminateProcessArguments = typeof TerminateProcessArguments.Type

export class ProcessNotFound extends Schema.TaggedError<ProcessNotFound>()("PROCESS_NOT_FOUND", { process_id: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `no process "${this.process_id}" is known. Call list_processes for live and recent ones.`
  }
}

export class CommandNotFound extends Schema.TaggedError<CommandNotFound>()("COMMAND_NOT_FOUND", {
  command: Schema.String,
  path: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.command}" was not found. PATH is ${this.path}. Give a full path, or ask the operator to set "path" in the configuration.`
  }
}

export class CwdInvalid extends Schema.TaggedError<CwdInvalid>()("CWD_INVALID", { cwd: Schema.String, cause: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `cannot run in "${this.cwd}": ${this.cause}. Give a folder inside the workspace.`
  }
}

export class TerminalUnavailable extends Schema.TaggedError<TerminalUnavailable>()("TERMINAL_UNAVAILABLE", { cause: Schema.String }) {
  readonly retry = "never"
  override get message() {
    return `there are no terminals here: ${this.cause}. The operator can install it (npm install node-pty@npm:@lydell/node-pty@1.1.0 beside the server). Run it without tty.`
  }
}

export class SpawnFailed extends Schema.TaggedError<SpawnFailed>()("SPAWN_FAILED", { command: Schema.String, cause: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.command}" could not be started: ${this.cause}.`
  }
}

export class ProcessExited extends Schema.TaggedError<ProcessExited>()("PROCESS_EXITED", {
  process_id: Schema.String,
  state: ProcessState,
  exit_code: Schema.optionalKey(Schema.Int),
  signal: Schema.optionalKey(Schema.String),
}) {
  readonly retry = "never"
  override get message() {
    const how = this.exit_code !== undefined ? `exit code ${this.exit_code}` : (this.signal ?? this.state)
    return `process "${this.process_id}" has ended (${this.state}, ${how}). Its output stays readable with read_process.`
  }
}

export class StdinClosed extends Schema.TaggedError<StdinClosed>()("STDIN_CLOSED", { process_id: Schema.String }) {
  readonly retry = "never"
  override get message() {
    return `stdin of process "${this.process_id}" is closed. Start it with stdin "open" to write to it.`
  }
}

/** Processes: what is asked, the facts that come back, and why one cannot start or be written to. */
import { Schema } from "effect"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const ProcessId = Schema.String.check(Schema.isPattern(/^proc_[0-9a-z]+$/u))
  .pipe(Schema.brand("ProcessId"))
  .annotate({ description: "A process that exec_command started" })
export type ProcessId = typeof ProcessId.Type

export const ProcessState = Schema.Literals(["running", "exited", "signalled", "timed_out", "terminated", "lost"])
export type ProcessState = typeof ProcessState.Type

export const EndedBy = Schema.Literals(["itself", "caller", "timeout", "limit", "server_stop", "unknown_external"])
export type EndedBy = typeof EndedBy.Type

export const Access = Schema.Literals(["exclusive", "shared", "read_only"])
export type Access = typeof Access.Type

/** The facts about a process and a page of its output; `cursor` is the byte offset after that page. */
export const ProcessFacts = Schema.Struct({
  process_id: ProcessId,
  state: ProcessState,
  exit_code: Schema.optionalKey(Schema.Int),
  signal: Schema.optionalKey(Schema.String),
  ended_by: Schema.optionalKey(EndedBy),
  duration_ms: Count,
  output: Schema.String.annotate({ description: "stdout and stderr in the order of writing" }),
  cursor: Schema.String.annotate({ description: "Pass it to read_process for what follows" }),
  total_bytes: Count.annotate({ description: "Bytes written so far" }),
  omitted_bytes: Count.annotate({ description: "Bytes between head and tail that this result leaves out" }),
  omitted_cursor: Schema.optionalKey(Schema.String.annotate({ description: "Pass it to read_process for what was left out" })),
  eof: Schema.Boolean.annotate({ description: "The process has ended and all its output is behind the cursor" }),
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
    return `"${this.command}" was not found. PATH is ${this.path}. Give a full path, or ask the operator to extend PATH.`
  }
}

export class CwdInvalid extends Schema.TaggedError<CwdInvalid>()("CWD_INVALID", { cwd: Schema.String, cause: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `cannot run in "${this.cwd}": ${this.cause}. Give a folder inside the workspace.`
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

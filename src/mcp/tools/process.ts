/** exec_command, write_stdin, read_process, list_processes, terminate_process. */
import { Effect, Result, Schema } from "effect"
import type { ShownCall } from "../../schema/Approval.ts"
import type { LeaseRequest } from "../../schema/Lease.ts"
import { InvalidArguments } from "../../schema/Operation.ts"
import type { Execution } from "../../schema/Policy.ts"
import {
  CwdInvalid,
  ExecArguments,
  ExecResult,
  ProcessFacts,
  ProcessSummary,
  ReadProcessArguments,
  stdinOf,
  TerminateProcessArguments,
  WriteStdinArguments,
} from "../../schema/Process.ts"
import type { Coordination } from "../../schema/Work.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import { gitWorkOf, mentionsGit } from "../../services/GitWork.ts"
import { ProcessSupervisor } from "../../services/ProcessSupervisor.ts"
import { ShellParser } from "../../services/ShellParser.ts"
import { confinesOf, Workspace } from "../../services/Workspace.ts"
import { Coordinated } from "../Coordinated.ts"
import { factsOf } from "../Facts.ts"
import { Recording } from "../Recording.ts"
import { workspaceTool } from "../ToolEntry.ts"

/** How long a tree has for SIGTERM when the call that started it is cancelled before it answered, in milliseconds. */
const CANCEL_GRACE = 1000

const textOf = (facts: ProcessFacts & { readonly operation_id?: string; readonly coordination?: Coordination }): string => {
  const shown = factsOf(facts, [
    "operation_id",
    "process_id",
    "state",
    "exit_code",
    "signal",
    "ended_by",
    "duration_ms",
    "cursor",
    "total_bytes",
    "omitted_bytes",
    "omitted_cursor",
    "dropped_bytes",
    "eof",
    "sandbox",
    "network_denials",
    "network_verdicts",
    "network_untold",
    "notes",
    "coordination",
  ])
  if (facts.stderr === undefined) return `${shown}\n\n${facts.output}`
  const { output: errors, ...stderr } = facts.stderr
  return `${shown}\nstderr: ${factsOf({ stderr }, ["stderr"]).slice("stderr: ".length)}\n\n${facts.output}\n\nstderr:\n${errors}`
}

export const execCommand = workspaceTool({
  name: "exec_command",
  set: "process",
  title: "Run a command",
  description:
    "Run a program (command) or a shell script (script) in the workspace. Returns when it ends or yield_ms has passed: then state is running, go on with read_process, write_stdin, terminate_process. " +
    "Ends with all it started. Use access shared for servers and watchers. Long output comes as head and tail with a cursor to the rest.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...ExecArguments.fields, ...Recording }),
  success: Schema.Struct({ ...ExecResult.fields, ...Coordinated }),
  hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
  waits: true,
  text: textOf,
  records: true,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input) => Result.map(executionOf(input), (exec) => ({ exec })),
  // What the sandbox keeps from changing anything keeps nobody waiting.
  lease: (input): LeaseRequest | undefined => (input.access === "read_only" ? undefined : { kind: input.access }),
  holds: { shown: shownOf },
  handler: Effect.gen(function* () {
    const workspace = yield* Workspace
    const supervisor = yield* ProcessSupervisor
    const start = startRequest(workspace, supervisor, yield* ShellParser)
    return Effect.fnUntraced(function* (input: ExecArguments) {
      const request = yield* start(input)
      const facts = yield* Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(supervisor.start(request), (id) =>
          // Nobody has the id yet: a process whose call is cancelled here could never be found again.
          Effect.onInterrupt(restore(supervisor.awaitEnd(id, input.yield_ms, input.max_output_bytes, input.clean)), () =>
            Effect.ignore(supervisor.terminate(id, CANCEL_GRACE)),
          ),
        ),
      )
      if (facts.state !== "running") return { result: facts }
      return { result: facts, ending: Effect.orDie(supervisor.ended(facts.process_id, input.max_output_bytes, input.clean)) }
    })
  }),
})

/** What a person is shown of a command: all of it, but of variables only the names, since values may be secrets. */
function shownOf({ access, command, cwd, env, script, stdin }: ExecArguments): Partial<ShownCall> {
  const input = stdinOf(stdin)
  return {
    ...(command === undefined ? {} : { command }),
    ...(script === undefined ? {} : { script }),
    cwd: cwd ?? ".",
    env: Object.keys(env ?? {}),
    ...(typeof input === "string" ? {} : { stdin: input.text }),
    access,
  }
}

/** The command of a call, once it is certain that there is exactly one. */
export const executionOf = ({ command, script }: Pick<ExecArguments, "command" | "script">): Result.Result<Execution, InvalidArguments> => {
  if (command !== undefined && script === undefined) return Result.succeed({ line: { argv: command } })
  if (script !== undefined && command === undefined) return Result.succeed({ line: { script } })
  return Result.fail(new InvalidArguments({ problems: ["give either command or script, exactly one of them"] }))
}

const startRequest = (workspace: Workspace["Service"], supervisor: ProcessSupervisor["Service"], parser: ShellParser["Service"]) =>
  Effect.fnUntraced(function* (input: ExecArguments) {
    const shown = input.cwd ?? "."
    const folder = yield* workspace
      .resolveFolder(shown)
      .pipe(
        Effect.catchTag(["PATH_NOT_FOUND", "NOT_A_FILE"], (refusal) => Effect.fail(new CwdInvalid({ cwd: shown, cause: refusal.message }))),
      )
    const allowed = yield* supervisor.environment(workspace.profile, input.env ?? {})
    const line = input.script === undefined ? { argv: input.command ?? [] } : { script: input.script }
    // A program in a terminal may be told to do anything.
    const git = mentionsGit(line) && input.tty === undefined ? gitWorkOf(line, Object.keys(input.env ?? {}), yield* parser.load) : undefined
    const script = input.script === undefined ? undefined : supervisor.script(input.script)
    return {
      ...confinesOf(workspace),
      cwd: { path: folder === "" ? workspace.root.path : `${workspace.root.path}/${folder}`, shown: folder === "" ? "." : folder },
      argv: script?.argv ?? input.command ?? [],
      command: input.script ?? (input.command ?? []).join(" "),
      env: { ...allowed, ...script?.env },
      stdin: stdinOf(input.stdin),
      access: input.access,
      ...(git === undefined ? {} : { git }),
      ...(input.split === undefined ? {} : { split: input.split }),
      ...(input.tty === undefined ? {} : { tty: input.tty }),
      ...(input.timeout_ms === undefined ? {} : { timeoutMs: input.timeout_ms }),
      ...(input.idle_timeout_ms === undefined ? {} : { idleTimeoutMs: input.idle_timeout_ms }),
      limits: workspace.profile.limits,
    }
  })

const ofProcess = (input: { readonly process_id: string }) => ({ process: input.process_id })

export const writeStdin = workspaceTool({
  name: "write_stdin",
  set: "process",
  title: "Write to a process",
  description:
    "Write text to a running process, close its stdin, or send it a signal (SIGINT interrupts), in this order; returns the output that comes after. " +
    'Only a process started with stdin "open" takes text. Use read_process to wait without writing.',
  parameters: WriteStdinArguments,
  success: ProcessFacts,
  hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
  waits: true,
  text: textOf,
  records: false,
  names: ofProcess,
  handler: Effect.map(
    ProcessSupervisor,
    (supervisor) =>
      ({ process_id, yield_ms, ...request }) =>
        Effect.map(supervisor.write(process_id, { ...request, waitMs: yield_ms, maxBytes: 30_000 }), (result) => ({ result })),
  ),
})

export const readProcess = workspaceTool({
  name: "read_process",
  set: "process",
  title: "Read a process",
  description:
    "Read output after a cursor: never repeats, never skips; the same cursor gives the same bytes. With wait_ms it waits for new output, for the text until, or for the end. " +
    "Works after the end too. Gives state and exit code once the process has ended.",
  parameters: ReadProcessArguments,
  success: ProcessFacts,
  hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
  waits: true,
  text: textOf,
  records: false,
  names: ofProcess,
  handler: Effect.map(
    ProcessSupervisor,
    (supervisor) =>
      ({ max_bytes, process_id, wait_ms, ...request }) =>
        Effect.map(supervisor.read(process_id, { ...request, waitMs: wait_ms, maxBytes: max_bytes, view: "follow" }), (result) => ({
          result,
        })),
  ),
})

const ListResult = Schema.Struct({ processes: Schema.Array(ProcessSummary) })

export const listProcesses = workspaceTool({
  name: "list_processes",
  set: "process",
  title: "List processes",
  description: "List the live and recently ended processes of a workspace, whoever started them: id, command, folder, state, exit code.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId }),
  success: ListResult,
  hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
  text: ({ processes }) =>
    processes
      .map((process) =>
        factsOf(process, ["process_id", "workspace_id", "state", "exit_code", "started_at", "access", "tty", "cwd", "command"]),
      )
      .join("\n\n") || "no processes",
  records: false,
  names: (input) => ({ workspace: input.workspace_id }),
  handler: Effect.map(
    ProcessSupervisor,
    (supervisor) => (input) => Effect.map(supervisor.list(input.workspace_id), (processes) => ({ result: { processes } })),
  ),
})

export const terminateProcess = workspaceTool({
  name: "terminate_process",
  set: "process",
  title: "Stop a process",
  description:
    "Stop a process and everything it started: SIGTERM, then SIGKILL after grace_ms. Returns when all of it is gone, with the last output. Harmless when it has ended already.",
  parameters: TerminateProcessArguments,
  success: ProcessFacts,
  hints: { readOnly: false, destructive: true, idempotent: true, openWorld: false },
  waits: true,
  text: textOf,
  records: false,
  names: ofProcess,
  handler: Effect.map(
    ProcessSupervisor,
    (supervisor) =>
      ({ grace_ms, process_id }) =>
        Effect.map(supervisor.terminate(process_id, grace_ms), (result) => ({ result })),
  ),
})

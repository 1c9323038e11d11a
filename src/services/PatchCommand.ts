/**
 * Runs a command that belongs to a patch: in the workspace's root, without input, until it ends by itself or its time is
 * over. Its whole tree has ended when the answer is there, and also when the call is interrupted.
 */
import { Effect } from "effect"
import type { Verified, VerifyFailed } from "../schema/Patch.ts"
import type { ProcessFacts } from "../schema/Process.ts"
import type { StartRequest } from "./ProcessStart.ts"
import type { ProcessSupervisor } from "./ProcessSupervisor.ts"
import { confinesOf, type Workspace } from "./Workspace.ts"

/** Bytes of output that a result or refusal carries. */
const OUTPUT_BYTES = 8000
/** How long a tree has for SIGTERM when the call is cancelled, in milliseconds. */
const CANCEL_GRACE = 1000

/** What is particular about one command. `env` comes beside the variables that the profile allows. */
export type PatchCommand = Pick<StartRequest, "argv" | "command" | "env" | "timeoutMs" | "limits">

/** A command that did not end with exit code 0, or did not even start. */
export type CommandFailure = Pick<VerifyFailed, "cause" | "exit_code" | "signal" | "duration_ms" | "output" | "omitted_bytes">

export const makeCommands = (workspace: Workspace["Service"], supervisor: ProcessSupervisor["Service"]) =>
  Effect.fn("PatchCommand.run")(function* (command: PatchCommand): Effect.fn.Return<Verified, CommandFailure> {
    const facts = yield* run(workspace, supervisor, command).pipe(
      Effect.catchTag(
        [
          ...(["COMMAND_NOT_FOUND", "CWD_INVALID", "SPAWN_FAILED", "TERMINAL_UNAVAILABLE", "STORAGE_FULL"] as const),
          ...(["LIMIT_EXCEEDED", "POLICY_DENIED", "SANDBOX_UNAVAILABLE"] as const),
        ],
        (refusal) => Effect.fail(notStarted(refusal.message)),
      ),
    )
    const { duration_ms, exit_code, omitted_bytes, output, sandbox = "" } = facts
    if (facts.state === "exited" && exit_code === 0) return { exit_code, duration_ms, output, omitted_bytes, sandbox }
    return yield* Effect.fail({
      cause: causeOf(facts),
      ...(exit_code === undefined ? {} : { exit_code }),
      ...(facts.signal === undefined ? {} : { signal: facts.signal }),
      duration_ms,
      output,
      omitted_bytes,
    })
  })

const run = Effect.fnUntraced(function* (
  workspace: Workspace["Service"],
  supervisor: ProcessSupervisor["Service"],
  { env, ...command }: PatchCommand,
) {
  const request: StartRequest = {
    ...command,
    ...confinesOf(workspace),
    cwd: { path: workspace.root.path, shown: "." },
    env: { ...(yield* supervisor.environment(workspace.profile, {})), ...env },
    stdin: "closed",
    access: "exclusive",
  }
  return yield* Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(supervisor.start(request), (id) =>
      restore(Effect.orDie(supervisor.ended(id, OUTPUT_BYTES))).pipe(
        Effect.onInterrupt(() => Effect.ignore(supervisor.terminate(id, CANCEL_GRACE))),
      ),
    ),
  )
})

const notStarted = (cause: string): CommandFailure => ({
  cause: `could not be started: ${cause}`,
  duration_ms: 0,
  output: "",
  omitted_bytes: 0,
})

const causeOf = ({ duration_ms, exit_code, notes, signal, state }: ProcessFacts): string => {
  if (state === "timed_out") return `did not end in time (${(notes ?? []).join("; ") || `${duration_ms} ms`})`
  if (exit_code !== undefined)
    return state === "exited" ? `ended with exit code ${exit_code}` : `was ended (${state}, exit code ${exit_code})`
  return `was ended by ${signal ?? "an unknown cause"} (${state})`
}

/**
 * Runs the command that decides whether a patch stays: in the workspace's root, without input, until it ends by itself or
 * its time is over. Its whole tree has ended when the answer is there, and also when the call is interrupted.
 */
import { Effect } from "effect"
import { type Verified, type Verify, VerifyFailed } from "../schema/Patch.ts"
import type { ProcessFacts } from "../schema/Process.ts"
import type { ProcessSupervisor } from "./ProcessSupervisor.ts"
import type { Workspace } from "./Workspace.ts"

/** Bytes of output that a result or refusal carries. */
const OUTPUT_BYTES = 8000
/** How long a tree has for SIGTERM when the call is cancelled, in milliseconds. */
const CANCEL_GRACE = 1000

export const makeVerification = (workspace: Workspace["Service"], supervisor: ProcessSupervisor["Service"]) =>
  Effect.fn("PatchVerification.run")(function* (asked: Verify): Effect.fn.Return<Verified, VerifyFailed> {
    const facts = yield* run(workspace, supervisor, asked).pipe(
      Effect.catchTag(
        ["COMMAND_NOT_FOUND", "CWD_INVALID", "SPAWN_FAILED", "TERMINAL_UNAVAILABLE", "STORAGE_FULL", "LIMIT_EXCEEDED", "POLICY_DENIED"],
        (refusal) => Effect.fail(notStarted(refusal.message)),
      ),
    )
    const { duration_ms, exit_code, omitted_bytes, output } = facts
    if (facts.state === "exited" && exit_code === 0) return { exit_code, duration_ms, output, omitted_bytes }
    return yield* new VerifyFailed({
      status: "failed_rolled_back",
      cause: causeOf(facts),
      ...(exit_code === undefined ? {} : { exit_code }),
      ...(facts.signal === undefined ? {} : { signal: facts.signal }),
      duration_ms,
      output,
      omitted_bytes,
    })
  })

const run = Effect.fnUntraced(function* (workspace: Workspace["Service"], supervisor: ProcessSupervisor["Service"], asked: Verify) {
  const script = asked.script === undefined ? undefined : supervisor.script(asked.script)
  const request = {
    workspaceId: workspace.id,
    cwd: { path: workspace.root.path, shown: "." },
    argv: script?.argv ?? asked.command ?? [],
    command: asked.script ?? (asked.command ?? []).join(" "),
    env: { ...(yield* supervisor.environment(workspace.profile, {})), ...script?.env },
    stdin: "closed",
    access: "exclusive",
    ...(asked.timeout_ms === undefined ? {} : { timeoutMs: asked.timeout_ms }),
    limits: workspace.profile.limits,
  } as const
  return yield* Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(supervisor.start(request), (id) =>
      restore(Effect.orDie(supervisor.ended(id, OUTPUT_BYTES))).pipe(
        Effect.onInterrupt(() => Effect.ignore(supervisor.terminate(id, CANCEL_GRACE))),
      ),
    ),
  )
})

const notStarted = (cause: string) =>
  new VerifyFailed({ status: "failed_rolled_back", cause: `could not be started: ${cause}`, duration_ms: 0, output: "", omitted_bytes: 0 })

const causeOf = ({ duration_ms, exit_code, notes, signal, state }: ProcessFacts): string => {
  if (state === "timed_out") return `did not end in time (${(notes ?? []).join("; ") || `${duration_ms} ms`})`
  if (exit_code !== undefined)
    return state === "exited" ? `ended with exit code ${exit_code}` : `was ended (${state}, exit code ${exit_code})`
  return `was ended by ${signal ?? "an unknown cause"} (${state})`
}

/** Runs the command of a call that decides whether its patch stays. */
import { Effect } from "effect"
import { type Verified, type Verify, VerifyFailed } from "../schema/Patch.ts"
import { makeCommands } from "./PatchCommand.ts"
import type { ProcessSupervisor } from "./ProcessSupervisor.ts"
import type { Workspace } from "./Workspace.ts"

export const makeVerification = (workspace: Workspace["Service"], supervisor: ProcessSupervisor["Service"]) => {
  const run = makeCommands(workspace, supervisor)
  return ({ command = [], script, timeout_ms }: Verify): Effect.Effect<Verified, VerifyFailed> => {
    const { argv, env } = script === undefined ? { argv: command, env: {} } : supervisor.script(script)
    return run({
      argv,
      command: script ?? command.join(" "),
      env,
      ...(timeout_ms === undefined ? {} : { timeoutMs: timeout_ms }),
      limits: workspace.profile.limits,
    }).pipe(Effect.mapError((failure) => new VerifyFailed({ status: "failed_rolled_back", ...failure })))
  }
}

/**
 * The start. Exit code 0 after an orderly end, 1 when something is wrong, 2 for a wrong command line, or what the command
 * says. A client waits for what is imported here, so nothing is that serving it does not need.
 */
import { Cause, Effect, Exit } from "effect"
import { commands } from "./cli/commands.ts"
import { log } from "./cli/Output.ts"
import { run } from "./cli/Run.ts"
import * as Observability from "./layers/Observability.ts"

/** An orderly end is promised within 5 s; whatever hangs then is left to the kernel. */
const STOP_LIMIT = 4500

/** Closes what the command built, and never takes longer than promised for it. */
const ended = run({ commands }, process.argv.slice(2)).pipe(
  Effect.ensuring(Effect.sync(() => void setTimeout(() => process.exit(1), STOP_LIMIT).unref())),
  Effect.scoped,
)

// A reader that is gone must not end the process before its layers are closed.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined)
const exit = await Effect.runPromiseExit(Effect.provide(ended, Observability.layer))
if (Exit.isFailure(exit)) log(`codespace: ${Cause.pretty(exit.cause)}`)
process.exit(Exit.isSuccess(exit) ? exit.value : 1)

/**
 * The operator's commands around a patch. Those of `before_patch` see the files as they are, those of `after_patch` as
 * they have become, and may change them. They come from the configuration alone: no caller sets or skips one, and a
 * profile that forbids commands to callers forbids none of them.
 */
import { Duration, Effect } from "effect"
import type { Hook, HookSettings } from "../schema/Config.ts"
import { filesPlaceholder } from "../schema/ConfigDefaults.ts"
import { VerifyFailed } from "../schema/Patch.ts"
import { excerpt } from "../schema/Retry.ts"
import { type CommandFailure, makeCommands } from "./PatchCommand.ts"
import type { ProcessSupervisor } from "./ProcessSupervisor.ts"
import type { Workspace } from "./Workspace.ts"

/** When a hook runs, by the name of its list in the configuration. */
type Moment = keyof HookSettings

/** The hooks of one moment that apply to a patch. */
export interface HookRound {
  /** How notes and refusals call them; none where no hook applies. */
  readonly names: ReadonlyArray<string>
  /** Runs them one after the other until one rejects. Gives a note for each that failed and only warns. */
  readonly run: Effect.Effect<ReadonlyArray<string>, VerifyFailed>
}

/** Picks the hooks of a moment for a patch of which these files are there then. */
export type Hooks = (moment: Moment, files: ReadonlyArray<string>) => HookRound

/** Characters of a command, and of a failed hook's output, that a note has room for. */
const NAME_LENGTH = 200
const OUTPUT_LENGTH = 1000

export const makeHooks = (workspace: Workspace["Service"], supervisor: ProcessSupervisor["Service"]): Hooks => {
  const run = makeCommands(workspace, supervisor)

  const perform = (moment: Moment, hook: Hook, files: ReadonlyArray<string>) => {
    const timeoutMs = Duration.toMillis(hook.timeout)
    return run({
      argv: hook.command.flatMap((arg) => (arg === filesPlaceholder ? files.map(asArgument) : [arg])),
      command: hook.command.join(" "),
      env: {},
      timeoutMs,
      // Limits hold for what callers start; a caller who fills the workspace with processes must not keep a hook away.
      limits: { ...workspace.profile.limits, processes: Number.POSITIVE_INFINITY, timeout_ms: timeoutMs },
    }).pipe(
      Effect.as<ReadonlyArray<string>>([]),
      Effect.catch((failure) =>
        hook.on_failure === "warn" ? Effect.succeed([warningOf(moment, hook, failure)]) : Effect.fail(refusalOf(moment, hook, failure)),
      ),
    )
  }

  return (moment, files) => {
    const applying = workspace.hooks[moment].filter(({ command }) => files.length > 0 || !command.includes(filesPlaceholder))
    return {
      names: applying.map((hook) => nameOf(moment, hook)),
      run: Effect.map(
        Effect.forEach(applying, (hook) => perform(moment, hook, files)),
        (notes) => notes.flat(),
      ),
    }
  }
}

const nameOf = (moment: Moment, { command }: Hook): string => `${moment} hook "${excerpt(command.join(" "), NAME_LENGTH)}"`

/** The caller chose the name, and a program must not take it for an option or a pattern of its own. */
const asArgument = (path: string): string => (/^[\p{L}\p{N}_.]/u.test(path) ? path : `./${path}`)

const warningOf = (moment: Moment, hook: Hook, { cause, output }: CommandFailure): string =>
  `the ${nameOf(moment, hook)} ${cause}; it only warns, so the patch stays.${output === "" ? "" : ` It wrote: ${excerpt(output, OUTPUT_LENGTH)}`}`

const refusalOf = (moment: Moment, hook: Hook, failure: CommandFailure) =>
  new VerifyFailed({ status: moment === "before_patch" ? "rejected" : "failed_rolled_back", hook: nameOf(moment, hook), ...failure })

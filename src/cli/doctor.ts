/**
 * `codespace doctor`: one line a part, and the fix where there is something to mend. Exit code 0 when all of it works, 1
 * when something is wrong. It changes nothing that a start would not.
 */
import { Effect, Result } from "effect"
import { placeFor } from "../layers/ConfigFile.ts"
import { defaults } from "../schema/ConfigDefaults.ts"
import { command, configOption, jsonOption } from "./Command.ts"
import { type Finding, findingText, within } from "./Finding.ts"
import * as MachineChecks from "./MachineChecks.ts"
import { printAs } from "./Output.ts"
import { configured } from "./Prepare.ts"
import * as ServiceChecks from "./ServiceChecks.ts"
import * as StateChecks from "./StateChecks.ts"
import * as UserChecks from "./UserChecks.ts"

export const doctor = command({
  args: "[DIR...]",
  details: "Each DIR counts as a workspace, as it would for mcp and serve.",
  options: { ...configOption, ...jsonOption },
  run: Effect.fnUntraced(function* ({ args, options }) {
    const { state } = placeFor(options.config)
    // Before the configuration is read, which closes the folder to others.
    const folder = yield* within("state", StateChecks.folder(state))
    const read = yield* Effect.result(configured({ args, options }, "workspaces optional"))
    const config = Result.getOrElse(read, () => undefined)
    const isRequired = [...(config?.workspaces.values() ?? [])].some(({ sandbox }) => sandbox === "required")
    const checks = [
      within("node", MachineChecks.node),
      Effect.succeed(ServiceChecks.configuration(Result.merge(read))),
      Effect.succeed(folder),
      within("disk", StateChecks.disk(state)),
      StateChecks.records(state),
      within("retention", StateChecks.retention(state, config ?? { retention: defaults.retention, workspaces: new Map() })),
      within("sandbox", MachineChecks.sandbox(isRequired)),
      config === undefined ? Effect.succeed([]) : UserChecks.users(config),
      within("terminal", MachineChecks.terminal),
      within("path", MachineChecks.path(config?.path ?? defaults.path)),
      within("git", MachineChecks.git),
      within("ripgrep", MachineChecks.ripgrep),
      within("port", ServiceChecks.port(config?.http ?? defaults.http)),
      within("sockets", StateChecks.sockets(state)),
    ]
    const findings: ReadonlyArray<Finding> = (yield* Effect.all(checks)).flat()
    const isWrong = findings.some(({ state }) => state === "wrong")
    yield* printAs(options.json, { ok: !isWrong, findings }, findings.map(findingText).join(""))
    return isWrong ? 1 : 0
  }),
})

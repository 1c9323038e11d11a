/**
 * What serving clients needs, over stdio or HTTP: the configuration, the table of the tools it offers, and the program
 * behind them, which is loaded by the first call.
 */
import { Context, Effect, Layer, type Scope } from "effect"
import * as ConfigFile from "../layers/ConfigFile.ts"
import { offered } from "../mcp/ToolList.ts"
import { tableOf } from "../mcp/ToolTable.ts"
import { AppConfig } from "../services/AppConfig.ts"
import { toolList, version } from "./Built.ts"
import type { Asked, configOption } from "./Command.ts"
import { log } from "./Output.ts"

const instructions =
  "Start with workspace_info. Read before you change, pass the versions you read to apply_patch, edit or write, and give changes an operation_key: " +
  "after a lost answer ask operation_status, or repeat the call with the same key. Every refusal says what to do next."

export const foldersNote =
  "Each DIR is registered as a workspace under its folder name, with profile workspace-write, beside those of the configuration file."

type Configured = Asked<typeof configOption>

/** The configuration that `--config` and the folders of a command line stand for. */
export const configured = ({ args, options }: Configured, workspacesOptional?: "workspaces optional") =>
  Effect.map(
    Layer.build(
      ConfigFile.layer({
        folders: args,
        ...(options.config === undefined ? {} : { config: options.config }),
        ...(workspacesOptional === undefined ? {} : { workspacesOptional: true }),
      }),
    ),
    (context) => Context.get(context, AppConfig),
  )

export const prepare = Effect.fnUntraced(function* (asked: Configured) {
  const config = yield* configured(asked)
  const list = offered(yield* toolList, config)
  const context = yield* Effect.context<Scope.Scope>()
  const load = async () => {
    const { makeProgram } = await import("../program.ts")
    return Effect.runPromise(Effect.provideContext(makeProgram(config, list, log), context))
  }
  const program: { loaded?: ReturnType<typeof load> } = {}
  const loaded = () => (program.loaded ??= load())
  const table = tableOf({ list, instructions, version, call: async (params, call) => (await loaded()).call(params, call) })
  return { loaded, table }
})

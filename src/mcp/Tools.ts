/**
 * The list of tools, and what is made of it: rows for the edges, handlers for the workspace side. A new tool is one
 * entry in its subject's file and its name here.
 */
import { Context, Effect, Option, Schema } from "effect"
import * as Tool from "effect/ai/Tool"
import type { WorkspaceTool } from "../runner/Handlers.ts"
import type { StorageFull, StoreUnavailable } from "../schema/Operation.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import type { Caller } from "../services/Caller.ts"
import type { LeaseManager } from "../services/LeaseManager.ts"
import type { Operations } from "../services/Operations.ts"
import type { Store } from "../services/Store.ts"
import type { ToolEntry } from "./ToolEntry.ts"
import type { ToolRow } from "./ToolRow.ts"
import { find, read, search } from "./tools/files.ts"
import { operationStatus } from "./tools/operation.ts"
import { applyPatch, edit, write } from "./tools/patch.ts"
import { execCommand, listProcesses, readProcess, terminateProcess, writeStdin } from "./tools/process.ts"
import { workspaceInfo } from "./tools/workspace.ts"

/** What the tools need of the control side. */
export type ControlServices = Operations | Store | AppConfig | LeaseManager

export const entries: ReadonlyArray<ToolEntry<ControlServices | Caller>> = [
  workspaceInfo,
  read,
  find,
  search,
  applyPatch,
  edit,
  write,
  execCommand,
  writeStdin,
  readProcess,
  listProcesses,
  terminateProcess,
  operationStatus,
]

/**
 * The tools this configuration offers: those it picks, without the ones no registered workspace could use. A tool that
 * belongs to no set is always there.
 */
export const offered = ({ tools, workspaces }: AppConfig["Service"]): ReadonlyArray<ToolEntry<ControlServices | Caller>> => {
  const profiles = [...workspaces.values()].map(({ profile }) => profile)
  const usable = {
    files: true,
    patch: profiles.some(({ files }) => files.some(({ access }) => access === "write")),
    process: profiles.some((profile) => profile.exec === "on"),
  }
  const picked = new Set<string>(tools)
  return entries.filter(
    ({ set, tool }) => set === undefined || (usable[set] && (picked.has("all") || picked.has(set) || picked.has(tool.name))),
  )
}

/** The handlers for the workspace side. */
export const workspaceTools: ReadonlyArray<WorkspaceTool> = entries.flatMap(({ workspaceTool }) => workspaceTool ?? [])

/**
 * The rows for the edges. `control` gives the control side when the first call needs it, so that listing tools costs
 * nothing but this list; while it cannot be given, calls are refused and nothing else breaks.
 */
export const rowsOf = (
  entries: ReadonlyArray<ToolEntry<ControlServices | Caller>>,
  control: Effect.Effect<Context.Context<ControlServices>, StoreUnavailable | StorageFull>,
): ReadonlyArray<ToolRow> => entries.map((entry) => rowOf(entry, control))

const rowOf = (
  { call, tool, waits }: ToolEntry<ControlServices | Caller>,
  control: Effect.Effect<Context.Context<ControlServices>, StoreUnavailable | StorageFull>,
): ToolRow => {
  const annotations = tool.annotations as Context.Context<never>
  return {
    name: tool.name,
    title: Option.getOrElse(Context.getOption(annotations, Tool.Title), () => tool.name),
    description: Tool.getDescription(tool) ?? "",
    input: printed(tool.parametersSchema as Schema.Top),
    output: printed(tool.successSchema as Schema.Top),
    hints: {
      readOnlyHint: Context.get(tool.annotations, Tool.Readonly),
      destructiveHint: Context.get(tool.annotations, Tool.Destructive),
      idempotentHint: Context.get(tool.annotations, Tool.Idempotent),
      openWorldHint: Context.get(tool.annotations, Tool.OpenWorld),
    },
    waits,
    call: (args) => Effect.flatMap(control, (services) => Effect.provideContext(call(args), services)),
  }
}

/** A schema as clients get it: a closed object, without the dialect's name, which is the default one. */
const printed = (schema: Schema.Top): Schema.JsonObject => {
  const { definitions, schema: json } = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
  return { ...json, ...(Object.keys(definitions).length > 0 ? { $defs: definitions } : {}) } as Schema.JsonObject
}

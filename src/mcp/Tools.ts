/**
 * The tools, and what is made of them: the list that clients get, calls for the edges, handlers for the workspace side. A
 * new tool is one entry in its subject's file and its name here.
 */
import { Context, Effect, Layer, Option, Schema } from "effect"
import * as Tool from "effect/ai/Tool"
import type { WorkspaceTool } from "../runner/Handlers.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import type { Approvals } from "../services/Approvals.ts"
import { GatedTools } from "../services/GatedTool.ts"
import type { LeaseManager } from "../services/LeaseManager.ts"
import type { Operations } from "../services/Operations.ts"
import type { Sandbox } from "../services/Sandbox.ts"
import type { Store } from "../services/Store.ts"
import type { Works } from "../services/Works.ts"
import { isObject } from "./Rpc.ts"
import type { ToolEntry } from "./ToolEntry.ts"
import type { CallTool, ListedTool } from "./ToolList.ts"
import { approvalCreate, approvalResolve, operationResume } from "./tools/approval.ts"
import { find, read, search } from "./tools/files.ts"
import { operationList, operationStatus } from "./tools/operation.ts"
import { applyPatch, edit, write } from "./tools/patch.ts"
import { execCommand, listProcesses, readProcess, terminateProcess, writeStdin } from "./tools/process.ts"
import { steerClaimNext, steerComplete, steerStatus, workFinish, workOpen } from "./tools/work.ts"
import { workspaceInfo } from "./tools/workspace.ts"

/** What the tools need of the control side. */
export type ControlServices = Operations | Approvals | Store | AppConfig | LeaseManager | Sandbox | Works

export const entries: ReadonlyArray<ToolEntry<ControlServices>> = [
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
  operationList,
  workOpen,
  steerStatus,
  steerClaimNext,
  steerComplete,
  workFinish,
  operationResume,
  approvalCreate,
  approvalResolve,
]

/** The handlers for the workspace side. */
export const workspaceTools: ReadonlyArray<WorkspaceTool> = entries.flatMap(({ workspaceTool }) => workspaceTool ?? [])

/** The recorded tools, for the gate. */
export const layerGatedTools: Layer.Layer<GatedTools> = Layer.sync(GatedTools, () =>
  GatedTools.of(new Map(entries.flatMap(({ known, tool }) => (known === undefined ? [] : [[tool.name, known]])))),
)

/** Calls by name, on this control side. */
export const callOn = (services: Context.Context<ControlServices>): CallTool => {
  const calls = new Map(entries.map(({ bind, tool }) => [tool.name, bind(services)]))
  return (name, args) => calls.get(name)?.(args) ?? Effect.die(new Error(`no tool ${name}`))
}

/** What clients are told about the tools. */
export const listTools = (): ReadonlyArray<ListedTool> => entries.map(listed)

const listed = ({ set, tool, waits }: ToolEntry<ControlServices>): ListedTool => {
  const annotations = tool.annotations as Context.Context<never>
  return {
    name: tool.name,
    ...(set === undefined ? {} : { set }),
    title: Option.getOrElse(Context.getOption(annotations, Tool.Title), () => tool.name),
    description: Tool.getDescription(tool) ?? "",
    input: { ...printed(tool.parametersSchema as Schema.Top, forArguments), additionalProperties: false },
    output: printed(tool.successSchema as Schema.Top, forResults),
    hints: {
      readOnlyHint: Context.get(tool.annotations, Tool.Readonly),
      destructiveHint: Context.get(tool.annotations, Tool.Destructive),
      idempotentHint: Context.get(tool.annotations, Tool.Idempotent),
      openWorldHint: Context.get(tool.annotations, Tool.OpenWorld),
    },
    waits,
  }
}

const shape = ["type", "properties", "required", "items", "enum", "anyOf", "$ref", "$defs"]
/** What a model can use of the schema of arguments. Lengths and patterns are told when they are not kept to. */
const forArguments = new Set([...shape, "description", "minimum", "maximum", "additionalProperties"])
/** A result's schema is told by its shape alone, open for fields of later versions. The rest would cost tokens for nothing. */
const forResults = new Set(shape)

const printed = (schema: Schema.Top, keep: ReadonlySet<string>): Schema.JsonObject => {
  const { definitions, schema: json } = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
  const whole = { ...json, ...(Object.keys(definitions).length > 0 ? { $defs: definitions } : {}) }
  return reduced(whole as Schema.JsonObject, keep)
}

/** A bound that nobody would think of passing, or that what is inside takes no unknown fields: said at the top for all of it. */
const isPlain = (key: string, value: Schema.Json): boolean =>
  value === false || (key === "minimum" && (value === 0 || value === 1)) || (key === "maximum" && Number(value) >= 1_000_000)

/** A JSON Schema with these keywords only, without bounds that say nothing; names of properties are no keywords. */
const reduced = (schema: Schema.JsonObject, keep: ReadonlySet<string>): Schema.JsonObject => {
  const inside = (value: Schema.Json): Schema.Json =>
    Array.isArray(value) ? value.map(inside) : isObject(value) ? reduced(value as Schema.JsonObject, keep) : value
  const byName = (named: Schema.Json) =>
    Object.fromEntries(Object.entries(named as Schema.JsonObject).map(([name, value]) => [name, inside(value)]))
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key, value]) => keep.has(key) && !isPlain(key, value))
      .map(([key, value]) => [key, key === "properties" || key === "$defs" ? byName(value) : inside(value)]),
  )
}

/**
 * How a tool is written down: one value with its schemas, its hints, what the gate must know and how it is performed.
 * From a list of these come the edges' rows, the gate's facts and the workspace's handlers; nothing branches on a name.
 */
import { Context, Effect, Result, Schema } from "effect"
import * as Tool from "effect/ai/Tool"
import type { WorkspaceServices, WorkspaceTool } from "../runner/Handlers.ts"
import type { LeaseRequest } from "../schema/Lease.ts"
import { InvalidArguments } from "../schema/Operation.ts"
import type { Touches } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceSettings } from "../services/AppConfig.ts"
import { Caller } from "../services/Caller.ts"
import type { GatedTool, Holds, KnownTool } from "../services/GatedTool.ts"
import { Operations } from "../services/Operations.ts"
import type { Reply } from "../services/Runner.ts"
import { problemsOf } from "./Problems.ts"
import type { ToolSet } from "./ToolList.ts"
import type { Answer } from "./ToolRow.ts"

type ParametersSchema = Schema.Struct<Schema.Struct.Fields> & { readonly DecodingServices: never; readonly EncodingServices: never }
type ResultSchema = Schema.Top & { readonly DecodingServices: never; readonly EncodingServices: never }

/** What every tool says about itself to a client. */
interface Described<P extends ParametersSchema, S extends ResultSchema> {
  readonly name: string
  /** The set it belongs to in the configuration's `tools`; a tool without one is always offered. */
  readonly set?: ToolSet
  readonly title: string
  /** At most 400 characters: what it does, when another tool fits better, its limits. */
  readonly description: string
  readonly parameters: P
  readonly success: S
  readonly hints: { readonly readOnly: boolean; readonly destructive: boolean; readonly idempotent: boolean; readonly openWorld: boolean }
  /** The call may wait for seconds. */
  readonly waits?: boolean
  /** What a model reads; says everything the structured result says. */
  readonly text: (result: S["Type"]) => string
}

/** A tool that acts in a workspace. */
export interface WorkspaceEntry<P extends ParametersSchema, S extends ResultSchema> extends Described<P, S> {
  readonly records: boolean
  readonly names: (input: P["Type"]) => { readonly workspace: string } | { readonly process: string }
  readonly touches?: (input: P["Type"], workspace: WorkspaceSettings) => Result.Result<Touches, Refusal>
  readonly lease?: (input: P["Type"], touches: Touches, workspace: WorkspaceSettings) => LeaseRequest | undefined
  /** How a call that a person has to allow is shown and run later; every recorded tool says it. */
  readonly holds?: Holds<P["Type"]>
  /** All it changes goes through the journal of patches. */
  readonly journaled?: boolean
  /** Made once for each workspace, with the services of that workspace. */
  readonly handler: Effect.Effect<
    (input: P["Type"], operationId: string | undefined) => Effect.Effect<Reply, Refusal>,
    never,
    WorkspaceServices
  >
}

/** A tool that asks the control side only. */
export interface ControlEntry<P extends ParametersSchema, S extends ResultSchema, R> extends Described<P, S> {
  readonly answer: (input: P["Type"]) => Effect.Effect<S["Type"], Refusal, R | Caller>
}

/** A tool with its types closed over: the value, how an edge calls it, and its handler if it acts in a workspace. */
export interface ToolEntry<out R> {
  readonly tool: Tool.Any
  readonly set: ToolSet | undefined
  readonly waits: boolean
  /** How an edge calls it, on this control side. */
  readonly bind: (services: Context.Context<R>) => (args: unknown) => Effect.Effect<Answer, Refusal, Caller>
  /** The text beside a structured result. */
  readonly text: (result: Schema.JsonObject) => string
  readonly workspaceTool?: WorkspaceTool
  /** For calls of it that are stored and made later. */
  readonly known?: KnownTool
}

const toolOf = <P extends ParametersSchema, S extends ResultSchema>(entry: Described<P, S>) =>
  Tool.make(entry.name, { description: entry.description, parameters: entry.parameters, success: entry.success })
    .annotate(Tool.Title, entry.title)
    .annotate(Tool.Readonly, entry.hints.readOnly)
    .annotate(Tool.Destructive, entry.hints.destructive)
    .annotate(Tool.Idempotent, entry.hints.idempotent)
    .annotate(Tool.OpenWorld, entry.hints.openWorld)

/** Checks arguments once, refusing what is not declared by its name. */
const decoderOf = <P extends ParametersSchema>(schema: P): ((args: unknown) => Effect.Effect<P["Type"], InvalidArguments>) => {
  const decode = Schema.decodeUnknownResult(schema, { onExcessProperty: "error", errors: "all" })
  return (args) => {
    const decoded = decode(args ?? {})
    return Result.isSuccess(decoded)
      ? Effect.succeed(decoded.success)
      : Effect.fail(new InvalidArguments({ problems: problemsOf(decoded.failure, args, Object.keys(schema.fields)) }))
  }
}

export const workspaceTool = <P extends ParametersSchema, S extends ResultSchema>(entry: WorkspaceEntry<P, S>): ToolEntry<Operations> => {
  const decode = decoderOf(entry.parameters)
  const text = (result: Schema.JsonObject) => entry.text(result as S["Type"])
  const gated: GatedTool<P["Type"] & Schema.JsonObject> = {
    name: entry.name,
    records: entry.records,
    names: entry.names,
    touches: entry.touches ?? (() => Result.succeed({})),
    lease: entry.lease ?? (() => undefined),
    ...(entry.holds === undefined ? {} : { holds: entry.holds }),
  }
  return {
    tool: toolOf(entry),
    set: entry.set,
    waits: entry.waits ?? false,
    bind: (services) => {
      const operations = Context.get(services, Operations)
      const call = (args: unknown) =>
        decode(args).pipe(
          Effect.flatMap((input) => operations.run(gated, input as P["Type"] & Schema.JsonObject)),
          Effect.map((reply) => ({
            result: reply.result,
            text: text(reply.result),
            ...(reply.image === undefined ? {} : { image: reply.image }),
          })),
        )
      return entry.waits === true ? (args) => reportingProgress(call(args)) : call
    },
    text,
    // The gate gives it arguments that `decode` has let through.
    ...(entry.records
      ? {
          known: {
            gated: gated as GatedTool<Schema.JsonObject>,
            decode: (args) => decode(args) as Effect.Effect<Schema.JsonObject, InvalidArguments>,
          },
        }
      : {}),
    workspaceTool: {
      name: entry.name,
      journaled: entry.journaled ?? false,
      handler: Effect.map(entry.handler, (handle) => (request) => handle(request.input as P["Type"], request.operationId)),
    },
  }
}

/** Tells a client that asked for it, every ten seconds, that its call is still at work; some clients give up otherwise. */
const reportingProgress = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Caller> =>
  Effect.flatMap(Caller, ({ progress }) => Effect.raceFirst(call, Effect.forever(Effect.delay(progress("still at work"), "10 seconds"))))

export const controlTool = <P extends ParametersSchema, S extends ResultSchema, R>(entry: ControlEntry<P, S, R>): ToolEntry<R> => {
  const decode = decoderOf(entry.parameters)
  return {
    tool: toolOf(entry),
    set: entry.set,
    waits: entry.waits ?? false,
    bind: (services) => (args) =>
      decode(args).pipe(
        Effect.flatMap(entry.answer),
        Effect.map((result) => ({ result: result as Schema.JsonObject, text: entry.text(result) })),
        Effect.provideContext(services),
      ),
    text: (result) => entry.text(result as S["Type"]),
  }
}

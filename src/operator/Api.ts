/**
 * The operator's API, written down once: the server's routes, the typed client and the OpenAPI document come from it.
 * All of it is for the operator alone. Times are ISO texts in UTC; `cursor`s and `before`s come from an earlier answer.
 */
import { Schema } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import { LedgerEvent } from "../schema/Ledger.ts"
import { ProcessFacts, ProcessSummary } from "../schema/Process.ts"
import { Instruction, InstructionText, WorkState, WorkSummary } from "../schema/Work.ts"
import { Problem } from "./Problem.ts"

/** The request carries neither the operator's credential nor the cookie of a browser that has logged in with it. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", { message: Schema.String }, { httpApiStatus: 401 }) {}

/** Lets only the operator in. A caller's token, whatever it allows, is not the operator's credential. */
export class OperatorOnly extends HttpApiMiddleware.Service<OperatorOnly>()("codespace/operator/Api/OperatorOnly", {
  error: [Unauthorized, ...Problem],
  security: { credential: HttpApiSecurity.bearer },
}) {}

const described = (description: string) => OpenApi.annotations({ description })
const limitOf = (most: number) => Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: most })))
const text = Schema.optionalKey(Schema.String)

const JsonObject = Schema.Record(Schema.String, Schema.Json)

export const WorkspaceList = Schema.Struct({
  workspaces: Schema.Array(Schema.Struct({ workspace_id: Schema.String, profile: Schema.String })),
})

/** As the tool workspace_info describes it. */
export const WorkspaceDescription = Schema.Struct({
  workspace_id: Schema.String,
  profile: Schema.String,
  access: JsonObject,
  enforcement: JsonObject,
  limits: JsonObject,
  leases: Schema.Array(JsonObject),
})

export const ProcessList = Schema.Struct({ processes: Schema.Array(ProcessSummary) })

export class WorkspacesGroup extends HttpApiGroup.make("workspaces")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: WorkspaceList,
      error: Problem,
    }).annotateMerge(described("The registered workspaces.")),
    HttpApiEndpoint.get("show", "/:workspace_id", {
      params: { workspace_id: Schema.String },
      success: WorkspaceDescription,
      error: Problem,
    }).annotateMerge(described("What a workspace lets callers do, what enforces each part of that, and who works in it now.")),
  )
  .prefix("/api/workspaces") {}

export class ProcessesGroup extends HttpApiGroup.make("processes")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { workspace_id: text },
      success: ProcessList,
      error: Problem,
    }).annotateMerge(described("Live and recently ended processes of this server, of one workspace or of all.")),
    HttpApiEndpoint.get("output", "/:process_id/output", {
      params: { process_id: Schema.String },
      query: {
        cursor: text,
        max_bytes: limitOf(200_000),
        wait_ms: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50_000 }))),
      },
      success: ProcessFacts,
      error: Problem,
    }).annotateMerge(described("Output behind a cursor, and the state; the same cursor gives the same bytes.")),
    HttpApiEndpoint.post("stop", "/:process_id/stop", {
      params: { process_id: Schema.String },
      success: ProcessFacts,
      error: Problem,
    }).annotateMerge(described("Ends a process and all it started, as terminate_process does.")),
  )
  .prefix("/api/processes") {}

export class WorksGroup extends HttpApiGroup.make("works")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { workspace_id: text, state: Schema.optionalKey(WorkState), before: text, limit: limitOf(200) },
      success: Schema.Struct({ works: Schema.Array(WorkSummary) }),
      error: Problem,
    }).annotateMerge(described("Works, newest first; `before` is the id of the last one seen.")),
  )
  .prefix("/api/works") {}

const ofWork = { work_id: Schema.String }
const ofInstruction = { work_id: Schema.String, instruction_id: Schema.String }

export class InboxGroup extends HttpApiGroup.make("inbox")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: Schema.Struct({ works: Schema.Array(WorkSummary) }),
      error: Problem,
    }).annotateMerge(described("The works that are open, newest first, at most 200.")),
    HttpApiEndpoint.get("show", "/:work_id", {
      params: ofWork,
      success: Schema.Struct({ work: WorkSummary, instructions: Schema.Array(Instruction) }),
      error: Problem,
    }).annotateMerge(described("A work with its instructions: those that wait in their order, drafts, then what has ended.")),
    HttpApiEndpoint.post("draft", "/:work_id", {
      params: ofWork,
      payload: Schema.Struct({
        text: InstructionText,
        queue: Schema.optionalKey(Schema.Boolean.annotate({ description: "Queue it at once; default false" })),
      }),
      success: Instruction.pipe(HttpApiSchema.status(201)),
      error: Problem,
    }).annotateMerge(described("Writes an instruction down. A draft is seen by people only.")),
    HttpApiEndpoint.put("edit", "/:work_id/:instruction_id", {
      params: ofInstruction,
      payload: Schema.Struct({ text: InstructionText }),
      success: Instruction,
      error: Problem,
    }).annotateMerge(described("Rewrites an instruction that nobody was given.")),
    HttpApiEndpoint.post("queue", "/:work_id/:instruction_id/queue", {
      params: ofInstruction,
      success: Instruction,
      error: Problem,
    }).annotateMerge(described("Lets a draft be given to the loop, behind all that wait already.")),
    HttpApiEndpoint.post("cancel", "/:work_id/:instruction_id/cancel", {
      params: ofInstruction,
      success: Instruction,
      error: Problem,
    }).annotateMerge(described("Takes back an instruction that is in nobody's hands.")),
  )
  .prefix("/inbox") {}

/** A message of the event stream: a fact of the ledger, or only a sign of life. */
export const StreamedEvent = Schema.Union([
  Schema.Struct({ id: Schema.String, event: Schema.Literal("ledger"), data: Schema.fromJsonString(LedgerEvent) }),
  Schema.Struct({ event: Schema.Literal("alive"), data: Schema.String }),
])
export type StreamedEvent = typeof StreamedEvent.Type

export class EventsGroup extends HttpApiGroup.make("events")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { cursor: Schema.optionalKey(Schema.Int), subject: text, limit: limitOf(1000) },
      success: Schema.Struct({ events: Schema.Array(LedgerEvent), cursor: Schema.Int }),
      error: Problem,
    }).annotateMerge(described("What happened, oldest first, behind the cursor (0: from the beginning). `subject` is the id it is about.")),
    HttpApiEndpoint.get("follow", "/stream", {
      query: { cursor: Schema.optionalKey(Schema.Int), subject: text },
      headers: { "last-event-id": Schema.optionalKey(Schema.Int) },
      success: HttpApiSchema.StreamSse({ events: StreamedEvent, error: Schema.Union(Problem) }),
      error: Problem,
    }).annotateMerge(
      described(
        "The same as server-sent events, as they happen in any server on the state folder. An event's id is its cursor: `cursor`, or the header Last-Event-ID, goes on behind it; without either, from now on.",
      ),
    ),
  )
  .prefix("/api/events") {}

export class Api extends HttpApi.make("codespace")
  .add(WorkspacesGroup, ProcessesGroup, WorksGroup, InboxGroup, EventsGroup)
  .middleware(OperatorOnly)
  .middleware(HttpApiMiddleware.ProblemDetails)
  .annotateMerge(
    OpenApi.annotations({
      title: "CodeSpace for its operator",
      description: "For the person who owns the server. It takes the operator's credential as a bearer token; no caller's token opens it.",
    }),
  ) {}

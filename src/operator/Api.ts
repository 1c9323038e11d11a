/**
 * The operator's API, written down once: the server's routes, the typed client and the OpenAPI document come from it.
 * All of it is for the operator alone. Times are ISO texts in UTC; `cursor`s and `before`s come from an earlier answer.
 */
import { Effect, Schema } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import { Approval, ApprovalState, Grant } from "../schema/Approval.ts"
import { CallerName, CallerRecord, Rights } from "../schema/Caller.ts"
import { LedgerEvent } from "../schema/Ledger.ts"
import { OperationState, OperationStatus, OperationSummary } from "../schema/Operation.ts"
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

export const OperationDetails = Schema.Struct({
  ...OperationStatus.fields,
  caller: Schema.String,
  server_gone: OperationSummary.fields.server_gone,
  approval_id: Schema.optionalKey(Schema.String.annotate({ description: "Of a call that was held for a person" })),
  diff: Schema.optionalKey(Schema.String.annotate({ description: "Of a preview, or what a person was shown of a held call" })),
})

export class OperationsGroup extends HttpApiGroup.make("operations")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        workspace_id: text,
        caller: text,
        state: Schema.optionalKey(OperationState),
        kind: text,
        before: text,
        limit: limitOf(200),
      },
      success: Schema.Struct({ operations: Schema.Array(OperationSummary) }),
      error: Problem,
    }).annotateMerge(described("Recorded calls, newest first; `before` is the id of the last one seen.")),
    HttpApiEndpoint.get("show", "/:operation_id", {
      params: { operation_id: Schema.String },
      success: OperationDetails,
      error: Problem,
    }).annotateMerge(described("A recorded call with its result or refusal, changed files, events, and its diff where there is one.")),
  )
  .prefix("/api/operations") {}

const ofApproval = { approval_id: Schema.String }

export class ApprovalsGroup extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { state: Schema.optionalKey(ApprovalState), limit: limitOf(200) },
      success: Schema.Struct({ approvals: Schema.Array(Approval) }),
      error: Problem,
    }).annotateMerge(described("Held calls and what became of them, newest first.")),
    HttpApiEndpoint.get("show", "/:approval_id", { params: ofApproval, success: Approval, error: Problem }).annotateMerge(
      described("A held call, shown whole."),
    ),
    HttpApiEndpoint.post("grant", "/:approval_id/grant", {
      params: ofApproval,
      payload: Schema.Struct({
        remember: Schema.optionalKey(
          Schema.Array(Schema.String).annotate({
            description: "First words of the held command: commands that begin with them need nobody any more, in this workspace",
          }),
        ),
      }),
      success: Approval,
      error: Problem,
    }).annotateMerge(described("Lets the call run once, as it was shown, when its caller resumes it.")),
    HttpApiEndpoint.post("deny", "/:approval_id/deny", {
      params: ofApproval,
      payload: Schema.Struct({ reason: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(2000))) }),
      success: Approval,
      error: Problem,
    }).annotateMerge(described("The call never runs; the reason is told to its caller.")),
  )
  .prefix("/api/approvals") {}

export class GrantsGroup extends HttpApiGroup.make("grants")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { workspace_id: text },
      success: Schema.Struct({ grants: Schema.Array(Grant) }),
      error: Problem,
    }).annotateMerge(described("Commands that were allowed for good.")),
    HttpApiEndpoint.delete("revoke", "/:grant_id", { params: { grant_id: Schema.String }, error: Problem }).annotateMerge(
      described("Ends what was allowed for good."),
    ),
  )
  .prefix("/api/grants") {}

export class CallersGroup extends HttpApiGroup.make("callers")
  .add(
    HttpApiEndpoint.get("list", "/", {
      success: Schema.Struct({ callers: Schema.Array(CallerRecord) }),
      error: Problem,
    }).annotateMerge(described("Who is let in over HTTP, and what each may use. Tokens are kept as hashes and never told.")),
    HttpApiEndpoint.post("admit", "/", {
      payload: Schema.Struct({
        name: CallerName,
        ...Rights.fields,
        trust_prompts: Schema.Boolean.pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(false))),
        subject: Schema.optionalKey(Schema.String.annotate({ description: "No token: it is known by this name at the OAuth issuer" })),
        replace: Schema.optionalKey(Schema.Boolean.annotate({ description: "Make one of this name new; its token stops working" })),
      }),
      success: Schema.Struct({ name: Schema.String, token: Schema.optionalKey(Schema.String) }).pipe(HttpApiSchema.status(201)),
      error: Problem,
    }).annotateMerge(described("Lets a caller in. Its token is told here and never again.")),
    HttpApiEndpoint.delete("revoke", "/:name", { params: { name: Schema.String }, error: Problem }).annotateMerge(
      described("Turns a caller out: its next request is refused, in every server on the state folder."),
    ),
  )
  .prefix("/api/callers") {}

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
  .add(WorkspacesGroup, ProcessesGroup, OperationsGroup, ApprovalsGroup, GrantsGroup, WorksGroup, InboxGroup, CallersGroup, EventsGroup)
  .middleware(OperatorOnly)
  .middleware(HttpApiMiddleware.ProblemDetails)
  .annotateMerge(
    OpenApi.annotations({
      title: "CodeSpace for its operator",
      description: "For the person who owns the server. It takes the operator's credential as a bearer token; no caller's token opens it.",
    }),
  ) {}

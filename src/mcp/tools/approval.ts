/** approval_create, approval_resolve, operation_resume: calls that wait for a person. */
import { Effect, Option, Schema } from "effect"
import { Approval, ApprovalNotFound } from "../../schema/Approval.ts"
import { PolicyDenied } from "../../schema/Policy.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import { AppConfig } from "../../services/AppConfig.ts"
import { Approvals, toApproval } from "../../services/Approvals.ts"
import { Caller } from "../../services/Caller.ts"
import { Operations } from "../../services/Operations.ts"
import { factsOf } from "../Facts.ts"
import { controlTool } from "../ToolEntry.ts"

const approvalId = Schema.String.annotate({ description: "From APPROVAL_REQUIRED" })

const approvalText = (approval: Approval): string =>
  factsOf(approval, [
    "approval_id",
    "operation_id",
    "workspace_id",
    "caller",
    "state",
    "created_at",
    "expires_at",
    "decided_at",
    "decided_by",
    "decision_reason",
    "shown",
  ])

export const approvalCreate = controlTool({
  name: "approval_create",
  set: "approvals",
  title: "Ask a person before a call",
  description:
    "Hold a call for a person although no rule asks for one. Nothing runs; the operator sees all of it. After a grant call operation_resume.",
  parameters: Schema.Struct({
    workspace_id: WorkspaceId,
    tool: Schema.String.annotate({ description: "Such as apply_patch or exec_command" }),
    arguments: Schema.Record(Schema.String, Schema.Json).annotate({ description: "Its arguments, without workspace_id" }),
    reason: Schema.optionalKey(Schema.String.annotate({ description: "What it is for, in your words" })),
  }),
  success: Approval,
  hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
  text: approvalText,
  answer: Effect.fnUntraced(function* ({ arguments: args, reason, tool, workspace_id }) {
    const operations = yield* Operations
    return toApproval(yield* operations.hold(tool, { ...args, workspace_id }, reason))
  }),
})

export const approvalResolve = controlTool({
  name: "approval_resolve",
  set: "approvals",
  title: "Decide about a held call",
  description: "Grant or deny a held call of yours. Only where the operator lets callers decide.",
  parameters: Schema.Struct({
    approval_id: approvalId,
    decision: Schema.Literals(["grant", "deny"]).annotate({ description: "What becomes of it" }),
    reason: Schema.optionalKey(Schema.String.annotate({ description: "Why, for the record" })),
  }),
  success: Approval,
  hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
  text: approvalText,
  answer: Effect.fnUntraced(function* ({ approval_id, decision, reason }) {
    const approvals = yield* Approvals
    const config = yield* AppConfig
    const caller = yield* Caller
    const held = Option.filter(yield* approvals.byId(approval_id), (known) => known.caller === caller.name)
    if (Option.isNone(held)) return yield* new ApprovalNotFound({ approval_id })
    if (config.approvals.resolver !== "caller") {
      const profile = config.workspaces.get(held.value.workspaceId as WorkspaceId)?.profile.name ?? ""
      return yield* new PolicyDenied({ profile, rule: "approvals.resolver: operator", subject: "deciding about one's own call" })
    }
    const by = `caller ${caller.name}`
    return toApproval(yield* decision === "grant" ? approvals.grant(approval_id, by) : approvals.deny(approval_id, by, reason))
  }),
})

export const operationResume = controlTool({
  name: "operation_resume",
  set: "approvals",
  title: "Run a granted call",
  description:
    "Run a held call that a person has granted: once, and as it was shown (else APPROVAL_STALE). Repeat it freely: it says when nobody has decided, and afterwards gives the stored outcome.",
  parameters: Schema.Struct({ approval_id: approvalId }),
  success: Schema.Struct({
    approval_id: Schema.String,
    operation_id: Schema.String,
    kind: Schema.String,
    result: Schema.Record(Schema.String, Schema.Json).annotate({ description: "What the tool itself would have answered" }),
  }),
  hints: { readOnly: false, destructive: true, idempotent: true, openWorld: true },
  waits: true,
  text: (answer) => factsOf(answer, ["approval_id", "operation_id", "kind", "result"]),
  answer: Effect.fnUntraced(function* ({ approval_id }) {
    const operations = yield* Operations
    const { kind, result } = yield* operations.resume(approval_id)
    return { approval_id, operation_id: String(result["operation_id"]), kind, result }
  }),
})

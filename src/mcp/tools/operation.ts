/** operation_status: what became of a call. */
import { Effect, Option, Schema } from "effect"
import { InvalidArguments, OperationKey, OperationNotFound, OperationStatus } from "../../schema/Operation.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import { Caller } from "../../services/Caller.ts"
import { Operations } from "../../services/Operations.ts"
import { Store } from "../../services/Store.ts"
import { factsOf } from "../Facts.ts"
import { controlTool } from "../ToolEntry.ts"

export const operationStatus = controlTool({
  name: "operation_status",
  title: "Show what became of a call",
  description:
    "Look up a recorded call by its operation_id, or by the operation_key you gave it together with workspace_id. Ask this, instead of repeating, after a call whose answer you did not get. " +
    "Gives its state, result or refusal, changed files with versions, process and events.",
  parameters: Schema.Struct({
    operation_id: Schema.optionalKey(Schema.String.annotate({ description: "The id a result gave" })),
    operation_key: Schema.optionalKey(OperationKey),
    workspace_id: Schema.optionalKey(WorkspaceId),
  }),
  success: OperationStatus,
  hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
  text: (result) =>
    factsOf(result, [
      "operation_id",
      "operation_key",
      "kind",
      "workspace_id",
      "state",
      "created_at",
      "finished_at",
      "process_id",
      "changes",
      "refusal",
      "result",
      "events",
    ]),
  answer: Effect.fnUntraced(function* (input) {
    const store = yield* Store
    const operations = yield* Operations
    const caller = yield* Caller
    const found = yield* lookUp(store, caller.name, input)
    // Another caller's operation is as good as unknown, and so is one in a workspace that was taken away.
    const operation = Option.filter(found, (operation) => operation.caller === caller.name)
    if (Option.isNone(operation)) return yield* new OperationNotFound({ asked: input.operation_id ?? input.operation_key ?? "" })
    yield* operations.authorize(operation.value.workspaceId)
    return yield* store.status(yield* operations.settled(operation.value))
  }),
})

interface Asked {
  readonly operation_id?: string
  readonly operation_key?: string
  readonly workspace_id?: WorkspaceId
}

const lookUp = Effect.fnUntraced(function* (store: Store["Service"], caller: string, asked: Asked) {
  if (asked.operation_id !== undefined && asked.operation_key === undefined) return yield* store.byId(asked.operation_id)
  if (asked.operation_id === undefined && asked.operation_key !== undefined && asked.workspace_id !== undefined)
    return yield* store.byKey(caller, asked.workspace_id, asked.operation_key)
  return yield* new InvalidArguments({ problems: ["give operation_id alone, or operation_key with workspace_id"] })
})

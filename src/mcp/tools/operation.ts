/** What became of a call, and which calls there were. */
import { Effect, Option, Schema } from "effect"
import {
  InvalidArguments,
  OperationKey,
  OperationList,
  OperationNotFound,
  OperationState,
  OperationStatus,
} from "../../schema/Operation.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import { AppConfig } from "../../services/AppConfig.ts"
import { Caller } from "../../services/Caller.ts"
import { readCursor, writeCursor } from "../../services/Cursor.ts"
import { Operations } from "../../services/Operations.ts"
import { lineOf, Store } from "../../services/Store.ts"
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

/** How many operations a page has when the call does not say, and at most. */
const PAGE = 20
const MOST = 100

export const operationList = controlTool({
  name: "operation_list",
  title: "List recorded calls",
  description:
    "Your recorded calls, newest first: what was changed or run, when, and how it ended. Filter by workspace, state or tool. Go on with cursor. operation_status has one in full.",
  parameters: Schema.Struct({
    workspace_id: Schema.optionalKey(WorkspaceId),
    state: Schema.optionalKey(OperationState.annotate({ description: "Only those in this state" })),
    kind: Schema.optionalKey(Schema.String.annotate({ description: "The tool that was called" })),
    limit: Schema.optionalKey(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MOST })).annotate({ description: `Default ${PAGE}` }),
    ),
    cursor: Schema.optionalKey(Schema.String.annotate({ description: "From the call before, to go on" })),
  }),
  success: OperationList,
  hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
  text: ({ cursor, operations, unreadable }) =>
    [
      ...operations.map((line) => Object.values(line).join("  ")),
      operations.length === 0 ? "no such operation" : "",
      ...(unreadable ?? []).map((id) => `${id}  its record cannot be read`),
      cursor === undefined ? "" : `cursor: ${cursor}`,
    ]
      .filter((line) => line !== "")
      .join("\n"),
  answer: Effect.fnUntraced(function* (input) {
    const operations = yield* Operations
    const caller = yield* Caller
    const { workspaces: all } = yield* AppConfig
    if (input.workspace_id !== undefined) yield* operations.authorize(input.workspace_id)
    const allowed = caller.workspaces ?? [...all.keys()]
    const {
      next,
      operations: found,
      unreadable,
    } = yield* Store.use((store) =>
      Effect.flatMap(input.cursor === undefined ? Effect.undefined : readCursor(input.cursor), (before) =>
        store.list({
          caller: caller.name,
          workspaces: input.workspace_id === undefined ? allowed : [input.workspace_id],
          ...(input.state === undefined ? {} : { states: [input.state] }),
          ...(input.kind === undefined ? {} : { kind: input.kind }),
          ...(before === undefined ? {} : { before }),
          limit: input.limit ?? PAGE,
        }),
      ),
    )
    // What a dead server left is settled before it is told.
    const settled = yield* Effect.forEach(found, operations.settled)
    return {
      operations: settled.map(lineOf),
      truncated: next !== undefined,
      ...(next === undefined ? {} : { cursor: writeCursor(next) }),
      ...(unreadable.length === 0 ? {} : { unreadable: [...unreadable] }),
    }
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

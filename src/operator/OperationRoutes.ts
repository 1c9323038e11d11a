/** Answers about operations: what was called, by whom, and what became of it. */
import { Effect, Option } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { OperationNotFound } from "../schema/Operation.ts"
import { Approvals } from "../services/Approvals.ts"
import { OperationList } from "../services/OperationList.ts"
import { Store } from "../services/Store.ts"
import { Api } from "./Api.ts"
import { problemOf } from "./ProblemOf.ts"

const PAGE = 50

export const layer = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fnUntraced(function* (handlers) {
    const store = yield* Store
    const operations = yield* OperationList
    const approvals = yield* Approvals

    const show = Effect.fnUntraced(function* (operation_id: string) {
      const found = Option.getOrUndefined(yield* store.byId(operation_id))
      if (found === undefined) return yield* new OperationNotFound({ asked: operation_id })
      const held = Option.getOrUndefined(yield* approvals.byOperation(operation_id))
      // A preview answers with its diff; of a held call a person was shown one.
      const diff = found.result?.["diff"] ?? held?.hold.shown.diff
      return {
        ...(yield* store.status(found)),
        caller: found.caller,
        ...(store.isOrphan(found) ? { server_gone: true } : {}),
        ...(held === undefined ? {} : { approval_id: held.approvalId as string }),
        ...(typeof diff === "string" ? { diff } : {}),
      }
    })

    return handlers.handleAll({
      list: ({ query: { before, caller, kind, limit = PAGE, state, workspace_id } }) =>
        operations
          .page({
            limit,
            ...(workspace_id === undefined ? {} : { workspaceId: workspace_id }),
            ...(caller === undefined ? {} : { caller }),
            ...(state === undefined ? {} : { state }),
            ...(kind === undefined ? {} : { kind }),
            ...(before === undefined ? {} : { before }),
          })
          .pipe(
            Effect.map((operations) => ({ operations })),
            Effect.mapError(problemOf),
          ),
      show: ({ params }) => Effect.mapError(show(params.operation_id), problemOf),
    })
  }),
)

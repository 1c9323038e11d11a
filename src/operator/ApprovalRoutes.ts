/** Answers about held calls, the operator's word on them, and what was allowed for good. */
import { Effect, Layer, Option } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { ApprovalNotFound } from "../schema/Approval.ts"
import { InvalidArguments } from "../schema/Operation.ts"
import { Approvals, toApproval } from "../services/Approvals.ts"
import { whyNotRemembered } from "../services/Remembered.ts"
import { Api } from "./Api.ts"
import { NotFound } from "./Problem.ts"
import { problemOf } from "./ProblemOf.ts"

/** How records name who decided here. */
const BY = "operator (API)"
/** Most on one page. */
const PAGE = 200

const approvals = HttpApiBuilder.group(
  Api,
  "approvals",
  Effect.fnUntraced(function* (handlers) {
    const service = yield* Approvals
    const held = Effect.fnUntraced(function* (approval_id: string) {
      const found = yield* service.byId(approval_id)
      return Option.isSome(found) ? found.value : yield* new ApprovalNotFound({ approval_id })
    })
    const grant = Effect.fnUntraced(function* (approval_id: string, remember: ReadonlyArray<string> | undefined) {
      const why = remember === undefined ? undefined : whyNotRemembered((yield* held(approval_id)).hold.shown, remember)
      if (why !== undefined) return yield* new InvalidArguments({ problems: [`remember: ${why}`] })
      return yield* service.grant(approval_id, BY, remember)
    })
    return handlers.handleAll({
      list: ({ query: { limit = PAGE, state } }) =>
        service.list({ limit, ...(state === undefined ? {} : { states: [state] }) }).pipe(
          Effect.map((found) => ({ approvals: found.map(toApproval) })),
          Effect.mapError(problemOf),
        ),
      show: ({ params }) => held(params.approval_id).pipe(Effect.map(toApproval), Effect.mapError(problemOf)),
      grant: ({ params, payload }) => grant(params.approval_id, payload.remember).pipe(Effect.map(toApproval), Effect.mapError(problemOf)),
      deny: ({ params, payload }) =>
        service.deny(params.approval_id, BY, payload.reason).pipe(Effect.map(toApproval), Effect.mapError(problemOf)),
    })
  }),
)

const grants = HttpApiBuilder.group(
  Api,
  "grants",
  Effect.fnUntraced(function* (handlers) {
    const service = yield* Approvals
    return handlers.handleAll({
      list: ({ query }) =>
        service.grants(query.workspace_id).pipe(
          Effect.map((grants) => ({ grants })),
          Effect.mapError(problemOf),
        ),
      revoke: Effect.fnUntraced(function* ({ params }) {
        const isRevoked = yield* Effect.mapError(service.revoke(params.grant_id, BY), problemOf)
        if (!isRevoked)
          return yield* new NotFound({ code: "GRANT_NOT_FOUND", message: `there is no grant "${params.grant_id}"`, details: { ...params } })
      }),
    })
  }),
)

export const layer = Layer.mergeAll(approvals, grants)

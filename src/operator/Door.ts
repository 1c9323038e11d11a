/** The door of what is the operator's alone, for the API and for the plain routes beside it. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { StoreUnavailable } from "../schema/Operation.ts"
import { OperatorOnly, Unauthorized } from "./Api.ts"
import { problemOf } from "./ProblemOf.ts"

/** Whether a request is the operator's. */
export type IsOperator = (request: HttpServerRequest.HttpServerRequest) => Effect.Effect<boolean, StoreUnavailable>

const passing = Effect.fnUntraced(function* (isOperator: IsOperator) {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (yield* Effect.mapError(isOperator(request), problemOf)) return
  return yield* new Unauthorized({ message: "this is the operator's; give the operator's credential as a bearer token" })
})

/** For the groups of the API. */
export const layer = (isOperator: IsOperator): Layer.Layer<OperatorOnly> =>
  Layer.succeed(OperatorOnly, { credential: (handled) => Effect.andThen(passing(isOperator), handled) })

/** For a plain route. */
export const guarded = (
  isOperator: IsOperator,
  path: `/${string}`,
  answer: Effect.Effect<HttpServerResponse.HttpServerResponse>,
): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  HttpRouter.add(
    "GET",
    path,
    Effect.matchEffect(passing(isOperator), {
      onSuccess: () => answer,
      onFailure: (problem) =>
        Effect.succeed(
          problem._tag === "Unauthorized"
            ? HttpServerResponse.jsonUnsafe(
                { ...problem },
                { status: 401, headers: { "www-authenticate": 'Bearer realm="codespace operator"' } },
              )
            : HttpServerResponse.jsonUnsafe({ ...problem }, { status: 503 }),
        ),
    }),
  )

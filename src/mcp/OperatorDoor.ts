/**
 * Who may come in where only the operator may: with the credential as a bearer token, or from a browser that has logged
 * in. A browser sends its cookie whoever made it ask, so with a cookie a request that changes something must come from a
 * page of this very server, port included.
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { StoreUnavailable } from "../schema/Operation.ts"
import type { Operator } from "../services/Operator.ts"
import { bearer, rejection } from "./Door.ts"

type Response = HttpServerResponse.HttpServerResponse

/** The cookie of a browser that is logged in. */
export const loginCookie = "codespace_operator"

/** Passes when the request is the operator's. Fails with the answer: a person's browser is led to the login. */
export const operatorOnly =
  (operator: Operator["Service"]) =>
  (request: HttpServerRequest.HttpServerRequest): Effect.Effect<void, Response> =>
    isOperator(operator, request).pipe(
      Effect.mapError(unavailable),
      Effect.flatMap((known) => (known ? Effect.void : Effect.fail(turnedAway(request)))),
    )

/** Lets only the operator to the routes it is provided to: `routes.pipe(Layer.provide(operatorRoutes(operator).layer))`. */
export const operatorRoutes = (operator: Operator["Service"]) => {
  const check = operatorOnly(operator)
  return HttpRouter.middleware((handled) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      Effect.matchEffect(check(request), { onFailure: Effect.succeed, onSuccess: () => handled }),
    ),
  )
}

/** Whether the request is the operator's. */
export const isOperator = Effect.fnUntraced(function* (
  operator: Operator["Service"],
  request: HttpServerRequest.HttpServerRequest,
): Effect.fn.Return<boolean, StoreUnavailable> {
  const credential = bearer(request.headers["authorization"])
  if (credential !== undefined) return yield* operator.isCredential(credential)
  const login = request.cookies[loginCookie]
  return login !== undefined && isOwnPage(request) && (yield* operator.isLoggedIn(login))
})

/** Whether a page of this server made the request, or it changes nothing. */
export const isOwnPage = ({ headers, method }: HttpServerRequest.HttpServerRequest): boolean => {
  if (method === "GET" || method === "HEAD") return true
  const origin = headers["origin"]
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === headers["host"]?.toLowerCase()
}

export const unavailable = ({ message }: StoreUnavailable): Response => rejection(503, -32000, message, { "retry-after": "5" })

const turnedAway = ({ headers, method, url }: HttpServerRequest.HttpServerRequest): Response =>
  method === "GET" && (headers["accept"] ?? "").includes("text/html")
    ? HttpServerResponse.redirect(`/login?next=${encodeURIComponent(url)}`, { status: 303 })
    : rejection(401, -32001, "Unauthorized: this is the operator's; give the operator's credential as a bearer token", {
        "www-authenticate": `Bearer realm="codespace operator"`,
      })

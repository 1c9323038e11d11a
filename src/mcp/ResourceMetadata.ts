/** What the endpoint says of itself as a protected resource (RFC 9728): who gives tokens for it. */
import { Effect, Layer } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { SCOPE } from "../schema/OAuth.ts"
import { originOf, resourceOf } from "./Origin.ts"

/** `issuer` is the configured one; without it this server is its own. */
export const resourceRoutes = (issuer?: string): Layer.Layer<never, never, HttpRouter.HttpRouter> => {
  const answer = (request: HttpServerRequest.HttpServerRequest) =>
    Effect.succeed(
      json({
        resource: resourceOf(request),
        authorization_servers: [issuer ?? originOf(request)],
        bearer_methods_supported: ["header"],
        resource_name: "CodeSpace",
        // The scopes of another issuer are its own business.
        ...(issuer === undefined ? { scopes_supported: [SCOPE] } : {}),
      }),
    )
  const path = "/.well-known/oauth-protected-resource"
  return Layer.mergeAll(HttpRouter.add("GET", `${path}/mcp`, answer), HttpRouter.add("GET", path, answer))
}

export const json = (value: unknown, status = 200, headers: Record<string, string> = {}): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(value), {
    status,
    contentType: "application/json",
    headers: { "cache-control": "no-store", ...headers },
  })

/**
 * Pages of the origins that the operator named may call (CORS): with a token of their own, never with the cookie of a
 * browser that is logged in.
 */
import { type HttpServerRequest, HttpServerResponse } from "effect/http"

type Response = HttpServerResponse.HttpServerResponse

export const crossOrigin = (origins: ReadonlyArray<string>) => {
  const named = new Set(origins)
  const originOf = ({ headers }: HttpServerRequest.HttpServerRequest) => {
    const origin = headers["origin"]
    return origin !== undefined && named.has(origin) ? origin : undefined
  }
  return {
    /** The answer to a browser that asks beforehand; undefined for any other request. */
    preflight: (request: HttpServerRequest.HttpServerRequest): Response | undefined => {
      const origin = originOf(request)
      if (origin === undefined || request.method !== "OPTIONS" || request.headers["access-control-request-method"] === undefined)
        return undefined
      return HttpServerResponse.empty({
        status: 204,
        headers: {
          "access-control-allow-origin": origin,
          "access-control-allow-methods": "GET, POST, DELETE",
          "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "",
          "access-control-max-age": "600",
          vary: "origin",
        },
      })
    },
    /** The response as such a page may read it. */
    readable: (request: HttpServerRequest.HttpServerRequest, response: Response): Response => {
      const origin = originOf(request)
      if (origin === undefined) return response
      return HttpServerResponse.setHeaders(response, {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "mcp-session-id, mcp-protocol-version, www-authenticate",
        vary: "origin",
      })
    },
  }
}

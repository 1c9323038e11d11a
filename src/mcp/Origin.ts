/**
 * Under which address this server was reached. The name in the Host header has passed the door, so it is one the operator
 * knows. Names of this machine are reached as they are; under any other there is a tunnel or a proxy, which speaks TLS.
 */
import type { HttpServerRequest } from "effect/http"

type Request = HttpServerRequest.HttpServerRequest

/** The names of this machine for itself. */
export const loopback = ["localhost", "127.0.0.1", "[::1]"]

/** Scheme, host and port, as a browser writes an origin. */
export const originOf = ({ headers }: Request): string => {
  const host = (headers["host"] ?? "localhost").toLowerCase()
  const name = host.replace(/:\d*$/, "")
  return new URL(`${loopback.includes(name) ? "http" : "https"}://${host}`).origin
}

/** The MCP endpoint, which tokens are for. */
export const resourceOf = (request: Request): string => `${originOf(request)}/mcp`

/** Where clients learn who gives tokens for the endpoint (RFC 9728). */
export const metadataOf = (request: Request): string => `${originOf(request)}/.well-known/oauth-protected-resource/mcp`

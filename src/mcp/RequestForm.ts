/**
 * Requests that two programs could read differently: a proxy in front of this server and the server itself. Node refuses
 * what is ambiguous about a body's length; here are the headers that something is decided by, and the target.
 */
import { toIncomingMessage } from "@effect/platform-node/NodeHttpServerRequest"
import type { HttpServerRequest } from "effect/http"

/** Of each of these there may be one. Node would keep one of several, or join them. */
const single = new Set([
  "host",
  "authorization",
  "origin",
  "cookie",
  "content-type",
  "content-length",
  "transfer-encoding",
  "mcp-session-id",
  "mcp-protocol-version",
  "mcp-method",
  "mcp-name",
])

/** What is ambiguous about a request; undefined when nothing is. */
export const ambiguity = (request: HttpServerRequest.HttpServerRequest): string | undefined => {
  const { httpVersionMajor, rawHeaders, url = "" } = toIncomingMessage(request)
  if (httpVersionMajor < 1) return "the request line has no version"
  if (!url.startsWith("/")) return "the request target is not a path"
  const seen = new Set<string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? "").toLowerCase()
    if (!single.has(name)) continue
    if (seen.has(name)) return `the header ${name} is there more than once`
    seen.add(name)
  }
  return undefined
}

/**
 * Who may come in over HTTP. A web page that resolved its own name to this machine is turned away by Host, one that
 * calls from elsewhere by Origin, and everyone else by the bearer token. Refusals are JSON-RPC bodies.
 */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type Authority, local } from "./Authority.ts"

export interface DoorOptions {
  /** Tells whose token this is. `off` makes everyone the local user; for tests on loopback only. */
  readonly authenticate: ((token: string) => Promise<Authority | undefined>) | "off"
  /** Names under which the server is reached besides those of loopback, without port. */
  readonly hosts?: ReadonlyArray<string>
  /** Origins, with scheme and port as browsers send them, whose pages may call. */
  readonly origins?: ReadonlyArray<string>
  /** Where clients learn how to log in, when there is an issuer. */
  readonly resourceMetadata?: string
}

/** A JSON-RPC error as an HTTP response. */
export const rejection = (
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id: null }), {
    status,
    contentType: "application/json",
    headers,
  })

/** The names of this machine for itself. */
export const loopback = ["localhost", "127.0.0.1", "[::1]"]

/** Why a request may not even knock; undefined when its Host and Origin are fine. */
export const foreign = (
  options: Pick<DoorOptions, "hosts" | "origins">,
): ((request: HttpServerRequest.HttpServerRequest) => HttpServerResponse.HttpServerResponse | undefined) => {
  const hosts = new Set([...loopback, ...(options.hosts ?? []).map((host) => host.toLowerCase())])
  const origins = new Set(options.origins ?? [])
  return ({ headers }) => {
    const host = headers["host"]
    if (!hosts.has(hostname(`http://${host}`))) return rejection(403, -32000, `Invalid Host: ${host ?? "none"}`)
    const origin = headers["origin"]
    if (origin === undefined || origins.has(origin) || hosts.has(hostname(origin))) return undefined
    return rejection(403, -32000, `Invalid Origin: ${origin}`)
  }
}

/** The authority behind a request's bearer token, or the response that asks for one. */
export const authorize = (
  options: Pick<DoorOptions, "authenticate" | "resourceMetadata">,
): ((request: HttpServerRequest.HttpServerRequest) => Effect.Effect<Authority, HttpServerResponse.HttpServerResponse>) => {
  const { authenticate } = options
  if (authenticate === "off") return () => Effect.succeed(local)
  const metadata = options.resourceMetadata === undefined ? "" : `, resource_metadata="${options.resourceMetadata}"`
  const unknown = (description: string) =>
    rejection(401, -32001, `Unauthorized: ${description}`, {
      "www-authenticate": `Bearer error="invalid_token", error_description="${description}"${metadata}`,
    })
  return ({ headers }) => {
    const token = bearer(headers["authorization"])
    if (token === undefined) return Effect.fail(unknown("a bearer token is required"))
    return Effect.flatMap(
      Effect.promise(() => authenticate(token)),
      (authority) => (authority === undefined ? Effect.fail(unknown("the token is not known")) : Effect.succeed(authority)),
    )
  }
}

/** The token in an Authorization header. */
export const bearer = (header: string | undefined): string | undefined => /^Bearer +(\S+)$/i.exec(header ?? "")?.[1]

const hostname = (url: string): string => (URL.canParse(url) ? new URL(url).hostname : "")

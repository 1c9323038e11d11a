/**
 * Who may come in over HTTP. A web page that resolved its own name to this machine is turned away by Host, one that
 * calls from elsewhere by Origin, and everyone else by the bearer token. Refusals are JSON-RPC bodies.
 */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type Authority, local } from "./Authority.ts"
import { loopback, metadataOf, resourceOf } from "./Origin.ts"

/** Undefined for a token that nobody has. */
export type Authenticate = (token: string, resource: string) => Effect.Effect<Authority | undefined, { readonly message: string }>

export interface DoorOptions {
  /**
   * Tells whose token this is, given for the endpoint at this address; fails when that cannot be found out now. `off`
   * makes everyone the local user; for tests on loopback only.
   */
  readonly authenticate: Authenticate | "off"
  /** Names under which the server is reached besides those of loopback, without port. */
  readonly hosts?: ReadonlyArray<string>
  /** Origins, with scheme and port as browsers send them, whose pages may call. */
  readonly origins?: ReadonlyArray<string>
  /** Clients can log in: a refusal tells where they learn how. */
  readonly hasLogin?: boolean
}

/** A JSON-RPC error as an HTTP response. */
export const rejection = (
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
  data?: object,
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify({ jsonrpc: "2.0", error: { code, message, ...(data === undefined ? {} : { data }) }, id: null }), {
    status,
    contentType: "application/json",
    headers,
  })

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
  options: Pick<DoorOptions, "authenticate" | "hasLogin">,
): ((request: HttpServerRequest.HttpServerRequest) => Effect.Effect<Authority, HttpServerResponse.HttpServerResponse>) => {
  const { authenticate } = options
  if (authenticate === "off") return () => Effect.succeed(local)
  const unknown = (request: HttpServerRequest.HttpServerRequest, description: string) => {
    const metadata = options.hasLogin === true ? `, resource_metadata="${metadataOf(request)}"` : ""
    return rejection(401, -32001, `Unauthorized: ${description}`, {
      "www-authenticate": `Bearer error="invalid_token", error_description="${description}"${metadata}`,
    })
  }
  return (request) => {
    const token = bearer(request.headers["authorization"])
    if (token === undefined) return Effect.fail(unknown(request, "a bearer token is required"))
    return authenticate(token, resourceOf(request)).pipe(
      Effect.mapError(() => unavailable),
      Effect.flatMap((authority) =>
        authority === undefined ? Effect.fail(unknown(request, "the token is not known")) : Effect.succeed(authority),
      ),
    )
  }
}

/** Not a 401: a client would throw its good token away. */
const unavailable = rejection(503, -32000, "who calls cannot be found out now; try again", { "retry-after": "5" })

/** The token in an Authorization header. */
export const bearer = (header: string | undefined): string | undefined => /^Bearer +(\S+)$/i.exec(header ?? "")?.[1]

const hostname = (url: string): string => (URL.canParse(url) ? new URL(url).hostname : "")

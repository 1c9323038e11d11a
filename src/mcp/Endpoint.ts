/**
 * The MCP endpoint: Streamable HTTP for both protocol eras. A 2025 client works in a session of its own; a 2026 client
 * brings everything with each request. Every request is authenticated, a session id proves nothing. While a call waits,
 * its stream shows signs of life. A 2025 client that drops its connection finds the result when it comes back; a 2026
 * client that drops it cancels the call.
 */
import {
  classifyInboundRequest,
  createMcpHandler,
  InMemoryServerEventBus,
  isInitializeRequest,
  isJsonContentType,
  type McpHttpHandler,
  SUPPORTED_PROTOCOL_VERSIONS,
} from "@modelcontextprotocol/server"
import { ByteSize, Clock, Effect, Schedule, type Scope } from "effect"
import { HttpIncomingMessage, type HttpServerError, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { LimitExceeded } from "../schema/Policy.ts"
import { toRecord } from "../schema/Refusal.ts"
import { type Authority, toAuthInfo } from "./Authority.ts"
import { cancelled, plainCall } from "./Calls.ts"
import { authorize, type DoorOptions, rejection } from "./Door.ts"
import { type CallerLimits, callerLimits, FlowControl } from "./FlowControl.ts"
import { factoryOf } from "./Server.ts"
import { type Session, type SessionLimits, Sessions, sessionLimits } from "./Sessions.ts"
import { clientText, messageFacts, Sightings } from "./Sightings.ts"
import type { ToolTable } from "./ToolTable.ts"

export interface EndpointOptions extends DoorOptions {
  readonly table: ToolTable
  readonly log: (line: string) => void
  readonly limits?: Partial<SessionLimits>
  readonly perCaller?: Partial<CallerLimits>
  /** Notes every request that comes here. */
  readonly sightings?: Sightings
}

/** Longest request body, in bytes. */
const bodyLimit = 16 * 1024 * 1024

type Rejected = HttpServerResponse.HttpServerResponse

/** Answers requests until the scope ends; sessions end with it. */
export const makeEndpoint = Effect.fnUntraced(function* (options: EndpointOptions) {
  const perCaller = { ...callerLimits, ...options.perCaller }
  const flow = new FlowControl(perCaller)
  const sightings = options.sightings ?? new Sightings()
  const table = sightings.over(flow.over(options.table))
  const limits = { ...sessionLimits, perCaller: perCaller.sessions, ...options.limits }
  const clock = yield* Clock.Clock
  const sessions = yield* Effect.acquireRelease(
    Effect.sync(() => new Sessions(table, limits, () => clock.currentTimeMillisUnsafe())),
    (all) => Effect.promise(() => all.close()),
  )
  yield* Effect.sync(() => sessions.sweep()).pipe(
    Effect.repeat(Schedule.spaced(Math.max(10, Math.min(60_000, limits.idle / 4)))),
    Effect.forkScoped,
  )
  const stateless = yield* statelessHandlers(table, options.log, limits.keepAlive)
  const authorityOf = authorize(options)

  const note = ({ headers, method }: HttpServerRequest.HttpServerRequest, outcome: string, body?: unknown, authority?: Authority) => {
    const session = authority === undefined ? undefined : sessions.find(headers["mcp-session-id"] ?? "", authority.name)
    const client = clientText(session?.client)
    sightings.note(
      clock.currentTimeMillisUnsafe(),
      {
        method,
        ...(authority === undefined ? {} : { caller: authority.name }),
        ...(session === undefined ? {} : { session: session.id.slice(0, 8) }),
        ...(client === undefined ? {} : { client }),
        ...messageFacts(body),
        outcome,
      },
      authority,
    )
  }

  const answer = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, noted: { authority?: Authority }) {
    // Of this request alone, whatever else the caller has under way.
    const authority = { ...(yield* authorityOf(request)) }
    const body = request.method === "POST" ? yield* Effect.andThen(room(flow, authority, request), readBody(request)) : undefined
    note(request, "under way", body, authority)
    noted.authority = authority
    if (request.method !== "POST") return yield* withoutBody(sessions, { request, authority })
    if (isPlain(request, body) || isLegacy(request, body)) return yield* inSession(sessions, table, { request, authority, body })
    const handler = stateless(request.headers["mcp-name"])
    return yield* respond(request, (sent) => handler.fetch(sent, { authInfo: toAuthInfo(authority, consoleOf(request)), parsedBody: body }))
  })
  return (request: HttpServerRequest.HttpServerRequest): Effect.Effect<Rejected, never, Scope.Scope> => {
    const noted: { authority?: Authority } = {}
    return Effect.catch(answer(request, noted), Effect.succeed).pipe(
      Effect.tap(({ status }) =>
        Effect.sync(() => (noted.authority === undefined ? note(request, String(status)) : sightings.answered(noted.authority, status))),
      ),
    )
  }
})

/** A request that has passed the door. */
interface Asked {
  readonly request: HttpServerRequest.HttpServerRequest
  readonly authority: Authority
  readonly body?: unknown
}

/** A plain call under a header of the 2025 era, or none, needs no closer look. */
const isPlain = (request: HttpServerRequest.HttpServerRequest, body: unknown): boolean =>
  plainCall(body) !== undefined && isOrdinary(request)

const isLegacy = ({ headers }: HttpServerRequest.HttpServerRequest, body: unknown): boolean => {
  const inbound = {
    httpMethod: "POST",
    protocolVersionHeader: headers["mcp-protocol-version"],
    mcpMethodHeader: headers["mcp-method"],
    mcpNameHeader: headers["mcp-name"],
    body,
  }
  // The SDK tells absent headers by their value, though its type wants the keys absent.
  return classifyInboundRequest(inbound as Parameters<typeof classifyInboundRequest>[0]).kind === "legacy"
}

/**
 * The 2026 era: one handler sends nothing before the result, so that errors get their own status; the other one opens a
 * stream at once, so that a call which waits shows signs of life.
 */
const statelessHandlers = Effect.fnUntraced(function* (table: ToolTable, log: EndpointOptions["log"], keepAliveMs: number) {
  const common = {
    legacy: "reject",
    keepAliveMs,
    maxRequestBodySize: bodyLimit,
    bus: new InMemoryServerEventBus(),
    onerror: (error: Error) => log(JSON.stringify({ event: "http", message: error.message })),
  } as const
  const make = (responseMode: "auto" | "sse"): Effect.Effect<McpHttpHandler, never, Scope.Scope> =>
    Effect.acquireRelease(
      Effect.sync(() => createMcpHandler(factoryOf(table), { ...common, responseMode })),
      (handler) => Effect.promise(() => handler.close()),
    )
  const quick = yield* make("auto")
  const waiting = yield* make("sse")
  // The SDK holds this header against the body.
  return (name: string | undefined): McpHttpHandler => (name !== undefined && table.waits(name) ? waiting : quick)
})

/** GET opens the server's stream of a session or resumes another one, DELETE ends the session. */
const withoutBody = Effect.fnUntraced(function* (sessions: Sessions, asked: Asked): Effect.fn.Return<Rejected, Rejected, Scope.Scope> {
  const { request } = asked
  const session = yield* sessionOf(sessions, asked)
  if (session !== undefined && (request.method === "GET" || request.method === "DELETE")) return yield* inUse(sessions, session, asked)
  if (request.headers["mcp-protocol-version"] === modern || (request.method !== "GET" && request.method !== "DELETE"))
    return rejection(405, -32000, "Method not allowed", { allow: session === undefined ? "POST" : "GET, POST, DELETE" })
  return rejection(400, -32000, "Mcp-Session-Id is required")
})

const modern = "2026-07-28"

/** A POST of the 2025 era. */
const inSession = Effect.fnUntraced(function* (
  sessions: Sessions,
  table: ToolTable,
  asked: Asked,
): Effect.fn.Return<Rejected, Rejected, Scope.Scope> {
  const { authority, body } = asked
  const known = yield* sessionOf(sessions, asked)
  if (known !== undefined) {
    const short = yield* shortcut(sessions, table, known, asked)
    return short ?? (yield* inUse(sessions, known, asked))
  }
  if (!isInitializeRequest(body)) return rejection(400, -32000, "Mcp-Session-Id is required")
  const opened = yield* Effect.promise(() => sessions.open(authority, body.params.clientInfo))
  if (opened instanceof LimitExceeded) return overLimit(opened)
  if (opened === undefined) return rejection(503, -32000, "every session is in use; try again later", { "retry-after": "5" })
  const response = yield* inUse(sessions, opened, asked)
  if (response.status !== 200) sessions.drop(opened)
  return response
})

const sessionOf = (sessions: Sessions, { request, authority }: Asked): Effect.Effect<Session | undefined, Rejected> => {
  const id = request.headers["mcp-session-id"]
  if (id === undefined) return Effect.succeed(undefined)
  const session = sessions.find(id, authority.name)
  // Lost, expired and someone else's look the same: the client starts anew.
  return session === undefined ? Effect.fail(rejection(404, -32001, "Session not found")) : Effect.succeed(session)
}

/** Lets the SDK serve a request of a session, which counts as in use until the response has been sent. */
const inUse = Effect.fnUntraced(function* (sessions: Sessions, session: Session, { request, authority, body }: Asked) {
  yield* held(sessions, session)
  // The authority is the request's: the caller's workspaces may have changed since the session was opened.
  const options = { authInfo: toAuthInfo(authority, consoleOf(request)), ...(body === undefined ? {} : { parsedBody: body }) }
  return yield* respond(request, (web) => session.transport.handleRequest(web, options))
})

const held = (sessions: Sessions, session: Session): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(
    Effect.acquireRelease(
      Effect.sync(() => sessions.hold(session)),
      (release) => Effect.sync(release),
    ),
  )

/** A plain call of a tool that does not wait is answered with plain JSON; its cancellation ends it. */
const shortcut = Effect.fnUntraced(function* (sessions: Sessions, table: ToolTable, session: Session, { request, authority, body }: Asked) {
  const id = cancelled(body)
  if (id !== undefined && session.calls.cancel(id)) return HttpServerResponse.empty({ status: 202 })
  const call = isOrdinary(request) ? plainCall(body) : undefined
  if (call === undefined || table.waits(call.params.name) || call.params._meta?.progressToken !== undefined) return undefined
  yield* held(sessions, session)
  const context = { authority, client: session.client, notify: () => Promise.resolve() }
  const answer = yield* Effect.promise(() => session.calls.answer(call, context))
  return answer === undefined
    ? HttpServerResponse.empty({ status: 202 })
    : HttpServerResponse.text(JSON.stringify(answer), { contentType: "application/json", headers: { "mcp-session-id": session.id } })
})

/** Whether the SDK would let these headers of a session's request pass. */
const isOrdinary = ({ headers }: HttpServerRequest.HttpServerRequest): boolean => {
  const accept = headers["accept"] ?? ""
  const version = headers["mcp-protocol-version"]
  return (
    accept.includes("application/json") &&
    accept.includes("text/event-stream") &&
    (version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(version))
  )
}

/** Room for a body, until the response has been sent. One that does not tell its length may be as long as any. */
const room = (flow: FlowControl, { name }: Authority, { headers }: HttpServerRequest.HttpServerRequest) =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      const length = headers["content-length"] === undefined ? bodyLimit : Number(headers["content-length"])
      if (length > bodyLimit) return Effect.fail(tooLarge)
      const release = flow.take(name, "bytes", length)
      return typeof release === "function" ? Effect.succeed(release) : Effect.fail(overLimit(release))
    }),
    (release) => Effect.sync(release),
  )

/** A refusal where there is no call yet that could have it as its result. */
const overLimit = (refusal: LimitExceeded): Rejected =>
  rejection(429, -32000, `LIMIT_EXCEEDED: ${refusal.message}`, { "retry-after": "1" }, toRecord(refusal))

/** The parsed body, or why it is not one. */
const readBody = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest): Effect.fn.Return<unknown, Rejected> {
  if (!isJsonContentType(request.headers["content-type"] ?? null))
    return yield* Effect.fail(rejection(415, -32000, "Content-Type must be application/json"))
  const text = yield* request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(bodyLimit)),
    Effect.mapError(unreadable),
  )
  const body = yield* Effect.try({
    try: (): unknown => JSON.parse(text),
    catch: () => rejection(400, -32700, "Parse error: the body is not JSON"),
  })
  if (Array.isArray(body)) return yield* Effect.fail(rejection(400, -32600, "Invalid Request: batches are not part of MCP any more"))
  return body
})

const tooLarge = rejection(413, -32000, `the body may be ${bodyLimit} bytes long at most`)

const unreadable = ({ reason }: HttpServerError.HttpServerError): Rejected =>
  reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
    ? tooLarge
    : rejection(400, -32700, "Parse error: the body could not be read")

/** Hands a request to the SDK. When the client goes away first, the signal says so. */
const respond = (
  request: HttpServerRequest.HttpServerRequest,
  handle: (web: Request) => Promise<Response>,
): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.map(
    Effect.promise((signal) => handle(toWeb(request, signal))),
    (response) => HttpServerResponse.fromWeb(opened(response)),
  )

/** Node holds the headers back until something follows them, so a stream starts with a comment. */
const opened = (response: Response): Response => {
  if (response.body === null || !response.headers.get("content-type")?.startsWith("text/event-stream")) return response
  const start = new TransformStream<Uint8Array, Uint8Array>({ start: (controller) => controller.enqueue(openingComment) })
  return new Response(response.body.pipeThrough(start), response)
}

const openingComment = new TextEncoder().encode(": open\n\n")

/** This server's pages under the name the client called it by, which the door has checked. A public name stands for a tunnel, which speaks TLS. */
const consoleOf = ({ headers }: HttpServerRequest.HttpServerRequest): string => {
  const host = headers["host"] ?? "localhost"
  return `${/^(localhost|127\.0\.0\.1|\[::1\])(:|$)/.test(host) ? "http" : "https"}://${host}`
}

/** The request as the SDK wants it, without its body, which has been read. */
const toWeb = (request: HttpServerRequest.HttpServerRequest, signal?: AbortSignal): Request =>
  new Request(`http://${request.headers["host"] ?? "localhost"}${request.url}`, {
    method: request.method,
    headers: request.headers,
    ...(signal === undefined ? {} : { signal }),
  })

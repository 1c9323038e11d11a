/**
 * The HTTP edge: a server on loopback with the MCP endpoint, the health route and whatever routes the program adds. Host
 * and Origin are checked for all of them. Everything ends with the layer's scope.
 */
import { createServer, type Server } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Operator } from "../services/Operator.ts"
import { crossOrigin } from "./CrossOrigin.ts"
import { foreign, rejection } from "./Door.ts"
import { type EndpointOptions, makeEndpoint } from "./Endpoint.ts"
import { operatorOnly } from "./OperatorDoor.ts"
import { loopback } from "./Origin.ts"
import { ambiguity } from "./RequestForm.ts"
import { json } from "./ResourceMetadata.ts"
import { Sightings } from "./Sightings.ts"

export interface HttpOptions extends EndpointOptions {
  /** Who alone may ask for the health. Open to everyone on loopback when absent. */
  readonly operator?: Operator["Service"]
}

export interface ListenOptions extends HttpOptions {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** How long a client may take to send a request, in milliseconds. */
  readonly patience?: number
}

/** The address cannot be listened on. */
export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Int,
  code: Schema.String,
}) {
  override get message() {
    const why = this.code === "EADDRINUSE" ? "it is in use by another program" : this.code
    return `cannot listen on ${this.host}:${this.port}: ${why}`
  }
}

/** The routes of MCP. Sessions end with the layer's scope. */
const routes = (options: HttpOptions): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  HttpRouter.use(
    Effect.fnUntraced(function* (router) {
      const sightings = new Sightings()
      const endpoint = yield* makeEndpoint({ ...options, sightings })
      yield* router.add("*", "/mcp", endpoint)
      yield* router.add("GET", "/api/requests", (request) => requestsSeen(options, sightings, request))
      yield* router.add("GET", "/healthz", (request) => health(options, request))
    }),
  )

/** A server with these routes and any others, listening until the scope ends. Host and Origin are checked for all. */
export const layer = <E = never, R = never>(options: ListenOptions, others?: Layer.Layer<never, E, R>) => {
  const server = listener(options.patience ?? PATIENCE)
  const isForeign = foreign(options)
  const { preflight, readable } = crossOrigin(options.origins ?? [])
  const check = HttpRouter.middleware(
    Effect.succeed((handled) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const answered = malformed(request) ?? isForeign(request) ?? preflight(request)
        return answered === undefined ? Effect.map(handled, (response) => readable(request, response)) : Effect.succeed(answered)
      }),
    ),
    { global: true },
  )
  // Runs after the grace for open requests and before the server waits for its last connection, which a client may keep.
  const hangUp = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())))
  const all = Layer.mergeAll(check, hangUp, routes(options), others ?? Layer.empty)
  return HttpRouter.serve(all, { disableLogger: true, disableListenLog: true }).pipe(Layer.provideMerge(listening(options, server)))
}

/** Milliseconds for a whole request, and for its headers: whoever is slower is cut off, so that nobody fills the places. */
const PATIENCE = 60_000
const HEADER_PATIENCE = 15_000
/** Connections at once. Every session of every caller may have its stream and some calls. */
const CONNECTIONS = 1_000

const listener = (patience: number): Server => {
  const server = createServer({
    keepAliveTimeout: 75_000,
    requestTimeout: patience,
    headersTimeout: Math.min(patience, HEADER_PATIENCE),
    connectionsCheckingInterval: Math.min(patience, 5_000),
  })
  server.maxConnections = CONNECTIONS
  return server
}

const malformed = (request: HttpServerRequest.HttpServerRequest) => {
  const problem = ambiguity(request)
  return problem === undefined ? undefined : rejection(400, -32600, `Invalid Request: ${problem}`, { connection: "close" })
}

/** Where clients find the endpoint of a server that listens. */
export const endpointOf = (server: Context.Context<HttpServer.HttpServer>): string =>
  `${HttpServer.formatAddress(Context.get(server, HttpServer.HttpServer).address)}/mcp`

/** An open stream would hold a stopping server for the whole grace, so that is short. */
const listening = ({ authenticate, host, port }: ListenOptions, server: Server) => {
  const failed = (code: string) => Layer.effect(HttpServer.HttpServer, Effect.fail(new ListenFailed({ host, port, code })))
  if (authenticate === "off" && !loopback.includes(host)) return failed("without authentication only loopback is served")
  return NodeHttpServer.layerServer(() => server, { host, port, gracefulShutdownTimeout: "1 second" }).pipe(
    Layer.catchTag("ServeError", ({ cause }) => failed((cause as NodeJS.ErrnoException).code ?? String(cause))),
  )
}

/** What lately came to the endpoint; the operator's alone. */
const requestsSeen = ({ operator }: HttpOptions, sightings: Sightings, request: HttpServerRequest.HttpServerRequest) => {
  const allowed = operator === undefined ? Effect.void : operatorOnly(operator)(request)
  return Effect.match(allowed, { onFailure: (response) => response, onSuccess: () => json({ requests: sightings.newest }) })
}

const health = ({ operator }: HttpOptions, request: HttpServerRequest.HttpServerRequest) => {
  const allowed = operator === undefined ? Effect.void : operatorOnly(operator)(request)
  return Effect.match(allowed, { onFailure: (response) => response, onSuccess: () => HttpServerResponse.text("ok") })
}

/**
 * HTTP for a proxy: requests in absolute form, CONNECT, and requests without TLS inside a tunnel. Each request is decided
 * on its own, its Host must be the server it goes to, and it travels on a connection of its own.
 */
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as open,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { parseAuthority, type Target } from "../services/HostRules.ts"
import { type Connected, isConnected, type NotConnected } from "./ProxyDial.ts"
import { tie } from "./ProxyTunnel.ts"

export interface HttpLimits {
  /** For a whole request head, counted from the last answer. */
  readonly headMs: number
  readonly headBytes: number
  readonly idleMs: number
}

export interface HttpWays {
  readonly limits: HttpLimits
  /** Decides and connects; calls back once. */
  readonly reach: (target: Target, then: (dialled: Connected | NotConnected) => void) => void
  /** A new connection to where a tunnel leads; nothing is decided again. */
  readonly again: (tunnel: HttpTunnel, then: (dialled: Connected | NotConnected) => void) => void
  /** CONNECT was granted: the client's bytes go to this server from now on. */
  readonly tunnel: (client: Socket, head: Buffer, connected: Connected, target: Target) => void
  /** Tells of a request that is refused before anything is asked about it. */
  readonly deny: (host: string, port: number, reason: string) => void
}

/** A tunnel whose client turned out to speak HTTP. */
export interface HttpTunnel {
  readonly target: Target
  readonly address: string
  /** The connection made for it, until a request takes it. */
  spare: Socket | undefined
}

export interface ProxyHttp {
  /** Serves a client; inside a tunnel everything goes to the tunnel's server. */
  readonly serve: (client: Socket, tunnel?: HttpTunnel) => void
}

export const makeProxyHttp = (ways: HttpWays): ProxyHttp => {
  const { limits } = ways
  const tunnels = new WeakMap<Duplex, HttpTunnel>()
  const deadlines = new WeakMap<Duplex, NodeJS.Timeout>()
  const disarm = (client: Duplex): void => clearTimeout(deadlines.get(client))
  const arm = (client: Duplex): void => {
    disarm(client)
    deadlines.set(
      client,
      setTimeout(() => client.destroy(), limits.headMs),
    )
  }

  const reach = (tunnel: HttpTunnel | undefined, target: Target, then: (dialled: Connected | NotConnected) => void) => {
    if (tunnel === undefined) return ways.reach(target, then)
    const { spare } = tunnel
    tunnel.spare = undefined
    if (spare === undefined || spare.destroyed || spare.readableEnded) return ways.again(tunnel, then)
    then({ socket: spare, address: tunnel.address })
  }

  /** Where a request goes, or a status and words why nowhere. */
  const routeOf = (request: IncomingMessage, tunnel: HttpTunnel | undefined): Route => {
    const url = tunnel === undefined ? absoluteUrl(request.url ?? "") : undefined
    const path = url === undefined ? (request.url ?? "") : url.pathname + url.search
    const target = tunnel?.target ?? (url === undefined ? undefined : parseAuthority(url.host, 80))
    if (target === undefined || !(path.startsWith("/") || path === "*")) {
      ways.deny((request.url ?? "").slice(0, 100), 0, "that is no http: URL")
      return { status: 400, text: "this is a proxy; it takes absolute http: URLs and CONNECT" }
    }
    const hosts = request.headersDistinct["host"] ?? []
    const named = parseAuthority(hosts[0] ?? "", 80)
    if (hosts.length === 1 && named?.host === target.host && named.port === target.port) return { target, path, host: hosts[0] ?? "" }
    const why = `a request asks for Host ${JSON.stringify(hosts.join(", ").slice(0, 100))}`
    ways.deny(target.host, target.port, why)
    return { status: 403, text: refusalText(target, why) }
  }

  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    disarm(request.socket)
    response.once("close", () => arm(request.socket))
    const tunnel = tunnels.get(request.socket)
    const route = routeOf(request, tunnel)
    if ("status" in route) return answer(response, route.status, route.text)
    reach(tunnel, route.target, (dialled) => {
      if (!isConnected(dialled))
        return answer(response, dialled.outcome === "denied" ? 403 : 502, refusalText(route.target, dialled.reason))
      if (response.destroyed) return void dialled.socket.destroy()
      const forward = open({ createConnection: () => dialled.socket, ...sending(request, route), headers: passedOn(request) })
      forward.once("response", (reply) => {
        response.writeHead(reply.statusCode ?? 502, reply.statusMessage, endToEnd(reply.headers))
        reply.pipe(response)
        reply.on("error", () => response.destroy())
      })
      forward.once("socket", flow)
      forward.on("error", (error) => {
        if (response.headersSent) response.destroy()
        else answer(response, 502, refusalText(route.target, error.message))
      })
      response.once("close", () => forward.destroy())
      request.pipe(forward)
    })
  }

  const onUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer) => {
    const client = stream as Socket
    disarm(client)
    const tunnel = tunnels.get(client)
    const route = routeOf(request, tunnel)
    if ("status" in route) return rawAnswer(client, route.status, route.text)
    reach(tunnel, route.target, (dialled) => {
      if (!isConnected(dialled))
        return rawAnswer(client, dialled.outcome === "denied" ? 403 : 502, refusalText(route.target, dialled.reason))
      const headers = { ...passedOn(request), connection: "upgrade", upgrade: request.headers.upgrade }
      const forward = open({ createConnection: () => dialled.socket, ...sending(request, route), headers })
      forward.once("socket", flow)
      forward.on("error", () => client.destroy())
      forward.once("response", (reply) => {
        client.write(headText(reply, { ...endToEnd(reply.headers), connection: "close" }))
        reply.pipe(client)
      })
      forward.once("upgrade", (reply, server: Socket, first) => {
        client.write(headText(reply, { ...endToEnd(reply.headers), connection: "upgrade", upgrade: reply.headers.upgrade }))
        tie(client, server)
        client.write(first)
        server.write(head)
        server.pipe(client)
        client.pipe(server)
      })
      client.once("close", () => forward.destroy())
      forward.end()
    })
  }

  const onConnect = (request: IncomingMessage, stream: Duplex, head: Buffer) => {
    const client = stream as Socket
    disarm(client)
    const target = tunnels.has(client) ? undefined : parseAuthority(request.url ?? "")
    if (target === undefined) {
      ways.deny((request.url ?? "").slice(0, 100), 0, "that is no host and port")
      return rawAnswer(client, 400, "CONNECT wants host:port, and no other CONNECT around it")
    }
    ways.reach(target, (dialled) => {
      if (!isConnected(dialled)) return rawAnswer(client, dialled.outcome === "denied" ? 403 : 502, refusalText(target, dialled.reason))
      if (client.destroyed) return void dialled.socket.destroy()
      client.write("HTTP/1.1 200 Connection Established\r\n\r\n")
      ways.tunnel(client, head, dialled, target)
    })
  }

  const server: Server = createServer({ maxHeaderSize: limits.headBytes, keepAliveTimeout: limits.headMs, noDelay: true }, onRequest)
  server.timeout = limits.idleMs
  server.on("upgrade", onUpgrade)
  server.on("connect", onConnect)
  return {
    serve: (client, tunnel) => {
      if (tunnel !== undefined) tunnels.set(client, tunnel)
      arm(client)
      client.once("close", () => {
        disarm(client)
        tunnel?.spare?.destroy()
      })
      server.emit("connection", client)
      client.resume()
    },
  }
}

type Route = { readonly target: Target; readonly path: string; readonly host: string } | { readonly status: number; readonly text: string }

const absoluteUrl = (text: string): URL | undefined => {
  const url = /^http:\/\//iu.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && url.username === "" && url.password === "" ? url : undefined
}

const sending = (request: IncomingMessage, { path }: { readonly path: string }) => ({
  method: request.method ?? "GET",
  path,
  setHost: false,
})

/** Headers for one connection only, which a proxy does not pass on. */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authorization",
  "proxy-authenticate",
  "te",
  "trailer",
  "upgrade",
])

const endToEnd = (headers: IncomingMessage["headers"]): OutgoingHttpHeaders => {
  const named = new Set((headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()))
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name) && !named.has(name) && name !== "transfer-encoding"),
  )
}

/** A request's own headers; a body of unknown length stays one. */
const passedOn = ({ headers }: IncomingMessage): OutgoingHttpHeaders => ({
  ...endToEnd(headers),
  host: headers.host,
  ...(headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
})

/** A connection that was held back runs again, now that somebody listens. */
const flow = (socket: Socket): void => void socket.resume()

const refusalText = ({ host, port }: Target, why: string): string => `${host}:${port} cannot be reached by this command: ${why}`

const answer = (response: ServerResponse, status: number, text: string): void => {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", connection: "close" }).end(`codespace: ${text}\n`)
}

const rawAnswer = (client: Socket, status: number, text: string): void => {
  const body = `codespace: ${text}\n`
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "content-type: text/plain; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  client.end(`${[...head, "connection: close"].join("\r\n")}\r\n\r\n${body}`)
}

const headText = ({ statusCode, statusMessage }: IncomingMessage, headers: OutgoingHttpHeaders): string => {
  const lines = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((one) => `${name}: ${one}`))
  return `${[`HTTP/1.1 ${statusCode} ${statusMessage}`, ...lines].join("\r\n")}\r\n\r\n`
}

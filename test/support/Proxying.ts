/** A proxy over real sockets, servers for it on loopback, and clients that say exactly what a test wants. */
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Exit, Layer, Scope } from "effect"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import * as NodeNetworkProxy from "../../src/layers/NodeNetworkProxy.ts"
import { NameResolver, NameUnresolved, type NetworkDecision, NetworkProxy } from "../../src/services/NetworkProxy.ts"

/** Names and their addresses; asking takes the first list and moves on to the next, the last one stays. With no list no answer comes. */
export type Names = Record<string, Array<ReadonlyArray<string>>>

export interface OpenedProxy {
  readonly path: string
  readonly decisions: Array<NetworkDecision>
  /** Names that were looked up, in order. */
  readonly lookups: Array<string>
  readonly close: () => Promise<void>
}

/** Opens a proxy; everything of it goes with `close`. */
export const openProxy = async (
  allow: ReadonlyArray<string>,
  names: Names = {},
  limits: Partial<NodeNetworkProxy.ProxyLimits> = {},
): Promise<OpenedProxy> => {
  const folder = mkdtempSync(join(tmpdir(), "cs-"))
  const decisions: Array<NetworkDecision> = []
  const lookups: Array<string> = []
  const layerNames = Layer.succeed(NameResolver, {
    resolve: (name) =>
      Effect.suspend(() => {
        lookups.push(name)
        const answers = names[name]
        if (answers?.length === 0) return Effect.never
        const answer = answers !== undefined && answers.length > 1 ? answers.shift() : answers?.[0]
        return answer === undefined ? Effect.fail(new NameUnresolved({ cause: "ENOTFOUND" })) : Effect.succeed(answer)
      }),
  })
  const layer = NodeNetworkProxy.layer(folder, limits).pipe(Layer.provide(Layer.mergeAll(NodeIdentity.layer, layerNames)))
  const scope = await Effect.runPromise(Scope.make())
  const opened = Effect.gen(function* () {
    const services = yield* Layer.buildWithScope(layer, scope)
    const proxy = yield* Effect.provide(NetworkProxy, services)
    return yield* Scope.provide(proxy.open({ allow, onDecision: (decision) => decisions.push(decision) }), scope)
  })
  const { socket } = await Effect.runPromise(opened)
  const close = async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    rmSync(folder, { recursive: true, force: true })
  }
  return { path: socket, decisions, lookups, close }
}

/** One end of a connection, with all it heard. */
export interface Talk {
  readonly socket: Socket
  readonly send: (bytes: string | Uint8Array) => void
  /** Everything heard so far, one character a byte. */
  readonly heard: () => string
  /** Waits until `text` was heard; fails when the connection closes before. */
  readonly hears: (text: string) => Promise<string>
  /** Waits until the other end stops speaking or the connection is gone; gives what was heard. */
  readonly ended: Promise<string>
  /** Waits until the other end is gone: it stopped speaking, and the connection ends when this end does too. */
  readonly gone: () => Promise<void>
}

const talkOver = (socket: Socket): Talk => {
  let heard = ""
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const look of waiting) look()
  }
  socket.setEncoding("latin1").on("data", (text: string) => {
    heard += text
    wake()
  })
  socket.on("error", () => {})
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()))
  const gone = async () => {
    await ended
    socket.end()
    await closed
  }
  const ended = new Promise<string>((resolve) => {
    socket.once("end", () => resolve(heard))
    socket.once("close", () => resolve(heard))
  })
  const hears = (text: string) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        if (heard.includes(text)) resolve(heard)
        else if (!socket.destroyed) return
        else reject(new Error(`closed without ${JSON.stringify(text)}; heard ${JSON.stringify(heard)}`))
        waiting.delete(look)
      }
      waiting.add(look)
      socket.once("close", wake)
      look()
    })
  return { socket, send: (bytes) => void socket.write(bytes), heard: () => heard, hears, ended, gone }
}

/** A client of a proxy that can go on listening when it has stopped speaking. */
export const talkTo = async (path: string): Promise<Talk> => {
  const socket = connect({ path, allowHalfOpen: true })
  const talk = talkOver(socket)
  await once(socket, "connect")
  return talk
}

/** A server on loopback; keeps the connections it got. */
export interface Origin {
  readonly port: number
  readonly connections: Array<Talk>
  /** Waits for the connection of that number. */
  readonly connection: (at: number) => Promise<Talk>
  readonly close: () => Promise<void>
}

export const listenOn = async (
  server: Server,
  host = "127.0.0.1",
): Promise<{ readonly port: number; readonly close: () => Promise<void> }> => {
  const sockets = new Set<Socket>()
  server.on("connection", (socket) => {
    sockets.add(socket)
    socket.on("error", () => {}).once("close", () => sockets.delete(socket))
  })
  server.listen(0, host)
  await once(server, "listening")
  const close = async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, "close")
  }
  return { port: (server.address() as AddressInfo).port, close }
}

/** A server that only listens; the test answers for it. */
export const originOf = async (host?: string): Promise<Origin> => {
  const connections: Array<Talk> = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.push(talkOver(socket))
  })
  const { close, port } = await listenOn(server, host)
  const connection = async (at: number): Promise<Talk> => {
    while (connections[at] === undefined) await once(server, "connection")
    return connections[at] as Talk
  }
  return { port, connections, connection, close }
}

/** A SOCKS5 request for a name. */
export const socksRequest = (host: string, port: number): Buffer =>
  Buffer.from([5, 1, 0, 5, 1, 0, 3, host.length, ...Buffer.from(host, "latin1"), port >> 8, port & 255])

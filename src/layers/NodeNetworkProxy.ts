/**
 * NetworkProxy over `node:net` and `node:http`. Each proxy is a Unix socket in a folder only this user can enter; it is
 * bounded in connections, in time and in what it holds in memory, and takes all of it along when its scope closes.
 */
import { randomBytes } from "node:crypto"
import { chmodSync, mkdirSync, readdirSync, rmSync } from "node:fs"
import { createServer, type Server, type Socket } from "node:net"
import { join } from "node:path"
import { Effect, FiberSet, Layer, Result, type Scope } from "effect"
import { compileHosts, type Target } from "../services/HostRules.ts"
import { NameResolver, type NetworkDecision, NetworkProxy, ProxyFault, type ProxyRequest } from "../services/NetworkProxy.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { type Connected, connectTo, type Dial, dial, type NotConnected } from "./ProxyDial.ts"
import { makeProxyHttp, type ProxyHttp } from "./ProxyHttp.ts"
import { serveSocks } from "./ProxySocks.ts"
import { startTunnel } from "./ProxyTunnel.ts"
import { LONGEST_PATH, ownFolder, shortFolder } from "./SocketFolder.ts"

export interface ProxyLimits {
  /** Clients of one proxy at a time. */
  readonly connections: number
  /** For what a client says until it is known where to. */
  readonly headMs: number
  readonly headBytes: number
  readonly connectMs: number
  /** A connection on which nothing moves in either direction is closed. */
  readonly idleMs: number
}

const usual: ProxyLimits = { connections: 256, headMs: 10_000, headBytes: 16_384, connectMs: 10_000, idleMs: 300_000 }

/**
 * Sockets lie in a folder of this server below `folder` (0700), or where this user's sockets lie when that has too long a
 * path; what dead servers left there is removed first.
 */
export const layer = (folder: string, limits: Partial<ProxyLimits> = {}): Layer.Layer<NetworkProxy, never, ServerIdentity | NameResolver> =>
  Layer.effect(
    NetworkProxy,
    Effect.gen(function* () {
      const identity = yield* ServerIdentity
      const resolver = yield* NameResolver
      const all = placeOf(folder, identity.self)
      const own = join(all, identity.self)
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          mkdirSync(all, { recursive: true, mode: 0o700 })
          for (const name of readdirSync(all)) if (!identity.isAlive(name)) rmSync(join(all, name), { recursive: true, force: true })
          mkdirSync(own, { recursive: true, mode: 0o700 })
        }),
        () => Effect.sync(() => rmSync(own, { recursive: true, force: true })).pipe(Effect.ignoreCause({ log: true })),
      )
      return NetworkProxy.of({
        open: Effect.fn("NetworkProxy.open")((request: ProxyRequest) => openProxy(request, own, resolver, { ...usual, ...limits })),
      })
    }),
  )

/** Bytes of a socket's own name. */
const NAME = 8

const fits = (folder: string): boolean => Buffer.byteLength(folder) + 1 + NAME <= LONGEST_PATH

/** A short folder that somebody else has made is none for sockets; then a long path is told as what it is. */
const placeOf = (folder: string, self: string): string => {
  const short = shortFolder()
  return fits(join(folder, self)) || Result.isFailure(ownFolder(short)) ? folder : join(short, "proxies")
}

const openProxy = Effect.fnUntraced(function* (
  { allow, onDecision }: ProxyRequest,
  folder: string,
  resolver: NameResolver["Service"],
  limits: ProxyLimits,
): Effect.fn.Return<{ readonly socket: string }, ProxyFault, Scope.Scope> {
  const path = join(folder, randomBytes(NAME / 2).toString("hex"))
  if (!fits(folder))
    return yield* new ProxyFault({ cause: `the path ${path} is longer than the ${LONGEST_PATH} bytes a socket's may have` })
  const run = yield* FiberSet.makeRuntime<never>()
  const held = new Set<Socket>()
  const hold = (socket: Socket): void => {
    held.add(socket)
    socket.once("close", () => held.delete(socket))
    // An end that is gone is no fault of this process; whoever waits for it hears of the close.
    socket.on("error", () => socket.destroy())
    socket.setTimeout(limits.idleMs, () => socket.destroy())
  }
  const way: Dial = { rules: compileHosts(allow), resolver, onDecision, hold, connectMs: limits.connectMs }
  const clients = makeClients({ way, limits, onDecision, run: (effect) => void run(effect) })
  yield* Effect.acquireRelease(listen(path, clients), (server) => close(server, held, path))
  return { socket: path }
})

const listen = (path: string, onClient: (client: Socket) => void): Effect.Effect<Server, ProxyFault> =>
  Effect.callback((resume) => {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: false }, onClient)
    server.once("error", (error) => resume(Effect.fail(new ProxyFault({ cause: error.message }))))
    server.listen(path, () => {
      chmodSync(path, 0o600)
      resume(Effect.succeed(server))
    })
  })

const close = (server: Server, held: ReadonlySet<Socket>, path: string): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    for (const socket of held) socket.destroy()
  }).pipe(Effect.timeout("2 seconds"), Effect.andThen(Effect.sync(() => rmSync(path, { force: true }))), Effect.ignoreCause({ log: true }))

interface Clients {
  readonly way: Dial
  readonly limits: ProxyLimits
  readonly onDecision: (decision: NetworkDecision) => void
  readonly run: (effect: Effect.Effect<void>) => void
}

/** What happens with each client, from its first byte on. */
const makeClients = ({ limits, onDecision, run, way }: Clients): ((client: Socket) => void) => {
  const reach = (target: Target, then: (dialled: Connected | NotConnected) => void): void => run(Effect.map(dial(way, target), then))
  const deny = (host: string, port: number, reason: string): void => onDecision({ outcome: "denied", host, port, reason })

  const tunnel = (client: Socket, head: Uint8Array, { address, socket: server }: Connected, target: Target): void =>
    startTunnel({
      client,
      server,
      target,
      head,
      limits,
      onHttp: () => http.serve(client, { target, address, spare: server }),
      onForeign: (why) => deny(target.host, target.port, why),
    })

  const http: ProxyHttp = makeProxyHttp({
    limits,
    reach,
    tunnel,
    deny,
    again: ({ address, target }, then) =>
      run(
        Effect.map(connectTo(way, address, target.port), (socket) =>
          then(typeof socket === "string" ? { outcome: "failed", reason: socket } : { socket, address }),
        ),
      ),
  })

  const socks = (client: Socket, first: Buffer): void =>
    serveSocks(client, first, {
      headMs: limits.headMs,
      reach,
      deny,
      tunnel: (same, connected, target) => tunnel(same, new Uint8Array(), connected, target),
    })

  let count = 0
  return (client) => {
    way.hold(client)
    client.once("close", () => count--)
    if (++count > limits.connections) {
      deny("", 0, `there are ${limits.connections} connections already`)
      client.destroy()
      return
    }
    const deadline = setTimeout(() => client.destroy(), limits.headMs)
    client.once("close", () => clearTimeout(deadline))
    client.once("data", (first: Buffer) => {
      clearTimeout(deadline)
      client.pause()
      if (first[0] === 5) socks(client, first)
      else {
        client.unshift(first)
        http.serve(client)
      }
    })
    client.once("end", () => {
      if (client.bytesRead === 0) client.destroy()
    })
  }
}

/**
 * Bytes between a client and a server. What the server says passes at once; what the client says is held until its
 * beginning shows that it is meant for the tunnel's own server, and for as little as possible.
 */
import type { Socket } from "node:net"
import type { Target } from "../services/HostRules.ts"
import { tunnelStart } from "../services/TunnelStart.ts"

export interface TunnelLimits {
  /** Time and bytes for what the client says first. */
  readonly headMs: number
  readonly headBytes: number
  readonly idleMs: number
}

export interface Tunnel {
  readonly client: Socket
  readonly server: Socket
  readonly target: Target
  /** What the client has said already. */
  readonly head: Uint8Array
  readonly limits: TunnelLimits
  /** The client speaks HTTP without TLS: gives it and the server's connection back, nothing sent and nothing read. */
  readonly onHttp: () => void
  /** What the client said was not for this server; both ends are closed. */
  readonly onForeign: (why: string) => void
}

/** Pieces the client's first message may come in; more would only keep this process busy. */
const MOST_PIECES = 64

export const startTunnel = ({ client, head, limits, onForeign, onHttp, server, target }: Tunnel): void => {
  let held = Buffer.from(head)
  let pieces = 0
  let timer: NodeJS.Timeout | undefined
  const settle = (): void => {
    clearTimeout(timer)
    client.off("data", onData).off("end", onEnd).off("close", settle)
    client.pause()
  }
  const refuse = (why: string): void => {
    settle()
    onForeign(why)
    client.destroy()
    server.destroy()
  }
  /** Whether there is more to wait for. */
  const look = (): boolean => {
    const start = tunnelStart(held, target)
    switch (start._tag) {
      case "foreign":
        refuse(start.why)
        return false
      case "fits":
        settle()
        server.write(held)
        client.pipe(server)
        return false
      case "http":
        settle()
        untie()
        server.unpipe(client)
        client.unshift(held)
        onHttp()
        return false
      case "more":
        if (held.length > limits.headBytes || pieces > MOST_PIECES) refuse("its first message is too long")
        else if (held.length > 0) timer ??= setTimeout(() => refuse("its first message does not come to an end"), limits.headMs)
        return !client.destroyed
    }
  }
  const onData = (chunk: Buffer): void => {
    held = Buffer.concat([held, chunk])
    pieces++
    look()
  }
  const onEnd = () => {
    if (held.length > 0) return refuse("its first message breaks off")
    settle()
    server.end()
  }
  const untie = tie(client, server)
  client.setTimeout(limits.idleMs)
  client.on("data", onData).once("end", onEnd).once("close", settle)
  server.pipe(client)
  if (look()) client.resume()
}

/** Each end goes when the other is gone; one that only stopped speaking is heard on. Gives what takes this back. */
export const tie = (one: Socket, other: Socket): (() => void) => {
  const ends = [
    { from: one, onError: () => other.destroy(), onClose: () => other.destroySoon() },
    { from: other, onError: () => one.destroy(), onClose: () => one.destroySoon() },
  ]
  for (const { from, onClose, onError } of ends) from.once("error", onError).once("close", onClose)
  return () => {
    for (const { from, onClose, onError } of ends) from.off("error", onError).off("close", onClose)
  }
}

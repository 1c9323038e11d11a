/** SOCKS5 with a client, until its connection is decided about. Without authentication: who has the socket has the right. */
import type { Socket } from "node:net"
import type { Target } from "../services/HostRules.ts"
import { greetingAnswer, readGreeting, readRequest, requestAnswer } from "../services/Socks.ts"
import { type Connected, isConnected, type NotConnected } from "./ProxyDial.ts"

export interface SocksWays {
  readonly headMs: number
  readonly reach: (target: Target, then: (dialled: Connected | NotConnected) => void) => void
  readonly tunnel: (client: Socket, connected: Connected, target: Target) => void
  readonly deny: (host: string, port: number, reason: string) => void
}

export const serveSocks = (client: Socket, first: Buffer, { deny, headMs, reach, tunnel }: SocksWays): void => {
  let held = first
  let isGreeted = false
  const deadline = setTimeout(() => client.destroy(), headMs)
  const settle = (): void => {
    clearTimeout(deadline)
    client.off("data", onData).off("close", settle)
    client.pause()
  }
  const look = (): void => {
    if (!isGreeted) {
      const greeting = readGreeting(held)
      if (greeting === undefined) return
      held = held.subarray(greeting.length)
      isGreeted = true
      client.write(greetingAnswer(greeting.value))
      if (!greeting.value) {
        settle()
        client.end()
        return
      }
    }
    const request = readRequest(held)
    if (request === undefined) return
    settle()
    if (held.length > request.length) client.unshift(held.subarray(request.length))
    if (request.value._tag === "unsupported") client.end(requestAnswer("unsupported"))
    else if (request.value.target === undefined) {
      deny("", 0, "what it asked for is no host name and no address")
      client.end(requestAnswer("denied"))
    } else connect(request.value.target)
  }
  const connect = (target: Target): void =>
    reach(target, (dialled) => {
      if (!isConnected(dialled)) client.end(requestAnswer(dialled.outcome))
      else if (client.destroyed) dialled.socket.destroy()
      else {
        client.write(requestAnswer("connected"))
        tunnel(client, dialled, target)
      }
    })
  const onData = (chunk: Buffer): void => {
    held = Buffer.concat([held, chunk])
    look()
  }
  client.on("data", onData).once("close", settle)
  client.resume()
  look()
}

/**
 * From a target to a connection: the rules are asked, the name is resolved once, its addresses are checked, and one of
 * those very addresses is connected to. Every outcome is told.
 */
import { connect, type Socket } from "node:net"
import { Effect } from "effect"
import type { HostRules, Target } from "../services/HostRules.ts"
import type { NameResolver, NetworkDecision } from "../services/NetworkProxy.ts"

export interface Connected {
  readonly socket: Socket
  /** What it is connected to, checked. */
  readonly address: string
}

/** Why there is no connection, in the words of the decision. */
export interface NotConnected {
  readonly outcome: "denied" | "failed"
  readonly reason: string
}

export interface Dial {
  readonly rules: HostRules
  readonly resolver: NameResolver["Service"]
  readonly onDecision: (decision: NetworkDecision) => void
  /** Takes a new connection into care before anything else happens with it. */
  readonly hold: (socket: Socket) => void
  readonly connectMs: number
}

export const isConnected = (dialled: Connected | NotConnected): dialled is Connected => "socket" in dialled

/** Decides about a target and connects to it. */
export const dial = Effect.fnUntraced(function* (way: Dial, target: Target) {
  const { host, port } = target
  const told = (decision: Omit<NetworkDecision, "host" | "port">) => way.onDecision({ ...decision, host, port })
  const refused = (outcome: NotConnected["outcome"], reason: string): NotConnected => {
    told({ outcome, reason })
    return { outcome, reason }
  }
  const rule = way.rules.allowing(target)
  if (rule === undefined) return refused("denied", way.rules.whyNone(target))
  const resolved = yield* target.isAddress
    ? Effect.succeed([host])
    : Effect.catch(way.resolver.resolve(host), ({ cause }) => Effect.succeed(cause))
  if (typeof resolved === "string") return refused("failed", `its name was not resolved: ${resolved}`)
  const checked = resolved.map((address) => ({ address, problem: way.rules.refusing(address, port) }))
  const usable = checked.filter(({ problem }) => problem === undefined).slice(0, MOST_ADDRESSES)
  if (usable.length === 0) {
    const [first] = checked
    if (first === undefined) return refused("failed", "its name has no address")
    return refused("denied", `${first.problem}${target.isAddress ? "" : `; rule ${rule} names the name alone`}`)
  }
  let last = ""
  for (const { address } of usable) {
    const socket = yield* connectTo(way, address, port)
    if (typeof socket === "string") last = socket
    else {
      told({ outcome: "allowed", reason: `rule ${rule}` })
      return { socket, address } satisfies Connected
    }
  }
  return refused("failed", last)
})

/** Addresses of a name that are tried. */
const MOST_ADDRESSES = 4

/** A connection to an address that was checked; a text when there is none. */
export const connectTo = (
  { connectMs, hold }: Pick<Dial, "connectMs" | "hold">,
  address: string,
  port: number,
): Effect.Effect<Socket | string> =>
  Effect.callback((resume) => {
    const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true })
    hold(socket)
    const timer = setTimeout(() => done(`${address} did not answer in ${connectMs} ms`), connectMs)
    const failed = (error: NodeJS.ErrnoException) => done(`${address}: ${error.code ?? error.message}`)
    const done = (outcome: Socket | string) => {
      clearTimeout(timer)
      socket.off("error", failed)
      if (typeof outcome === "string") socket.destroy()
      resume(Effect.succeed(outcome))
    }
    socket.once("connect", () => done(socket))
    socket.once("error", failed)
    return Effect.sync(() => {
      clearTimeout(timer)
      socket.destroy()
    })
  })

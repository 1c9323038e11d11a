/**
 * The network of a confined command, by its profile: that of this machine; one of its own; or one that it has together with
 * the other commands of its workspace, with a proxy on it where the profile names hosts. Also what was refused on it.
 */
import { Effect, type Scope } from "effect"
import { SandboxUnavailable } from "../schema/Policy.ts"
import type { Variables } from "../services/ChildEnvironment.ts"
import type { Mount } from "../services/MountPlan.ts"
import { networkNotes, refusedByKernel } from "../services/NetworkNotes.ts"
import { NetworkProxy } from "../services/NetworkProxy.ts"
import { proxyVariables } from "../services/ProxyVariables.ts"
import type { Confines, Denials } from "../services/Sandbox.ts"
import { noDenials } from "../services/SandboxLevel.ts"
import { makeRooms, type RoomTools, refusalsIn } from "./NetworkRooms.ts"
import { realOf } from "./SandboxPlans.ts"
import type { SandboxStore } from "./SandboxStore.ts"

export interface CommandNetwork {
  /** Arguments that come before those of the sandbox. */
  readonly enter: ReadonlyArray<string>
  /** Whether the sandbox is to make one for this command alone. */
  readonly isOwn: boolean
  readonly mounts: ReadonlyArray<Mount>
  readonly variables: Variables
  readonly denials: Effect.Effect<Denials>
  readonly onCounters?: (counters: string) => void
}

export type Networks = (confines: Confines, tools: RoomTools) => Effect.Effect<CommandNetwork, SandboxUnavailable, Scope.Scope>

const ofThisMachine: CommandNetwork = { enter: [], isOwn: false, mounts: [], variables: {}, denials: noDenials }

export const makeNetworks = Effect.fnUntraced(function* (
  store: SandboxStore,
): Effect.fn.Return<Networks, never, Scope.Scope | NetworkProxy> {
  const proxies = yield* NetworkProxy
  const roomNamed = yield* makeRooms

  return Effect.fnUntraced(function* ({ profile, workspaceId }, tools) {
    const { name, network } = profile
    if (network === "on") return ofThisMachine
    const mounts = namesUnknown(store.noNames)
    const unavailable = (cause: string) => new SandboxUnavailable({ wanted: `the network rule of profile "${name}"`, cause })
    if (network === "off") {
      let counters = ""
      return {
        ...{ enter: [], isOwn: true, mounts, variables: {} },
        denials: Effect.sync(() => refusedByKernel(name, "off", refusalsIn(counters))),
        onCounters: (line) => {
          counters += line
        },
      }
    }
    // Whoever may reach other hosts is elsewhere: a proxy is nobody's but those whom it is for.
    const room = yield* Effect.mapError(roomNamed(JSON.stringify([workspaceId, network]), tools, network !== "loopback"), unavailable)
    const before = room.refusals()
    const refused = (words: string) => Effect.sync(() => refusedByKernel(name, words, room.refusals() - before))
    if (network === "loopback") return { enter: room.enter, isOwn: false, mounts, variables: {}, denials: refused("loopback") }
    const notes = networkNotes(name)
    const { socket } = yield* Effect.mapError(proxies.open({ allow: network.allow, onDecision: notes.onDecision }), ({ message }) =>
      unavailable(message),
    )
    const { host, port } = yield* Effect.mapError(room.lead(socket), unavailable)
    return {
      ...{ enter: room.enter, isOwn: false, mounts, variables: proxyVariables(host, port) },
      denials: Effect.map(refused("a list of hosts, reached through the proxy that http_proxy names"), (kernel) => {
        const proxy = notes.denials()
        return { ...proxy, notes: [...proxy.notes, ...kernel.notes], network: [...proxy.network, ...kernel.network] }
      }),
    }
  })
})

/** Names are looked up by nobody but the proxy; a look-up ends at once instead of waiting for a server that is not there. */
const namesUnknown = (settings: string): ReadonlyArray<Mount> => {
  const path = realOf("/etc/resolv.conf")
  return path === undefined ? [] : [{ kind: "read", path, source: settings }]
}

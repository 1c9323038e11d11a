/**
 * Port: a command's only way to the network when its profile names hosts. Each process gets a proxy of its own; what it
 * may reach belongs to the socket, so that there is nothing to present and nothing to steal, and closing it revokes all.
 */
import { Context, Effect, Layer, Schema, type Scope } from "effect"
import type { AllowedHost } from "../schema/Policy.ts"

/** One decision, as it is told to whoever opened the proxy. */
export interface NetworkDecision {
  /** `failed`: it was allowed, and the network or the name service did not play along. */
  readonly outcome: "allowed" | "denied" | "failed"
  /** Empty when the proxy refused before it knew. */
  readonly host: string
  readonly port: number
  /** The rule that allowed it, or why it was not allowed. */
  readonly reason: string
}

export interface ProxyRequest {
  /** Hosts as a profile writes them: `name`, `*.name`, an address, each with an optional `:port`, alone or with a reason. */
  readonly allow: ReadonlyArray<AllowedHost>
  /** Called for every decision, in order; it must not throw. */
  readonly onDecision: (decision: NetworkDecision) => void
}

/** A proxy cannot be opened here. */
export class ProxyFault extends Schema.TaggedError<ProxyFault>()("ProxyFault", { cause: Schema.String }) {
  override get message() {
    return `the network proxy cannot be opened: ${this.cause}`
  }
}

export class NetworkProxy extends Context.Service<
  NetworkProxy,
  {
    /**
     * Opens a proxy and gives the path of its Unix socket, on which it speaks HTTP (absolute form and CONNECT) and SOCKS5.
     * With the scope the socket goes and every connection ends.
     */
    readonly open: (request: ProxyRequest) => Effect.Effect<{ readonly socket: string }, ProxyFault, Scope.Scope>
  }
>()("codespace/services/NetworkProxy") {
  static readonly layerNone = Layer.succeed(NetworkProxy, {
    open: () => Effect.fail(new ProxyFault({ cause: "there is none in this environment" })),
  })
}

/** A name has no address, or the name service does not answer. */
export class NameUnresolved extends Schema.TaggedError<NameUnresolved>()("NameUnresolved", { cause: Schema.String }) {}

export class NameResolver extends Context.Service<
  NameResolver,
  {
    /** All addresses of a name, in the order in which they should be tried. */
    readonly resolve: (name: string) => Effect.Effect<ReadonlyArray<string>, NameUnresolved>
  }
>()("codespace/services/NameResolver") {}

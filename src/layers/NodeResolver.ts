/** NameResolver over the system's own way to look names up. */
import { lookup } from "node:dns/promises"
import { Effect, Layer } from "effect"
import { NameResolver, NameUnresolved } from "../services/NetworkProxy.ts"

export const layer = Layer.succeed(NameResolver, {
  resolve: (name) =>
    Effect.tryPromise({
      try: () => lookup(name, { all: true }),
      catch: (error) => new NameUnresolved({ cause: error instanceof Error && "code" in error ? String(error.code) : String(error) }),
    }).pipe(
      Effect.map((found) => found.map(({ address }) => address)),
      Effect.timeoutOrElse({ duration: "10 seconds", orElse: () => Effect.fail(new NameUnresolved({ cause: "no answer in 10 s" })) }),
    ),
})

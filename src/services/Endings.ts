/**
 * Work that outlives its call: it waits for the end of a process and then records it. It lives below the runner, so that
 * at shutdown the runner ends its processes first and their ends are still written down.
 */
import { Context, Effect, FiberSet, Layer } from "effect"

/** How long a shutdown waits for the last records, in milliseconds; stopping as a whole is promised within 5 s. */
const LAST_RECORDS = 1000

export class Endings extends Context.Service<
  Endings,
  {
    /** Lets an effect run on after its call; its failures are logged. */
    readonly follow: (effect: Effect.Effect<void, unknown>) => Effect.Effect<void>
  }
>()("codespace/services/Endings") {
  static readonly layer = Layer.effect(
    Endings,
    Effect.gen(function* () {
      const fibers = yield* FiberSet.make()
      yield* Effect.addFinalizer(() => FiberSet.awaitEmpty(fibers).pipe(Effect.timeoutOption(LAST_RECORDS), Effect.ignore({ log: true })))
      return Endings.of({ follow: (effect) => Effect.asVoid(FiberSet.run(fibers, Effect.ignore(effect, { log: true }))) })
    }),
  )
}

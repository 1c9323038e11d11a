/**
 * A server that makes a patch and kills itself before its n-th disk operation, as a program of its own. Arguments as
 * JSON: what `CrashRequest` says. Without a death it prints which operations there were. With several patches it makes
 * them in turn until it is killed, as `op_0`, `op_1` and so on, and prints each number before.
 */
import { Effect } from "effect"
import type { PatchIntent } from "../../src/services/PatchTransaction.ts"
import { faultyRoots } from "./FaultyRoot.ts"
import { openPatching } from "./Patching.ts"

export interface CrashRequest {
  readonly root: string
  readonly stateFolder: string
  readonly durability: "process" | "power"
  readonly intents: ReadonlyArray<PatchIntent>
  /** -1 never dies. */
  readonly position: number
}

const request = JSON.parse(process.argv[2] ?? "{}") as CrashRequest
const faulty = faultyRoots(request.position, { kind: "kill" })

const program = Effect.gen(function* () {
  const { transaction } = yield* openPatching(request.root, { ...request, through: faulty.through })
  faulty.arm()
  const [only, ...others] = request.intents
  if (only !== undefined && others.length === 0) yield* transaction.apply(only, { operationId: "op_1" })
  else
    for (let turn = 0; ; turn++)
      for (const [at, intent] of request.intents.entries()) {
        const id = turn * request.intents.length + at
        yield* Effect.sync(() => process.stdout.write(`${id}\n`))
        yield* transaction.apply(intent, { operationId: `op_${id}` })
      }
  faulty.disarm()
})
await Effect.runPromise(Effect.scoped(program))
process.stdout.write(JSON.stringify(faulty.operations))

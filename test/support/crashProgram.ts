/**
 * A server that makes one patch and kills itself before its n-th disk operation, as a program of its own. Arguments as
 * JSON: what `CrashRequest` says. Without a death it prints how many operations there were.
 */
import { Effect } from "effect"
import type { PatchIntent } from "../../src/services/PatchTransaction.ts"
import { faultyRoots } from "./FaultyRoot.ts"
import { openPatching } from "./Patching.ts"

export interface CrashRequest {
  readonly root: string
  readonly stateFolder: string
  readonly durability: "process" | "power"
  readonly intent: PatchIntent
  readonly operationId: string
  /** -1 never dies. */
  readonly position: number
}

const request = JSON.parse(process.argv[2] ?? "{}") as CrashRequest
const faulty = faultyRoots(request.position, { kind: "kill" })

const program = Effect.gen(function* () {
  const { transaction } = yield* openPatching(request.root, { ...request, through: faulty.through })
  faulty.arm()
  yield* transaction.apply(request.intent, { operationId: request.operationId })
  faulty.disarm()
})
await Effect.runPromise(Effect.scoped(program))
process.stdout.write(JSON.stringify(faulty.operations))

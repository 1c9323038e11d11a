/**
 * A server that makes a patch and kills itself before its n-th disk operation, as a program of its own. Arguments as
 * JSON: what `CrashRequest` says. Without a death it prints which operations there were. With several patches it makes
 * them in turn until it is killed, as `op_0`, `op_1` and so on, and prints each number before.
 */
import { Duration, Effect } from "effect"
import type { PatchIntent } from "../../src/services/PatchTransaction.ts"
import type { Workspace } from "../../src/services/Workspace.ts"
import { faultyRoots } from "./FaultyRoot.ts"
import { openPatching } from "./Patching.ts"

export interface CrashRequest {
  readonly root: string
  readonly stateFolder: string
  readonly durability: "process" | "power"
  readonly intents: ReadonlyArray<PatchIntent>
  /** An `after_patch` hook: a shell script that gets the files as its arguments, and a folder for its output. */
  readonly hook?: { readonly script: string; readonly spools: string }
  /** -1 never dies. */
  readonly position: number
}

const request = JSON.parse(process.argv[2] ?? "{}") as CrashRequest
const faulty = faultyRoots(request.position, { kind: "kill" })

const hookOf = (script: string) => ({
  command: ["sh", "-c", script, "sh", "{files}"],
  on_failure: "reject" as const,
  timeout: Duration.minutes(1),
})

/** Loaded where it is wanted: the program dies hundreds of times without a hook, and each start counts. */
const hooksWith = (workspace: Workspace["Service"], spools: string) =>
  Effect.flatMap(
    Effect.promise(() => import("./Hooking.ts")),
    ({ openHooks }) => openHooks(workspace, spools),
  )

const program = Effect.gen(function* () {
  const { transaction, workspace } = yield* openPatching(request.root, {
    ...request,
    ...(request.hook === undefined ? {} : { hooks: { after_patch: [hookOf(request.hook.script)] }, limits: { spool_bytes: 1000 } }),
    through: faulty.through,
  })
  const hooks = request.hook === undefined ? {} : { hooks: yield* hooksWith(workspace, request.hook.spools) }
  faulty.arm()
  const [only, ...others] = request.intents
  if (only !== undefined && others.length === 0) yield* transaction.apply(only, { operationId: "op_1", ...hooks })
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

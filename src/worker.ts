/**
 * All that a worker is: the workspace side behind its socket. It reads what it is for from its standard input, says one
 * word on its standard output, and ends with its server, or when it was detached and no server has been connected for its
 * limit. It opens no database and no network port, and knows no token.
 */
import { createInterface } from "node:readline"
import { Context, Data, Deferred, Effect, Exit, FiberSet, Layer, Scope } from "effect"
import * as NodeDigest from "./layers/NodeDigest.ts"
import * as NodeIdentity from "./layers/NodeIdentity.ts"
import { READY, type WorkerOrder } from "./layers/WorkerProcess.ts"
import { listen, socketOver } from "./layers/WorkerSocket.ts"
import { layerSandbox, layerUnder, layerWorkspace, layerWorkspaceSide } from "./layers/WorkspaceSide.ts"
import type { WorkspaceTool } from "./runner/Handlers.ts"
import * as Serving from "./runner/Serving.ts"
import { AppConfig } from "./services/AppConfig.ts"
import { ServerIdentity } from "./services/ServerIdentity.ts"
import { settingsFrom } from "./services/SettingsText.ts"

export class NoOrder extends Data.TaggedError("NoOrder")<{ readonly message: string }> {}

/** Milliseconds from the decision to end until the end, whatever is in the way. */
const END_LIMIT = 4500
/** Milliseconds for the last answers, once all processes have ended. */
const LAST_ANSWERS = 50

/** Runs a worker of these tools until it is to end. `stopped` completes when the process is told to. */
export const runWorker = Effect.fnUntraced(function* (
  tools: ReadonlyArray<WorkspaceTool>,
  version: string,
  stopped: Effect.Effect<void>,
  say: (line: string) => void,
) {
  const { line, inputEnds } = yield* readOrder
  const { config, folder, lifetime, orphanLimitMs } = yield* Effect.try({
    try: () => settingsFrom<WorkerOrder>(line),
    catch: () =>
      new NoOrder({ message: "codespace worker is started by codespace mcp and codespace serve; it found no order on its standard input" }),
  })
  const all = layerSandbox(config).pipe(
    Layer.provideMerge(Layer.mergeAll(NodeDigest.layer, NodeIdentity.layer, Layer.succeed(AppConfig, config))),
  )
  // Its end comes first: processes end while servers are still connected, and hear of it.
  const side = yield* Scope.make()
  const services = yield* Layer.buildWithScope(layerWorkspaceSide(config).pipe(Layer.provideMerge(all)), side)
  const serving = yield* Serving.make(tools, layerWorkspace(config.stateFolder), layerUnder, version).pipe(Effect.provideContext(services))
  const run = yield* FiberSet.makeRuntime<never>()
  const identity = Context.get(services, ServerIdentity)
  const refused = yield* Effect.result(
    listen(folder, identity, (socket) => run(Effect.flatMap(socketOver(socket), serving.connect).pipe(Effect.ignoreCause({ log: true })))),
  )
  if (refused._tag === "Failure") {
    say(refused.failure.cause)
    return yield* Scope.close(side, Exit.void)
  }
  say(READY)
  yield* Effect.raceFirst(stopped, lifetime === "gateway" ? inputEnds : orphaned(serving.connections, orphanLimitMs))
  // Whatever hangs then ends with this process: nothing that it holds outlives it.
  setTimeout(() => process.exit(1), END_LIMIT).unref()
  yield* Scope.close(side, Exit.void)
  yield* Effect.sleep(LAST_ANSWERS)
})

/** The first line of standard input, and its end. */
const readOrder = Effect.callback<{ readonly line: string; readonly inputEnds: Effect.Effect<void> }, NoOrder>((resume) => {
  const ended = Deferred.makeUnsafe<void>()
  const lines = createInterface(process.stdin)
  lines.once("line", (line) => resume(Effect.succeed({ line, inputEnds: Deferred.await(ended) })))
  lines.once("close", () => {
    Deferred.doneUnsafe(ended, Effect.void)
    resume(
      Effect.fail(
        new NoOrder({ message: "codespace worker is started by codespace mcp and codespace serve; its standard input was empty" }),
      ),
    )
  })
  process.stdin.on("error", () => lines.close())
})

/** Completes when nobody has been connected for this many milliseconds. */
const orphaned = Effect.fnUntraced(function* (connections: () => number, limitMs: number) {
  const look = Math.min(1000, limitMs / 4)
  for (let alone = 0; alone < limitMs; alone = connections() > 0 ? 0 : alone + look) yield* Effect.sleep(look)
})

/** A server without namespaces that starts the command it is given and says so. It waits to be killed. */
import { Effect } from "effect"
import * as Bubblewrap from "../../src/layers/Bubblewrap.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { layerSupervisorIn, requestOf } from "./Processes.ts"

const [folder = "", cwd = "", ...argv] = process.argv.slice(2)

await Effect.gen(function* () {
  const supervisor = yield* ProcessSupervisor
  const id = yield* supervisor.start(requestOf(argv, { cwd: { path: cwd, shown: "." } }))
  yield* supervisor.read(id, { waitMs: 10_000, until: "ready", maxBytes: 100, view: "follow" })
  process.stdout.write("ready\n")
  return yield* Effect.never
}).pipe(Effect.provide(layerSupervisorIn(folder, Bubblewrap.layerGroups("a test asks for it"))), Effect.runPromise)

/** `codespace worker`: the workspace side in a process of its own. Servers start it; what it is for comes on its standard input. */
import { Effect, Fiber } from "effect"
import { stopSignal } from "../mcp/Stdio.ts"
import { workspaceTools } from "../mcp/Tools.ts"
import { runWorker } from "../worker.ts"
import { version } from "./Built.ts"
import { command } from "./Command.ts"

export const worker = command({
  details: "It is started by mcp and serve, for workspaces whose environment is a worker, and reads from them what it is to do.",
  options: {},
  run: Effect.fnUntraced(function* () {
    const stopped = yield* Effect.forkChild(stopSignal, { startImmediately: true })
    yield* runWorker(workspaceTools, version, Fiber.join(stopped), (line) => void process.stdout.write(`${line}\n`))
    return 0
  }),
})

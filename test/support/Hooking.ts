/** Hooks of a workspace, over a supervisor of their own until the scope ends. */
import { Context, Effect, Layer } from "effect"
import { makeHooks } from "../../src/services/PatchHooks.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import type { Workspace } from "../../src/services/Workspace.ts"
import { layerSupervisorIn } from "./Processes.ts"

/** The output of the hooks lies in the folder `spools`. */
export const openHooks = Effect.fnUntraced(function* (workspace: Workspace["Service"], spools: string) {
  const context = yield* Layer.build(layerSupervisorIn(spools))
  return makeHooks(workspace, Context.get(context, ProcessSupervisor))
})

/** The Runner of a server whose workspaces work in several environments: each request goes to the one of its workspace. */
import { Context, Effect, Layer } from "effect"
import type { WorkspaceId } from "../schema/Workspace.ts"
import { AppConfig } from "../services/AppConfig.ts"
import { Runner } from "../services/Runner.ts"

/** `workers` are the runners of worker environments by name; everything else goes to `host`. */
export const layer = <E, R, E2, R2>(
  host: Layer.Layer<Runner, E, R>,
  workers: ReadonlyMap<string, Layer.Layer<Runner, E2, R2>>,
): Layer.Layer<Runner, E | E2, R | R2 | AppConfig> =>
  Layer.effect(
    Runner,
    Effect.gen(function* () {
      const { workspaces } = yield* AppConfig
      const here = Context.get(yield* Layer.build(host), Runner)
      const others = new Map<string, Runner["Service"]>()
      for (const [name, worker] of workers) others.set(name, Context.get(yield* Layer.build(worker), Runner))
      const of = (id: WorkspaceId): Runner["Service"] => {
        const environment = workspaces.get(id)?.environment
        return (environment?.kind === "worker" ? others.get(environment.name) : undefined) ?? here
      }
      return Runner.of({
        execute: (request) => of(request.workspaceId).execute(request),
        outcomes: (workspaceId, cut) => of(workspaceId).outcomes(workspaceId, cut),
        acknowledge: (workspaceId, operation) => of(workspaceId).acknowledge(workspaceId, operation),
      })
    }),
  )

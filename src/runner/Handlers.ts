/**
 * The workspace side's table: tool name to handler. The services of a workspace are built when its first call arrives
 * and live as long as the server. Which tools there are is told from outside; this file knows none.
 */
import { Context, Effect, Layer, Semaphore } from "effect"
import { RunnerUnavailable } from "../schema/Operation.ts"
import type { Refusal } from "../schema/Refusal.ts"
import { type WorkspaceId, WorkspaceNotFound } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../services/AppConfig.ts"
import type { DiskFault } from "../services/Disk.ts"
import type { Files } from "../services/Files.ts"
import type { PatchTransaction } from "../services/PatchTransaction.ts"
import { ProcessSupervisor } from "../services/ProcessSupervisor.ts"
import type { Reply, RunRequest } from "../services/Runner.ts"
import type { Workspace } from "../services/Workspace.ts"

/** What each workspace has of its own. */
export type OwnServices = Workspace | Files | PatchTransaction

/** What the handlers of a workspace may use; one supervisor serves all workspaces. */
export type WorkspaceServices = OwnServices | ProcessSupervisor

export type Handler = (request: RunRequest) => Effect.Effect<Reply, Refusal>

/** A tool that is performed on the workspace side. */
export interface WorkspaceTool {
  readonly name: string
  /** Made once for each workspace, with the services of that workspace. */
  readonly handler: Effect.Effect<Handler, never, WorkspaceServices>
}

export class Handlers extends Context.Service<
  Handlers,
  {
    /** Performs a request in its workspace. */
    readonly handle: (request: RunRequest) => Effect.Effect<Reply, Refusal>
  }
>()("codespace/runner/Handlers") {
  static readonly layer = <R>(
    tools: ReadonlyArray<WorkspaceTool>,
    layerWorkspace: (settings: WorkspaceSettings) => Layer.Layer<OwnServices, DiskFault, R>,
  ): Layer.Layer<Handlers, never, AppConfig | ProcessSupervisor | R> => Layer.effect(Handlers, make(tools, layerWorkspace))
}

const make = Effect.fnUntraced(function* <R>(
  tools: ReadonlyArray<WorkspaceTool>,
  layerWorkspace: (settings: WorkspaceSettings) => Layer.Layer<OwnServices, DiskFault, R>,
) {
  const config = yield* AppConfig
  const supervisor = yield* ProcessSupervisor
  const outer = yield* Effect.context<R>()
  const scope = yield* Effect.scope
  const opened = new Map<WorkspaceId, ReadonlyMap<string, Handler>>()
  const opening = yield* Semaphore.make(1)

  const open = (id: WorkspaceId) =>
    opening.withPermits(1)(
      Effect.gen(function* () {
        const known = opened.get(id)
        if (known !== undefined) return known
        const settings = config.workspaces.get(id)
        if (settings === undefined) return yield* new WorkspaceNotFound({ workspace_id: id, known: [...config.workspaces.keys()] })
        const own = yield* Layer.buildWithScope(Layer.fresh(layerWorkspace(settings)), scope).pipe(
          Effect.provideContext(outer),
          Effect.mapError((fault) => new RunnerUnavailable({ cause: `workspace "${id}" cannot be opened: ${fault.message}` })),
        )
        const services = Context.add(own, ProcessSupervisor, supervisor)
        const table = new Map<string, Handler>()
        for (const { handler, name } of tools) table.set(name, yield* Effect.provideContext(handler, services))
        opened.set(id, table)
        return table
      }),
    )

  const perform = (table: ReadonlyMap<string, Handler>, request: RunRequest) =>
    table.get(request.tool)?.(request) ?? Effect.die(new Error(`no handler for ${request.tool}`))

  return Handlers.of({
    handle: (request) => {
      const table = opened.get(request.workspaceId)
      return table === undefined ? Effect.flatMap(open(request.workspaceId), (table) => perform(table, request)) : perform(table, request)
    },
  })
})

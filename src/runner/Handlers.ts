/**
 * The workspace side's table: tool name to handler. The services of a workspace are built when its first call arrives
 * and live as long as the server. Which tools there are is told from outside; this file knows none.
 */
import { Context, Effect, Layer, Semaphore } from "effect"
import type { Outcome } from "../schema/Journal.ts"
import { RunnerUnavailable } from "../schema/Operation.ts"
import type { Refusal } from "../schema/Refusal.ts"
import { type WorkspaceId, WorkspaceNotFound } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../services/AppConfig.ts"
import type { DiskFault } from "../services/Disk.ts"
import type { Files } from "../services/Files.ts"
import { PatchJournal } from "../services/PatchJournal.ts"
import type { PatchTransaction } from "../services/PatchTransaction.ts"
import { ProcessSupervisor } from "../services/ProcessSupervisor.ts"
import type { CutOperation, Reply, RunRequest } from "../services/Runner.ts"
import type { Workspace } from "../services/Workspace.ts"

/** What each workspace has of its own. */
export type OwnServices = Workspace | Files | PatchTransaction | PatchJournal

/** What the handlers of a workspace may use; one supervisor serves all workspaces. */
export type WorkspaceServices = OwnServices | ProcessSupervisor

export type Handler = (request: RunRequest) => Effect.Effect<Reply, Refusal>

/** A tool that is performed on the workspace side. */
export interface WorkspaceTool {
  readonly name: string
  /** All it changes goes through the journal, which knows what became of a call that was cut. */
  readonly journaled: boolean
  /** Made once for each workspace, with the services of that workspace. */
  readonly handler: Effect.Effect<Handler, never, WorkspaceServices>
}

export class Handlers extends Context.Service<
  Handlers,
  {
    /** Performs a request in its workspace. */
    readonly handle: (request: RunRequest) => Effect.Effect<Reply, Refusal>
    readonly outcomes: (workspaceId: WorkspaceId, cut: ReadonlyArray<CutOperation>) => Effect.Effect<ReadonlyMap<string, Outcome>, Refusal>
    readonly acknowledge: (workspaceId: WorkspaceId, operation: CutOperation) => Effect.Effect<void>
  }
>()("codespace/runner/Handlers") {
  static readonly layer = <R>(
    tools: ReadonlyArray<WorkspaceTool>,
    layerWorkspace: (settings: WorkspaceSettings) => Layer.Layer<OwnServices, DiskFault, R>,
  ): Layer.Layer<Handlers, never, AppConfig | ProcessSupervisor | R> => Layer.effect(Handlers, make(tools, layerWorkspace))
}

interface OpenWorkspace {
  readonly table: ReadonlyMap<string, Handler>
  readonly journal: PatchJournal["Service"]
}

const make = Effect.fnUntraced(function* <R>(
  tools: ReadonlyArray<WorkspaceTool>,
  layerWorkspace: (settings: WorkspaceSettings) => Layer.Layer<OwnServices, DiskFault, R>,
) {
  const config = yield* AppConfig
  const supervisor = yield* ProcessSupervisor
  const outer = yield* Effect.context<R>()
  const scope = yield* Effect.scope
  const opened = new Map<WorkspaceId, OpenWorkspace>()
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
        const workspace = { table, journal: Context.get(own, PatchJournal) }
        opened.set(id, workspace)
        return workspace
      }),
    )

  const journaled = new Set(tools.filter((tool) => tool.journaled).map(({ name }) => name))

  const outcomes = Effect.fn("Handlers.outcomes")(function* (id: WorkspaceId, cut: ReadonlyArray<CutOperation>) {
    const { journal } = opened.get(id) ?? (yield* open(id))
    const known = yield* journal
      .outcomes(cut.filter(({ tool }) => journaled.has(tool)).map(({ operationId }) => operationId))
      .pipe(
        Effect.mapError(
          (failure) => new RunnerUnavailable({ cause: `the journal of workspace "${id}" cannot be read: ${failure.message}` }),
        ),
      )
    const others = cut.filter(({ tool }) => !journaled.has(tool))
    return new Map<string, Outcome>([...known, ...others.map(({ operationId }) => [operationId, { kind: "unknown" }] as const)])
  })

  const acknowledge = (id: WorkspaceId, { operationId, tool }: CutOperation) =>
    journaled.has(tool) ? (opened.get(id)?.journal.acknowledge(operationId) ?? Effect.void) : Effect.void

  const perform = ({ table }: OpenWorkspace, request: RunRequest) =>
    table.get(request.tool)?.(request) ?? Effect.die(new Error(`no handler for ${request.tool}`))

  return Handlers.of({
    handle: (request) => {
      const known = opened.get(request.workspaceId)
      return known === undefined
        ? Effect.flatMap(open(request.workspaceId), (workspace) => perform(workspace, request))
        : perform(known, request)
    },
    outcomes,
    acknowledge,
  })
})

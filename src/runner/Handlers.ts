/**
 * The workspace side's table: tool name to handler. The services of a workspace are built when its first call arrives
 * and live as long as the server. Which tools there are is told from outside; this file knows none.
 */
import { Context, Effect, Layer, Schema, Semaphore } from "effect"
import type { Outcome } from "../schema/Journal.ts"
import { RunnerUnavailable } from "../schema/Operation.ts"
import type { Profile } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import { type WorkspaceId, WorkspaceNotFound } from "../schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../services/AppConfig.ts"
import type { DiskFault } from "../services/Disk.ts"
import type { Files } from "../services/Files.ts"
import { PatchJournal } from "../services/PatchJournal.ts"
import type { PatchTransaction } from "../services/PatchTransaction.ts"
import { ProcessSupervisor } from "../services/ProcessSupervisor.ts"
import type { CutOperation, Reply, RunRequest } from "../services/Runner.ts"
import type { ShellParser } from "../services/ShellParser.ts"
import { Workspace } from "../services/Workspace.ts"

/** What each workspace has of its own. */
export type OwnServices = Workspace | Files | PatchTransaction | PatchJournal | ShellParser

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
    layerWorkspace: LayerWorkspace<R>,
    layerUnder: LayerUnder<R>,
  ): Layer.Layer<Handlers, never, AppConfig | ProcessSupervisor | R> => Layer.effect(Handlers, make(tools, layerWorkspace, layerUnder))
}

/** Opens a workspace. */
export type LayerWorkspace<R> = (settings: WorkspaceSettings) => Layer.Layer<OwnServices, DiskFault, R>
/** What of an open workspace is different under a stricter profile. */
export type LayerUnder<R> = (
  open: Workspace["Service"],
  settings: WorkspaceSettings,
) => Layer.Layer<Exclude<OwnServices, PatchJournal | ShellParser>, never, PatchJournal | R>

type Table = ReadonlyMap<string, Handler>

interface OpenWorkspace {
  readonly settings: WorkspaceSettings
  readonly services: Context.Context<WorkspaceServices>
  readonly table: Table
  readonly journal: PatchJournal["Service"]
  /** Tables under stricter profiles, by the profile. */
  readonly under: Map<string, Table>
}

const make = Effect.fnUntraced(function* <R>(
  tools: ReadonlyArray<WorkspaceTool>,
  layerWorkspace: LayerWorkspace<R>,
  layerUnder: LayerUnder<R>,
) {
  const config = yield* AppConfig
  const supervisor = yield* ProcessSupervisor
  const outer = yield* Effect.context<R>()
  const scope = yield* Effect.scope
  const opened = new Map<WorkspaceId, OpenWorkspace>()
  const opening = yield* Semaphore.make(1)

  const tableOn = Effect.fnUntraced(function* (services: Context.Context<WorkspaceServices>) {
    const table = new Map<string, Handler>()
    for (const { handler, name } of tools) table.set(name, yield* Effect.provideContext(handler, services))
    return table
  })

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
        const table = yield* tableOn(services)
        const workspace = { settings, services, table, journal: Context.get(own, PatchJournal), under: new Map<string, Table>() }
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

  /** The table under a stricter profile, which comes with the request as plain data. */
  const tableUnder = Effect.fnUntraced(function* ({ services, settings, under }: OpenWorkspace, profile: Profile) {
    const key = profileText(profile)
    const known = under.get(key)
    if (known !== undefined) return known
    const layer = layerUnder(Context.get(services, Workspace), { ...settings, profile })
    const own = yield* Effect.provideContext(Layer.buildWithScope(Layer.fresh(layer), scope), Context.merge(outer, services))
    const table = yield* tableOn(Context.merge(services, own))
    under.set(key, table)
    return table
  })

  const handlerIn = (table: Table, request: RunRequest) =>
    table.get(request.tool)?.(request) ?? Effect.die(new Error(`no handler for ${request.tool}`))

  const perform = (workspace: OpenWorkspace, request: RunRequest) =>
    request.profile === undefined
      ? handlerIn(workspace.table, request)
      : Effect.flatMap(tableUnder(workspace, request.profile), (table) => handlerIn(table, request))

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

const profileText = Schema.encodeUnknownSync(Schema.fromJsonString(Schema.Unknown))

/**
 * The two graphs, and the adapters they stand on. The workspace side is built below the records' followers, so that at
 * shutdown processes end first, then their ends are recorded, then the store closes.
 */
import { Layer } from "effect"
import { Handlers, type WorkspaceTool } from "../runner/Handlers.ts"
import * as InProcess from "../runner/InProcess.ts"
import { AppConfig, type WorkspaceSettings } from "../services/AppConfig.ts"
import { Callers } from "../services/Callers.ts"
import { CommandReader } from "../services/CommandReader.ts"
import { Endings } from "../services/Endings.ts"
import { Files } from "../services/Files.ts"
import { LeaseManager } from "../services/LeaseManager.ts"
import { Operations } from "../services/Operations.ts"
import { PatchJournal } from "../services/PatchJournal.ts"
import { PatchTransaction } from "../services/PatchTransaction.ts"
import { Policy } from "../services/Policy.ts"
import { ProcessSupervisor } from "../services/ProcessSupervisor.ts"
import { Store } from "../services/Store.ts"
import { Workspace } from "../services/Workspace.ts"
import * as Bubblewrap from "./Bubblewrap.ts"
import * as Migrations from "./Migrations.ts"
import * as NodeDigest from "./NodeDigest.ts"
import * as NodeDisk from "./NodeDisk.ts"
import * as NodeIdentity from "./NodeIdentity.ts"
import * as NodeProcesses from "./NodeProcesses.ts"
import * as Ripgrep from "./Ripgrep.ts"
import * as Sqlite from "./Sqlite.ts"
import * as Unbash from "./Unbash.ts"

/** Everything about one workspace, on top of what all workspaces share. The journal repairs it before anything else is built. */
const layerWorkspace = (stateFolder: string) => (settings: WorkspaceSettings) =>
  Layer.mergeAll(Files.layer, PatchTransaction.layer).pipe(
    Layer.provideMerge(PatchJournal.layer({ stateFolder, durability: settings.patch.durability })),
    Layer.provideMerge(Workspace.layer(settings)),
  )

/** What the workspace side stands on here: the disk, programs to search with, processes. */
const layerWorkspaceSide = (config: AppConfig["Service"]) =>
  Layer.mergeAll(
    NodeDisk.layer,
    Ripgrep.layer,
    ProcessSupervisor.layer.pipe(Layer.provide(NodeProcesses.layer(`${config.stateFolder}/spools`))),
  )

const layerRunner = (tools: ReadonlyArray<WorkspaceTool>, config: AppConfig["Service"]) =>
  InProcess.layer.pipe(Layer.provide(Handlers.layer(tools, layerWorkspace(config.stateFolder))), Layer.provide(layerWorkspaceSide(config)))

/** The records, in the database file of the state folder. */
const layerRecords = (database: string) =>
  Layer.mergeAll(Store.layer, Callers.layer).pipe(
    Layer.provide(Migrations.layer),
    Layer.provideMerge(Layer.mergeAll(Sqlite.layer(database), NodeDigest.layer, NodeIdentity.layer)),
  )

/** The control side over an in-process workspace side. */
export const layerControl = (tools: ReadonlyArray<WorkspaceTool>, config: AppConfig["Service"]) =>
  Operations.layer.pipe(
    Layer.provideMerge(layerRunner(tools, config)),
    Layer.provideMerge(Bubblewrap.layer),
    Layer.provideMerge(
      Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, CommandReader.layer.pipe(Layer.provide(Unbash.layer))),
    ),
    Layer.provideMerge(layerRecords(`${config.stateFolder}/codespace.sqlite`)),
    Layer.provideMerge(Layer.succeed(AppConfig, config)),
  )

/**
 * The two graphs, and the adapters they stand on. The workspace side is built below the records' followers, so that at
 * shutdown processes end first, then their ends are recorded, then the store closes.
 */
import { Effect, Layer } from "effect"
import * as ByEnvironment from "../runner/ByEnvironment.ts"
import { Handlers, type WorkspaceTool } from "../runner/Handlers.ts"
import * as InProcess from "../runner/InProcess.ts"
import { AppConfig } from "../services/AppConfig.ts"
import { Approvals } from "../services/Approvals.ts"
import { Callers } from "../services/Callers.ts"
import { CommandReader } from "../services/CommandReader.ts"
import { Endings } from "../services/Endings.ts"
import type { GatedTools } from "../services/GatedTool.ts"
import { LeaseManager } from "../services/LeaseManager.ts"
import { Ledger } from "../services/Ledger.ts"
import { OperationList } from "../services/OperationList.ts"
import { Operations } from "../services/Operations.ts"
import { Operator } from "../services/Operator.ts"
import { Policy } from "../services/Policy.ts"
import { Retention } from "../services/Retention.ts"
import { Store } from "../services/Store.ts"
import { Works } from "../services/Works.ts"
import * as CredentialFile from "./CredentialFile.ts"
import type { FileOptions } from "./DatabaseFile.ts"
import * as Migrations from "./Migrations.ts"
import * as NodeDigest from "./NodeDigest.ts"
import * as NodeIdentity from "./NodeIdentity.ts"
import * as NodeSecrets from "./NodeSecrets.ts"
import * as Sqlite from "./Sqlite.ts"
import * as Unbash from "./Unbash.ts"
import { layerSandbox, layerUnder, layerWorkspace, layerWorkspaceSide } from "./WorkspaceSide.ts"

const layerHere = (tools: ReadonlyArray<WorkspaceTool>, config: AppConfig["Service"]) =>
  InProcess.layer.pipe(
    Layer.provide(Handlers.layer(tools, layerWorkspace(config.stateFolder), layerUnder)),
    Layer.provide(layerWorkspaceSide(config)),
  )

/** What workers need is loaded where there are any. `program` is this program's command line, which starts them. */
const layerRunner = (tools: ReadonlyArray<WorkspaceTool>, config: AppConfig["Service"], program: ReadonlyArray<string>) => {
  const here = layerHere(tools, config)
  const environments = workersOf(config)
  if (environments.length === 0) return here
  return Layer.unwrap(
    Effect.map(
      Effect.promise(() => Promise.all([import("../runner/Uds.ts"), import("./WorkerProcess.ts")])),
      ([Uds, WorkerProcess]) =>
        ByEnvironment.layer(
          here,
          new Map(environments.map(({ settings, workspaces }) => [settings.name, Uds.layer(settings, workspaces)])),
        ).pipe(Layer.provide(WorkerProcess.layer(program))),
    ),
  )
}

/** The worker environments that workspaces use, with those workspaces. */
const workersOf = ({ workspaces }: AppConfig["Service"]) => {
  const all = [...workspaces.values()].flatMap((workspace) =>
    workspace.environment.kind === "worker" ? [{ settings: workspace.environment, workspace }] : [],
  )
  return [...Map.groupBy(all, ({ settings }) => settings.name).values()].flatMap((group) =>
    group[0] === undefined ? [] : [{ settings: group[0].settings, workspaces: group.map(({ workspace }) => workspace) }],
  )
}

/** The database file of a state folder, brought to the newest shape. */
export const layerDatabaseIn = (stateFolder: string, options: FileOptions = {}) =>
  Sqlite.layer(`${stateFolder}/codespace.sqlite`, { ...options, prepare: Migrations.migrate })

/** The records are as safe against power cuts as the workspace that asks for most. */
const durabilityOf = ({ workspaces }: AppConfig["Service"]) =>
  [...workspaces.values()].some(({ patch }) => patch.durability === "power") ? "power" : "process"

/** The records in the state folder. */
export const layerRecordsIn = (stateFolder: string, options: FileOptions = {}) =>
  Layer.mergeAll(Store.layer, OperationList.layer, Callers.layer, Works.layer).pipe(
    Layer.provideMerge(Ledger.layer),
    Layer.provideMerge(Layer.mergeAll(layerDatabaseIn(stateFolder, options), NodeDigest.layer, NodeIdentity.layer, NodeSecrets.layer)),
  )

/** The operator's credential, on the records; made when it is missing. */
export const layerOperator = (stateFolder: string) => Operator.layer.pipe(Layer.provide(CredentialFile.layer(stateFolder)))

/** What waits for a person, and all records, for commands that open no workspace. */
export const layerOperatorRecords = (config: AppConfig["Service"]) =>
  Approvals.layer.pipe(Layer.provideMerge(layerRecordsIn(config.stateFolder)), Layer.provideMerge(Layer.succeed(AppConfig, config)))

/** What the table of tools tells the two sides. */
export interface ControlTools {
  readonly workspaceTools: ReadonlyArray<WorkspaceTool>
  readonly layerGatedTools: Layer.Layer<GatedTools>
}

/** The control side over the workspace sides of its environments. */
export const layerControl = (
  { layerGatedTools, workspaceTools }: ControlTools,
  config: AppConfig["Service"],
  program: ReadonlyArray<string> = thisProgram(),
) =>
  Operations.layer.pipe(
    Layer.provideMerge(layerGatedTools),
    Layer.provideMerge(layerRunner(workspaceTools, config, program)),
    Layer.provideMerge(layerSandbox(config)),
    Layer.provideMerge(
      Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, CommandReader.layer.pipe(Layer.provide(Unbash.layer))),
    ),
    Layer.provideMerge(Layer.mergeAll(Approvals.layer, Retention.layer)),
    Layer.provideMerge(layerRecordsIn(config.stateFolder, { durability: durabilityOf(config) })),
    Layer.provideMerge(Layer.succeed(AppConfig, config)),
  )

/** The command line this process was started with, without its arguments. */
const thisProgram = (): ReadonlyArray<string> => [process.execPath, process.argv[1] ?? ""]

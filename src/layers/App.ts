/**
 * The two graphs, and the adapters they stand on. The workspace side is built below the records' followers, so that at
 * shutdown processes end first, then their ends are recorded, then the store closes.
 */
import { Layer } from "effect"
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
import { Operations } from "../services/Operations.ts"
import { Operator } from "../services/Operator.ts"
import { Policy } from "../services/Policy.ts"
import { Store } from "../services/Store.ts"
import { Works } from "../services/Works.ts"
import * as Bubblewrap from "./Bubblewrap.ts"
import * as CredentialFile from "./CredentialFile.ts"
import * as Migrations from "./Migrations.ts"
import * as NodeDigest from "./NodeDigest.ts"
import * as NodeIdentity from "./NodeIdentity.ts"
import * as NodeSecrets from "./NodeSecrets.ts"
import * as Sqlite from "./Sqlite.ts"
import * as Unbash from "./Unbash.ts"
import { layerUnder, layerWorkspace, layerWorkspaceSide } from "./WorkspaceSide.ts"

const layerRunner = (tools: ReadonlyArray<WorkspaceTool>, config: AppConfig["Service"]) =>
  InProcess.layer.pipe(
    Layer.provide(Handlers.layer(tools, layerWorkspace(config.stateFolder), layerUnder)),
    Layer.provide(layerWorkspaceSide(config)),
  )

/** The records in the state folder, for a command that needs nothing else. */
export const layerRecordsIn = (stateFolder: string) => layerRecords(`${stateFolder}/codespace.sqlite`)

/** The records, in the database file of the state folder. */
const layerRecords = (database: string) =>
  Layer.mergeAll(Store.layer, Callers.layer, Works.layer).pipe(
    Layer.provideMerge(Ledger.layer),
    Layer.provide(Migrations.layer),
    Layer.provideMerge(Layer.mergeAll(Sqlite.layer(database), NodeDigest.layer, NodeIdentity.layer, NodeSecrets.layer)),
  )

/** The operator's credential, on the records; made when it is missing. */
export const layerOperator = (stateFolder: string) => Operator.layer.pipe(Layer.provide(CredentialFile.layer(stateFolder)))

/** What waits for a person, on the records alone. */
export const layerApprovals = (config: AppConfig["Service"]) =>
  Approvals.layer.pipe(Layer.provide(layerRecordsIn(config.stateFolder)), Layer.provide(Layer.succeed(AppConfig, config)))

/** What the table of tools tells the two sides. */
export interface ControlTools {
  readonly workspaceTools: ReadonlyArray<WorkspaceTool>
  readonly layerGatedTools: Layer.Layer<GatedTools>
}

/** The control side over an in-process workspace side. */
export const layerControl = ({ layerGatedTools, workspaceTools }: ControlTools, config: AppConfig["Service"]) =>
  Operations.layer.pipe(
    Layer.provideMerge(layerGatedTools),
    Layer.provideMerge(layerRunner(workspaceTools, config)),
    Layer.provideMerge(Bubblewrap.layer),
    Layer.provideMerge(
      Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, CommandReader.layer.pipe(Layer.provide(Unbash.layer))),
    ),
    Layer.provideMerge(Approvals.layer),
    Layer.provideMerge(layerRecordsIn(config.stateFolder)),
    Layer.provideMerge(Layer.succeed(AppConfig, config)),
  )

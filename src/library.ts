/**
 * What a program gets that embeds this one (`import … from "codespace"`): all tools behind their gate with one call, and
 * below that the services of a workspace by themselves. Effect comes from the embedding program, so that services,
 * layers and errors are those it knows.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Effect, Layer } from "effect"
import { layerControl } from "./layers/App.ts"
import * as ConfigFile from "./layers/ConfigFile.ts"
import * as NodeDigest from "./layers/NodeDigest.ts"
import * as NodeIdentity from "./layers/NodeIdentity.ts"
import { layerSandbox, layerWorkspace, layerWorkspaceSide } from "./layers/WorkspaceSide.ts"
import type { Answer } from "./mcp/ToolRow.ts"
import { type ControlServices, callOn, layerGatedTools, workspaceTools } from "./mcp/Tools.ts"
import type { Refusal } from "./schema/Refusal.ts"
import { AppConfig } from "./services/AppConfig.ts"
import { Caller } from "./services/Caller.ts"

export type { ConfigOptions } from "./layers/ConfigFile.ts"
export type { Answer } from "./mcp/ToolRow.ts"
export { type ControlServices, listTools } from "./mcp/Tools.ts"
export { ConfigInvalid } from "./schema/ConfigProblem.ts"
export * as FileSchema from "./schema/Files.ts"
export * as OperationSchema from "./schema/Operation.ts"
export * as PatchSchema from "./schema/Patch.ts"
export * as PolicySchema from "./schema/Policy.ts"
export * as ProcessSchema from "./schema/Process.ts"
export { fromRecord, Refusal, toRecord } from "./schema/Refusal.ts"
export * as WorkspaceSchema from "./schema/Workspace.ts"
export { AppConfig } from "./services/AppConfig.ts"
export { Caller } from "./services/Caller.ts"
export { Files } from "./services/Files.ts"
export { LeaseManager } from "./services/LeaseManager.ts"
export { Operations } from "./services/Operations.ts"
export * as PatchEngine from "./services/PatchEngine.ts"
export { PatchJournal } from "./services/PatchJournal.ts"
export { PatchTransaction } from "./services/PatchTransaction.ts"
export { Policy } from "./services/Policy.ts"
export { ProcessSupervisor } from "./services/ProcessSupervisor.ts"
export { Runner } from "./services/Runner.ts"
export { Sandbox } from "./services/Sandbox.ts"
export { Store } from "./services/Store.ts"
export { Workspace } from "./services/Workspace.ts"

/** Everything behind the tools, from a configuration as the command line would read it. Processes end with the layer. */
export const layer = (options: ConfigFile.ConfigOptions) =>
  Layer.unwrap(Effect.map(AppConfig, (config) => layerControl({ workspaceTools, layerGatedTools }, config))).pipe(
    Layer.provideMerge(ConfigFile.layer(options)),
  )

/** Calls a tool by name, as a client would: gate, policy, lease and record included. Fails with the refusal itself. */
export const call = (name: string, args: unknown): Effect.Effect<Answer, Refusal, Caller | ControlServices> =>
  Effect.flatMap(Effect.context<ControlServices>(), (services) => callOn(services)(name, args))

/** A caller with this name that may use every workspace. */
export const layerCaller = (name: string): Layer.Layer<Caller> =>
  Layer.succeed(Caller, { name, workspaces: undefined, client: "embedded", progress: () => Effect.void })

/**
 * The services of one workspace by themselves: `Workspace`, `Files`, `PatchTransaction`, `PatchJournal`, `ProcessSupervisor`.
 * No gate stands before them: no record, no lease, no command rule. The first workspace of the configuration when none is named.
 */
export const layerServices = (options: ConfigFile.ConfigOptions, workspaceId?: string) =>
  Layer.unwrap(
    Effect.map(AppConfig, (config) => {
      const all = [...config.workspaces.values()]
      const settings = workspaceId === undefined ? all[0] : all.find(({ id }) => id === workspaceId)
      if (settings === undefined) throw new Error(`there is no workspace "${workspaceId}"; known are ${all.map(({ id }) => id).join(", ")}`)
      return layerWorkspace(config.stateFolder)(settings).pipe(
        Layer.provideMerge(layerWorkspaceSide(config)),
        Layer.provide(layerSandbox(config)),
      )
    }),
  ).pipe(Layer.provide([NodeDigest.layer, NodeIdentity.layer]), Layer.provideMerge(ConfigFile.layer(options)))

type Files = Readonly<Record<string, string>>

/** A workspace `app` with these files in a temporary folder, and all that is behind the tools; the folder goes with the layer. */
export const layerTest = (files: Files) =>
  Layer.unwrap(Effect.map(temporaryHome(files), layer)).pipe(Layer.provideMerge(layerCaller("test")))

/** The same workspace with its services by themselves. */
export const layerServicesTest = (files: Files) => Layer.unwrap(Effect.map(temporaryHome(files), (options) => layerServices(options)))

const temporaryHome = (files: Files) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "codespace-")))),
      (home) => Effect.sync(() => rmSync(home, { recursive: true, force: true })),
    ),
    (home): ConfigFile.ConfigOptions => {
      mkdirSync(join(home, "app"))
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(home, "app", path)), { recursive: true })
        writeFileSync(join(home, "app", path), content)
      }
      return { folders: [join(home, "app")], environment: { HOME: home } }
    },
  )

/**
 * The workspace side and what it stands on here, without anything of the control side: the server has it in its own
 * process, a worker has nothing else.
 */
import { Context, Effect, Layer } from "effect"
import type { AppConfig, WorkspaceSettings } from "../services/AppConfig.ts"
import { Files } from "../services/Files.ts"
import { NetworkProxy } from "../services/NetworkProxy.ts"
import { PatchJournal } from "../services/PatchJournal.ts"
import { PatchTransaction } from "../services/PatchTransaction.ts"
import { ProcessSupervisor } from "../services/ProcessSupervisor.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { Workspace } from "../services/Workspace.ts"
import * as NodeDisk from "./NodeDisk.ts"
import * as NodeProcesses from "./NodeProcesses.ts"
import * as PlatformSandbox from "./PlatformSandbox.ts"
import * as Ripgrep from "./Ripgrep.ts"
import * as Unbash from "./Unbash.ts"

/** Everything about one workspace, on top of what all workspaces share. The journal repairs it before anything else is built. */
export const layerWorkspace = (stateFolder: string) => (settings: WorkspaceSettings) =>
  Layer.mergeAll(Files.layer, PatchTransaction.layer, Unbash.layer).pipe(
    Layer.provideMerge(PatchJournal.layer({ stateFolder, durability: settings.patch.durability })),
    Layer.provideMerge(Workspace.layer(settings)),
  )

/** What of an open workspace depends on the profile, once more under a stricter one. Root and journal stay the same. */
export const layerUnder = (open: Workspace["Service"], settings: WorkspaceSettings) =>
  Layer.mergeAll(Files.layer, PatchTransaction.layer).pipe(Layer.provideMerge(Workspace.layerUnder(open, settings)))

/** What confines the commands of all workspaces. */
export const layerSandbox = ({ configFile, stateFolder, workspaces }: AppConfig["Service"]) =>
  PlatformSandbox.layer({ stateFolder, workspaces: [...workspaces.values()], ...(configFile === undefined ? {} : { configFile }) }).pipe(
    Layer.provide(layerProxy(`${stateFolder}/proxies`)),
  )

/** Loaded by the first command that is led to it. */
const layerProxy = (folder: string): Layer.Layer<NetworkProxy, never, ServerIdentity> =>
  Layer.effect(
    NetworkProxy,
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const identity = yield* ServerIdentity
      const loaded = yield* Effect.cached(
        Effect.gen(function* () {
          const [{ layer: layerOn }, { layer: layerNames }] = yield* Effect.promise(() =>
            Promise.all([import("./NodeNetworkProxy.ts"), import("./NodeResolver.ts")]),
          )
          const layer = layerOn(folder).pipe(Layer.provide([layerNames, Layer.succeed(ServerIdentity, identity)]))
          return Context.get(yield* Layer.buildWithScope(layer, scope), NetworkProxy)
        }),
      )
      return NetworkProxy.of({ open: (request) => Effect.flatMap(loaded, (proxy) => proxy.open(request)) })
    }),
  )

/** What the workspace side stands on here: the disk, programs to search with, processes. */
export const layerWorkspaceSide = (config: AppConfig["Service"]) =>
  Layer.mergeAll(
    NodeDisk.layer,
    Ripgrep.layer,
    ProcessSupervisor.layer(config.retention).pipe(
      Layer.provide(NodeProcesses.layer(`${config.stateFolder}/spools`, { searchPath: config.path })),
    ),
  )

/** Ways to reach the workspace side, on a real folder with a state folder of its own. */
import { mkdirSync, realpathSync } from "node:fs"
import { join } from "node:path"
import { Effect, Layer } from "effect"
import * as NodeDigest from "../../src/layers/NodeDigest.ts"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import * as WorkerProcess from "../../src/layers/WorkerProcess.ts"
import { layerSandbox, layerUnder, layerWorkspace, layerWorkspaceSide } from "../../src/layers/WorkspaceSide.ts"
import { workspaceTools } from "../../src/mcp/Tools.ts"
import { Handlers } from "../../src/runner/Handlers.ts"
import * as InProcess from "../../src/runner/InProcess.ts"
import type { Patience } from "../../src/runner/Link.ts"
import * as Uds from "../../src/runner/Uds.ts"
import { defaults, noHooks, patchDefaults } from "../../src/schema/ConfigDefaults.ts"
import type { Profile } from "../../src/schema/Policy.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import { AppConfig, builtInProfiles, type EnvironmentSettings, type WorkspaceSettings } from "../../src/services/AppConfig.ts"
import type { Runner } from "../../src/services/Runner.ts"
import type { WorkerSettings } from "../../src/services/WorkerHost.ts"
import { main } from "./Program.ts"
import { temporaryFolder } from "./Tree.ts"

export const app = WorkspaceId.make("app")

/** A folder for the workspace `app` and one for the state, until the scope ends. */
export const makePlace = Effect.map(temporaryFolder, (folder) => {
  const home = realpathSync(folder)
  const place = { home, root: join(home, "app"), stateFolder: join(home, "state") }
  mkdirSync(place.root)
  mkdirSync(place.stateFolder, { mode: 0o700 })
  return place
})
export type Place = Effect.Success<typeof makePlace>

const configOf = (place: Place, environment: EnvironmentSettings, limits: Partial<Profile["limits"]> = {}): AppConfig["Service"] => {
  const profile = builtInProfiles.get("workspace-write")
  if (profile === undefined) throw new Error("there is no profile workspace-write")
  const settings: WorkspaceSettings = {
    id: app,
    root: place.root,
    realRoot: place.root,
    profile: { ...profile, limits: { ...profile.limits, ...limits } },
    environment,
    sandbox: "auto",
    approvals: "off",
    patch: patchDefaults,
    hooks: noHooks,
  }
  return { ...defaults, workspaces: new Map([[app, settings]]), profiles: builtInProfiles, stateFolder: place.stateFolder }
}

/** How a suite gets a runner for the workspace of a place. */
export type RunnerOf = (place: Place, limits?: Partial<Profile["limits"]>) => Layer.Layer<Runner>

export const inProcess: RunnerOf = (place, limits) => {
  const config = configOf(place, { kind: "host" }, limits)
  return InProcess.layer.pipe(
    Layer.provide(Handlers.layer(workspaceTools, layerWorkspace(place.stateFolder), layerUnder)),
    Layer.provide(layerWorkspaceSide(config)),
    Layer.provide(layerSandbox(config)),
    Layer.provide(Layer.mergeAll(NodeDigest.layer, NodeIdentity.layer, Layer.succeed(AppConfig, config))),
  )
}

export const gatewayWorker: WorkerSettings = { kind: "worker", name: "box", lifetime: "gateway", orphanLimitMs: 60_000 }
export const detachedWorker: WorkerSettings = { ...gatewayWorker, lifetime: "detached" }

/** Through a worker of the built program. */
export const throughWorker =
  (settings: WorkerSettings = gatewayWorker, look?: Patience): RunnerOf =>
  (place, limits) => {
    const config = configOf(place, settings, limits)
    return Uds.layer(settings, [...config.workspaces.values()], look).pipe(
      Layer.provide(WorkerProcess.layer([process.execPath, main])),
      Layer.provide(Layer.merge(NodeIdentity.layer, Layer.succeed(AppConfig, config))),
    )
  }

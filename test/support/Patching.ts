/** A transaction over a real folder, and a way to put something between it and the disk. */
import { Context, Effect, Layer } from "effect"
import * as NodeDigest from "../../src/layers/NodeDigest.ts"
import * as NodeDisk from "../../src/layers/NodeDisk.ts"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import type { HookSettings, PatchSettings } from "../../src/schema/Config.ts"
import type { FileRule, Limits } from "../../src/schema/Policy.ts"
import { Disk, type Root } from "../../src/services/Disk.ts"
import { type JournalSettings, PatchJournal } from "../../src/services/PatchJournal.ts"
import { PatchTransaction } from "../../src/services/PatchTransaction.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { Workspace } from "../../src/services/Workspace.ts"
import { temporaryFolder } from "./Tree.ts"
import { settingsOf } from "./WorkspaceSettings.ts"

export interface PatchingOptions extends Partial<JournalSettings> {
  readonly files?: ReadonlyArray<FileRule>
  readonly patch?: Partial<PatchSettings>
  readonly hooks?: Partial<HookSettings>
  readonly limits?: Partial<Limits>
  /** Around the workspace's root and the journal's folders. */
  readonly through?: (root: Root) => Root
  /** The server this is; the test's own process when left out. */
  readonly server?: ServerIdentity["Service"]
}

/** Transaction, journal and workspace of `root` until the scope ends. The state folder is a fresh one when none is given. */
export const openPatching = Effect.fnUntraced(function* (root: string, options: PatchingOptions = {}) {
  const {
    durability = "process",
    patch,
    files = [{ glob: "**", access: "write" } as const],
    server,
    through = (real: Root) => real,
  } = options
  const stateFolder = options.stateFolder ?? (yield* temporaryFolder)
  const disk = Layer.effect(
    Disk,
    Disk.use((real) => Effect.succeed(Disk.of({ open: (path) => Effect.map(real.open(path), through) }))),
  ).pipe(Layer.provide(NodeDisk.layer))
  const settings = settingsOf(root, files)
  const workspace = Workspace.layer({
    ...settings,
    profile: { ...settings.profile, limits: { ...settings.profile.limits, ...options.limits } },
    patch: { ...settings.patch, ...patch },
    hooks: { ...settings.hooks, ...options.hooks },
  })
  const identity = server === undefined ? NodeIdentity.layer : Layer.succeed(ServerIdentity, server)
  const context = yield* Layer.build(
    PatchTransaction.layer.pipe(
      Layer.provideMerge(PatchJournal.layer({ stateFolder, durability })),
      Layer.provideMerge(workspace),
      Layer.provide([disk, NodeDigest.layer, identity]),
    ),
  )
  return {
    transaction: Context.get(context, PatchTransaction),
    journal: Context.get(context, PatchJournal),
    workspace: Context.get(context, Workspace),
    stateFolder,
  }
})

/** A transaction on `root` until the scope ends. */
export const openTransaction = (root: string, options: PatchingOptions = {}) =>
  Effect.map(openPatching(root, options), ({ transaction }) => transaction)

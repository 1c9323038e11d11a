/** A transaction over a real folder, and a way to put something between it and the disk. */
import { Context, Effect, Layer } from "effect"
import * as NodeDigest from "../../src/layers/NodeDigest.ts"
import * as NodeDisk from "../../src/layers/NodeDisk.ts"
import type { FileRule, Profile } from "../../src/schema/Policy.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import type { Root } from "../../src/services/Disk.ts"
import { PatchTransaction } from "../../src/services/PatchTransaction.ts"
import { Workspace } from "../../src/services/Workspace.ts"

export interface PatchingOptions {
  readonly files?: ReadonlyArray<FileRule>
  readonly through?: (root: Root) => Root
}

const profileOf = (files: ReadonlyArray<FileRule>): Profile => ({
  name: "test",
  files,
  exec: "off",
  network: "off",
  commands: [],
  env: [],
  limits: { processes: 1, spool_bytes: 1, timeout_ms: 1 },
})

/** A transaction on `root` until the scope ends. */
export const openTransaction = (root: string, { files = [{ glob: "**", access: "write" }], through }: PatchingOptions = {}) => {
  const opened = Workspace.layer({ id: WorkspaceId.make("test"), root, profile: profileOf(files) }).pipe(Layer.provide(NodeDisk.layer))
  const between = Layer.effect(
    Workspace,
    Workspace.use((workspace) => Effect.succeed(through === undefined ? workspace : { ...workspace, root: through(workspace.root) })),
  ).pipe(Layer.provide(opened))
  return Effect.map(Layer.build(PatchTransaction.layer.pipe(Layer.provide(between), Layer.provide(NodeDigest.layer))), (context) =>
    Context.get(context, PatchTransaction),
  )
}

/** The files of a real folder, through the real services. */

import { Context, Effect, Layer } from "effect"
import * as NodeDigest from "../../src/layers/NodeDigest.ts"
import * as NodeDisk from "../../src/layers/NodeDisk.ts"
import type { FileRule } from "../../src/schema/Policy.ts"
import type { Root } from "../../src/services/Disk.ts"
import { Files } from "../../src/services/Files.ts"
import * as PlainSearch from "../../src/services/PlainSearch.ts"
import type { TextSearch } from "../../src/services/TextSearch.ts"
import { Workspace } from "../../src/services/Workspace.ts"
import { temporaryFolder, writeTree } from "./Tree.ts"
import { settingsOf } from "./WorkspaceSettings.ts"

export interface LookingOptions {
  readonly files?: ReadonlyArray<FileRule>
  readonly search?: Layer.Layer<TextSearch>
  readonly through?: (root: Root) => Root
}

/** The files service on a fresh folder with these files, until the scope ends. */
export const openFiles = Effect.fnUntraced(function* (tree: Parameters<typeof writeTree>[1], options: LookingOptions = {}) {
  const folder = yield* temporaryFolder
  writeTree(folder, tree)
  const { through } = options
  const opened = Workspace.layer(settingsOf(folder, options.files ?? [])).pipe(Layer.provide(NodeDisk.layer))
  const between = Layer.effect(
    Workspace,
    Workspace.use((workspace) => Effect.succeed(through === undefined ? workspace : { ...workspace, root: through(workspace.root) })),
  ).pipe(Layer.provide(opened))
  const context = yield* Layer.build(Files.layer.pipe(Layer.provide([between, NodeDigest.layer, options.search ?? PlainSearch.layer])))
  return { folder, files: Context.get(context, Files) }
})

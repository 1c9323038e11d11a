/** Where a glob leads in a workspace: to one file, or to a folder from which the rest of the glob is tested. */
import { Effect } from "effect"
import type { ConfinedPath } from "../schema/Workspace.ts"
import { compileGlob, everything, type PathGlob } from "./PathGlob.ts"
import type { Workspace } from "./Workspace.ts"

export interface GlobStart {
  readonly path: ConfinedPath
  readonly isFolder: boolean
  readonly glob: PathGlob
}

/** Undefined where the fixed part of the glob names nothing. Links in that part are followed as for a read. */
export const locateGlob = Effect.fnUntraced(function* (workspace: Workspace["Service"], written: string) {
  // A name may hold brackets or braces: what exists as it is written is meant.
  if (!/[*?]/u.test(written)) {
    const found = yield* located(workspace, written, everything)
    if (found !== undefined) return found
  }
  const glob = compileGlob(written)
  const found = yield* located(workspace, glob.prefix, glob)
  if (found === undefined || found.isFolder) return found
  return glob.isExact ? found : undefined
})

const located = Effect.fnUntraced(
  function* (workspace: Workspace["Service"], written: string, glob: PathGlob) {
    const path = yield* workspace.resolveRead(written)
    const entry = yield* workspace.root.stat(path)
    const start: GlobStart = { path, isFolder: entry?.kind === "directory", glob }
    return start
  },
  Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(undefined)),
)

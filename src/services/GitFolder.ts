/**
 * Git folders that are not called `.git`: a bare repository, what a `gitdir:` file or a link points to, a submodule's or a
 * worktree's own folder. What makes git run programs is closed in them too, so it is what a folder holds that tells.
 */
import { Effect } from "effect"
import { ConfinedPath } from "../schema/Workspace.ts"
import type { Root } from "./Disk.ts"

/** Why the path must not be written, when a folder above it is a git folder now; undefined otherwise. */
export const guardedByGitFolder = Effect.fnUntraced(function* (root: Root, path: ConfinedPath) {
  const names = path.split("/")
  for (const [at, name] of names.entries()) {
    const rule = ruleOf(name.toLowerCase(), at === names.length - 1)
    if (rule !== undefined && (yield* isGitFolder(root, names.slice(0, at)))) return rule
  }
  return undefined
})

const ruleOf = (name: string, isLast: boolean): string | undefined => {
  if (name === "hooks") return "git hooks run as programs, and this is in a git folder"
  if (!isLast) return undefined
  if (name === "config" || name === "config.worktree") return "git configuration can name programs to run, and this is in a git folder"
  return name === "commondir" ? "it decides which hooks and configuration are used, and this is in a git folder" : undefined
}

/** As git itself tells: a HEAD, and objects and refs or where to find them. */
const isGitFolder = Effect.fnUntraced(function* (root: Root, folder: ReadonlyArray<string>) {
  const kindOf = (name: string) =>
    root.stat(ConfinedPath.make([...folder, name].join("/"))).pipe(
      Effect.map((entry) => entry?.kind),
      Effect.orElseSucceed(() => undefined),
    )
  if ((yield* kindOf("HEAD")) === undefined) return false
  if ((yield* kindOf("commondir")) !== undefined) return true
  return (yield* kindOf("objects")) !== undefined && (yield* kindOf("refs")) !== undefined
})

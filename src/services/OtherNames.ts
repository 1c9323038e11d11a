/**
 * Other names of files that a profile denies: a hard link has a path of its own, and the rules are about paths. Which
 * names a file has only the whole tree can tell, so it is asked rarely: where a file has several names and something is denied.
 */
import { Effect } from "effect"
import type { Profile } from "../schema/Policy.ts"
import { ConfinedPath } from "../schema/Workspace.ts"
import type { Entry, Root } from "./Disk.ts"
import { fileAccess } from "./Policy.ts"
import { isPrivate } from "./PrivateFolder.ts"

/** Denied files with several names: which file it is, and the rule that denies it. */
export type DeniedLinks = ReadonlyMap<string, string>

export const deniesNothing = ({ files }: Profile): boolean => files.every((rule) => rule.access !== "deny")

/** The file itself, whatever it is called. */
const identityOf = ({ device, inode }: Entry): string => `${device}:${inode}`

/** The rule that denies this file under another of its names. */
export const deniedElsewhere = (denied: DeniedLinks, entry: Entry): string | undefined =>
  entry.links > 1 && entry.kind === "file" ? denied.get(identityOf(entry)) : undefined

/** How many folders are looked into before other work gets a turn. */
const TURN = 256

/** Every denied file that has more than one name. A folder that cannot be listed has none that can be read. */
export const deniedLinks = Effect.fn("OtherNames.deniedLinks")(function* (root: Root, profile: Profile): Effect.fn.Return<DeniedLinks> {
  const found = new Map<string, string>()
  const ahead = [{ path: ConfinedPath.make(""), rule: denialOf(profile, ConfinedPath.make("")) }]
  for (let folder = ahead.pop(), turn = 0; folder !== undefined; folder = ahead.pop(), turn++) {
    if (turn % TURN === TURN - 1) yield* Effect.yieldNow
    for (const { kind, name } of yield* Effect.orElseSucceed(root.list(folder.path), () => [])) {
      if (isPrivate(name) || (kind !== "directory" && kind !== "file")) continue
      const path = ConfinedPath.make(folder.path === "" ? name : `${folder.path}/${name}`)
      const rule = folder.rule ?? denialOf(profile, path)
      if (kind === "directory") ahead.push({ path, rule })
      else if (rule !== undefined) {
        const entry = yield* Effect.orElseSucceed(root.stat(path), () => undefined)
        if (entry !== undefined && entry.links > 1) found.set(identityOf(entry), rule)
      }
    }
  }
  return found
})

/** Every path of these files that the profile does not deny: the names by which they would be reached. */
export const otherNames = Effect.fnUntraced(function* (root: Root, profile: Profile, denied: DeniedLinks) {
  const names = new Set<string>()
  const ahead = [ConfinedPath.make("")]
  for (let folder = ahead.pop(); denied.size > 0 && folder !== undefined; folder = ahead.pop()) {
    for (const { kind, name } of yield* Effect.orElseSucceed(root.list(folder), () => [])) {
      const path = ConfinedPath.make(folder === "" ? name : `${folder}/${name}`)
      if (isPrivate(name) || denialOf(profile, path) !== undefined) continue
      if (kind === "directory") ahead.push(path)
      else if (kind === "file") {
        const entry = yield* Effect.orElseSucceed(root.stat(path), () => undefined)
        if (entry !== undefined && deniedElsewhere(denied, entry) !== undefined) names.add(path)
      }
    }
  }
  return names as ReadonlySet<string>
})

const denialOf = (profile: Profile, path: ConfinedPath): string | undefined => {
  const { access, rule } = fileAccess(profile, path)
  return access === "deny" ? rule : undefined
}

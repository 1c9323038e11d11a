/** Names near a missing path, so that a refusal can say what was probably meant. */
import { Effect } from "effect"
import { ConfinedPath } from "../schema/Workspace.ts"
import type { Root } from "./Disk.ts"

const maximumNames = 2000
const maximumSuggestions = 3

/**
 * At most three paths that exist, may be shown, and differ little from the missing one: look-alike characters first,
 * then letter case, then a few typing errors. Looks into one folder only.
 */
export const lookAlikes = Effect.fnUntraced(
  function* (root: Root, canRead: (path: ConfinedPath) => boolean, missing: ConfinedPath) {
    const names = missing.split("/")
    const { folder, entries } = yield* deepestFolder(root, names.slice(0, -1))
    const wanted = names[folder.length] ?? ""
    const rest = names.slice(folder.length + 1)
    const near = entries
      .slice(0, maximumNames)
      .map(({ name }) => ({ name, distance: distanceOf(wanted, name) }))
      .filter(({ distance }) => distance <= Math.max(1, Math.min(3, Math.floor(wanted.length / 3))))
      .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    const paths: Array<ConfinedPath> = []
    for (const { name } of near) {
      if (paths.length === maximumSuggestions) break
      const whole = ConfinedPath.make([...folder, name, ...rest].join("/"))
      const exists = rest.length === 0 || (yield* root.stat(whole)) !== undefined
      const path = exists ? whole : ConfinedPath.make([...folder, name].join("/"))
      if (canRead(path)) paths.push(path)
    }
    return paths
  },
  // A hint is worth no failure of its own.
  Effect.orElseSucceed((): Array<ConfinedPath> => []),
)

const deepestFolder = Effect.fnUntraced(function* (root: Root, names: ReadonlyArray<string>) {
  for (let depth = names.length; depth > 0; depth--) {
    const path = ConfinedPath.make(names.slice(0, depth).join("/"))
    if ((yield* root.stat(path))?.kind === "directory") return { folder: names.slice(0, depth), entries: yield* root.list(path) }
  }
  return { folder: [], entries: yield* root.list(ConfinedPath.make("")) }
})

/** 0 for look-alike characters or another letter case, else the number of edits. */
const distanceOf = (left: string, right: string): number => {
  const a = plain(left)
  const b = plain(right)
  if (a === b) return 0
  if (Math.abs(a.length - b.length) > 3) return Number.POSITIVE_INFINITY
  let before: Array<number> = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      next[j] = Math.min(
        row[j]! + 1,
        next[j - 1]! + 1,
        row[j - 1]! + (same ? 0 : 1),
        swapped ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = row
    row = next
  }
  return row[b.length]!
}

const plain = (name: string): string =>
  name
    .normalize("NFKC")
    .replaceAll(/[\s\u2010-\u2015_-]+/gu, "-")
    .replaceAll(/[\u2018\u2019]/gu, "'")
    .toLowerCase()

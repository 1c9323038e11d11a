/**
 * What a command finds where on the disk, as a list that a sandbox puts into effect from the first to the last. Each
 * entry is about a path and everything below it, until one further down says otherwise. Pure.
 */

/** `read`, `write`: shown as it is, from `source` when that is another place. */
interface Shown {
  readonly kind: "read" | "write"
  readonly path: string
  readonly source?: string
}

export type Mount =
  | Shown
  /** Shown as what is around it, but neither renamed nor removed. */
  | { readonly kind: "pin"; readonly path: string }
  /** `hide`: there is nothing in it. `deny`: nobody may look. */
  | { readonly kind: "hide" | "deny"; readonly path: string; readonly isFolder: boolean }
  /** Another folder in its place, to write in. */
  | { readonly kind: "replace"; readonly path: string; readonly source: string }

export type Placed = Exclude<Mount, { readonly kind: "pin" }>

/** Whether a path is the folder or lies below it. */
export const isBelow = (folder: string, path: string): boolean => path === folder || folder === "/" || path.startsWith(`${folder}/`)

/**
 * Puts mounts into the order they are made in, outer ones first. Of several about one path a `deny` counts, or else the
 * last. What is inside of a denied folder is left out, and what is hidden in a hidden one; pins take the kind around them.
 */
export const arrange = (mounts: ReadonlyArray<Mount>): ReadonlyArray<Placed> => {
  const byPath = new Map<string, Mount>()
  for (const mount of mounts) if (byPath.get(mount.path)?.kind !== "deny") byPath.set(mount.path, mount)
  const around: Array<Placed> = []
  const placed: Array<Placed> = []
  for (const mount of [...byPath.values()].sort(byDepth)) {
    while (around.length > 0 && !isBelow(around.at(-1)!.path, mount.path)) around.pop()
    const outer = around.at(-1)
    const fitted = placedIn(mount, outer)
    if (fitted === undefined) continue
    placed.push(fitted)
    around.push(fitted)
  }
  return placed
}

/** Files and folders that a plan is about; there and elsewhere. */
export const placesOf = (plan: ReadonlyArray<Placed>): ReadonlyArray<string> =>
  plan.flatMap((mount) => ("source" in mount && mount.source !== undefined ? [mount.path, mount.source] : [mount.path]))

/**
 * What of a plan is put on something where the plan lets write: `cover` when a thing is covered there, `show` when it is only
 * shown in another way. What is to be mounted on and goes at just that moment comes back as an empty place for the mount: of
 * what is covered always, of what is shown only in the few microseconds between the look at it and the mount.
 */
export const inWritable = (plan: ReadonlyArray<Placed>): "cover" | "show" | undefined => {
  const writable = plan.filter(({ kind }) => kind === "write")
  const inside = plan.filter(({ path }) => writable.some((mount) => mount.path !== path && isBelow(mount.path, path)))
  if (inside.length === 0) return undefined
  return inside.some(({ kind }) => kind === "deny" || kind === "hide") ? "cover" : "show"
}

const placedIn = (mount: Mount, outer: Placed | undefined): Placed | undefined => {
  if (outer?.kind === "deny") return undefined
  const isHidden = outer?.kind === "hide" || outer?.kind === "replace"
  // Outside of everything that is said here the disk is shown for reading.
  const isRead = outer === undefined || outer.kind === "read"
  switch (mount.kind) {
    case "pin":
      return outer?.kind === "write" ? { kind: "write", path: mount.path } : undefined
    case "hide":
    case "deny":
      return isHidden ? undefined : mount
    case "read":
      return isRead && mount.source === undefined ? undefined : mount
    default:
      return mount
  }
}

const byDepth = (one: Mount, other: Mount): number => {
  const [first, second] = [withEnd(one.path), withEnd(other.path)]
  return first < second ? -1 : first > second ? 1 : 0
}

const withEnd = (path: string): string => (path.endsWith("/") ? path : `${path}/`)

/**
 * What a command of a workspace is to find where: from its profile, from the settings of all workspaces, and from what is
 * on the disk at its start. Said for no particular sandbox.
 */
import { existsSync, lstatSync, readFileSync, realpathSync } from "node:fs"
import { homedir, userInfo } from "node:os"
import { isAbsolute } from "node:path"
import { Effect } from "effect"
import { type Profile, SandboxUnavailable } from "../schema/Policy.ts"
import type { Access } from "../schema/Process.ts"
import type { Variables } from "../services/ChildEnvironment.ts"
import { arrange, isBelow, type Mount } from "../services/MountPlan.ts"
import { hasPathRules } from "../services/Restrictions.ts"
import type { Confines } from "../services/Sandbox.ts"
import { gitMounts } from "./GitFolders.ts"
import { makeSweeps } from "./GitSweep.ts"
import { hidden, homeSecrets, systemSecrets } from "./HomeSecrets.ts"
import { searchPath } from "./HostEnvironment.ts"
import { deniedNames } from "./OtherNames.ts"
import { scanTree, type TreeScan } from "./TreeScan.ts"

/** What a sandbox has to know of the server's configuration. */
export interface SandboxSettings {
  readonly stateFolder: string
  readonly configFile?: string
  readonly workspaces: ReadonlyArray<{ readonly realRoot: string; readonly profile: Profile }>
}

/** Places where daemons of the host listen and others leave their files. */
const SHARED_PLACES = ["/run", "/tmp", "/var/tmp"]

/** A look for repositories is repeated when it is this many times as old as it took, and not before the next number. */
const LOOK_AGAIN = 50
const LOOK_AGAIN_MS = 500

export const makePlans = (settings: SandboxSettings) => {
  const sweeps = makeSweeps()
  const scans = new Map<string, { readonly scan: TreeScan; readonly goodUntil: number }>()
  const names = new Map<string, { readonly mounts: ReadonlyArray<Mount>; readonly goodUntil: number }>()

  /** No command can give what it is denied another name; whoever does it outside is noticed a moment later. */
  const named = Effect.fnUntraced(function* (root: string, profile: Profile, denied: ReadonlyArray<Mount>) {
    const key = `${profile.name} ${root}`
    const known = names.get(key)
    const began = performance.now()
    if (known !== undefined && began < known.goodUntil) return known.mounts
    const mounts = yield* deniedNames(root, denied)
    const took = performance.now() - began
    names.set(key, { mounts, goodUntil: began + took * LOOK_AGAIN })
    return mounts
  })

  /** What rules are about may have come a moment ago; a repository that came since was made under the same confinement. */
  const scanned = Effect.fnUntraced(function* (root: string, profile: Profile, isReadOnly: boolean) {
    const key = `${isReadOnly} ${profile.name} ${root}`
    const known = scans.get(key)
    const began = performance.now()
    if (known !== undefined && began < known.goodUntil) return known.scan
    const scan = yield* scanTree(root, profile, isReadOnly)
    const took = performance.now() - began
    if (!hasPathRules(profile)) scans.set(key, { scan, goodUntil: began + took + Math.max(LOOK_AGAIN_MS, took * LOOK_AGAIN) })
    return scan
  })

  return {
    /** The mounts, and what is to be done when the command has ended. Fails when not all could be seen that rules are about. */
    plan: Effect.fnUntraced(function* ({ profile, root }: Confines, access: Access, { keeps, more, temporary }: Given) {
      const scan = yield* scanned(root, profile, access === "read_only")
      // Of one that was kept some may be gone by now.
      const git = scan.git.filter(({ path }) => existsSync(path))
      if (!scan.isComplete && hasPathRules(profile))
        return yield* new SandboxUnavailable({
          wanted: `the file rules of profile "${profile.name}"`,
          cause:
            "the workspace has too many files, or too many that the rules name, to find all of them before a command starts; name whole folders in the rules",
        })
      const mounts = arrange([
        ...shared(temporary),
        ...homes().flatMap((home) => (isShared(home) ? [{ kind: "read", path: home, source: home } as const] : [])),
        ...shownAgain(profile),
        ...homes().flatMap(homeSecrets),
        ...systemSecrets(),
        ...hidden(settings.stateFolder),
        ...(settings.configFile === undefined ? [] : hidden(settings.configFile)),
        ...settings.workspaces.flatMap((other) => (isKeptFrom(other, root, profile) ? hidden(other.realRoot) : [])),
        ...(profile.network === "off" ? [] : listeningSockets(root)),
        { kind: scan.access, path: root, source: root },
        ...scan.mounts,
        ...(yield* named(root, profile, scan.mounts)),
        ...gitMounts(root, git).filter(keeps),
        ...more,
      ])
      return { mounts, sweep: sweeps.begin(root, git) }
    }),
    close: sweeps.close,
  }
}

/** What comes from elsewhere into a plan. */
interface Given {
  /** Becomes `/tmp`. */
  readonly temporary: string
  /** What its network needs. */
  readonly more: ReadonlyArray<Mount>
  /** Which of the mounts that protect git folders are made. */
  readonly keeps: (mount: Mount) => boolean
}

/** The environment inside: programs keep their temporary files and caches where they may write. */
export const insideEnvironment = (given: Variables): Variables => ({
  npm_config_cache: "/tmp/.npm",
  GOCACHE: "/tmp/.go-build",
  ...given,
  TMPDIR: "/tmp",
  TMP: "/tmp",
  TEMP: "/tmp",
})

/** A workspace beside this one is none of a command's business; one around it is where the rules of both say no more. */
const isKeptFrom = (other: SandboxSettings["workspaces"][number], root: string, profile: Profile): boolean =>
  isBelow(root, other.realRoot)
    ? other.realRoot !== root && hasPathRules(other.profile)
    : !isBelow(other.realRoot, root) || hasPathRules(profile) || hasPathRules(other.profile)

const isShared = (path: string): boolean => SHARED_PLACES.some((place) => path !== place && isBelow(place, path))

const shared = (temporary: string): ReadonlyArray<Mount> =>
  SHARED_PLACES.filter(isFolder).map((path) =>
    path === "/run" ? { kind: "hide", path, isFolder: true } : { kind: "replace", path, source: temporary },
  )

const isFolder = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

/** What of the shared places programs need all the same: folders that programs are found in, and how names are resolved. */
const shownAgain = (profile: Profile): ReadonlyArray<Mount> => {
  const wanted = [...searchPath(), "/run/current-system", ...(profile.network === "on" ? [realOf("/etc/resolv.conf") ?? ""] : [])]
  return wanted.flatMap((path) => {
    const source = isAbsolute(path) && isShared(path) ? realOf(path) : undefined
    return source === undefined ? [] : [{ kind: "read", path, source }]
  })
}

/** By the environment and by the list of users, in which a container's user often is not. */
export const homes = (): ReadonlyArray<string> => {
  const named = [homedir, () => userInfo().homedir].flatMap((ask) => attempted(ask) ?? [])
  return [...new Set(named.flatMap((home) => realOf(home) ?? []))]
}

export const realOf = (path: string): string | undefined => attempted(() => realpathSync.native(path))

const attempted = <A>(ask: () => A): A | undefined => {
  try {
    return ask()
  } catch {
    return undefined
  }
}

/** Where somebody listens now on a file outside of the workspace: with a filter that lets sockets be made, they could be asked. */
const listeningSockets = (root: string): ReadonlyArray<Mount> => {
  try {
    const lines = readFileSync("/proc/net/unix", "utf8").split("\n").slice(1)
    const paths = new Set(lines.flatMap((line) => /^(?:\S+\s+){6}\d+ (\/.*)$/u.exec(line)?.[1] ?? []))
    return [...paths].flatMap((path) => (isShared(path) || isBelow(root, path) || !isSocket(path) ? [] : hidden(path)))
  } catch {
    return []
  }
}

/** One behind a folder that may not be entered is none for us. */
const isSocket = (path: string): boolean => attempted(() => lstatSync(path).isSocket()) ?? false

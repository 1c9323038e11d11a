/**
 * The files a sandbox is made with, in a folder of this server: what stands in for hidden files, the programs that filter
 * system calls, and a folder for temporary files for each workspace, which goes with the server.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, type Scope } from "effect"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import type { StandIns } from "./BubblewrapArguments.ts"
import { type Machine, seccompProgram, waitingProgram } from "./Seccomp.ts"

export interface SandboxStore {
  readonly standIns: StandIns
  /** Settings for looking up names that ask where the kernel says no at once. */
  readonly noNames: string
  /** The file of the filter, on a machine that has one. */
  readonly filter: (blocksUnix: boolean) => string
  /** The file of the filter for commands without a sandbox, on a machine that has one. */
  readonly waitingFilter: () => string
  /** The folder that commands of a workspace find as `/tmp`. */
  readonly temporary: (workspaceId: string) => string
}

/** What dead servers left below `folder` is removed first; what is of this one goes with the scope. */
export const openStore = (folder: string, identity: ServerIdentity["Service"]): Effect.Effect<SandboxStore, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        mkdirSync(folder, { recursive: true, mode: 0o700 })
        for (const name of readdirSync(folder)) if (!identity.isAlive(name)) remove(join(folder, name))
        const own = join(folder, identity.self)
        mkdirSync(own, { recursive: true, mode: 0o700 })
        return own
      }),
      (own) => Effect.sync(() => remove(own)).pipe(Effect.ignoreCause({ log: true })),
    ),
    storeIn,
  )

const storeIn = (own: string): SandboxStore => {
  const file = (name: string, content: () => string | Uint8Array, mode: number): string => {
    const path = join(own, name)
    if (!existsSync(path)) writeFileSync(path, content(), { mode })
    return path
  }
  return {
    // An address for documentation alone (RFC 5737).
    noNames: file("resolv.conf", () => "nameserver 192.0.2.1\noptions timeout:1 attempts:1\n", 0o444),
    standIns: { empty: file("empty", () => "", 0o444), denied: file("denied", () => "", 0o000) },
    filter: (blocksUnix) => file(blocksUnix ? "filter-unix" : "filter", () => seccompProgram(process.arch as Machine, blocksUnix), 0o400),
    waitingFilter: () => file("filter-waiting", () => waitingProgram(process.arch as Machine), 0o400),
    temporary: (workspaceId) => {
      const path = join(own, `tmp-${workspaceId}`)
      if (!existsSync(path)) {
        mkdirSync(path)
        // As /tmp is everywhere; the folder above lets nobody else in.
        chmodSync(path, 0o1777)
      }
      return path
    },
  }
}

/** A command may have left folders that even their owner cannot enter. */
const remove = (folder: string): void => {
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch {
    open(folder)
    rmSync(folder, { recursive: true, force: true })
  }
}

const open = (folder: string): void => {
  chmodSync(folder, 0o700)
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) open(join(folder, entry.name))
}

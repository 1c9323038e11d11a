/** Real processes for tests: a supervisor on a temporary folder, and what the machine itself says about processes. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Layer, Schedule, Struct } from "effect"
import * as Bubblewrap from "../../src/layers/Bubblewrap.ts"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import * as NodeNetworkProxy from "../../src/layers/NodeNetworkProxy.ts"
import * as NodeProcesses from "../../src/layers/NodeProcesses.ts"
import * as NodeResolver from "../../src/layers/NodeResolver.ts"
import type { SandboxSettings } from "../../src/layers/SandboxPlans.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import type { StartRequest } from "../../src/services/ProcessStart.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { type Confines, Sandbox } from "../../src/services/Sandbox.ts"
import { patient } from "./Patience.ts"

export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "codespace-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true })),
)

/** The sandbox of this machine, for a server with this state folder and these workspaces. */
export const layerSandbox = (stateFolder: string, workspaces: SandboxSettings["workspaces"] = []) =>
  Bubblewrap.layer({ stateFolder, workspaces }).pipe(
    Layer.provide(NodeNetworkProxy.layer(join(stateFolder, "proxies"))),
    Layer.provide([NodeIdentity.layer, NodeResolver.layer]),
  )

/** What keeps processes together on this machine. */
export const holding = await Effect.runPromise(
  Effect.scoped(
    Effect.flatMap(temporaryFolder, (folder) => Effect.provide(Effect.flatMap(Sandbox, Struct.get("holding")), layerSandbox(folder))),
  ),
)

/** The spawner of this machine with its spools in `folder`. */
export const layerSpawner = (folder: string, options?: NodeProcesses.Options) =>
  NodeProcesses.layer(folder, options).pipe(Layer.provide(NodeIdentity.layer))

/** A supervisor with its spools in `folder`. */
export const layerSupervisorIn = (
  folder: string,
  sandbox: Layer.Layer<Sandbox> = layerSandbox(`${folder}-state`),
  options?: NodeProcesses.Options,
) => ProcessSupervisor.layer().pipe(Layer.provide(Layer.merge(layerSpawner(folder, options), sandbox)))

/** A supervisor of its own for each test. */
export const layerSupervisor = (sandbox?: Layer.Layer<Sandbox>, options?: NodeProcesses.Options) =>
  Layer.unwrap(Effect.map(temporaryFolder, (folder) => layerSupervisorIn(join(folder, "spools"), sandbox, options)))

/** Confines that hold a command's processes together and nothing else. */
export const openConfines = (root: string = tmpdir()): Confines => ({
  workspaceId: WorkspaceId.make("app"),
  root,
  profile: {
    name: "open",
    files: [{ glob: "**", access: "write" }],
    exec: "on",
    network: "on",
    commands: [],
    env: [],
    limits,
  },
  sandbox: "off",
})

export const limits = { processes: 16, spool_bytes: 64_000_000, timeout_ms: 60_000 }

export const requestOf = (argv: ReadonlyArray<string>, more: Partial<StartRequest> = {}): StartRequest => ({
  ...openConfines(),
  cwd: { path: tmpdir(), shown: "." },
  argv,
  command: argv.join(" "),
  env: {},
  stdin: "closed",
  access: "shared",
  limits,
  ...more,
})

/** Processes that live and have this text among their variables. */
export const carriers = (variable: string): ReadonlyArray<number> =>
  readdirSync("/proc").flatMap((name) => {
    const pid = Number(name)
    if (!Number.isSafeInteger(pid) || !contentOf(`/proc/${pid}/environ`).split("\0").includes(variable)) return []
    return [pid]
  })

/** Those of them that run this program. */
export const running = (program: string, variable: string): ReadonlyArray<number> =>
  carriers(variable).filter((pid) => contentOf(`/proc/${pid}/cmdline`).split("\0")[0] === program)

/** Children of this process that nobody took the exit of. */
export const zombies = (): number =>
  readdirSync("/proc").filter((name) => {
    const [state, parent] = contentOf(`/proc/${name}/stat`).split(") ").at(-1)?.split(" ") ?? []
    return state === "Z" && Number(parent) === process.pid
  }).length

export const contentOf = (path: string): string => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return ""
  }
}

/** Waits until a state is reached; fails when it is not in time. */
export const until = (isReached: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (isReached() ? Effect.void : Effect.fail("not yet"))).pipe(
    Effect.retry(Schedule.spaced(10)),
    Effect.timeout(patient(10_000)),
    Effect.orDie,
  )

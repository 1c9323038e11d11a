/**
 * Sandbox through bubblewrap: each command in namespaces of its own, without any right of root, with the disk read-only but
 * for what its profile lets it write, and with a filter on its system calls. What can be made here is tried once, by making
 * it. Where a confinement cannot be made, a pid namespace alone still holds a command that needs no more.
 */
import { spawn } from "node:child_process"
import { closeSync, existsSync, openSync } from "node:fs"
import { join } from "node:path"
import { Effect, Layer } from "effect"
import type { Profile } from "../schema/Policy.ts"
import type { Access } from "../schema/Process.ts"
import { inWritable, placesOf } from "../services/MountPlan.ts"
import type { NetworkProxy } from "../services/NetworkProxy.ts"
import { isReadOnly } from "../services/Restrictions.ts"
import { type Ahead, type Confines, type Entrance, type Holding, Sandbox } from "../services/Sandbox.ts"
import { enforcementOf, levelOf, unconfined } from "../services/SandboxLevel.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { confinedBy, HELD, HELD_WAITING, type Namespaces } from "./BubblewrapArguments.ts"
import { type GitGuards, makeGitGuards } from "./GitGuards.ts"
import { searchPath } from "./HostEnvironment.ts"
import { makeNetworks, type Networks } from "./SandboxNetworks.ts"
import { insideEnvironment, makePlans, type SandboxSettings } from "./SandboxPlans.ts"
import { openStore, type SandboxStore } from "./SandboxStore.ts"
import { isKnownMachine } from "./Seccomp.ts"

/** Milliseconds after which an attempt counts as failed. */
const PROBE_LIMIT = 5000

/** `settings` are those of all workspaces of the server: a command of one sees nothing of the others. */
export const layer = (settings: SandboxSettings): Layer.Layer<Sandbox, never, ServerIdentity | NetworkProxy> =>
  Layer.effect(
    Sandbox,
    Effect.gen(function* () {
      const identity = yield* ServerIdentity
      const store = yield* openStore(join(settings.stateFolder, "sandbox"), identity)
      const guards = yield* makeGitGuards(join(settings.stateFolder, "git-guards"), identity)
      const reach = yield* Effect.cached(probe(store))
      const networks = yield* makeNetworks(store)
      const plans = makePlans(settings)
      yield* Effect.addFinalizer(() => Effect.sync(plans.close))
      return sandboxOn(reach, store, plans, networks, guards)
    }),
  )

/** No namespaces at all: for machines without them, and for tests of what is done there. */
export const layerGroups = (why: string): Layer.Layer<Sandbox> => {
  const holding: Holding = { by: "group", why }
  return Layer.succeed(Sandbox, Sandbox.of({ holding: Effect.succeed(holding), ...unconfined(holding, why) }))
}

/** What can be made on this machine. */
type Reach =
  | { readonly by: "nothing"; readonly holding: Holding; readonly why: string }
  | {
      readonly by: "bubblewrap"
      readonly holding: Holding
      readonly program: string
      /** Whether in a user namespace; else as root without rights. */
      readonly user: boolean
      /** What joins a network of another; undefined where there is none. */
      readonly nsenter?: string
      /** Why there can be no network of its own; undefined where there can. */
      readonly whyNoNetwork?: string
    }

const sandboxOn = (
  reach: Effect.Effect<Reach>,
  store: SandboxStore,
  { plan }: Pick<ReturnType<typeof makePlans>, "plan">,
  networkOf: Networks,
  guards: GitGuards,
): Sandbox["Service"] => ({
  holding: Effect.map(reach, ({ holding }) => holding),
  examine: (confines, access) =>
    Effect.flatMap(reach, (reached) => {
      const way = wayOf(reached, confines)
      return way.by === "nothing"
        ? unconfined(way.holding, way.why).examine(confines, access)
        : Effect.succeed(enforcementOf(BY, confines.profile, access))
    }),
  enter: Effect.fnUntraced(function* (confines, access, git) {
    const way = wayOf(yield* reach, confines)
    if (way.by === "nothing") return yield* unconfined(way.holding, way.why).enter(confines, access)
    const { profile } = confines
    const temporary = store.temporary(confines.workspaceId)
    const { ifItFails, keeps, settle, variables } = yield* guards.admit(confines, access, git, temporary)
    const network = yield* networkOf(confines, { bubblewrap: way.program, nsenter: way.nsenter ?? "", user: way.user })
    const { mounts, sweep } = yield* plan(confines, access, { temporary, keeps, more: network.mounts })
    yield* Effect.addFinalizer(() => Effect.sync(() => void sweep.end()))
    const namespaces = { user: way.user, network: network.isOwn }
    const trace = inWritable(mounts)
    return {
      holding: {
        by: "namespace",
        enter: [...network.enter, way.program, ...confinedBy(namespaces, mounts, store.standIns)],
        files: [store.filter(isStrict(profile, access))],
        waitsAtPipes: true,
        ...(trace === "cover" ? {} : { ahead: { standsOn: placesOf(mounts), wantsQuiet: trace === "show" } }),
        ...(network.onCounters === undefined ? {} : { onCounters: network.onCounters }),
      },
      level: levelOf(BY, profile, access),
      environment: (given) => ({ ...insideEnvironment(variables(given)), ...network.variables }),
      denials: Effect.map(network.denials, (denials) => ({ ...denials, notes: [...denials.notes, ...settle(), ...sweep.end()] })),
      ifItFails,
    } satisfies Entrance
  }),
})

const BY = "bubblewrap"

const ON_NOTHING: Ahead = { standsOn: [], wantsQuiet: false }

/** What confines the commands of a workspace: not what its operator switched off, and not what lacks something its profile needs. */
const wayOf = (reach: Reach, { profile, sandbox }: Confines): Reach => {
  if (reach.by === "nothing") return reach
  const { holding, whyNoNetwork } = reach
  if (sandbox === "off") return { by: "nothing", holding, why: 'the operator has switched it off ("sandbox": "off")' }
  if (profile.network === "on") return reach
  if (whyNoNetwork !== undefined) return { by: "nothing", holding, why: whyNoNetwork }
  return profile.network === "off" || reach.nsenter !== undefined
    ? reach
    : {
        by: "nothing",
        holding,
        why: "nsenter is not installed, without which commands have no network together (the operator can: apt install util-linux)",
      }
}

/** Strict is what may change nothing, or reach nobody: then also not over a socket of the host. */
const isStrict = (profile: Profile, access: Access): boolean => isReadOnly(profile, access) || profile.network === "off"

const probe = Effect.fnUntraced(function* (store: SandboxStore): Effect.fn.Return<Reach> {
  const none = (why: string): Reach => ({ by: "nothing", holding: { by: "group", why }, why })
  if (process.platform !== "linux") return none("this system has no namespaces")
  const program = programNamed("bwrap")
  if (program === undefined) return none("bubblewrap is not installed (the operator can: apt install bubblewrap)")
  // The probe also looks the way the server does: at the children of a process it started.
  const seen = "[ $$ = 1 ] && [ -e /proc/1/task/1/children ]"
  const waiting = isKnownMachine(process.arch) ? store.waitingFilter() : undefined
  const waits = waiting !== undefined && (yield* attempt(program, HELD_WAITING, seen, waiting)) === undefined
  const held = waits ? undefined : yield* attempt(program, HELD, seen)
  const holding: Holding = waits
    ? { by: "namespace", enter: [program, ...HELD_WAITING], files: [waiting], waitsAtPipes: true, ahead: ON_NOTHING }
    : held === undefined
      ? { by: "namespace", enter: [program, ...HELD], ahead: ON_NOTHING }
      : { by: "group", why: `pid namespaces cannot be made here (${held})` }
  if (!isKnownMachine(process.arch)) return { by: "nothing", holding, why: `its filter knows no machine of kind ${process.arch}` }
  const filter = store.filter(true)
  const attemptWith = (namespaces: Namespaces) => attempt(program, confinedBy(namespaces, [], store.standIns), "[ $$ = 1 ]", filter)
  const problem = yield* attemptWith({ user: true, network: true })
  const nsenter = programNamed("nsenter")
  const reached = { by: "bubblewrap", holding, program, ...(nsenter === undefined ? {} : { nsenter }) } as const
  if (problem === undefined) return { ...reached, user: true }
  // A container may refuse one namespace and grant the others.
  if ((yield* attemptWith({ user: true, network: false })) === undefined)
    return { ...reached, user: true, whyNoNetwork: `network namespaces cannot be made here (${problem})` }
  if (process.getuid?.() === 0 && (yield* attemptWith({ user: false, network: true })) === undefined) return { ...reached, user: false }
  return { by: "nothing", holding, why: `${problem}; ${FIX}` }
})

const programNamed = (name: string): string | undefined =>
  ["/usr/bin", "/bin", ...searchPath()].map((folder) => join(folder, name)).find((file) => existsSync(file))

const FIX =
  'user namespaces are often switched off: the operator can allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap, kernel.unprivileged_userns_clone=1, in a container --security-opt seccomp=unconfined), or set "sandbox": "off"'

/** Runs a shell's word in a sandbox; gives what went wrong, or nothing. */
const attempt = (program: string, args: ReadonlyArray<string>, script: string, filter?: string): Effect.Effect<string | undefined> =>
  Effect.callback((resume) => {
    const files = filter === undefined ? [] : [openSync(filter, "r")]
    const child = spawn(program, [...args, "--", "/bin/sh", "-c", script], {
      stdio: ["ignore", "ignore", "pipe", "ignore", ...files],
      timeout: PROBE_LIMIT,
      killSignal: "SIGKILL",
      env: {},
    })
    for (const file of files) closeSync(file)
    let problem = ""
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      problem += text
    })
    child.once("error", (error) => resume(Effect.succeed(error.message)))
    child.once("close", (code, signal) =>
      resume(Effect.succeed(code === 0 ? undefined : problem.trim().split("\n")[0] || `it ended with ${signal ?? code}`)),
    )
  })

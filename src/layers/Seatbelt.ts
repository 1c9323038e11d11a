/**
 * Sandbox on macOS: `sandbox-exec` with a profile generated for each command from the same plan that bubblewrap gets on
 * Linux. What cannot be said in such a profile is refused (`SANDBOX_UNAVAILABLE`), never left out.
 *
 * **It has not been run on a Mac.** Its text is tested, and its use with a stand-in for the program; what the kernel of a Mac
 * makes of it is not known.
 */
import { execFile } from "node:child_process"
import { type AddressInfo, connect, createServer } from "node:net"
import { join } from "node:path"
import { Effect, Layer, Result, type Scope } from "effect"
import { type Profile, SandboxUnavailable } from "../schema/Policy.ts"
import type { Variables } from "../services/ChildEnvironment.ts"
import type { Mount } from "../services/MountPlan.ts"
import { networkNotes } from "../services/NetworkNotes.ts"
import { NetworkProxy } from "../services/NetworkProxy.ts"
import { proxyVariables } from "../services/ProxyVariables.ts"
import { type Denials, type Entrance, type Holding, Sandbox } from "../services/Sandbox.ts"
import { enforcementOf, levelOf, noDenials, unconfined } from "../services/SandboxLevel.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import { makePlans, type SandboxSettings } from "./SandboxPlans.ts"
import { openStore } from "./SandboxStore.ts"
import { type SeatbeltPlan, seatbeltProfile } from "./SeatbeltProfile.ts"

/** Milliseconds after which an attempt counts as failed. */
const PROBE_LIMIT = 5000

/** Bytes of a profile; it travels as an argument. */
const LONGEST_PROFILE = 400_000

/** What commands of others use for temporary files and sockets, by real paths. */
const SHARED_PLACES = ["/private/tmp", "/private/var/tmp", "/private/var/folders"]

/** The program that takes a profile is named for tests, which have another. */
export const layer = (
  settings: SandboxSettings,
  program: string = "/usr/bin/sandbox-exec",
): Layer.Layer<Sandbox, never, ServerIdentity | NetworkProxy> =>
  Layer.effect(
    Sandbox,
    Effect.gen(function* () {
      const store = yield* openStore(join(settings.stateFolder, "sandbox"), yield* ServerIdentity)
      const { close, plan } = makePlans(settings)
      yield* Effect.addFinalizer(() => Effect.sync(close))
      const proxies = yield* NetworkProxy
      const whyNone = yield* Effect.cached(probe(program))
      const holding: Holding = { by: "group", why: "this system has no pid namespaces" }

      const networkOf = Effect.fnUntraced(function* ({
        name,
        network,
      }: Profile): Effect.fn.Return<SeatbeltNetwork, SandboxUnavailable, Scope.Scope> {
        const unavailable = (cause: string) => new SandboxUnavailable({ wanted: `the network rule of profile "${name}"`, cause })
        if (network === "on" || network === "off") return { access: network, variables: {}, denials: noDenials }
        if (network === "loopback")
          return yield* unavailable(
            "this system has one loopback for all programs, so commands cannot have one of their own; use off or on",
          )
        const notes = networkNotes(name)
        const { socket } = yield* Effect.mapError(proxies.open({ allow: network.allow, onDecision: notes.onDecision }), ({ message }) =>
          unavailable(message),
        )
        const port = yield* lead(socket)
        return { access: { port }, variables: proxyVariables("127.0.0.1", port), denials: Effect.sync(notes.denials) }
      })

      return Sandbox.of({
        holding: Effect.succeed(holding),
        examine: (confines, access) =>
          Effect.flatMap(whyNone, (why) => {
            const none = confines.sandbox === "off" ? SWITCHED_OFF : why
            return none === undefined
              ? Effect.succeed(enforcementOf(UNTRIED, confines.profile, access))
              : unconfined(holding, none).examine(confines, access)
          }),
        enter: Effect.fnUntraced(function* (confines, access) {
          const why = confines.sandbox === "off" ? SWITCHED_OFF : yield* whyNone
          if (why !== undefined) return yield* unconfined(holding, why).enter(confines, access)
          const { profile, root, workspaceId } = confines
          const temporary = store.temporary(workspaceId)
          const network = yield* networkOf(profile)
          const more = SHARED_PLACES.map((path): Mount => ({ kind: "replace", path, source: temporary }))
          const { mounts, sweep } = yield* plan(confines, access, { temporary, more, keeps: () => true })
          yield* Effect.addFinalizer(() => Effect.sync(() => void sweep.end()))
          const denied = profile.files.filter((rule) => rule.access === "deny").map(({ glob }) => glob)
          const text = seatbeltProfile({ root, mounts, denied, temporary, network: network.access })
          const problem = Result.isFailure(text) ? text.failure : text.success.length > LONGEST_PROFILE ? "it would be too long" : undefined
          if (Result.isFailure(text) || problem !== undefined)
            return yield* new SandboxUnavailable({ wanted: `profile "${profile.name}"`, cause: `a profile for sandbox-exec: ${problem}` })
          return {
            holding: { ...holding, enter: [program, "-p", text.success] },
            level: levelOf(BY, profile, access),
            environment: (given) => ({ ...insideEnvironment(given, temporary), ...network.variables }),
            denials: Effect.map(network.denials, (denials) => ({ ...denials, notes: [...denials.notes, ...sweep.end()] })),
          } satisfies Entrance
        }),
      })
    }),
  )

interface SeatbeltNetwork {
  readonly access: SeatbeltPlan["network"]
  readonly variables: Variables
  readonly denials: Effect.Effect<Denials>
}

const BY = "seatbelt"
const UNTRIED = "seatbelt (sandbox-exec; its profile has not been run on a Mac by those who make this program)"
const SWITCHED_OFF = 'the operator has switched it off ("sandbox": "off")'

/** Programs keep their temporary files and caches where they may write. */
const insideEnvironment = (given: Variables, temporary: string): Variables => ({
  npm_config_cache: `${temporary}/.npm`,
  GOCACHE: `${temporary}/.go-build`,
  ...given,
  TMPDIR: temporary,
  TMP: temporary,
  TEMP: temporary,
})

/** Why nothing can be confined; undefined when it can. */
const probe = (program: string): Effect.Effect<string | undefined> =>
  Effect.callback((resume) => {
    const args = ["-p", "(version 1)\n(deny default)\n(allow process-exec)\n(allow file-read*)\n", "/usr/bin/true"]
    execFile(program, args, { timeout: PROBE_LIMIT, env: {} }, (error, _, words) =>
      resume(Effect.succeed(error === null ? undefined : `sandbox-exec cannot be used: ${words.trim().split("\n")[0] || error.message}`)),
    )
  })

/** A port of loopback that leads to a Unix socket until the scope ends. The profile lets the command reach that port alone. */
const lead = (socket: string): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>>((resume) => {
        const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
          const proxy = connect({ path: socket, allowHalfOpen: true })
          const ends = [
            [client, proxy],
            [proxy, client],
          ] as const
          for (const [from, to] of ends) {
            from.on("error", () => to.destroy()).on("close", () => to.destroySoon())
            from.pipe(to)
          }
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => void server.close()),
    ),
    (server) => (server.address() as AddressInfo).port,
  )

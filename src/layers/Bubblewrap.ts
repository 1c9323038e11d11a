/**
 * Sandbox through bubblewrap: every command in a pid namespace of its own, which the kernel ends as a whole with its first
 * process, and that with the server. Whether namespaces can be made here is tried once, by making one.
 */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { Effect, Layer } from "effect"
import { type Holding, Sandbox } from "../services/Sandbox.ts"
import { searchPath } from "./HostEnvironment.ts"

/** Milliseconds after which an attempt counts as failed. */
const PROBE_LIMIT = 5000

/**
 * The first process is given, not bubblewrap's own: it says how the command ended and stays until it may go. The new
 * session keeps signals to its group away from the server's side.
 */
const NAMESPACE = ["--unshare-pid", "--as-pid-1", "--die-with-parent", "--new-session", "--dev-bind", "/", "/", "--proc", "/proc"]

export const layer: Layer.Layer<Sandbox> = Layer.effect(
  Sandbox,
  Effect.suspend(() => Effect.map(Effect.cached(probe), (holding) => Sandbox.of({ holding }))),
)

/** No namespaces at all: for machines without them, and for tests of what is done there. */
export const layerGroups = (why: string): Layer.Layer<Sandbox> =>
  Layer.succeed(Sandbox, Sandbox.of({ holding: Effect.succeed<Holding>({ by: "group", why }) }))

const probe: Effect.Effect<Holding> = Effect.callback((resume) => {
  const answer = (holding: Holding) => resume(Effect.succeed(holding))
  if (process.platform !== "linux") return answer({ by: "group", why: "this system has no pid namespaces" })
  const program = ["/usr/bin", "/bin", ...searchPath()].map((folder) => join(folder, "bwrap")).find((file) => existsSync(file))
  if (program === undefined) return answer({ by: "group", why: "bubblewrap is not installed (on Debian: apt install bubblewrap)" })
  const enter = [program, ...NAMESPACE]
  // The probe also looks the way the server does: at the children of a process it started.
  const script = "[ $$ = 1 ] && [ -e /proc/1/task/1/children ]"
  execFile(program, [...NAMESPACE, "--", "/bin/sh", "-c", script], { timeout: PROBE_LIMIT, env: {} }, (error, _, problem) => {
    if (error === null) return answer({ by: "namespace", enter })
    const cause = problem.trim().split("\n")[0] || error.message.split("\n")[0]
    answer({ by: "group", why: `pid namespaces cannot be made here (${cause})` })
  })
})

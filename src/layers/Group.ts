/**
 * A program started without a namespace, as the leader of a session and group of its own. What descends from it is found
 * in `/proc` by parent, group, session and mark; see `ProcessTree.ts` for what can hide.
 */
import { spawn } from "node:child_process"
import { Deferred, Effect } from "effect"
import type { SpawnFailed } from "../schema/Process.ts"
import type { Exit, SpawnRequest } from "../services/ProcessSpawner.ts"
import { bySignal, closeAbove, type Launched, optionsOf, type Streams, spawnFailed, takeTerminal } from "./Launch.ts"
import { send, sendTo, startOf } from "./ProcessTable.ts"
import { descendantsOf, MARK, type Root } from "./ProcessTree.ts"

export const launch = (request: SpawnRequest, mark: string, streams: Streams): Effect.Effect<Launched, SpawnFailed> =>
  Effect.callback((resume) => {
    const fail = (error: unknown) => resume(Effect.fail(spawnFailed(request, error)))
    try {
      const [command = "", ...args] = argvOf(request, streams)
      const child = spawn(command, args, optionsOf(request, mark, streams.standard))
      // Without a number it was not started; the reason follows as an event.
      if (child.pid === undefined) return void child.once("error", fail)
      const exit = Deferred.makeUnsafe<Exit>()
      child.once("exit", (code, signal) =>
        Deferred.doneUnsafe(exit, Effect.succeed(code === null ? bySignal(signal ?? "SIGKILL") : { code })),
      )
      resume(Effect.succeed({ ...treeOf(child.pid, mark, exit), stdin: child.stdin, isDeaf: () => false, expect: () => {} }))
    } catch (error) {
      fail(error)
    }
  })

/** Through a shell where something has to be put in order first; it becomes the program. */
const argvOf = ({ argv: given, holding }: SpawnRequest, { hasLeaks, isTerminal }: Streams): ReadonlyArray<string> => {
  const argv = holding.by === "group" ? [...(holding.enter ?? []), ...given] : given
  if (!isTerminal && !hasLeaks) return argv
  const device = process.platform === "linux" ? "/proc/self/fd/0" : "/dev/fd/0"
  const order = (isTerminal ? takeTerminal(device) : "") + (process.platform === "linux" ? closeAbove(2) : "")
  return ["bash", "-c", `${order}exec "$@"`, "bash", ...argv]
}

const treeOf = (pid: number, mark: string, exit: Deferred.Deferred<Exit>): Omit<Launched, "stdin" | "isDeaf" | "expect"> => {
  const root: Root = { pid, start: startOf(pid), mark: `${MARK}=${mark}` }
  const startedAt = performance.now()
  const hasExited = () => Deferred.isDoneUnsafe(exit)
  const descendants = () => descendantsOf(root, performance.now() - startedAt)
  return {
    pid,
    exit: Deferred.await(exit),
    hasExited,
    closed: Effect.void,
    // Until node has taken its exit the number is the child's own, and the group's with it.
    signal: (signal) => Effect.sync(() => (hasExited() ? undefined : send(-pid, signal))),
    descendants: Effect.sync(descendants),
    signalTree: (signal) =>
      Effect.sync(() => {
        const living = descendants()
        if (!hasExited() || living.some(({ group }) => group === pid)) send(-pid, signal)
        for (const descendant of living) if (descendant.group !== pid) sendTo(descendant, signal)
        return living
      }),
  }
}

/**
 * A program started without a sandbox, as the leader of a session and group of its own. What descends from it is found
 * in `/proc` by parent, group, session and mark; see `ProcessTree.ts` for what can hide.
 */
import { spawn } from "node:child_process"
import { Deferred, Effect } from "effect"
import type { SpawnFailed } from "../schema/Process.ts"
import type { Exit, SpawnRequest } from "../services/ProcessSpawner.ts"
import { bySignal, type Launched, optionsOf, type Standard, spawnFailed } from "./Launch.ts"
import { send, sendTo, startOf } from "./ProcessTable.ts"
import { descendantsOf, MARK, type Root } from "./ProcessTree.ts"

export const launch = (request: SpawnRequest, mark: string, stdio: Standard): Effect.Effect<Launched, SpawnFailed> =>
  Effect.callback((resume) => {
    const fail = (error: unknown) => resume(Effect.fail(spawnFailed(request, error)))
    try {
      const [command = "", ...args] = request.argv
      const child = spawn(command, args, optionsOf(request, mark, stdio))
      // Without a number it was not started; the reason follows as an event.
      if (child.pid === undefined) return void child.once("error", fail)
      const exit = Deferred.makeUnsafe<Exit>()
      child.once("exit", (code, signal) =>
        Deferred.doneUnsafe(exit, Effect.succeed(code === null ? bySignal(signal ?? "SIGKILL") : { code })),
      )
      resume(Effect.succeed({ ...treeOf(child.pid, mark, exit), stdin: child.stdin, isDeaf: () => false }))
    } catch (error) {
      fail(error)
    }
  })

const treeOf = (pid: number, mark: string, exit: Deferred.Deferred<Exit>): Omit<Launched, "stdin" | "isDeaf"> => {
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

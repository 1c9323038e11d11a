/** What a dead server leaves behind is ended: by its watchdog at once, and by the next server if there was none. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import { startOf } from "../../src/layers/ProcessTable.ts"
import { ProcessSpawner } from "../../src/services/ProcessSpawner.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { layerSpawner, temporaryFolder, until } from "../support/Processes.ts"
import { commandsIn, livingIn } from "../support/Survivors.ts"

const server = fileURLToPath(new URL("../support/groupServer.ts", import.meta.url))

/** Leaves group and session, but not its environment. */
const TREE = "trap '' TERM HUP; sleep 300 & setsid sleep 301 & (setsid sh -c 'sleep 302 & sleep 302' &); echo ready; sleep 303"

const killed = (process: ChildProcess) =>
  Effect.promise(() => {
    const ended = once(process, "exit")
    process.kill("SIGKILL")
    return ended
  })

const hasProc = existsSync("/proc/self/stat")
if (!hasProc) console.warn("Leftovers.test.ts is skipped in part: there is no /proc to look processes up in")

describe.skipIf(!hasProc)("a server that is killed", () => {
  it.live("takes its commands along, also without namespaces", () =>
    Effect.gen(function* () {
      const folder = realpathSync(yield* temporaryFolder)
      const work = join(folder, "work")
      mkdirSync(work)
      const child = spawn(process.execPath, [server, join(folder, "spools"), work, "bash", "-c", TREE], {
        stdio: ["ignore", "pipe", "inherit"],
      })
      yield* Effect.promise(() => once(child.stdout, "data"))
      assert.includeMembers([...commandsIn(work)], ["sleep 300", "sleep 301", "sleep 302", "sleep 303"])
      yield* killed(child)
      yield* until(() => livingIn(work).length === 0)
    }),
  )

  it.live("has the rest ended by the next one, by number and start time (R061)", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const { self } = yield* Effect.provide(ServerIdentity, NodeIdentity.layer)
      const dead = join(folder, self.replace(/^\d+/u, "999999999"))
      mkdirSync(dead)
      const [left, other] = [0, 1].map(() => spawn("sleep", ["300"], { stdio: "ignore", detached: true }))
      writeFileSync(join(dead, "proc_a.pid"), `${left!.pid} ${startOf(left!.pid!)}`)
      writeFileSync(join(dead, "proc_b.pid"), `${other!.pid} ${startOf(other!.pid!)! - 1}`)
      const ended = once(left!, "exit")
      yield* Effect.provide(ProcessSpawner, layerSpawner(folder))
      assert.deepStrictEqual(yield* Effect.promise(() => ended), [null, "SIGKILL"])
      assert.isNull(other!.exitCode)
      assert.isNull(other!.signalCode)
      assert.notInclude(readdirSync(folder), dead)
      yield* killed(other!)
    }),
  )

  it.live("before the machine was started anew is no reason to signal anybody", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const { self } = yield* Effect.provide(ServerIdentity, NodeIdentity.layer)
      const dead = join(folder, self.replace(/^\d+\.\w+/u, "999999999.00000000"))
      mkdirSync(dead)
      const other = spawn("sleep", ["300"], { stdio: "ignore", detached: true })
      writeFileSync(join(dead, "proc_a.pid"), `${other.pid} ${startOf(other.pid!)}`)
      yield* Effect.provide(ProcessSpawner, layerSpawner(folder))
      assert.isFalse(existsSync(dead))
      assert.include(readFileSync(`/proc/${other.pid}/stat`, "latin1"), "(sleep)")
      yield* killed(other)
    }),
  )
})

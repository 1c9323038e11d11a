/** What is left of a server's processes is ended when the server is gone, however it went. */
import { spawn } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import * as Watchdog from "../../src/layers/Watchdog.ts"
import { until } from "../support/Processes.ts"

const isLinux = process.platform === "linux"
if (!isLinux) console.warn("Watchdog.test.ts is skipped: there is no /proc here")

describe.skipIf(!isLinux)("the watchdog", () => {
  it.live("ends what carries the mark also when its server closes in order, and nothing else", () =>
    Effect.gen(function* () {
      const mark = `CODESPACE_TEST=${process.pid}.${Date.now()}/`
      const scope = yield* Scope.make()
      yield* Scope.provide(Watchdog.start(mark), scope)
      const start = (variable: string) => {
        const child = spawn("/bin/sh", ["-c", "trap '' TERM; while :; do sleep 1; done"], {
          ...{ env: { PATH: "/usr/bin:/bin", CODESPACE_TEST: variable.slice("CODESPACE_TEST=".length) }, stdio: "ignore", detached: true },
        })
        return child
      }
      const left = start(`${mark}ready-1`)
      const other = start(`${mark.slice(0, -1)}0/ready-1`)
      yield* Effect.addFinalizer(() => Effect.sync(() => void [left, other].map((child) => child.kill("SIGKILL"))))
      yield* until(() => left.pid !== undefined && other.pid !== undefined)
      yield* Scope.close(scope, Exit.void)
      yield* until(() => left.signalCode === "SIGKILL")
      assert.strictEqual(other.exitCode ?? other.signalCode, null)
    }),
  )
})

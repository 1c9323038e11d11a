/** PATH from a login shell whose start-up files do what such files do: add folders, print, sleep, and read the terminal. */
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as LoginShell from "../../src/layers/LoginShell.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { patient } from "../support/Patience.ts"
import { carriers, layerSupervisor, requestOf, temporaryFolder } from "../support/Processes.ts"

const hasBash = existsSync("/bin/bash")
if (!hasBash) console.warn("LoginShell.test.ts is skipped: there is no /bin/bash")

/** The variables of a user whose start-up file has this text. */
const userWith = Effect.fnUntraced(function* (file: string) {
  const home = yield* temporaryFolder
  writeFileSync(join(home, ".bash_profile"), file)
  return { HOME: home, SHELL: "/bin/bash", PATH: "/usr/bin:/bin", API_TOKEN: "s3cret" }
})

describe.skipIf(!hasBash)("a login shell", () => {
  it.live("says its PATH, whatever else it prints", () =>
    Effect.gen(function* () {
      const host = yield* userWith("echo welcome; export PATH=/opt/tools/bin:$PATH; echo $API_TOKEN > ~/seen")
      assert.deepStrictEqual((yield* LoginShell.path(host)).slice(0, 1), ["/opt/tools/bin"])
      assert.strictEqual(spawnSync("cat", [join(host.HOME, "seen")], { encoding: "utf8" }).stdout, "\n")
    }),
  )

  it.live("that hangs is ended after two seconds, with what it started (R064)", () =>
    Effect.gen(function* () {
      const host = yield* userWith("sleep 60 & sleep 60; export PATH=/never")
      const from = performance.now()
      assert.deepStrictEqual(yield* LoginShell.path(host), [])
      assert.isBelow(performance.now() - from, patient(4000))
      assert.deepStrictEqual(carriers(`HOME=${host.HOME}`), [])
    }),
  )

  it.live("that reads its input or the terminal gets neither, and goes on (R064)", () =>
    Effect.gen(function* () {
      const host = yield* userWith("read -r name; read -r other </dev/tty; stty -echo </dev/tty; export PATH=/opt/after:$PATH")
      let folders: ReadonlyArray<string> = []
      // It has two seconds, which may be too few for it where many tests run at once.
      for (let tries = 0; folders.length === 0 && tries < patient(1); tries++) folders = yield* LoginShell.path(host)
      assert.deepStrictEqual(folders.slice(0, 1), ["/opt/after"])
    }),
  )

  it.live("that is not there says nothing", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* LoginShell.path({ SHELL: "/no/such/shell", PATH: "/bin" }), [])
      assert.deepStrictEqual(yield* LoginShell.path({ SHELL: "/bin/false", PATH: "/bin" }), [])
    }),
  )
})

describe("PATH of a command", () => {
  it.live("is what the configuration names (R063)", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "bin"))
      writeFileSync(join(folder, "bin/a-tool-elsewhere"), "#!/bin/sh\necho found\n")
      chmodSync(join(folder, "bin/a-tool-elsewhere"), 0o755)
      const searchPath = [join(folder, "bin"), "/usr/bin", "/bin"]
      yield* Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const run = Effect.fnUntraced(function* (...argv: ReadonlyArray<string>) {
          return yield* supervisor.ended(yield* supervisor.start(requestOf(argv)))
        })
        assert.deepInclude(yield* run("a-tool-elsewhere"), { exit_code: 0, output: "found\n" })
        assert.deepInclude(yield* run("sh", "-c", "echo $PATH"), { output: `${searchPath.join(":")}\n` })
        const refusal = yield* Effect.flip(run("no-such-tool"))
        assert.include(refusal.message, searchPath.join(":"))
      }).pipe(Effect.provide(layerSupervisor(undefined, { searchPath })))
      assert.deepStrictEqual(readdirSync(folder), ["bin"])
    }),
  )
})

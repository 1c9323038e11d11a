/**
 * What a program writes is kept, under whichever of its names it writes to its output, however it is confined, and when it
 * or its server is killed. Through the built program, as this user and as an ordinary one.
 */
import { chmodSync, chownSync, existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { patient } from "../support/Patience.ts"
import { holding } from "../support/Processes.ts"
import { type Home, main, makeHome } from "../support/Program.ts"
import { startServer } from "../support/RawServer.ts"
import { until } from "../support/Until.ts"
import { users, type Who } from "../support/Users.ts"

const isBuilt = existsSync(main)
if (!isBuilt) console.warn("output.test.ts is skipped: dist/main.mjs is not built (npm run build)")
if (holding.by === "group") console.warn(`output.test.ts is skipped: ${holding.why}`)

const homes: Array<Home> = []
afterEach(() => {
  for (const made of homes.splice(0)) made.remove()
})

/** Workspaces over one folder, one for each way in which commands are confined. */
const WAYS = {
  confined: { profile: "workspace-write" },
  "without network": { profile: "offline" },
  "without sandbox": { profile: "workspace-write", sandbox: "off" },
} as const

const start = ({ as, uid }: Who, way: object) => {
  const made = makeHome({})
  homes.push(made)
  chmodSync(made.home, 0o755)
  for (const path of [made.home, made.workspace]) chownSync(path, uid, uid)
  const config = {
    workspaces: { app: { root: made.workspace, ...way } },
    profiles: { offline: { extends: "workspace-write", network: "off" } },
  }
  writeFileSync(join(made.home, "config.json"), JSON.stringify(config))
  return { made, open: () => startServer(made, ["--config", join(made.home, "config.json")], as) }
}

const SCRIPT = `printf a; printf b >/dev/stderr; printf c >/dev/stdout; printf d >/dev/fd/2; printf e >/proc/self/fd/1
printf f | tee /dev/stderr; printf g`

for (const who of isBuilt && holding.by === "namespace" ? users("output.test.ts") : [])
  describe(`as ${who.name}`, { timeout: patient(60_000) }, () => {
    for (const [name, way] of Object.entries(WAYS))
      it(`is whole and in order ${name}`, async () => {
        const { open } = start(who, way)
        const server = open()
        for (const more of [{}, { stdin: "text" }, { stdin: "open" }])
          expect(await server.call("exec_command", { script: SCRIPT, ...more })).toMatchObject({ output: "abcdeffg", exit_code: 0 })
        const split = await server.call("exec_command", { script: SCRIPT, split: true })
        expect([split["output"], (split["stderr"] as { readonly output: string }).output].map((text) => (text as string).length)).toEqual([
          5, 3,
        ])
        server.child.stdin.end()
        expect(await server.ended).toEqual([0, null])
      })

    it("is read after a kill of the server that wrote nothing of it", async () => {
      const { open } = start(who, WAYS.confined)
      const first = open()
      const script = "echo one; echo two >/dev/stderr; sleep 300"
      const { process_id } = await first.call("exec_command", { script, yield_ms: 0 })
      await until(async () => (await first.call("read_process", { process_id }))["output"] === "one\ntwo\n")
      first.child.kill("SIGKILL")
      await first.ended
      const second = open()
      expect(await second.call("read_process", { process_id })).toMatchObject({ output: "one\ntwo\n", state: "lost", eof: true })
      second.child.stdin.end()
      await second.ended
    })
  })

if (!isBuilt || holding.by === "group") describe.skip("output", () => it.skip("needs namespaces and the built program", () => undefined))

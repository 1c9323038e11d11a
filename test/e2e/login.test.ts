/**
 * The embedded login of the built program, held against the authorization scenarios of the conformance suite. The suite
 * asks for a person with a browser; here the pages are walked by plain HTTP, as a browser without scripts would.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterEach, describe, expect, it } from "vitest"
import { browserOn } from "../support/LoginHouse.ts"
import { type Home, makeHome, type Served, serve } from "../support/Program.ts"
import { until } from "../support/Until.ts"

const suite = fileURLToPath(new URL("../../node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url))

const homes: Array<Home> = []
const served: Array<Served> = []
afterEach(async () => {
  for (const server of served.splice(0)) await server.stop()
  for (const home of homes.splice(0)) home.remove()
})

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })

describe("the embedded login of the program", () => {
  it("passes the authorization scenarios of the conformance suite, walked by plain HTTP in place of a browser", async () => {
    const home = makeHome({ "a.txt": "a\n" })
    homes.push(home)
    const server = await serve(home)
    served.push(server)
    const base = server.endpoint.replace("/mcp", "")
    const browser = browserOn(base, readFileSync(join(home.home, "state/codespace/operator"), "utf8").trim())
    const port = await freePort()
    const redirect = `http://127.0.0.1:${port}/callback`
    const { client_id } = (await browser.register({ client_name: "Conformance", redirect_uris: [redirect] })).body
    const folder = mkdtempSync(join(tmpdir(), "conformance-"))
    try {
      const args = [
        "authorization",
        "--url",
        base,
        "--client-id",
        client_id,
        "--resource",
        server.endpoint,
        "-p",
        String(port),
        "-o",
        folder,
      ]
      const child = spawn(process.execPath, [suite, ...args], { stdio: ["ignore", "pipe", "pipe"] })
      const told = { text: "" }
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (told.text += String(chunk)))
      const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
      await until(() => /Waiting up to 5 minutes/.test(told.text), 30_000)
      const cookie = await browser.logIn()
      const url = /^http:\/\/\S+\/authorize\?\S+$/m.exec(told.text)?.[0] ?? ""
      const page = await (await browser.go(url, { headers: { cookie } })).text()
      const answered = await browser.decide(page, cookie, [
        ["workspace", "app"],
        ["decision", "allow"],
      ])
      await fetch(answered.headers.get("location") ?? "")
      expect(await ended, told.text).toBe(0)
      const checks = readdirSync(folder).flatMap(
        (scenario) =>
          JSON.parse(readFileSync(join(folder, scenario, "checks.json"), "utf8")) as ReadonlyArray<{ id: string; status: string }>,
      )
      expect(checks.map(({ id, status }) => [id, status]).sort()).toEqual([
        ["authorization-code-grant", "SUCCESS"],
        ["authorization-server-metadata", "SUCCESS"],
        ["authorization-server-metadata-cimd", "SUCCESS"],
      ])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }, 60_000)
})

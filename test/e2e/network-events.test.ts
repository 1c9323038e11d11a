/** What a command's proxy decided, in the records: as the caller, the operator and the exported ledger see it. */
import { execFileSync, spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { operatorOf } from "../support/OperatorSide.ts"
import { holding } from "../support/Processes.ts"
import { type Connection, connect, type Home, main, makeHome, type Served, serve } from "../support/Program.ts"

const missing = ["bwrap", "nsenter", "bash"].find((program) => spawnSync(program, ["--version"]).status !== 0)
const whyNot = holding.by === "group" ? holding.why : missing === undefined ? undefined : `there is no ${missing} here`
if (whyNot !== undefined) console.warn(`network-events.test.ts is skipped: ${whyNot}`)

interface Opened {
  home: Home
  served: Served
  loop: Connection
  port: number
}
const opened = {} as Opened
const origin = createServer((_, response) => response.end("hello"))

describe.skipIf(whyNot !== undefined)("what a proxy decides", () => {
  beforeAll(async () => {
    await new Promise<void>((resolve) => origin.listen(0, "127.0.0.1", resolve))
    opened.port = (origin.address() as AddressInfo).port
    const home = makeHome({ f: "1\n" })
    const file = join(home.home, "codespace.json")
    const allow = [{ host: `127.0.0.1:${opened.port}`, reason: "the test's own" }]
    const profiles = { listed: { extends: "workspace-write", network: { allow } } }
    writeFileSync(file, JSON.stringify({ profiles, workspaces: { app: { root: home.workspace, profile: "listed", sandbox: "required" } } }))
    opened.home = { ...home, folders: [], env: { ...home.env, CODESPACE_CONFIG: file } } as Home
    opened.served = await serve(opened.home)
    opened.loop = await connect("v2-2025", { http: opened.served })
  })
  afterAll(async () => {
    await opened.loop.close()
    await opened.served.stop()
    opened.home.remove()
    origin.close()
  })

  it("is an event each, with place, rule and count, and nothing of what was said", async () => {
    const { home, loop, port, served } = opened
    const asking = (place: string) =>
      `exec 3<>/dev/tcp/\${http_proxy:7:-5}/\${http_proxy##*:}; printf 'GET http://${place}/secret?token=abc HTTP/1.1\\r\\nHost: ${place}\\r\\nX-Key: hidden\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -1 <&3`
    const here = asking(`127.0.0.1:${port}`)
    const command = ["bash", "-c", `${here}; ${here}; ${asking("denied.example:8080")}; sleep 0.2`]
    const ran = await loop.call("exec_command", { workspace_id: "app", command, yield_ms: 10_000, timeout_ms: 20_000 })
    const { operation_id, process_id } = ran.structuredContent as { operation_id: string; process_id: string }
    const reason = `rule 127.0.0.1:${port} (the test's own)`
    const decided = [
      { process_id, verdict: "allowed", host: "127.0.0.1", port, reason, count: 2 },
      { process_id, verdict: "denied", host: "denied.example", port: 8080, reason: "no rule allows it", count: 1 },
    ]
    const status = (await loop.call("operation_status", { operation_id })).structuredContent as { events: ReadonlyArray<object> }
    expect(status.events).toMatchObject([
      { event: "OperationStarted" },
      { event: "NetworkDecided", detail: `allowed 127.0.0.1:${port} (${reason}), 2 times` },
      { event: "NetworkDecided", detail: "denied denied.example:8080 (no rule allows it)" },
      { event: "OperationFinished" },
    ])
    const { client } = operatorOf(home, served)
    const listed = await Effect.runPromise(client.events.list({ query: { subject: operation_id, limit: 100 } }))
    expect(listed.events.filter(({ event }) => event === "NetworkDecided").map(({ body }) => body)).toEqual(decided)
    const shown = await Effect.runPromise(client.operations.show({ params: { operation_id } }))
    expect(shown.events.filter(({ event }) => event === "NetworkDecided")).toHaveLength(2)
    const lines = execFileSync(process.execPath, [main, "audit", "export"], { env: home.env, encoding: "utf8" }).split("\n")
    const events = lines.filter((line) => line.includes('"NetworkDecided"')).join()
    expect(events).toContain("denied.example")
    for (const word of ["secret", "token", "hidden", "X-Key"]) expect(events).not.toContain(word)
    execFileSync(process.execPath, [main, "audit", "verify"], { env: home.env })
    execFileSync(process.execPath, [main, "audit", "rebuild"], { env: home.env })
  })
})

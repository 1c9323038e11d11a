/**
 * The built program over HTTP under strain, and what reports from the field say of other servers: it forgets nobody it
 * knows, runs nothing for those it does not, and its memory stays flat. R108 to R117 are about sessions and transport.
 */

import { readFileSync, writeFileSync } from "node:fs"
import { Agent, request as httpRequest } from "node:http"
import { type AddressInfo, connect as tcp, createServer as tcpServer } from "node:net"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterEach, describe, expect, it } from "vitest"
import { answerOf, call, initialize, modernCall } from "../support/HttpEdge.ts"
import { connect, type Home, makeHome, type Served, serve } from "../support/Program.ts"
import { until } from "../support/Until.ts"

/** How many wrong tokens; each costs a fraction of a millisecond. */
const WRONG_TOKENS = Number(process.env["CODESPACE_WRONG_TOKENS"] ?? 10_000)
const SESSIONS = 200

const homes: Array<Home> = []
const served: Array<Served> = []
afterEach(async () => {
  for (const server of served.splice(0)) await server.stop()
  for (const home of homes.splice(0)) home.remove()
})

const open = async (http: object = {}) => {
  const home = makeHome({ "a.txt": "a\n" })
  homes.push(home)
  const file = join(home.home, "config.json")
  writeFileSync(file, JSON.stringify({ http }))
  // A small heap, so that what is not needed is not kept for convenience either. What would grow with each request is still far above the limits.
  const tidy = { ...home, env: { ...home.env, NODE_OPTIONS: "--max-semi-space-size=2 --max-old-space-size=128" } }
  const start = async (port = "0", token?: string) => {
    const server = await serve(tidy, ["--config", file, "--port", port], token)
    served.push(server)
    return server
  }
  return { home, start }
}

/** Bytes the server has in memory. */
const memoryOf = ({ process }: Served): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${process.pid}/status`, "latin1"))?.[1] ?? 0) * 1024

const eventsIn = (home: Home): number => {
  const database = new DatabaseSync(join(home.home, "state/codespace/codespace.sqlite"), { readOnly: true })
  const { count } = database.prepare("SELECT count(*) AS count FROM events").get() as { count: number }
  database.close()
  return count
}

const MEGABYTE = 1024 * 1024

/** A request over connections that are kept, which `fetch` does not promise. */
const post = (agent: Agent, { endpoint }: Served, headers: Record<string, string>, body: unknown) =>
  new Promise<{ status: number; headers: Record<string, unknown>; text: string }>((resolve, reject) => {
    const all = { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers }
    const asked = httpRequest(endpoint, { agent, method: "POST", headers: all }, (response) => {
      let text = ""
      response.on("data", (part) => {
        text += String(part)
      })
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
    })
    asked.on("error", reject)
    asked.end(JSON.stringify(body))
  })

describe("strangers", () => {
  it.skipIf(process.platform !== "linux")(
    `with ${WRONG_TOKENS} wrong tokens leave no record and no memory behind, and lock nobody out`,
    async () => {
      const { home, start } = await open()
      const server = await start()
      const owner = await connect("v2-2026", { http: server })
      expect((await owner.call("write", { workspace_id: "app", path: "b.txt", content: "b" })).isError).toBeFalsy()
      const agent = new Agent({ keepAlive: true, maxSockets: 20 })
      const knock = async (count: number) => {
        const wrong = call("write", { workspace_id: "app", path: "evil.txt", content: "x" })
        for (let done = 0; done < count; done += 20) {
          const answers = await Promise.all(
            Array.from({ length: Math.min(20, count - done) }, (_, at) =>
              post(agent, server, { authorization: `Bearer cs_${"x".repeat(38)}${done + at}` }, wrong),
            ),
          )
          for (const { status } of answers) if (status !== 401) throw new Error(`answered with ${status}`)
        }
      }
      await knock(Math.min(3_000, WRONG_TOKENS))
      const [events, before] = [eventsIn(home), memoryOf(server)]
      await knock(WRONG_TOKENS)
      const grown = memoryOf(server) - before
      agent.destroy()
      expect(eventsIn(home)).toBe(events)
      expect(grown).toBeLessThan(64 * MEGABYTE)
      expect((await owner.call("read", { workspace_id: "app", path: "b.txt" })).structuredContent).toMatchObject({ text: "b" })
      expect((await owner.call("find", { workspace_id: "app", glob: "**" })).structuredContent).toMatchObject({ paths: ["a.txt", "b.txt"] })
    },
    120_000,
  )
})

describe("sessions", () => {
  it.skipIf(process.platform !== "linux")(
    `${SESSIONS} of them that are dropped, ten times over, leave memory flat, and no process ends with them (R109, R128)`,
    async () => {
      const { home, start } = await open({ per_caller: { sessions: SESSIONS } })
      const server = await start()
      const owner = await connect("v2-2026", { http: server })
      const shell = await owner.call("exec_command", {
        workspace_id: "app",
        command: ["cat"],
        stdin: "open",
        access: "shared",
        yield_ms: 0,
      })
      const { process_id } = shell.structuredContent as { process_id: string }
      const authorization = `Bearer ${server.token}`
      const drop = async () => {
        for (let opened = 0; opened < SESSIONS; opened += 20) {
          const agent = new Agent({ keepAlive: true })
          const answers = await Promise.all(Array.from({ length: 20 }, () => post(agent, server, { authorization }, initialize())))
          for (const { status } of answers) expect(status).toBe(200)
          agent.destroy()
        }
      }
      for (let round = 0; round < 4; round++) await drop()
      const before = memoryOf(server)
      for (let round = 0; round < 6; round++) await drop()
      expect(memoryOf(server) - before).toBeLessThan(64 * MEGABYTE)
      expect((await owner.call("write_stdin", { process_id, data: "still here\n" })).structuredContent).toMatchObject({ state: "running" })
      await owner.call("terminate_process", { process_id })
      expect(eventsIn(home)).toBeGreaterThan(0)
    },
    120_000,
  )

  it("of a server that was started anew are answered with 404 in JSON-RPC; what was done is found by its own id (R110)", async () => {
    const { start } = await open()
    const first = await start()
    const headers = {
      authorization: `Bearer ${first.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    }
    const send = (body: unknown, more = {}) =>
      fetch(first.endpoint, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(body) })
    const session = { "mcp-session-id": (await send(initialize())).headers.get("mcp-session-id") ?? "" }
    const run = { workspace_id: "app", command: ["echo", "done"], operation_key: "k1" }
    const { operation_id } = ((await answerOf(await send(call("exec_command", run), session))).result?.structuredContent ?? {}) as {
      operation_id: string
    }
    await first.stop()
    await start(new URL(first.endpoint).port, first.token)
    const lost = await send(call("exec_command", run), session)
    expect(lost.status).toBe(404)
    expect(await lost.json()).toMatchObject({ jsonrpc: "2.0", error: { code: -32001 } })
    const anew = { "mcp-session-id": (await send(initialize())).headers.get("mcp-session-id") ?? "" }
    const status = await answerOf(await send(call("operation_status", { operation_id }), anew))
    expect(status.result?.structuredContent).toMatchObject({ state: "done", operation_key: "k1" })
    const again = await answerOf(await send(call("exec_command", run), anew))
    expect(again.result?.structuredContent).toMatchObject({ operation_id, exit_code: 0 })
  })
})

describe("connections", () => {
  it("that a proxy cuts when they are silent live through a long wait (R113)", async () => {
    const { start } = await open()
    const server = await start()
    const { hostname, port } = new URL(server.endpoint)
    // Cuts what has been silent for 16 s; the server's signs of life come every 15 s.
    const proxy = tcpServer((client) => {
      const upstream = tcp(Number(port), hostname)
      const cut = () => void [client, upstream].map((socket) => socket.destroy())
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const)
        from.setTimeout(16_000, cut).on("error", cut).on("close", cut).pipe(to)
    })
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve))
    try {
      const at = new URL(server.endpoint)
      at.port = String((proxy.address() as AddressInfo).port)
      const { body, headers } = modernCall("exec_command", { workspace_id: "app", command: ["sleep", "17"], yield_ms: 40_000 })
      const waited = await fetch(at, {
        method: "POST",
        headers: {
          ...headers,
          authorization: `Bearer ${server.token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify(body),
      })
      expect((await answerOf(waited)).result?.structuredContent).toMatchObject({ state: "exited", exit_code: 0 })
    } finally {
      proxy.close()
    }
  }, 60_000)

  it("of one client that waits hold up neither its pings nor its reads nor another client (R114)", async () => {
    const { start } = await open()
    const server = await start()
    const [one, other] = [await connect("v2-2025", { http: server }), await connect("v2-2026", { http: server })]
    const order: Array<string> = []
    const noted = async <A>(name: string, done: Promise<A>) => {
      const value = await done
      order.push(name)
      return value
    }
    const authorization = `Bearer ${server.token}`
    const agent = new Agent({ keepAlive: true })
    const opened = await post(agent, server, { authorization }, initialize())
    const session = { authorization, "mcp-session-id": String(opened.headers["mcp-session-id"]) }
    const all = [
      noted("wait", one.call("exec_command", { workspace_id: "app", command: ["sleep", "2"], access: "shared" })),
      noted("ping", post(agent, server, session, { jsonrpc: "2.0", id: 1, method: "ping" })),
      noted("read", one.call("read", { workspace_id: "app", path: "a.txt" })),
      noted("second", one.call("exec_command", { workspace_id: "app", command: ["true"], access: "shared" })),
      noted("other", other.call("read", { workspace_id: "app", path: "a.txt" })),
    ]
    await Promise.all(all)
    expect(order.at(-1)).toBe("wait")
    expect(order.length).toBe(5)
    agent.destroy()
    await one.close()
    await other.close()
  })

  it("that break in the middle of an answer lose nothing: the key finds it, and it ran once (R125)", async () => {
    const { home, start } = await open()
    const server = await start()
    const run = { workspace_id: "app", script: "echo ran >> log.txt; sleep 0.3", operation_key: "once" }
    const gone = new AbortController()
    const headers = {
      authorization: `Bearer ${server.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    }
    const opened = await fetch(server.endpoint, { method: "POST", headers, body: JSON.stringify(initialize()) })
    const session = { ...headers, "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" }
    const broken = fetch(server.endpoint, {
      method: "POST",
      headers: session,
      body: JSON.stringify(call("exec_command", run)),
      signal: gone.signal,
    })
    await until(() => {
      try {
        return readFileSync(join(home.workspace, "log.txt"), "utf8") === "ran\n"
      } catch {
        return false
      }
    })
    gone.abort()
    await broken.then((response) => response.text()).catch(() => undefined)
    const later = await connect("v2-2026", { http: server })
    const found = await later.call("exec_command", run)
    expect(found.structuredContent).toMatchObject({ exit_code: 0 })
    const status = await later.call("operation_status", { workspace_id: "app", operation_key: "once" })
    expect(status.structuredContent).toMatchObject({ state: "done" })
    expect(readFileSync(join(home.workspace, "log.txt"), "utf8")).toBe("ran\n")
  })
})

describe("callers side by side (R139)", () => {
  it("share the workspace and nothing else: no folder, no operation, no key", async () => {
    const { start } = await open()
    const server = await start()
    const [one, other] = [await connect("v2-2025", { http: server }), await connect("v2-2025", { http: server })]
    const run = (who: typeof one, script: string) => who.call("exec_command", { workspace_id: "app", script })
    expect((await run(one, "mkdir sub; cd sub; export LEAK=1; pwd")).structuredContent).toMatchObject({
      output: expect.stringMatching(/app\/sub\n$/),
    })
    expect((await run(other, "pwd; echo [$LEAK]")).structuredContent).toMatchObject({ output: expect.stringMatching(/app\n\[\]\n$/) })
    expect((await run(one, "pwd; echo [$LEAK]")).structuredContent).toMatchObject({ output: expect.stringMatching(/app\n\[\]\n$/) })
    await one.close()
    await other.close()
  })
})

/** The operator's API of the built program, over real HTTP: who gets in, what it shows and changes, and its stream of events. */
import { execFileSync } from "node:child_process"
import { Effect, Stream } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Conflict, NotFound } from "../../src/operator/Problem.ts"
import type { Instruction } from "../../src/schema/Work.ts"
import { operatorOf } from "../support/OperatorSide.ts"
import { type Connection, connect, type Home, makeHome, type Served, serve, textOf } from "../support/Program.ts"

const app = { workspace_id: "app" }
const run = Effect.runPromise

interface Opened {
  readonly home: Home
  readonly served: Served
  readonly loop: Connection
  readonly operator: ReturnType<typeof operatorOf>
}
const opened = {} as { -readonly [K in keyof Opened]: Opened[K] }

beforeAll(async () => {
  opened.home = makeHome({ "a.txt": "one\n" })
  opened.served = await serve(opened.home)
  opened.loop = await connect("v2-2025", { http: opened.served })
  opened.operator = operatorOf(opened.home, opened.served)
})
afterAll(async () => {
  await opened.loop.close()
  await opened.served.stop()
  opened.home.remove()
})

const field = (result: { readonly structuredContent?: Readonly<Record<string, unknown>> }, name: string): string =>
  String(result.structuredContent?.[name])

/** Every path of the API, as its description has them. */
const paths = async (): Promise<ReadonlyArray<readonly [method: string, path: string]>> => {
  const { paths } = (await (await opened.operator.get("/api/openapi.json")).json()) as {
    readonly paths: Record<string, Record<string, unknown>>
  }
  return Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => [method.toUpperCase(), path] as const))
}

describe("the door", () => {
  it("turns everybody away who is not the operator, at every route", async () => {
    const { operator, served } = opened
    const routes = [...(await paths()), ["GET", "/api/openapi.json"], ["GET", "/healthz"], ["GET", "/metrics"]] as const
    expect(routes.length).toBeGreaterThan(15)
    const wrong = [{}, { authorization: `Bearer ${served.token}` }, { authorization: "Bearer cso_wrong" }, { authorization: "Basic eDp5" }]
    for (const [method, path] of routes)
      for (const headers of wrong) {
        const url = `${operator.root}${path.replaceAll(/\{\w+\}/g, "x_1")}`
        const body = method === "GET" ? {} : { body: "{}", headers: { "content-type": "application/json" } }
        const response = await fetch(url, { method, ...body, headers: { ...body.headers, ...headers } })
        expect([method, path, headers, response.status]).toEqual([method, path, headers, 401])
        await response.body?.cancel()
      }
  })

  it("takes no token in the address, no foreign Host and no page of another origin", async () => {
    const { credential, get, root } = opened.operator
    expect((await fetch(`${root}/api/works?access_token=${credential}`)).status).toBe(401)
    expect((await get("/api/works", { headers: { origin: "https://evil.example" } })).status).toBe(403)
    const [{ get: raw }, { hostname, port }] = [await import("node:http"), new URL(root)]
    const status = await new Promise((resolve, reject) =>
      raw({ hostname, port, path: "/api/works", headers: { host: "evil.example", authorization: `Bearer ${credential}` } }, (response) =>
        resolve(response.resume().statusCode),
      ).on("error", reject),
    )
    expect(status).toBe(403)
  })

  it("opens no tool with the operator's credential", async () => {
    const { credential, root } = opened.operator
    const response = await fetch(`${root}/mcp`, {
      method: "POST",
      headers: { authorization: `Bearer ${credential}`, "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
    })
    expect(response.status).toBe(401)
  })
})

describe("what the operator sees", () => {
  it("is the workspaces with what enforces their profiles", async () => {
    const { client } = opened.operator
    expect((await run(client.workspaces.list())).workspaces).toEqual([{ workspace_id: "app", profile: "workspace-write" }])
    const shown = await run(client.workspaces.show({ params: { workspace_id: "app" } }))
    expect(Object.keys(shown.enforcement).sort()).toEqual(["exec", "files", "network"])
    const missing = await run(Effect.flip(client.workspaces.show({ params: { workspace_id: "none" } })))
    expect(missing).toBeInstanceOf(NotFound)
    expect(missing).toMatchObject({ code: "WORKSPACE_NOT_FOUND" })
  })

  it("is the processes, their output from any cursor, and their end", async () => {
    const { client } = opened.operator
    const started = await opened.loop.call("exec_command", {
      ...app,
      script: "echo one; echo two; exec sleep 300",
      access: "shared",
      yield_ms: 300,
    })
    const process_id = field(started, "process_id")
    const { processes } = await run(client.processes.list({ query: {} }))
    expect(processes).toContainEqual(expect.objectContaining({ process_id, state: "running" }))
    const params = { process_id: process_id as never }
    const first = await run(client.processes.output({ params, query: { wait_ms: 5000 } }))
    expect(first.output).toBe("one\ntwo\n")
    const again = await run(client.processes.output({ params, query: { cursor: first.cursor } }))
    expect([again.output, again.state]).toEqual(["", "running"])
    expect(await run(client.processes.stop({ params }))).toMatchObject({ state: "terminated" })
    expect(await run(Effect.flip(client.processes.stop({ params: { process_id: "proc_none" as never } })))).toBeInstanceOf(NotFound)
  })
})

describe("the inbox", () => {
  it("R148: what people say during a call is counted in its result, and delivered once, in order", async () => {
    const { client } = opened.operator
    const { loop } = opened
    const work_id = field(await loop.call("work_open", { ...app, title: "a long job" }), "work_id")
    const running = loop.call("exec_command", { ...app, script: "touch started; while [ ! -e go ]; do sleep 0.05; done", work_id })
    const say = (text: string, queue = true) => run(client.inbox.draft({ params: { work_id }, payload: { text, queue } }))
    const first = await say("use tabs", false)
    await say("and write a test")
    // R149: a word is a word.
    await say("stop")
    await run(client.inbox.edit({ params: { work_id, instruction_id: first.instruction_id }, payload: { text: "use spaces" } }))
    await run(client.inbox.queue({ params: { work_id, instruction_id: first.instruction_id } }))
    execFileSync("touch", ["go"], { cwd: opened.home.workspace })
    const done = await running
    expect(done.structuredContent).toMatchObject({ state: "exited", exit_code: 0, coordination: { work_id, queued: 3, claimed: 0 } })
    expect(textOf(done)).toContain("steer_claim_next")
    const claimed: Array<Instruction> = []
    for (;;) {
      const { structuredContent } = await loop.call("steer_claim_next", { work_id })
      const instruction = structuredContent?.["instruction"] as Instruction | undefined
      if (instruction === undefined) break
      claimed.push(instruction)
      expect(textOf(await loop.call("work_finish", { work_id }))).toContain("pending_user_input")
      const { instruction_id } = instruction
      await loop.call("steer_complete", { work_id, instruction_id, status: "done", note: `did ${instruction.text}` })
    }
    expect(claimed.map(({ text }) => text)).toEqual(["and write a test", "stop", "use spaces"])
    expect((await loop.call("work_finish", { work_id })).structuredContent).toMatchObject({ closed: true })
    const { instructions, work } = await run(client.inbox.show({ params: { work_id } }))
    expect(work).toMatchObject({ state: "closed", done: 3, title: "a long job" })
    expect(instructions.map(({ note }) => note)).toContain("did stop")
    const late = await run(Effect.flip(client.inbox.draft({ params: { work_id }, payload: { text: "more" } })))
    expect(late).toBeInstanceOf(Conflict)
  })

  it("refuses what it cannot take with the place and the reason", async () => {
    const { get } = opened.operator
    const post = (body: string) => get("/inbox/work_none", { method: "POST", body, headers: { "content-type": "application/json" } })
    expect((await post('{"text":""}')).status).toBe(400)
    const wrong = await post('{"text":7}')
    expect(wrong.status).toBe(400)
    expect(await wrong.text()).toContain("text")
    expect((await post('{"text":"x"}')).status).toBe(404)
  })
})

describe("the stream of events", () => {
  it("goes on behind a cursor, without a gap and without a repeat", async () => {
    const { client } = opened.operator
    const { cursor } = await run(client.events.list({ query: { limit: 1000 } }))
    const follow = (from: number) =>
      Effect.flatMap(client.events.follow({ query: {}, headers: { "last-event-id": from } }), (stream) =>
        stream.pipe(
          Stream.filter((event) => event.event === "ledger"),
          Stream.map(({ data }) => data),
          Stream.take(2),
          Stream.runCollect,
        ),
      )
    const live = run(follow(cursor))
    await opened.loop.call("write", { ...app, path: "b.txt", content: "b\n" })
    const seen = await live
    expect(seen.map(({ event }) => event)).toEqual(["OperationStarted", "OperationFinished"])
    await opened.loop.call("write", { ...app, path: "c.txt", content: "c\n" })
    const next = await run(follow(seen[1]?.seq ?? 0))
    expect(next.map(({ seq }) => seq)).toEqual([(seen[1]?.seq ?? 0) + 1, (seen[1]?.seq ?? 0) + 2])
    expect((await run(follow(cursor))).map(({ seq }) => seq)).toEqual(seen.map(({ seq }) => seq))
  })

  it("is server-sent events on the wire, with the cursor as their id", async () => {
    const { get } = opened.operator
    const response = await get("/api/events/stream?cursor=0")
    expect(response.headers.get("content-type")).toContain("text/event-stream")
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ""
    while (!text.includes("id: 1\n")) text += new TextDecoder().decode((await reader.read()).value)
    await reader.cancel()
    expect(text).toContain("event: ledger\n")
  })
})

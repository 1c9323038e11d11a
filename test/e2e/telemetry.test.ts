/** What can be seen of the built program from outside: metrics for the operator, and spans at a collector. */
import { once } from "node:events"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { modernCall } from "../support/HttpEdge.ts"
import { startLines } from "../support/LineServer.ts"
import { operatorOf } from "../support/OperatorSide.ts"
import { connect, type Home, makeHome, serve } from "../support/Program.ts"
import { until } from "../support/Until.ts"

const app = { workspace_id: "app" }

describe("/metrics", () => {
  it("counts calls by tool and outcome, and says how things stand", async () => {
    const home = makeHome({ "a.txt": "one\n" })
    const served = await serve(home)
    const loop = await connect("v2-2025", { http: served })
    try {
      const { get } = operatorOf(home, served)
      const work = await loop.call("work_open", app)
      const work_id = String(work.structuredContent?.["work_id"])
      await get(`/inbox/${work_id}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ text: "hello", queue: true }),
      })
      await loop.call("read", { ...app, path: "a.txt" })
      await loop.call("read", { ...app, path: "a.txt" })
      await loop.call("read", { ...app, path: "secret-name.txt" })
      const response = await get("/metrics")
      expect(response.headers.get("content-type")).toContain("text/plain")
      const text = await response.text()
      const figure = (name: string, ...labels: ReadonlyArray<string>) =>
        text
          .split("\n")
          .find((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && labels.every((label) => line.includes(label)))
          ?.split(" ")
          .at(-1)
      expect(figure("codespace_tool_calls", 'tool="read"', 'outcome="ok"')).toBe("2")
      expect(figure("codespace_tool_calls", 'tool="read"', 'outcome="PATH_NOT_FOUND"')).toBe("1")
      expect(figure("codespace_tool_call_duration_seconds_count", 'tool="read"')).toBe("3")
      expect(figure("codespace_instructions", 'state="queued"')).toBe("1")
      expect(figure("codespace_approvals_pending")).toBe("0")
      expect(Number(figure("codespace_ledger_seq"))).toBeGreaterThan(0)
      // Names of tools and codes only: nothing a caller wrote.
      expect(text).not.toContain("secret-name")
    } finally {
      await loop.close()
      await served.stop()
      home.remove()
    }
  })
})

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: { readonly stringValue?: string } }>
  readonly status: { readonly code: number; readonly message?: string }
}

describe("traces", () => {
  const collected = { spans: [] as Array<Span>, requests: [] as Array<{ readonly url: string; readonly key: unknown }>, bodies: "" }
  const opened = {} as { collector: Server; home: Home; env: Record<string, string> }

  beforeAll(async () => {
    opened.collector = createServer((request, response) => {
      let body = ""
      request.on("data", (chunk) => {
        body += String(chunk)
      })
      request.on("end", () => {
        collected.requests.push({ url: request.url ?? "", key: request.headers["x-key"] })
        collected.bodies += body
        for (const { scopeSpans } of JSON.parse(body).resourceSpans)
          for (const { spans } of scopeSpans) collected.spans.push(...(spans as ReadonlyArray<Span>))
        response.end("{}")
      })
    }).listen(0, "127.0.0.1")
    await once(opened.collector, "listening")
    opened.home = makeHome({ "a.txt": "one\n" })
    opened.env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(opened.collector.address() as AddressInfo).port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_HEADERS: "x-key=hunter2",
      OTEL_BSP_SCHEDULE_DELAY: "50",
    }
  })
  afterAll(() => {
    opened.collector.close()
    opened.home.remove()
  })

  const traceId = "0af7651916cd43dd8448eb211c80319c"
  const traceparent = `00-${traceId}-b7ad6b7169203331-01`
  const attribute = (span: Span, key: string) => span.attributes.find((each) => each.key === key)?.value.stringValue
  const calls = () => collected.spans.filter(({ name }) => name.startsWith("tools/call"))

  it("are one span a call, in the trace of the caller, down to the disk, with ids and codes and no words", async () => {
    const server = startLines({ ...opened.home, env: { ...opened.home.env, ...opened.env } })
    const secret = "correct-horse-battery"
    const written = await server.call("write", { path: "b.txt", content: `${secret}\n` }, { traceparent })
    await server.call("edit", { path: "b.txt", edits: [{ old: `not ${secret}`, new: "x" }], operation_key: secret }, { traceparent })
    await server.call("read", { path: "a.txt" }, { traceparent: `00-${traceId}-b7ad6b7169203331-00` })
    await server.call("read", { path: "a.txt" }, { traceparent: "nonsense" })
    await server.stop()
    await until(() => calls().length >= 3)
    expect(collected.requests[0]).toEqual({ url: "/v1/traces", key: "hunter2" })
    const [write, edit, read] = calls() as [Span, Span, Span]
    expect(calls().map(({ name }) => name)).toEqual(["tools/call write", "tools/call edit", "tools/call read"])
    for (const span of [write, edit]) expect(span).toMatchObject({ traceId, parentSpanId: "b7ad6b7169203331" })
    // Whoever asked not to be traced is not, and an unreadable parent begins a trace of its own.
    expect(read.traceId).not.toBe(traceId)
    expect(attribute(write, "codespace.workspace_id")).toBe("app")
    expect(attribute(write, "codespace.operation_id")).toBe(written.structuredContent?.["operation_id"])
    expect(attribute(edit, "error.type")).toBe("CONTEXT_NOT_FOUND")
    expect(edit.status).toEqual({ code: 2, message: "CONTEXT_NOT_FOUND" })
    const below = (parent: Span): ReadonlyArray<Span> =>
      collected.spans.filter(({ parentSpanId }) => parentSpanId === parent.spanId).flatMap((span) => [span, ...below(span)])
    expect(below(write).map(({ name }) => name)).toEqual(expect.arrayContaining(["Operations.run"]))
    expect(collected.bodies).not.toContain(secret)
    expect(collected.bodies).not.toContain("b.txt")
  })

  it("take their place from the header of an HTTP request too", async () => {
    const home = makeHome({ "a.txt": "one\n" })
    const served = await serve({ ...home, env: { ...home.env, ...opened.env } })
    const { body, headers } = modernCall("find", { ...app, glob: "*" })
    const response = await fetch(served.endpoint, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        authorization: `Bearer ${served.token}`,
        traceparent,
        ...headers,
      },
      body: JSON.stringify(body),
    })
    expect(await response.text()).toContain("a.txt")
    await served.stop()
    const found = await until(() => calls().find(({ name }) => name === "tools/call find"))
    expect(found).toMatchObject({ traceId, parentSpanId: "b7ad6b7169203331" })
    expect(attribute(found, "codespace.caller")).toBe("owner")
    home.remove()
  })

  it("do not hold a server up whose collector is gone", async () => {
    const server = startLines({
      ...opened.home,
      env: { ...opened.home.env, ...opened.env, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" },
    })
    expect((await server.call("read", { path: "a.txt" })).isError).toBeUndefined()
    const began = performance.now()
    await server.stop()
    expect(performance.now() - began).toBeLessThan(5000)
  })

  it("are left out, with a word in the log, where the settings cannot be used", async () => {
    const server = startLines({ ...opened.home, env: { ...opened.home.env, ...opened.env, OTEL_EXPORTER_OTLP_ENDPOINT: "not a URL" } })
    expect((await server.call("read", { path: "a.txt" })).isError).toBeUndefined()
    await server.stop()
  })
})

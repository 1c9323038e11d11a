/** Requests that no honest client sends: none of them reaches a tool. */
import { connect, type Socket } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { call, type Edge, initialize, openEdge, openSession } from "../support/HttpEdge.ts"
import { until } from "../support/Until.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)

/** Sends bytes as they are, and gives what came back until the server hung up, or was silent after a whole answer. */
const raw = (url: string, text: string): Promise<string> =>
  new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    let answer = ""
    const socket: Socket = connect(Number(port), hostname, () => socket.write(text, "latin1"))
    const done = () => {
      socket.destroy()
      resolve(answer)
    }
    socket.on("data", (part) => {
      answer += part.toString("latin1")
      socket.setTimeout(300)
    })
    socket.on("timeout", done).on("end", done).on("close", done).on("error", done)
  })

const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)
const statuses = (answer: string): ReadonlyArray<number> => [...answer.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, code]) => Number(code))

/** A request for a call that leaves a trace, in the words of the wire. */
const request = (edge: Edge, session: Record<string, string>, more: ReadonlyArray<string> = [], without: ReadonlyArray<string> = []) => {
  const body = JSON.stringify(call("wait", { ms: 1 }))
  const headers = [
    `Host: ${new URL(edge.url).host}`,
    "Accept: application/json, text/event-stream",
    "Content-Type: application/json",
    "Authorization: Bearer token-alice",
    ...Object.entries(session).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${body.length}`,
  ].filter((line) => !without.some((name) => line.toLowerCase().startsWith(`${name}:`)))
  return { head: (first = "POST /mcp HTTP/1.1") => [first, ...headers, ...more, "", ""].join("\r\n"), body }
}

describe("ambiguous requests", () => {
  it.live("are refused whole: doubled headers, two lengths, a target that is no path, bytes between the lines", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const good = request(edge, session)
        assert.strictEqual(statusOf(await raw(edge.url, good.head() + good.body)), 200)
        assert.deepStrictEqual(edge.events, ["wait started", "wait ended"])
        const host = new URL(edge.url).host
        const doubled = [
          `Host: ${host}`,
          "Host: evil.example",
          "Authorization: Bearer token-bob",
          "Origin: http://localhost\r\nOrigin: http://evil.example",
          "Content-Type: application/json",
          "Mcp-Session-Id: other",
          "Mcp-Protocol-Version: 2025-11-25",
          `Content-Length: ${good.body.length}`,
          "Content-Length: 0",
          "Transfer-Encoding: chunked",
          "Transfer-Encoding: identity",
          "Transfer-Encoding : chunked",
          "Bad Header: x",
          " folded: x",
          "X-A: a\x00b",
          "X-A: a\nX-B: b",
        ]
        for (const line of doubled) {
          const { body, head } = request(edge, session, [line])
          assert.strictEqual(statusOf(await raw(edge.url, head() + body)), 400, line)
        }
        const { body, head } = request(edge, session)
        for (const first of [
          "POST http://evil.example/mcp HTTP/1.1",
          `POST http://${host}/mcp HTTP/1.1`,
          "POST /mcp HTTP/1.1 x",
          "POST /mcp",
        ])
          assert.strictEqual(statusOf(await raw(edge.url, head(first) + body)), 400, first)
        const bare = await raw(edge.url, (head() + body).replaceAll("\r\n", "\n"))
        assert.strictEqual(statusOf(bare), 400)
        assert.strictEqual(statusOf(await raw(edge.url, request(edge, session, [`X-Long: ${"x".repeat(20_000)}`]).head())), 431)
      })
      assert.deepStrictEqual(edge.events, ["wait started", "wait ended"])
    }),
  )

  it.live("do not carry a second request past the door inside their body", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const inner = request(edge, session)
        const smuggled = inner.head() + inner.body
        // The length says the whole is one body, the chunks say it ends before the second request.
        const { head } = request(edge, session, ["Transfer-Encoding: chunked"])
        assert.deepStrictEqual(statuses(await raw(edge.url, `${head()}0\r\n\r\n${smuggled}`)), [400])
        // A body that is too short for its length swallows what follows, which is then no request.
        const short = request(edge, session, [`Content-Length: ${10 + smuggled.length}`], ["content-length"])
        assert.deepStrictEqual(statuses(await raw(edge.url, `${short.head()}{"a": "b"}${smuggled}`)), [400])
        // One after the other is two requests; each needs its own token.
        const stranger = request(edge, session, [], ["authorization"])
        const pipelined = await raw(edge.url, stranger.head() + stranger.body + stranger.head() + stranger.body)
        assert.deepStrictEqual(statuses(pipelined), [401, 401])
      })
      assert.deepStrictEqual(edge.events, [])
    }),
  )
})

describe("a web page (R111)", () => {
  it.live("reaches nothing: not by name, not by origin, not without preflight", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ origins: ["https://app.example"] })
      yield* promise(async () => {
        const session = await openSession(edge)
        const from = async (more: ReadonlyArray<string>, without: ReadonlyArray<string> = []) => {
          const { body, head } = request(edge, session, more, without)
          return statusOf(await raw(edge.url, head() + body))
        }
        assert.strictEqual(await from(["Host: evil.example"], ["host"]), 403)
        assert.strictEqual(await from([], ["host"]), 400)
        for (const origin of [
          "http://evil.example",
          "null",
          "http://127.0.0.1.evil.example",
          "https://app.example.evil.example",
          "chrome-extension://x",
        ])
          assert.strictEqual(await from([`Origin: ${origin}`]), 403, origin)
        // What a page may send without asking beforehand has no token and no JSON.
        assert.strictEqual(
          await from(["Content-Type: text/plain", "Origin: http://localhost:3000"], ["content-type", "authorization"]),
          401,
        )
        const preflight = (origin: string) =>
          edge.send("OPTIONS", {
            origin,
            authorization: "",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization",
          })
        for (const origin of ["http://evil.example", "http://localhost:3000"])
          assert.isNull((await preflight(origin)).headers.get("access-control-allow-origin"))
        assert.deepStrictEqual(edge.events, [])
        const allowed = await preflight("https://app.example")
        assert.strictEqual(allowed.status, 204)
        assert.strictEqual(allowed.headers.get("access-control-allow-origin"), "https://app.example")
        assert.isNull(allowed.headers.get("access-control-allow-credentials"))
        const served = await edge.post(call("wait", { ms: 1 }), { ...session, origin: "https://app.example" })
        assert.strictEqual(served.status, 200)
        assert.strictEqual(served.headers.get("access-control-allow-origin"), "https://app.example")
        assert.include(served.headers.get("access-control-expose-headers") ?? "", "mcp-session-id")
        await served.text()
        const refused = await edge.post(initialize(), { authorization: "", origin: "https://app.example" })
        assert.strictEqual(refused.status, 401)
        assert.strictEqual(refused.headers.get("access-control-allow-origin"), "https://app.example")
      })
      assert.deepStrictEqual(edge.events, ["wait started", "wait ended"])
    }),
  )
})

describe("slow requests", () => {
  it.live("are cut off, headers and bodies alike, and others go on meanwhile", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ patience: 500 })
      yield* promise(async () => {
        const session = await openSession(edge)
        const { body, head } = request(edge, session)
        const slow = [
          raw(edge.url, head().slice(0, 60)),
          raw(edge.url, head()),
          raw(edge.url, head() + body.slice(0, 20)),
          raw(edge.url, ""),
          ...Array.from({ length: 20 }, () => raw(edge.url, head() + body.slice(0, 1))),
        ]
        assert.strictEqual((await edge.post({ jsonrpc: "2.0", id: 1, method: "ping" }, session)).status, 200)
        const ended = await Promise.all(slow)
        for (const answer of ended) assert.include([0, 408, 400], statusOf(answer))
        // A long answer is no slow request.
        const long = await edge.post(call("wait", { ms: 1_500 }, 9), session)
        assert.include(await long.text(), '"waited":1500')
      })
      assert.deepStrictEqual(edge.events, ["wait started", "wait ended"])
    }),
  )

  it.live("of a caller that hangs up in the middle leave nothing behind", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ perCaller: { bytes: 32 * 1024 * 1024 } })
      yield* promise(async () => {
        const session = await openSession(edge)
        const { hostname, port } = new URL(edge.url)
        const { head } = request(edge, session, [`Content-Length: ${15 * 1024 * 1024}`], ["content-length"])
        for (let at = 0; at < 10; at++)
          await new Promise<void>((resolve) => {
            const socket = connect(Number(port), hostname, () => {
              socket.write(`${head()}{"jsonrpc"`)
              setTimeout(() => void socket.destroy(), 20)
            })
            socket.on("close", () => resolve())
          })
        // The room for their bodies is free again.
        await until(async () => (await edge.post(call("echo", { text: "x".repeat(15 * 1024 * 1024) }), session)).status === 200)
      })
    }),
  )
})

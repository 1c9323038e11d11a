import { createServer } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { endpointOf, layer } from "../../src/mcp/Http.ts"
import { answerOf, call, initialize, modern, modernCall, openEdge, openSession, rawRequest } from "../support/HttpEdge.ts"
import { makeTestTable } from "../support/McpTable.ts"
import { credentialIn, openOperator } from "../support/Operating.ts"
import { temporaryFolder } from "../support/Tree.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)

/** A row of the table: what is asked, the status, and the code of the JSON-RPC error if there is one. */
const expectError = async (response: Response, status: number, code: number, message?: RegExp): Promise<void> => {
  const body = await response.text()
  assert.strictEqual(response.status, status, body)
  const parsed = JSON.parse(body)
  assert.strictEqual(parsed.jsonrpc, "2.0")
  assert.strictEqual(parsed.error.code, code)
  if (message) assert.match(parsed.error.message, message)
}

describe("the door", () => {
  it.live("asks for a known token in the header, and names the error", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        for (const authorization of ["", "Basic dG9rZW4=", "Bearer", "Bearer unknown"]) {
          const response = await edge.post(initialize(), { authorization })
          assert.match(response.headers.get("www-authenticate") ?? "", /^Bearer error="invalid_token", error_description="[^"]+"$/)
          await expectError(response, 401, -32001, /token/)
        }
        const query = await fetch(`${edge.url}?access_token=token-alice`, { method: "POST", body: JSON.stringify(initialize()) })
        await expectError(query, 401, -32001)
        assert.strictEqual((await edge.post(initialize(), { authorization: "bearer  token-alice" })).status, 200)
      })
      assert.deepStrictEqual(edge.events, [])
    }),
  )

  it.live("says where to log in when there is an issuer", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ hasLogin: true })
      const response = yield* promise(() => edge.post(initialize(), { authorization: "Bearer unknown" }))
      assert.match(
        response.headers.get("www-authenticate") ?? "",
        /resource_metadata="http:\/\/127\.0\.0\.1:\d+\/\.well-known\/oauth-protected-resource\/mcp"$/,
      )
    }),
  )

  it.live("turns a foreign Host or Origin away before it looks at the token (R111)", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ hosts: ["code.example"], origins: ["https://app.example:8443"] })
      const at = new URL(edge.url).host
      yield* promise(async () => {
        const body = JSON.stringify(initialize())
        const ask = (headers: Record<string, string>) =>
          rawRequest(edge.url, { accept: "application/json, text/event-stream", authorization: "Bearer token-alice", ...headers }, body)
        const statusOf = async (headers: Record<string, string>) => (await ask(headers)).status
        assert.strictEqual(await statusOf({ host: "evil.example", authorization: "" }), 403)
        assert.strictEqual(await statusOf({ host: `evil.example:${new URL(edge.url).port}` }), 403)
        assert.strictEqual(await statusOf({ host: "127.0.0.1.evil.example" }), 403)
        for (const origin of ["http://evil.example", "null", "https://app.example", "http://app.example:8443", "file:///x"])
          assert.strictEqual(await statusOf({ host: at, origin }), 403, origin)
        for (const host of [at, "localhost:9", "[::1]", "code.example", "CODE.example:443"])
          assert.strictEqual(await statusOf({ host }), 200, host)
        for (const origin of ["https://app.example:8443", "http://localhost:3000", "https://code.example"])
          assert.strictEqual(await statusOf({ host: at, origin }), 200, origin)
        const refused = JSON.parse((await ask({ host: "evil.example" })).body)
        assert.match(refused.error.message, /Invalid Host: evil\.example/)
      })
    }),
  )

  it.live("checks Host for every route, and the operator's token for the health", () =>
    Effect.gen(function* () {
      const table = makeTestTable()
      const others = HttpRouter.add("GET", "/other", HttpServerResponse.text("here"))
      const options = {
        host: "127.0.0.1",
        port: 0,
        table: table.table,
        authenticate: () => Effect.succeed(undefined),
        log: () => undefined,
      }
      const folder = yield* temporaryFolder
      const server = yield* Layer.build(layer({ ...options, operator: yield* openOperator(folder) }, others))
      const base = endpointOf(server).replace("/mcp", "")
      yield* promise(async () => {
        assert.strictEqual(await (await fetch(`${base}/other`)).text(), "here")
        assert.strictEqual((await rawRequest(`${base}/other`, { host: "evil.example" })).status, 403)
        assert.strictEqual((await fetch(`${base}/healthz`)).status, 401)
        assert.strictEqual((await fetch(`${base}/healthz`, { headers: { authorization: "Bearer token-alice" } })).status, 401)
        assert.strictEqual(
          await (await fetch(`${base}/healthz`, { headers: { authorization: `Bearer ${credentialIn(folder)}` } })).text(),
          "ok",
        )
      })
    }),
  )
})

describe("listening", () => {
  it.live("says in one line that a port is taken", () =>
    Effect.gen(function* () {
      const port = yield* Effect.acquireRelease(
        Effect.callback<{ port: number; close: () => void }>((resume) => {
          const server = createServer().listen(0, "127.0.0.1", () =>
            resume(Effect.succeed({ port: (server.address() as { port: number }).port, close: () => server.close() })),
          )
        }),
        ({ close }) => Effect.sync(close),
      )
      const failure = yield* Effect.flip(openEdge({ port: port.port }))
      assert.strictEqual(failure._tag, "ListenFailed")
      assert.strictEqual(failure.message, `cannot listen on 127.0.0.1:${port.port}: it is in use by another program`)
    }),
  )

  it.live("does not serve other machines without authentication", () =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(openEdge({ host: "0.0.0.0", authenticate: "off" }))
      assert.match(failure.message, /^cannot listen on 0\.0\.0\.0:0: without authentication only loopback is served$/)
    }),
  )

  it.live("stops within seconds while a stream is open", () =>
    Effect.gen(function* () {
      const started = performance.now()
      const exit = yield* Effect.exit(
        Effect.scoped(
          Effect.gen(function* () {
            const edge = yield* openEdge()
            const session = yield* promise(() => openSession(edge))
            const stream = yield* promise(() => edge.send("GET", session))
            assert.strictEqual(stream.status, 200)
          }),
        ),
      )
      assert.isTrue(Exit.isSuccess(exit))
      assert.isBelow(performance.now() - started, 4_000)
    }),
  )
})

describe("requests of the 2025 era", () => {
  it.live("opens a session, and lets its stream be resumed", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const response = await edge.post(initialize())
        assert.strictEqual(response.status, 200)
        assert.strictEqual(response.headers.get("content-type"), "text/event-stream")
        assert.match(response.headers.get("mcp-session-id") ?? "", /^[\x21-\x7e]{36}$/)
        const text = await response.text()
        assert.match(text, /^: open\n\nid: \S+\nretry: 1000\ndata: \n\n/)
        assert.include(text, '"protocolVersion":"2025-11-25"')
        for (const older of ["2025-06-18", "2025-03-26"])
          assert.include(await (await edge.post(initialize(older))).text(), `"protocolVersion":"${older}"`)
      })
    }),
  )

  it.live("answers each wrong request with its status", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        await expectError(await edge.post(call("echo")), 400, -32000, /Mcp-Session-Id/)
        await expectError(await edge.send("GET"), 400, -32000, /Mcp-Session-Id/)
        await expectError(await edge.send("DELETE"), 400, -32000, /Mcp-Session-Id/)
        await expectError(await edge.post(call("echo"), { "mcp-session-id": "unknown" }), 404, -32001)
        await expectError(await edge.send("GET", { "mcp-session-id": "unknown" }), 404, -32001)
        await expectError(await edge.post(call("echo"), { ...session, authorization: "Bearer token-bob" }), 404, -32001)
        await expectError(await edge.send("GET", { ...session, authorization: "Bearer token-bob" }), 404, -32001)
        await expectError(await edge.send("DELETE", { ...session, authorization: "Bearer token-bob" }), 404, -32001)
        await expectError(await edge.post(call("echo"), { ...session, "mcp-protocol-version": "1999-01-01" }), 400, -32000)
        await expectError(await edge.post(call("echo"), { ...session, accept: "application/json" }), 406, -32000)
        await expectError(await edge.post(initialize(), { accept: "text/event-stream" }), 406, -32000)
        await expectError(await edge.send("GET", { ...session, accept: "application/json" }), 406, -32000)
        await expectError(await edge.send("POST", { ...session, "content-type": "text/plain" }, "{}"), 415, -32000)
        await expectError(await edge.send("POST", { ...session, "content-type": "application/json" }, "{"), 400, -32700)
        await expectError(await edge.post([call("echo")], session), 400, -32600)
        await expectError(await edge.post({ jsonrpc: "1.0" }, session), 400, -32600)
        await expectError(await edge.send("PUT", session, "{}"), 405, -32000)
        await expectError(await edge.send("PATCH", {}, "{}"), 405, -32000)
        const known = (await answerOf(await edge.post(call("nothing"), session))).error
        assert.deepStrictEqual(known, { code: -32602, message: "Unknown tool: nothing" })
        const method = (await answerOf(await edge.post({ jsonrpc: "2.0", id: 1, method: "no/such" }, session))).error
        assert.strictEqual(method?.code, -32601)
      })
      assert.deepStrictEqual(edge.events, [])
    }),
  )

  it.live("takes notifications with 202, needs no version inside a session, and ends it on DELETE", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const { "mcp-session-id": id = "" } = await openSession(edge)
        const session = { "mcp-session-id": id }
        assert.strictEqual((await edge.post({ jsonrpc: "2.0", method: "notifications/initialized" }, session)).status, 202)
        assert.strictEqual(
          (await answerOf(await edge.post(call("echo", { text: "hi" }), session))).result?.structuredContent?.["text"],
          "hi",
        )
        assert.strictEqual((await edge.send("DELETE", session)).status, 200)
        await expectError(await edge.post(call("echo"), session), 404, -32001)
      })
    }),
  )

  it.live("takes a body up to 16 MiB, and says so about a longer one, counted or not (R112)", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const fits = await answerOf(await edge.post(call("echo", { text: "x".repeat(150_000) }), session))
        assert.strictEqual(String(fits.result?.structuredContent?.["text"]).length, 150_000)
        const large = JSON.stringify(call("echo", { text: "x".repeat(17 * 1024 * 1024) }))
        const headers = { accept: "application/json, text/event-stream", authorization: "Bearer token-alice", ...session }
        const counted = await rawRequest(edge.url, { ...headers, "content-length": String(large.length) }, large)
        assert.strictEqual(counted.status, 413)
        assert.match(JSON.parse(counted.body).error.message, /16777216 bytes/)
        const chunked = await rawRequest(edge.url, { ...headers, "transfer-encoding": "chunked" }, large)
        assert.strictEqual(chunked.status, 413)
        assert.match(JSON.parse(chunked.body).error.message, /16777216 bytes/)
        assert.strictEqual((await edge.post(call("echo"), session)).status, 200)
      })
    }),
  )
})

describe("requests of the 2026 era", () => {
  it.live("serves a request that brings everything, without a session", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const { body, headers } = modernCall("who")
        const response = await edge.post(body, headers)
        assert.strictEqual(response.status, 200)
        assert.strictEqual(response.headers.get("mcp-session-id"), null)
        const { result } = await answerOf(response)
        assert.deepStrictEqual(result?.structuredContent, { name: "alice", workspaces: ["app"], client: "test/1" })
        const list = modern("tools/list")
        const listed = (await answerOf(await edge.post(list.body, list.headers))).result as unknown as Record<string, unknown>
        assert.strictEqual(listed["resultType"], "complete")
        assert.strictEqual(listed["cacheScope"], "private")
        assert.strictEqual(listed["ttlMs"], 300_000)
      })
    }),
  )

  it.live("answers each wrong request with its status", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const { body, headers } = modernCall("echo")
        const { "mcp-method": _method, ...noMethod } = headers
        const { "mcp-name": _name, ...noName } = headers
        const version = { "mcp-protocol-version": "2026-07-28" }
        await expectError(await edge.send("GET", version), 405, -32000)
        await expectError(await edge.send("DELETE", version), 405, -32000)
        await expectError(await edge.post(body, noMethod), 400, -32020)
        await expectError(await edge.post(body, noName), 400, -32020)
        await expectError(await edge.post(body, { ...headers, "mcp-name": "wait" }), 400, -32020)
        await expectError(await edge.post(body, { ...headers, "mcp-protocol-version": "2025-11-25" }), 400, -32020)
        await expectError(await edge.post(call("echo"), headers), 400, -32602)
        const unknown = structuredClone(body) as unknown as { params: { _meta: Record<string, unknown> } }
        unknown.params._meta["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
        const refused = await edge.post(unknown, { ...headers, "mcp-protocol-version": "2099-01-01" })
        assert.strictEqual(refused.status, 400)
        const error = (await answerOf(refused)).error as unknown as { code: number; data: { supported: Array<string> } }
        assert.strictEqual(error.code, -32022)
        assert.deepStrictEqual(error.data.supported, ["2026-07-28"])
        const other = modern("no/such")
        await expectError(await edge.post(other.body, other.headers), 404, -32601)
        const ping = modern("ping")
        await expectError(await edge.post(ping.body, ping.headers), 404, -32601)
        const nothing = modernCall("nothing")
        assert.strictEqual((await answerOf(await edge.post(nothing.body, nothing.headers))).error?.code, -32602)
        await expectError(await edge.send("POST", { ...headers, "content-type": "application/json" }, "{"), 400, -32700)
        await expectError(await edge.send("POST", { ...headers, "content-type": "text/plain" }, "{}"), 415, -32000)
        await expectError(await edge.post([body], headers), 400, -32600)
      })
      assert.deepStrictEqual(edge.events, [])
    }),
  )
})

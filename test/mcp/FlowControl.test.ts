/** What one caller may take up at once, and that nobody else notices when it takes it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { answerOf, call, type Edge, initialize, modernCall, openEdge, openSession, rawRequest } from "../support/HttpEdge.ts"
import { until } from "../support/Until.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)
const bob = { authorization: "Bearer token-bob" }

const refusalIn = async (response: Response) => (await answerOf(response)).result?._meta?.["codespace/refusal"]

describe("calls of one caller", () => {
  it.live("are bounded over all its connections and both eras, with a typed refusal; others and pings go on", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ perCaller: { calls: 3 } })
      yield* promise(async () => {
        const [session, other] = [await openSession(edge), await openSession(edge)]
        const modern = modernCall("wait", { ms: 60_000 })
        const waiting = [
          await edge.post(call("wait", { ms: 60_000 }, 1), session),
          await edge.post(call("wait", { ms: 60_000 }, 2), other),
          await edge.post(modern.body, modern.headers),
        ]
        await until(() => edge.events.length === 3)
        const refusal = await refusalIn(await edge.post(call("echo", { text: "x" }, 3), other))
        assert.deepInclude(refusal, {
          code: "LIMIT_EXCEEDED",
          retry: "change_request",
          details: { limit: "concurrent calls of one caller", value: 3, asked: 4 },
        })
        const fresh = modernCall("echo", { text: "x" })
        assert.deepInclude(await refusalIn(await edge.post(fresh.body, fresh.headers)), { code: "LIMIT_EXCEEDED" })
        assert.deepStrictEqual(edge.events.length, 3)
        const ping = await answerOf(await edge.post({ jsonrpc: "2.0", id: 8, method: "ping" }, session))
        assert.deepStrictEqual(ping.result as unknown, {})
        const theirs = await openSession(edge, bob)
        assert.strictEqual((await answerOf(await edge.post(call("echo", { text: "b" }), theirs))).result?.structuredContent?.["text"], "b")
        await edge.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } }, session)
        await until(async () => (await refusalIn(await edge.post(call("echo", { text: "x" }, 4), session))) === undefined)
        await Promise.all(waiting.map(async (response) => response.body?.cancel()))
      })
    }),
  )
})

describe("bytes of one caller", () => {
  it.live("are bounded while its requests are under way, told or not", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ perCaller: { bytes: 20 * 1024 * 1024 } })
      yield* promise(async () => {
        const [session, theirs] = [await openSession(edge), await openSession(edge, bob)]
        const headers = { accept: "application/json, text/event-stream", authorization: "Bearer token-alice", ...session }
        const large = JSON.stringify(call("wait", { ms: 60_000, padding: "x".repeat(12 * 1024 * 1024) }, 1))
        const first = rawRequest(edge.url, { ...headers, "content-length": String(large.length) }, large)
        await until(() => edge.events.length === 1)
        for (const form of [{ "content-length": String(large.length) }, { "transfer-encoding": "chunked" }] as ReadonlyArray<
          Record<string, string>
        >) {
          const second = await rawRequest(edge.url, { ...headers, ...form }, large)
          assert.strictEqual(second.status, 429)
          const { error } = JSON.parse(second.body)
          assert.match(error.message, /^LIMIT_EXCEEDED: the limit bytes of one caller's requests under way is 20971520, asked for /)
          assert.strictEqual(error.data.code, "LIMIT_EXCEEDED")
        }
        const small = await answerOf(await edge.post(call("echo", { text: "small" }, 2), session))
        assert.strictEqual(small.result?.structuredContent?.["text"], "small")
        const other = await answerOf(await edge.post(call("echo", { text: "y".repeat(12 * 1024 * 1024) }, 3), theirs))
        assert.isDefined(other.result)
        await edge.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } }, session)
        await edge.send("DELETE", session)
        await first
        const again = await openSession(edge)
        await until(async () => (await edge.post(call("echo", { text: "z".repeat(12 * 1024 * 1024) }, 4), again)).status === 200)
      })
    }),
  )
})

describe("sessions of one caller", () => {
  const opened = (edge: Edge, count: number, headers = {}) => Promise.all(Array.from({ length: count }, () => openSession(edge, headers)))

  it.live("take each other's places, never another caller's", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ limits: { count: 6, perCaller: 3 } })
      yield* promise(async () => {
        const theirs = await openSession(edge, bob)
        const sessions = [await openSession(edge), await openSession(edge), await openSession(edge), await openSession(edge)]
        const statuses = await Promise.all(sessions.map(async (session) => (await edge.post(call("echo"), session)).status))
        assert.deepStrictEqual(statuses, [404, 200, 200, 200])
        assert.strictEqual((await edge.post(call("echo"), theirs)).status, 200)
        const streams = await Promise.all(sessions.slice(1).map((session) => edge.send("GET", session)))
        const refused = await edge.post(initialize())
        assert.strictEqual(refused.status, 429)
        assert.match((await answerOf(refused)).error?.message ?? "", /^LIMIT_EXCEEDED: the limit sessions of one caller is 3/)
        assert.strictEqual((await edge.post(initialize(), bob)).status, 200)
        await Promise.all(streams.map(async (stream) => stream.body?.cancel()))
      })
    }),
  )

  it.live("are bounded when many are opened at the same time, and a refused one takes no place", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ limits: { count: 6, perCaller: 5 } })
      yield* promise(async () => {
        await Promise.all(Array.from({ length: 20 }, () => edge.post(initialize(), { accept: "text/event-stream" })))
        const kept = await opened(edge, 5)
        const statuses = await Promise.all(kept.map(async (session) => (await edge.post(call("echo"), session)).status))
        assert.deepStrictEqual(statuses, [200, 200, 200, 200, 200])
        const many = await opened(edge, 12)
        const alive = await Promise.all([...kept, ...many].map(async (session) => (await edge.post(call("echo"), session)).status))
        assert.strictEqual(alive.filter((status) => status === 200).length, 5)
      })
    }),
  )
})

import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { answerOf, call, initialize, messagesOf, modernCall, openEdge, openSession } from "../support/HttpEdge.ts"
import { until } from "../support/Until.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)

/** Reads a stream until it has said something, and leaves it open. */
const readUntil = async (response: Response, wanted: string): Promise<string> => {
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let text = ""
  while (reader !== undefined && !text.includes(wanted)) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`the stream ended after: ${text}`)
    text += decoder.decode(value, { stream: true })
  }
  reader?.releaseLock()
  return text
}

describe("the life of a session (R109)", () => {
  it.effect("ends when it has been idle for too long, and only then", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      const [session, streaming] = yield* promise(() => Promise.all([openSession(edge), openSession(edge)]))
      const stream = yield* promise(() => edge.send("GET", streaming))
      yield* TestClock.adjust("29 minutes")
      assert.strictEqual((yield* promise(() => edge.post(call("echo"), session))).status, 200)
      yield* TestClock.adjust("29 minutes")
      assert.strictEqual((yield* promise(() => edge.post(call("echo"), session))).status, 200)
      yield* TestClock.adjust("31 minutes")
      const lost = yield* promise(() => edge.post(call("echo"), session))
      assert.strictEqual(lost.status, 404)
      assert.strictEqual((yield* promise(() => answerOf(lost))).error?.code, -32001)
      // An open stream shows that its client lives.
      assert.strictEqual((yield* promise(() => edge.post(call("echo"), streaming))).status, 200)
      yield* promise(async () => stream.body?.cancel())
    }),
  )

  it.live("gives way to a new one when all places are taken and it is the one unused for longest", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ limits: { count: 2 } })
      yield* promise(async () => {
        const first = await openSession(edge)
        const second = await openSession(edge)
        assert.strictEqual((await edge.post(call("echo"), first)).status, 200)
        const third = await openSession(edge)
        assert.strictEqual((await edge.post(call("echo"), second)).status, 404)
        assert.strictEqual((await edge.post(call("echo"), first)).status, 200)
        const streams = [await edge.send("GET", first), await edge.send("GET", third)]
        const refused = await edge.post(initialize())
        assert.strictEqual(refused.status, 503)
        assert.match((await answerOf(refused)).error?.message ?? "", /every session is in use/)
        await streams[0]?.body?.cancel()
        await until(async () => (await edge.post(initialize())).status === 200)
      })
    }),
  )
})

describe("calls in a session", () => {
  it.live("answers a ping and other calls while one waits, and shows signs of life (R108, R113, R114)", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ limits: { keepAlive: 50 } })
      yield* promise(async () => {
        const session = await openSession(edge)
        const waiting = await edge.post(call("wait", { ms: 60_000 }, 7), session)
        assert.strictEqual(waiting.headers.get("x-accel-buffering"), "no")
        assert.match(await readUntil(waiting, ": keepalive"), /^: open\n\nid: /)
        const started = performance.now()
        const ping = await answerOf(await edge.post({ jsonrpc: "2.0", id: 8, method: "ping" }, session))
        assert.deepStrictEqual(ping, { jsonrpc: "2.0", id: 8, result: {} } as unknown)
        assert.isBelow(performance.now() - started, 200)
        assert.strictEqual(
          (await answerOf(await edge.post(call("echo", { text: "x" }, 9), session))).result?.structuredContent?.["text"],
          "x",
        )
        assert.deepStrictEqual(edge.events, ["wait started"])
        assert.strictEqual(
          (await edge.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } }, session)).status,
          202,
        )
        await until(() => edge.events.includes("wait interrupted"), 2_000)
        await waiting.body?.cancel()
      })
    }),
  )

  it.live("goes on when the connection is dropped, and the stream can be resumed from the last event (R125)", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const gone = new AbortController()
        const response = await fetch(edge.url, {
          method: "POST",
          headers: {
            accept: "application/json, text/event-stream",
            authorization: "Bearer token-alice",
            "content-type": "application/json",
            ...session,
          },
          body: JSON.stringify(call("wait", { ms: 200 }, 5)),
          signal: gone.signal,
        })
        const [, last = ""] = /id: (\S+)/.exec(await readUntil(response, "retry:")) ?? []
        gone.abort()
        await until(() => edge.events.includes("wait ended"))
        const resumed = await edge.send("GET", { ...session, "last-event-id": last })
        assert.strictEqual(resumed.status, 200)
        const text = await readUntil(resumed, '"waited":200')
        assert.strictEqual(messagesOf(text).at(-1)?.["id"], 5)
        assert.strictEqual((await edge.send("GET", { ...session, "last-event-id": "no-such-event" })).status, 400)
      })
      assert.deepStrictEqual(edge.events, ["wait started", "wait ended"])
    }),
  )

  it.live("ends the calls of a session that is deleted", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const answers = [edge.post(call("wait_quietly", {}, 1), session), edge.post(call("wait", {}, 2), session)]
        await until(() => edge.events.length === 2)
        assert.strictEqual((await edge.send("DELETE", session)).status, 200)
        await until(() => edge.events.filter((event) => event === "wait interrupted").length === 2)
        await Promise.all(answers.map(async (answer) => (await answer).text()))
      })
    }),
  )

  it.live("cancels a call that is answered without a stream (R108)", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const answer = edge.post(call("wait_quietly", {}, "a"), session)
        await until(() => edge.events.includes("wait started"))
        const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "a" } }
        assert.strictEqual((await edge.post(cancel, session)).status, 202)
        const response = await answer
        assert.strictEqual(response.status, 202)
        assert.strictEqual(await response.text(), "")
        assert.include(edge.events, "wait interrupted")
      })
    }),
  )

  it.live("sends progress only to a client that asked for it", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      yield* promise(async () => {
        const session = await openSession(edge)
        const asked = { ...call("wait", { ms: 60 }), params: { name: "wait", arguments: { ms: 60 }, _meta: { progressToken: "t" } } }
        const messages = messagesOf(await (await edge.post(asked, session)).text())
        const progress = messages.filter((message) => message["method"] === "notifications/progress").map((message) => message["params"])
        assert.deepStrictEqual(progress, [
          { progressToken: "t", progress: 1, message: "0 ms" },
          { progressToken: "t", progress: 2, message: "20 ms" },
          { progressToken: "t", progress: 3, message: "40 ms" },
        ])
        assert.isTrue("result" in (messages.at(-1) ?? {}))
        assert.strictEqual(messagesOf(await (await edge.post(call("wait", { ms: 60 }), session)).text()).length, 1)
      })
    }),
  )
})

describe("calls of the 2026 era", () => {
  it.live("sends headers and signs of life while a call waits, and the result after them", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge({ limits: { keepAlive: 50 } })
      yield* promise(async () => {
        const { body, headers } = modernCall("wait", { ms: 200 })
        const response = await edge.post(body, headers)
        assert.deepStrictEqual(edge.events, ["wait started"])
        const text = await readUntil(response, '"waited":200')
        assert.include(text, ": keepalive")
      })
    }),
  )

  for (const name of ["wait", "wait_quietly"])
    it.live(`interrupts ${name} when its client drops the connection`, () =>
      Effect.gen(function* () {
        const edge = yield* openEdge()
        yield* promise(async () => {
          const { body, headers } = modernCall(name)
          const gone = new AbortController()
          const response = fetch(edge.url, {
            method: "POST",
            headers: {
              accept: "application/json, text/event-stream",
              authorization: "Bearer token-alice",
              "content-type": "application/json",
              ...headers,
            },
            body: JSON.stringify(body),
            signal: gone.signal,
          })
          await until(() => edge.events.includes("wait started"))
          gone.abort()
          await response.catch(() => undefined)
          await until(() => edge.events.includes("wait interrupted"), 2_000)
        })
      }),
    )
})

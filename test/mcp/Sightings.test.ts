import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Sightings } from "../../src/mcp/Sightings.ts"
import { call, initialize, modernCall, openEdge, openSession } from "../support/HttpEdge.ts"
import { until } from "../support/Until.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)

describe("what reached the endpoint (R117)", () => {
  it.live("is told with time, caller, client, session and outcome, also of a request that was turned away", () =>
    Effect.gen(function* () {
      const edge = yield* openEdge()
      const seen = async () => {
        const response = await fetch(edge.url.replace("/mcp", "/api/requests"))
        return ((await response.json()) as { requests: ReadonlyArray<Record<string, string>> }).requests
      }
      yield* promise(async () => {
        await edge.post(initialize(), { authorization: "Bearer unknown" })
        const session = await openSession(edge)
        const listed = await edge.post({ jsonrpc: "2.0", id: 1, method: "tools/list" }, session)
        await listed.text()
        const waiting = await edge.post(call("wait", { ms: 60_000 }, 7), session)
        const answer = await edge.post(call("echo", { text: "secret text" }, 8), session)
        await answer.text()
        const modern = modernCall("missing")
        await (await edge.post(modern.body, modern.headers)).text()
        const id = (session["mcp-session-id"] ?? "").slice(0, 8)
        const told = (await seen()).map(({ at, ...rest }) => {
          assert.match(at ?? "", /^\d{4}-\d\d-\d\dT/)
          return rest
        })
        const alice = { caller: "alice", client: "test/1" }
        assert.deepStrictEqual(told.slice(1), [
          { method: "tools/call", tool: "echo", ...alice, session: id, outcome: "done" },
          { method: "tools/call", tool: "wait", ...alice, session: id, outcome: "under way" },
          { method: "tools/list", ...alice, session: id, outcome: "200" },
          { method: "initialize", ...alice, outcome: "200" },
          { method: "POST", outcome: "401" },
        ])
        assert.deepInclude(told[0], { method: "tools/call", tool: "missing", caller: "alice", client: "test/1", outcome: "PATH_NOT_FOUND" })
        assert.notInclude(JSON.stringify(told), "secret text")
        await edge.send("DELETE", session)
        await until(async () => (await seen()).find(({ tool }) => tool === "wait")?.["outcome"] !== "under way")
        await waiting.body?.cancel()
      })
    }),
  )

  it("is kept for the last two hundred requests, and an end finds its own beginning or none", () => {
    const sightings = new Sightings()
    const first = { name: "a", workspaces: undefined }
    const last = { name: "b", workspaces: undefined }
    sightings.note(0, { method: "first", outcome: "under way" }, first)
    for (let at = 0; at < 199; at++) sightings.note(0, { method: `${at}`, outcome: "200" })
    sightings.answered(first, 201)
    assert.strictEqual(sightings.newest.at(-1)?.outcome, "201")
    sightings.note(0, { method: "last", outcome: "under way" }, last)
    sightings.answered(first, 500)
    sightings.answered(last, 202)
    assert.strictEqual(sightings.newest.length, 200)
    assert.strictEqual(sightings.newest[0]?.outcome, "202")
    assert.deepStrictEqual(new Set(sightings.newest.slice(1).map(({ outcome }) => outcome)), new Set(["200"]))
  })
})

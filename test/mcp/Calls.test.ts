import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Calls, cancelled, plainCall } from "../../src/mcp/Calls.ts"
import { makeTestTable } from "../support/McpTable.ts"

const call = (params: unknown, id: unknown = 1) => ({ jsonrpc: "2.0", id, method: "tools/call", params })

describe("what counts as a plain call", () => {
  it("is a call with a name, arguments and a progress token at most", () => {
    for (const params of [
      { name: "a" },
      { name: "a", arguments: {} },
      { name: "a", arguments: { b: [null] }, _meta: {} },
      { name: "a", _meta: { progressToken: 1, other: true } },
    ])
      assert.isDefined(plainCall(call(params)), JSON.stringify(params))
    assert.isDefined(plainCall(call({ name: "a" }, "text")))
  })

  it("leaves everything else to the SDK", () => {
    for (const params of [
      undefined,
      [],
      {},
      { name: 1 },
      { name: "a", arguments: null },
      { name: "a", arguments: [] },
      { name: "a", task: { ttl: 1 } },
      { name: "a", inputResponses: {} },
      { name: "a", requestState: "x" },
      { name: "a", _meta: [] },
      { name: "a", _meta: { progressToken: {} } },
      { name: "a", _meta: { progressToken: 1.5 } },
      { name: "a", _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } },
    ])
      assert.isUndefined(plainCall(call(params)), JSON.stringify(params))
    for (const id of [null, 1.5, {}]) assert.isUndefined(plainCall(call({ name: "a" }, id)))
    for (const value of [
      null,
      1,
      "x",
      [call({ name: "a" })],
      { ...call({ name: "a" }), jsonrpc: "1.0" },
      { ...call({ name: "a" }), method: "ping" },
      { jsonrpc: "2.0", method: "tools/call", params: { name: "a" } },
    ])
      assert.isUndefined(plainCall(value))
  })

  it("knows a cancellation by the id it names", () => {
    const cancel = (params: unknown) => ({ jsonrpc: "2.0", method: "notifications/cancelled", params })
    assert.strictEqual(cancelled(cancel({ requestId: "7" })), "7")
    for (const value of [null, {}, cancel(undefined), cancel({}), cancel({ requestId: {} })]) assert.isUndefined(cancelled(value))
  })
})

describe("calls in flight", () => {
  it.live("are told apart by the type of their id, and gone when they have ended", () =>
    Effect.promise(async () => {
      const { table } = makeTestTable()
      const calls = new Calls(table)
      const context = { authority: { name: "x", workspaces: undefined }, client: undefined, notify: () => Promise.resolve() }
      const number = calls.answer({ id: 1, params: { name: "wait" } }, context)
      const text = calls.answer({ id: "1", params: { name: "wait" } }, context)
      assert.isTrue(calls.cancel(1))
      assert.isUndefined(await number)
      assert.isFalse(calls.cancel(1))
      calls.close()
      assert.isUndefined(await text)
      assert.isFalse(calls.cancel("1"))
    }),
  )

  it.live("answer an unknown tool with the error of the protocol", () =>
    Effect.promise(async () => {
      const calls = new Calls(makeTestTable().table)
      const context = { authority: { name: "x", workspaces: undefined }, client: undefined, notify: () => Promise.resolve() }
      const answer = await calls.answer({ id: 1, params: { name: "nothing" } }, context)
      assert.deepStrictEqual(answer, { jsonrpc: "2.0", id: 1, error: { code: -32602, message: "Unknown tool: nothing" } })
    }),
  )
})

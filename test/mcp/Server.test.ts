import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { type CallToolResult, InMemoryTransport } from "@modelcontextprotocol/server"
import { Effect } from "effect"
import { factoryOf } from "../../src/mcp/Server.ts"
import { PathNotFound } from "../../src/schema/Workspace.ts"
import { makeTable, makeTestTable, row, rows, type Table } from "../support/McpTable.ts"

/** A client of the 2025 era on the SDK's linked pair. */
const connect = (made: Table) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const [ours, theirs] = InMemoryTransport.createLinkedPair()
      const server = await factoryOf(made.table)({ era: "legacy" })
      await server.connect(ours)
      const client = new Client({ name: "linked\n", version: "2" })
      await client.connect(theirs)
      return client
    }),
    (client) => Effect.promise(() => client.close()),
  )

const calling = Effect.gen(function* () {
  const made = makeTestTable()
  const client = yield* connect(made)
  const call = (name: string, args: Record<string, unknown> = {}) =>
    Effect.promise(() => client.callTool({ name, arguments: args }) as Promise<CallToolResult>)
  return { ...made, client, call }
})

const textOf = (result: CallToolResult): string => (result.content[0]?.type === "text" ? result.content[0].text : "")
const refusalOf = (result: CallToolResult) => result._meta?.["codespace/refusal"] as Record<string, unknown> | undefined

describe("the list", () => {
  it.live("is sorted, says everything about a tool, and is served with the instructions", () =>
    Effect.gen(function* () {
      const { client } = yield* calling
      const { tools } = yield* Effect.promise(() => client.listTools())
      const names = tools.map((tool) => tool.name)
      assert.deepStrictEqual(
        names,
        rows(() => undefined)
          .map((one) => one.name)
          .sort(),
      )
      assert.deepStrictEqual(tools[0], {
        name: "big",
        title: "big",
        description: "the tool big",
        inputSchema: { type: "object", properties: {} },
        outputSchema: { type: "object", properties: {} },
        annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
      })
      assert.strictEqual(client.getInstructions(), "Start with echo.")
      assert.deepStrictEqual(client.getServerVersion(), { name: "codespace", title: "CodeSpace", version: "1.2.3" })
    }),
  )
})

describe("a success", () => {
  it.live("carries text and structured part, and an image beside them", () =>
    Effect.gen(function* () {
      const { call } = yield* calling
      assert.deepStrictEqual(yield* call("echo", { text: "é" }), {
        content: [{ type: "text", text: '{"text":"é"}' }],
        structuredContent: { text: "é" },
      })
      assert.deepStrictEqual((yield* call("image")).content, [
        { type: "text", text: '{"mime_type":"image/png"}' },
        { type: "image", mimeType: "image/png", data: "aGk=" },
      ])
      assert.strictEqual(textOf(yield* call("halves")), "a\ufffd")
    }),
  )

  it.live("names the caller and its client, without control characters", () =>
    Effect.gen(function* () {
      const { call } = yield* calling
      assert.deepStrictEqual((yield* call("who")).structuredContent, { name: "local", workspaces: ["*"], client: "linked /2" })
    }),
  )

  it.live("is bounded: a reading call is told the limit, a changing one where to look", () =>
    Effect.gen(function* () {
      const { call, log } = yield* calling
      assert.strictEqual(textOf(yield* call("big", { size: 2_000_000 })).length, 2_000_000)
      const large = yield* call("big", { size: 9_000_000 })
      assert.isTrue(large.isError)
      assert.match(textOf(large), /^LIMIT_EXCEEDED: the limit result_bytes is 8388608, asked for 9\d{6}\./)
      assert.isBelow(JSON.stringify(large).length, 2_000)
      assert.match(textOf(yield* call("big_change")), /^INTERNAL: .*\[retry: ask_status\]$/)
      assert.match(log[0] ?? "", /a result of \d+ bytes/)
    }),
  )
})

describe("a refusal", () => {
  it.live("is a text with code and retry, and the same in machine form, never structured content", () =>
    Effect.gen(function* () {
      const { call } = yield* calling
      const result = yield* call("missing")
      const message = '"no/such" does not exist. Did you mean "no/such1"?'
      assert.deepStrictEqual(result, {
        isError: true,
        content: [{ type: "text", text: `PATH_NOT_FOUND: ${message} [retry: change_request]` }],
        _meta: {
          "codespace/refusal": {
            code: "PATH_NOT_FOUND",
            message,
            retry: "change_request",
            details: { path: "no/such", similar: ["no/such1"] },
          },
        },
      })
    }),
  )

  it.live("is bounded in message and details, and never half a character", () =>
    Effect.gen(function* () {
      const { call } = yield* calling
      const result = yield* call("long_refusal")
      const refusal = refusalOf(result)
      const message = String(refusal?.["message"])
      assert.isAtMost(message.length, 600)
      assert.match(message, /… \(\d+ more characters\)$/)
      assert.strictEqual(textOf(result), `POLICY_DENIED: ${message} [retry: never]`)
      assert.isTrue(JSON.stringify(result).isWellFormed())
      assert.notMatch(JSON.stringify(result), /\\ud[89a-f]/)
      assert.isBelow(JSON.stringify(result).length, 6_000)
    }),
  )
})

describe("a defect", () => {
  for (const name of ["defect", "throws"])
    it.live(`reaches the client as a reference into the log only (${name})`, () =>
      Effect.gen(function* () {
        const { call, log } = yield* calling
        const result = yield* call(name)
        const reference = /reference (\w+)/.exec(textOf(result))?.[1] ?? ""
        assert.match(reference, /^[0-9a-f]{8}$/)
        assert.deepStrictEqual(refusalOf(result)?.["details"], { reference })
        assert.match(textOf(result), new RegExp(`^INTERNAL: .*${reference}.* \\[retry: ask_status\\]$`))
        assert.notInclude(JSON.stringify(result), "secret")
        assert.strictEqual(log.length, 1)
        const entry = JSON.parse(log[0] ?? "")
        assert.deepInclude(entry, { event: "defect", reference, tool: name })
        assert.include(entry.cause, "secret inside")
      }),
    )

  it.live("hides nothing when a finalizer dies after a refusal", () =>
    Effect.gen(function* () {
      const both = row("both", () => Effect.ensuring(Effect.fail(new PathNotFound({ path: "x" })), Effect.die("finalizer")))
      const made = makeTestTable({ rows: [both] })
      const client = yield* connect(made)
      const result = (yield* Effect.promise(() => client.callTool({ name: "both" }))) as CallToolResult
      assert.strictEqual(refusalOf(result)?.["code"], "INTERNAL")
      assert.include(made.log[0], "finalizer")
    }),
  )
})

it.live("a runtime that is gone is a defect, too", () =>
  Effect.promise(async () => {
    const log: Array<string> = []
    const run = () => Promise.reject(new Error("disposed"))
    const table = makeTable({
      rows: [row("a", () => Effect.never)],
      run,
      instructions: "",
      version: "0",
      log: (line) => void log.push(line),
    })
    const context = {
      authority: { name: "x", workspaces: undefined },
      client: undefined,
      signal: new AbortController().signal,
      notify: run,
    }
    assert.strictEqual(refusalOf((await table.call({ name: "a" }, context)) as CallToolResult)?.["code"], "INTERNAL")
    assert.include(log[0], "disposed")
  }),
)

describe("a call that is not one", () => {
  it.live("is a protocol error: unknown tool, no name, arguments that are no object", () =>
    Effect.gen(function* () {
      const { table } = makeTestTable()
      const context = {
        authority: { name: "local", workspaces: undefined },
        client: undefined,
        signal: new AbortController().signal,
        notify: () => Promise.resolve(),
      }
      const errorOf = (params: unknown) =>
        Effect.promise(() =>
          table.call(params, context).then(
            () => "served",
            (error: { code: number; message: string }) => [error.code, error.message],
          ),
        )
      assert.deepStrictEqual(yield* errorOf({ name: "nothing" }), [-32602, "Unknown tool: nothing"])
      for (const params of [undefined, {}, { name: 5 }]) assert.deepStrictEqual(yield* errorOf(params), [-32602, "tools/call needs a name"])
      for (const args of [null, [], "x", 5])
        assert.deepStrictEqual(yield* errorOf({ name: "echo", arguments: args }), [-32602, "arguments of tools/call must be an object"])
    }),
  )
})

describe("a cancelled call", () => {
  it.live("is interrupted, and says so to whoever still listens", () =>
    Effect.gen(function* () {
      const { table, events } = makeTestTable()
      const controller = new AbortController()
      const context = {
        authority: { name: "local", workspaces: undefined },
        client: undefined,
        signal: controller.signal,
        notify: () => Promise.resolve(),
      }
      const answer = table.call({ name: "wait" }, context)
      controller.abort()
      const result = yield* Effect.promise(() => answer)
      assert.strictEqual(refusalOf(result as CallToolResult)?.["code"], "CANCELLED")
      assert.notInclude(events, "wait ended")
    }),
  )

  it.live("by a client of the SDK reaches the tool", () =>
    Effect.gen(function* () {
      const { client, events } = yield* calling
      const controller = new AbortController()
      const answer = client.callTool({ name: "wait" }, { signal: controller.signal }).catch((error: Error) => error.message)
      while (!events.includes("wait started")) yield* Effect.sleep(1)
      controller.abort("enough")
      assert.match(String(yield* Effect.promise(() => answer)), /enough/)
      while (!events.includes("wait interrupted")) yield* Effect.sleep(1)
    }),
  )
})

it("takes rows in any order without changing them", () => {
  const given = [row("b", () => Effect.die(0)), row("a", () => Effect.die(0), { waits: true })]
  const table = makeTable({
    rows: given,
    run: () => Promise.reject(new Error("unused")),
    instructions: "",
    version: "0",
    log: () => undefined,
  })
  assert.deepStrictEqual(
    given.map((one) => one.name),
    ["b", "a"],
  )
  assert.deepStrictEqual([table.waits("a"), table.waits("b"), table.waits("c")], [true, false, false])
})

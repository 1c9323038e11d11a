import { spawn } from "node:child_process"
import { PassThrough, type Readable, type Writable } from "node:stream"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { runStdio } from "../../src/mcp/Stdio.ts"
import { makeTestTable } from "../support/McpTable.ts"
import { type StdioClient, startStdio } from "../support/StdioClient.ts"
import { until } from "../support/Until.ts"

/** A test with a server program of its own. */
const test = (name: string, body: (client: StdioClient) => Promise<void>, env: Record<string, string> = {}) =>
  it.live(name, () =>
    Effect.acquireUseRelease(
      Effect.sync(() => startStdio(env)),
      ({ client }) => Effect.promise(() => body(client)),
      ({ kill }) => Effect.sync(kill),
    ),
  )

const textOf = (stream: Readable): (() => string) => {
  let text = ""
  stream.on("data", (chunk) => {
    text += chunk
  })
  return () => text
}

const call = (id: unknown, name: string, args: Record<string, unknown> = {}) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
})

describe("how it ends", () => {
  test("when the input ends, with a call in flight, which is interrupted", async (client) => {
    await client.initialize()
    client.send(call(1, "wait"))
    await until(() => client.stderr().includes("wait started"))
    const started = performance.now()
    client.child.stdin.end()
    assert.deepStrictEqual(await client.ended, { code: 0, signal: null })
    assert.isBelow(performance.now() - started, 5_000)
    assert.match(client.stderr(), /wait interrupted\nstopped: input ended\n$/)
  })

  test("when the input ends, after it has answered what was asked", async (client) => {
    client.child.stdin.end(`${JSON.stringify(call(1, "echo", { text: "last" }))}\n${JSON.stringify(call(2, "who"))}\n`)
    assert.strictEqual((await client.ended).code, 0)
    assert.deepStrictEqual((await client.answer(1)).result?.["structuredContent"], { text: "last" })
    // Served before any initialize, by a client that has not said its name.
    assert.deepStrictEqual((await client.answer(2)).result?.["structuredContent"], { name: "local", workspaces: ["*"], client: "unknown" })
  })

  test("when the input ends, with the whole of a large answer, also for a slow reader", async (client) => {
    await client.initialize()
    client.child.stdout.pause()
    for (const id of [1, 2]) client.send(call(id, "big", { size: 1_300_000 }))
    client.child.stdin.end()
    // Slow on purpose: by now the server has nothing left to do but to write.
    setTimeout(() => client.child.stdout.resume(), 200)
    assert.strictEqual((await client.ended).code, 0)
    for (const id of [1, 2]) {
      const { result } = await client.answer(id)
      assert.deepStrictEqual(result?.["structuredContent"], { size: 1_300_000 })
    }
  })

  test("when the reader is gone, in the middle of a large result", async (client) => {
    await client.initialize()
    client.send(call(1, "wait"))
    await until(() => client.stderr().includes("wait started"))
    client.child.stdout.destroy()
    client.send(call(2, "big", { size: 600_000 }))
    assert.deepStrictEqual(await client.ended, { code: 0, signal: null })
    assert.match(client.stderr(), /wait interrupted/)
    assert.match(client.stderr(), /stopped: reader gone\n$/)
  })

  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    test(`on ${signal}`, async (client) => {
      await client.initialize()
      client.send(call(1, "wait"))
      await until(() => client.stderr().includes("wait started"))
      client.child.kill(signal)
      assert.deepStrictEqual(await client.ended, { code: 0, signal: null })
      assert.match(client.stderr(), /wait interrupted/)
      assert.match(client.stderr(), /stopped: signal\n/)
    })

  it.live("when its parent is gone, though the pipe stays open (R104)", () =>
    Effect.promise(async () => {
      const program = fileURLToPath(new URL("../support/stdioServer.ts", import.meta.url))
      // The parent starts the server on pipes it has from us, and is killed; we keep them open.
      const code = `require("node:child_process").spawn(process.execPath, [${JSON.stringify(program)}], { stdio: [3, 1, 2] })`
      const parent = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "pipe", "pipe"] })
      const [out, err] = [textOf(parent.stdout as Readable), textOf(parent.stderr as Readable)]
      const input = parent.stdio[3] as Writable
      input.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
      await until(() => out().includes('"id":1'), 20_000)
      parent.kill("SIGKILL")
      await until(() => err().includes("stopped: "), 20_000).finally(() => input.end())
      assert.include(err(), "stopped: parent gone")
    }),
  )

  it.effect("looks after its parent every second", () =>
    Effect.gen(function* () {
      const parent = { id: 10 }
      const options = { table: makeTestTable().table, input: new PassThrough(), output: new PassThrough(), log: () => undefined }
      const fiber = yield* Effect.forkChild(runStdio({ ...options, parent: () => parent.id }), { startImmediately: true })
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(fiber.pollUnsafe(), undefined)
      parent.id = 1
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(fiber), "parent gone")
    }),
  )
})

describe("what it carries", () => {
  test("10 MB in and a large result out", async (client) => {
    await client.initialize()
    client.send(call(1, "echo", { text: "x".repeat(600_000), padding: "y".repeat(9_400_000) }))
    const { result } = await client.answer(1)
    assert.deepStrictEqual(result?.["structuredContent"], { text: "x".repeat(600_000) })
  })

  test(
    "nothing but the protocol on stdout, whatever prints there",
    async (client) => {
      await client.initialize()
      client.send(call(1, "noisy"))
      await client.answer(1)
      assert.strictEqual(client.messages.length, 2)
      await until(() => client.stderr().includes("noise without a newline"))
      for (const noise of ["noise at the start", "noise from a tool"]) assert.include(client.stderr(), noise)
    },
    { NOISE: "1" },
  )

  test("an error for a line that is too long or not JSON, and goes on", async (client) => {
    await client.initialize()
    client.write("{broken")
    client.write("x".repeat(17 * 1024 * 1024))
    client.send(call(3, "echo", { text: "still here" }))
    assert.deepStrictEqual((await client.answer(3)).result?.["structuredContent"], { text: "still here" })
    const errors = client.messages.filter((message) => message.id === null).map((message) => (message["error"] as { code: number }).code)
    assert.deepStrictEqual(errors, [-32700, -32600])
  })

  test("a ping and other calls while one waits, and cancels that one", async (client) => {
    await client.initialize()
    client.send(call(1, "wait"))
    await until(() => client.stderr().includes("wait started"))
    const started = performance.now()
    client.send({ jsonrpc: "2.0", id: 2, method: "ping" })
    client.send(call(3, "who"))
    assert.deepStrictEqual((await client.answer(2)).result, {})
    assert.isBelow(performance.now() - started, 200)
    assert.deepStrictEqual((await client.answer(3)).result?.["structuredContent"], { name: "local", workspaces: ["*"], client: "raw/9" })
    client.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } })
    await until(() => client.stderr().includes("wait interrupted"), 2_000)
    client.send(call(4, "echo"))
    await client.answer(4)
    assert.isUndefined(client.messages.find((message) => message.id === 1))
  })

  test("progress under the token of the call", async (client) => {
    await client.initialize()
    const { params, ...rest } = call(1, "wait", { ms: 40 })
    client.send({ ...rest, params: { ...params, _meta: { progressToken: "p" } } })
    await client.answer(1)
    const progress = client.messages.filter((message) => message["method"] === "notifications/progress").map((message) => message["params"])
    assert.deepStrictEqual(progress, [
      { progressToken: "p", progress: 1, message: "0 ms" },
      { progressToken: "p", progress: 2, message: "20 ms" },
    ])
  })

  test("everything to a reader that stalls, in order, and pings from it too", async (client) => {
    await client.initialize()
    client.child.stdout.pause()
    for (let id = 1; id <= 30; id += 1) client.send(call(id, "big", { size: 400_000 }))
    client.send(call("end", "wait_quietly", { ms: 1 }))
    // The server still reads and works while its results wait for the reader.
    await until(() => client.stderr().includes("wait ended"))
    client.child.stdout.resume()
    await client.answer(30)
    const ids = client.messages.map((message) => message.id).filter((id) => typeof id === "number")
    assert.deepStrictEqual(
      ids,
      Array.from({ length: 30 }, (_, index) => index + 1),
    )
    assert.notInclude(client.stderr(), "Warning")
  })
})

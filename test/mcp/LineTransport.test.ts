import { PassThrough, Writable } from "node:stream"
import { assert, describe, it } from "@effect/vitest"
import type { JSONRPCMessage } from "@modelcontextprotocol/server"
import { Effect } from "effect"
import { LineTransport, type LineTransportOptions } from "../../src/mcp/LineTransport.ts"
import { until } from "../support/Until.ts"

const open = async (options: Partial<LineTransportOptions> = {}) => {
  const input = new PassThrough()
  const written: Array<string> = []
  const output = new Writable({
    write: (chunk, _encoding, done) => {
      written.push(String(chunk))
      done()
    },
  })
  const transport = new LineTransport({ input, output, ...options })
  const messages: Array<JSONRPCMessage> = []
  const errors: Array<string> = []
  const closes: Array<string | undefined> = []
  transport.onmessage = (message) => void messages.push(message)
  transport.onerror = (error) => void errors.push(error.message)
  transport.onclose = () => void closes.push(transport.reason)
  await transport.start()
  return { input, output, written, transport, messages, errors, closes, replies: () => written.map((line) => JSON.parse(line)) }
}

const request = (id: number, text = "") => ({ jsonrpc: "2.0" as const, id, method: "ping", params: { text } })

const test = (name: string, body: () => Promise<void>) => it.live(name, () => Effect.promise(body))

describe("reading", () => {
  test("takes lines in any pieces, also through the middle of a character", async () => {
    const { input, messages } = await open()
    const bytes = Buffer.from(`${JSON.stringify(request(1, "ä€😀"))}\r\n\n${JSON.stringify(request(2))}\n`)
    for (const byte of bytes) input.write(Buffer.of(byte))
    await until(() => messages.length === 2)
    assert.deepStrictEqual(messages, [request(1, "ä€😀"), request(2)])
  })

  test("reads a line of 15 MB in time that grows with its length only", async () => {
    const { input, messages } = await open()
    const line = Buffer.from(`${JSON.stringify(request(1, "x".repeat(15_000_000)))}\n`)
    const started = performance.now()
    for (let at = 0; at < line.length; at += 65_536) input.write(line.subarray(at, at + 65_536))
    await until(() => messages.length === 1)
    assert.isBelow(performance.now() - started, 2_000)
  })

  test("refuses a line that is too long, not JSON or no message, and serves the next one", async () => {
    const { input, messages, errors, replies } = await open({ limit: 100 })
    input.write(`${"x".repeat(60)}`)
    input.write(`${"x".repeat(60)}\n`)
    input.write("{\n")
    input.write('[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n')
    input.write('{"jsonrpc":"2.0","id":5,"method":7}\n"text"\nnull\n')
    input.write(`${JSON.stringify(request(9))}\n`)
    await until(() => messages.length === 1)
    assert.deepStrictEqual(
      replies().map(({ id, error }) => [id, error.code]),
      [
        [null, -32600],
        [null, -32700],
        [null, -32600],
        [5, -32600],
        [null, -32600],
        [null, -32600],
      ],
    )
    assert.strictEqual(replies()[0].error.message, "a message may be 100 bytes long at most")
    assert.strictEqual(errors.length, 6)
    assert.deepStrictEqual(messages, [request(9)])
  })

  test("serves a last line that has no end", async () => {
    const { input, messages, closes } = await open()
    input.end(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }))
    await until(() => closes.length === 1)
    assert.strictEqual(messages.length, 1)
    assert.deepStrictEqual(closes, ["input ended"])
  })
})

describe("writing", () => {
  test("keeps the order and waits while the reader does not read", async () => {
    const output = new PassThrough({ highWaterMark: 1_000 })
    const { transport } = await open({ output })
    const written: Array<number> = []
    const sent = Array.from({ length: 30 }, (_, id) => transport.send(request(id, "x".repeat(600))).then(() => void written.push(id)))
    await new Promise(setImmediate)
    assert.isBelow(written.length, 4)
    let text = ""
    output.on("data", (chunk) => {
      text += chunk
    })
    await Promise.all(sent)
    await until(() => text.split("\n").length === 31)
    const ids = text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).id)
    assert.deepStrictEqual(
      ids,
      Array.from({ length: 30 }, (_, id) => id),
    )
    assert.strictEqual(output.listenerCount("drain"), 1)
  })

  test("writes a line of 10 MB at once", async () => {
    const { transport, replies } = await open()
    const started = performance.now()
    await transport.send(request(1, "x".repeat(10_000_000)))
    assert.isBelow(performance.now() - started, 2_000)
    assert.strictEqual(replies()[0].params.text.length, 10_000_000)
  })

  test("fails what waits when the reader vanishes, and closes once", async () => {
    const output = new PassThrough({ highWaterMark: 1 })
    const { transport, closes } = await open({ output })
    await transport.send(request(1))
    const waiting = transport.send(request(2)).catch((error: Error) => error.message)
    output.destroy(new Error("EPIPE"))
    assert.strictEqual(await waiting, "the connection is closed")
    assert.strictEqual(await transport.send(request(3)).catch((error: Error) => error.message), "the connection is closed")
    await transport.close()
    assert.deepStrictEqual(closes, ["reader gone"])
  })
})

describe("the end of the input", () => {
  test("waits for the answers to what has been read, but not for a cancelled one", async () => {
    const { input, transport, messages, closes, replies } = await open({ grace: 60_000 })
    input.write(`${JSON.stringify(request(1))}\n${JSON.stringify(request(2))}\n`)
    input.end('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}\n')
    await until(() => messages.length === 3)
    await new Promise(setImmediate)
    assert.deepStrictEqual(closes, [])
    await transport.send({ jsonrpc: "2.0", id: 1, result: {} })
    await until(() => closes.length === 1)
    assert.deepStrictEqual(replies(), [{ jsonrpc: "2.0", id: 1, result: {} }])
  })

  test("does not wait longer than its grace", async () => {
    const { input, closes } = await open({ grace: 20 })
    input.end(`${JSON.stringify(request(1))}\n`)
    await until(() => closes.length === 1, 1_000)
    assert.deepStrictEqual(closes, ["input ended"])
  })

  test("is noticed when it came before the start", async () => {
    const input = new PassThrough()
    input.end()
    input.resume()
    await until(() => input.readableEnded)
    const { closes } = await open({ input })
    await until(() => closes.length === 1)
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Replay } from "../../src/mcp/Replay.ts"

const message = (text: string) => ({ jsonrpc: "2.0" as const, method: "m", params: { text } })

const replayed = async (replay: Replay, from: string): Promise<ReadonlyArray<string>> => {
  const sent: Array<string> = []
  await replay.replayEventsAfter(from, {
    send: async (_id, message) => void sent.push((message as unknown as { params: { text: string } }).params.text),
  })
  return sent
}

describe("Replay", () => {
  it.effect("gives what followed an event of its stream, and nothing of another stream", () =>
    Effect.promise(async () => {
      const replay = new Replay(10, 10_000)
      const first = await replay.storeEvent("a", message("1"))
      await replay.storeEvent("b", message("2"))
      await replay.storeEvent("a", message("3"))
      assert.deepStrictEqual(await replayed(replay, first), ["3"])
      assert.strictEqual(await replay.getStreamIdForEventId(first), "a")
      assert.deepStrictEqual(await replayed(replay, "unknown"), [])
    }),
  )

  it.effect("forgets the oldest beyond its count or its bytes, never the newest", () =>
    Effect.promise(async () => {
      const few = new Replay(2, 10_000)
      const ids = [
        await few.storeEvent("a", message("1")),
        await few.storeEvent("a", message("2")),
        await few.storeEvent("a", message("3")),
      ]
      assert.strictEqual(await few.getStreamIdForEventId(ids[0] ?? ""), undefined)
      assert.strictEqual(await few.getStreamIdForEventId(ids[1] ?? ""), "a")
      const small = new Replay(100, 3_000)
      const large = [await small.storeEvent("a", message("x".repeat(2_000))), await small.storeEvent("a", message("y".repeat(2_000)))]
      assert.strictEqual(await small.getStreamIdForEventId(large[0] ?? ""), undefined)
      assert.strictEqual(await small.getStreamIdForEventId(large[1] ?? ""), "a")
      const huge = await small.storeEvent("a", message("z".repeat(10_000)))
      assert.strictEqual(await small.getStreamIdForEventId(huge), "a")
    }),
  )
})

import { assert, describe, it } from "vitest"
import { makeTurns } from "../../src/mcp/Turns.ts"

describe("turns", () => {
  it("let the first call begin at once, and also one that comes alone later", async () => {
    const turn = makeTurns()
    assert.strictEqual(turn(), undefined)
    await new Promise(setImmediate)
    assert.strictEqual(turn(), undefined)
  })

  it("give each of many a turn of the event loop, in their order, with others in between", async () => {
    const turn = makeTurns()
    const order: Array<string> = []
    const calls = [1, 2, 3, 4].map(async (n) => {
      await turn()
      order.push(`call ${n}`)
      setImmediate(() => order.push(`after ${n}`))
    })
    await Promise.all(calls)
    await new Promise(setImmediate)
    assert.deepStrictEqual(order, ["call 1", "call 2", "after 1", "call 3", "after 2", "call 4", "after 3", "after 4"])
  })
})

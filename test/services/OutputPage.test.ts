import { assert, describe, it } from "@effect/vitest"
import { completeLength, cursorAt, follow, headAndTail, headPart, indexOf, offsetOf, tailPart } from "../../src/services/OutputPage.ts"

const bytes = (text: string) => new TextEncoder().encode(text)
const text = "aé€😀z"

describe("OutputPage", () => {
  it("leaves an incomplete character for the next page, wherever it is cut", () => {
    const all = bytes(text)
    for (let cut = 0; cut <= all.length; cut++) {
      const first = follow(all.subarray(0, cut), 0, true)
      const rest = follow(all.subarray(first.end), first.end, false)
      assert.strictEqual(first.text + rest.text, text)
      assert.strictEqual(rest.end, all.length)
      assert.isFalse(first.text.includes("\ufffd"))
    }
  })

  it("shows an incomplete character when no more bytes come", () => {
    const page = follow(bytes("€").subarray(0, 2), 0, false)
    assert.deepStrictEqual([page.text, page.end], ["\ufffd", 2])
  })

  it("replaces invalid bytes and counts them exactly", () => {
    const page = follow(Uint8Array.of(0x61, 0xff, 0xc0, 0x62), 7, true)
    assert.deepStrictEqual([page.text, page.end], ["a\ufffd\ufffdb", 11])
  })

  it("does not hold back bytes that can never be a character", () => {
    assert.strictEqual(completeLength(Uint8Array.of(0x80, 0x80, 0x80, 0x80)), 4)
    assert.strictEqual(completeLength(Uint8Array.of(0x61, 0xff)), 2)
  })

  it("keeps a byte order mark", () => {
    assert.strictEqual(follow(bytes("\ufeffa"), 0, false).text, "\ufeffa")
  })

  it("counts exactly what it leaves out between head and tail, and splits no character there", () => {
    const all = bytes("€".repeat(100))
    const page = headAndTail(headPart(all.subarray(0, 32), 0), tailPart(all.subarray(268), 268, false), 0)
    const [head, tail] = page.text.split(/\n\[.*\]\n/u)
    assert.strictEqual(head, "€".repeat(10))
    assert.strictEqual(tail, "€".repeat(10))
    assert.deepStrictEqual([page.gap, page.omitted, page.end], [30, 240, 300])
    assert.include(page.text, '240 bytes left out here; read_process with cursor "30"')
  })

  it("finds a text, also where its beginning is repeated", () => {
    assert.strictEqual(indexOf(bytes("aaab"), bytes("aab")), 1)
    assert.strictEqual(indexOf(bytes("abc"), bytes("cd")), -1)
    assert.strictEqual(indexOf(bytes("x€"), bytes("€")), 1)
    assert.strictEqual(indexOf(bytes(""), bytes("a")), -1)
  })

  it("knows its own cursors and no others", () => {
    assert.strictEqual(offsetOf(cursorAt(1234)), 1234)
    for (const wrong of ["", "-1", "1.5", "1e3", " 1", "99999999999999999", "proc_1"]) assert.isUndefined(offsetOf(wrong))
  })
})

import { assert, describe, it } from "@effect/vitest"
import { cleanView } from "../../src/services/CleanView.ts"

const encode = (text: string) => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const cleaned = (text: string) => decode(cleanView(encode(text), false).bytes)

describe("cleanView", () => {
  it.each([
    ["plain\ntext\n", "plain\ntext\n"],
    ["10%\r50%\r100%\ndone\n", "100%\ndone\n"],
    ["a\r\nb\r\n", "a\nb\n"],
    ["kept\r", "kept"],
    ["kept\r\u001b[K\n", "kept\n"],
    ["long line\rx\n", "x\n"],
    ["\u001b[1;31mred\u001b[0m \u001b[38;5;12mblue\u001b[m\n", "red blue\n"],
    ["\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\\n", "alink\n"],
    ["\u001b(Ba\u001b=b\u001bMc\n", "abc\n"],
    ["ab\bc€\bx\n", "acx\n"],
    ["\u0007bell\u0000\u000b\u007f\ttab\n", "bell\ttab\n"],
    ["broken \u001b[", "broken ["],
    ["a\u001b[31", "a[31"],
  ])("%j is seen as %j", (given, seen) => assert.strictEqual(cleaned(given), seen))

  it("takes an output in pieces cut anywhere, and shows the same", () => {
    const all = encode("€ \u001b[32mgreen\u001b[0m\r\nnext\u001b]0;title\u0007 line 😀\n")
    for (let cut = 0; cut <= all.length; cut++) {
      const first = cleanView(all.subarray(0, cut), true)
      const rest = cleanView(all.subarray(first.taken), false)
      assert.strictEqual(decode(first.bytes) + decode(rest.bytes), "€ green\nnext line 😀\n", `cut at ${cut}`)
    }
  })

  it("knows for each byte where it comes from", () => {
    const { bytes, origins } = cleanView(encode("1%\r2%\n\u001b[1mx"), false)
    assert.strictEqual(decode(bytes), "2%\nx")
    assert.deepStrictEqual([...origins], [3, 4, 5, 10])
  })

  it("does not wait for the end of a code for ever", () => {
    const { bytes, taken } = cleanView(encode(`\u001b]0;${"x".repeat(5000)}`), true)
    assert.deepStrictEqual([bytes.length, taken], [5003, 5004])
  })
})

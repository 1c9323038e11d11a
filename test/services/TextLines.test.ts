/** Bytes as lines and back, wherever they lie in memory: what is compared or skipped in words must not show. */
import { assert, describe, it } from "@effect/vitest"
import { commonEnd, commonStart, contentEnd, decodedLines, sameBytes, textLines } from "../../src/services/TextLines.ts"
import { Dice } from "../support/PatchCases.ts"

/** The same bytes at another place of a larger buffer. */
const shifted = (bytes: Uint8Array, offset: number): Uint8Array => {
  const room = new Uint8Array(bytes.length + offset + 8).fill(10)
  room.set(bytes, offset)
  return room.subarray(offset, offset + bytes.length)
}

const randomBytes = (dice: Dice, limit: number): Uint8Array =>
  Uint8Array.from({ length: dice.below(limit) }, () =>
    dice.pick([10, 13, 13, 9, 0, 0x0b, 0x61, 0x7f, 0x80, 0x8a, 0x8d, 0xef, 0xbb, 0xbf, 0xff]),
  )

describe("lines of bytes", () => {
  it("end at CR LF, LF and lone CR, at every alignment", () => {
    for (let seed = 1; seed <= 3_000; seed++) {
      const dice = new Dice(seed)
      const bytes = randomBytes(dice, 60)
      const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
      const text = Buffer.from(bytes.subarray(hasMark ? 3 : 0)).toString("latin1")
      const wanted = text.match(/[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$/gu) ?? []
      const offset = dice.below(8)
      const file = textLines(shifted(bytes, offset))
      const found = Array.from({ length: file.count }, (_, index) =>
        Buffer.from(file.bytes.subarray(file.starts[index], file.starts[index + 1])).toString("latin1"),
      )
      assert.deepStrictEqual(found, [...wanted], `seed ${seed}, offset ${offset}`)
      const contents = found.map((_, index) =>
        Buffer.from(file.bytes.subarray(file.starts[index], contentEnd(file, index))).toString("latin1"),
      )
      assert.deepStrictEqual(
        contents,
        wanted.map((line) => line.replace(/[\r\n]+$/u, "")),
        `seed ${seed}`,
      )
      assert.strictEqual(decodedLines(file).length, file.count, `seed ${seed}`)
      assert.strictEqual(file.finalNewline, text === "" || /[\r\n]$/u.test(text), `seed ${seed}`)
    }
  })

  it("have the ending that most of them have", () => {
    const endingOf = (text: string) => textLines(new TextEncoder().encode(text)).ending
    const wanted: ReadonlyArray<readonly [string, string]> = [
      ["", "\n"],
      ["a", "\n"],
      ["a\r", "\r"],
      ["a\rb", "\r"],
      ["a\rb\rc\n", "\n"],
      ["a\nb\r\n", "\n"],
      ["a\r\nb\n", "\r\n"],
      ["a\nb\r\nc\r\n", "\r\n"],
    ]
    for (const [text, ending] of wanted) assert.strictEqual(endingOf(text), ending, JSON.stringify(text))
  })
})

describe("two contents", () => {
  it("are compared from both ends, at every alignment and over more than one block", () => {
    for (let seed = 1; seed <= 300; seed++) {
      const dice = new Dice(seed)
      const length = dice.chance(10) ? 150_000 + dice.below(9) : dice.below(80)
      const a = Uint8Array.from({ length }, () => dice.below(3))
      const cut = dice.below(length + 1)
      const inserted = Uint8Array.from({ length: dice.below(12) }, () => 7)
      const b = new Uint8Array([...a.subarray(0, cut), ...inserted, ...a.subarray(cut)])
      const [one, other] = [shifted(a, dice.below(16)), shifted(b, dice.below(16))]
      assert.strictEqual(commonStart(one, other), inserted.length === 0 ? length : cut, `seed ${seed}`)
      assert.strictEqual(commonEnd(one, other, length), inserted.length === 0 ? length : length - cut, `seed ${seed}`)
      assert.strictEqual(commonEnd(one, other, Math.min(5, length)), Math.min(5, inserted.length === 0 ? length : length - cut))
      assert.strictEqual(sameBytes(one, other), inserted.length === 0, `seed ${seed}`)
      assert.isTrue(sameBytes(one, shifted(a, 3)))
    }
  })
})

/**
 * Pages of output: which bytes of a spool a result shows, and as what text. Pure. Offsets count bytes, so cursors stay
 * exact whatever the bytes are; a page never ends inside a character unless the output does.
 */

/** What a result shows of a spool. */
export interface OutputPage {
  readonly text: string
  /** Offset behind the last byte shown. */
  readonly end: number
  /** Bytes left out, from `gap` on. */
  readonly omitted: number
  readonly gap: number
  /** How many of those left out can still be read. */
  readonly readable: number
}

/** A byte order mark is output like any other; invalid bytes become U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes)

/**
 * The bytes from `offset` on as one page. With `more` bytes to come, those of a last incomplete character are left for
 * the next page.
 */
export const follow = (bytes: Uint8Array, offset: number, more: boolean): OutputPage => {
  const length = more ? completeLength(bytes) : bytes.length
  return page(textOf(bytes.subarray(0, length)), offset + length)
}

export const page = (text: string, end: number): OutputPage => ({ text, end, omitted: 0, gap: end, readable: 0 })

/** A part of an output: the text, and the offsets of its first byte and behind its last. */
export interface Part {
  readonly text: string
  readonly from: number
  readonly to: number
}

/** Beginning and end of an output; between them stands how much was left out, of which `lost` bytes are gone for good. */
export const headAndTail = (head: Part, tail: Part, lost: number): OutputPage => {
  const omitted = tail.from - head.to
  const readable = omitted - lost
  const how = readable > 0 ? `; read_process with cursor "${cursorAt(head.to)}" returns ${lost > 0 ? `${readable} of them` : "them"}` : ""
  const gone = lost > 0 ? `${how}; ${lost} are gone, since the output limit was reached` : how
  const text = omitted > 0 ? `${head.text}\n[${omitted} bytes left out here${gone}]\n${tail.text}` : head.text + tail.text
  return { text, end: tail.to, omitted, gap: head.to, readable }
}

/** What comes after a place that is gone, with the count of what was there. */
export const afterLoss = (lost: number, rest: OutputPage): OutputPage => ({
  ...rest,
  text: `[${lost} bytes are gone here, since the output limit was reached]\n${rest.text}`,
  omitted: rest.omitted + lost,
})

/** The longest beginning that splits no character. */
export const headPart = (bytes: Uint8Array, offset: number): Part => {
  const length = completeLength(bytes)
  return { text: textOf(bytes.subarray(0, length)), from: offset, to: offset + length }
}

/** The longest end that splits no character. */
export const tailPart = (bytes: Uint8Array, offset: number, more: boolean): Part => {
  const skipped = leadingPartial(bytes)
  const last = follow(bytes.subarray(skipped), offset + skipped, more)
  return { text: last.text, from: offset + skipped, to: last.end }
}

/** Length without the bytes of a character whose rest is missing. At most three bytes are cut. */
export const completeLength = (bytes: Uint8Array): number => {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!
    if (isContinuation(byte)) continue
    return sequenceLength(byte) > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}

/** How many bytes at the start belong to a character that began before. At most three. */
export const leadingPartial = (bytes: Uint8Array): number => {
  let count = 0
  while (count < Math.min(3, bytes.length) && isContinuation(bytes[count]!)) count++
  return count
}

const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80

const sequenceLength = (lead: number): number => {
  if (lead >= 0xf0) return lead <= 0xf4 ? 4 : 1
  if (lead >= 0xe0) return 3
  return lead >= 0xc2 ? 2 : 1
}

/** Where `wanted` first stands in `bytes`; -1 when it does not. `wanted` is not empty. */
export const indexOf = (bytes: Uint8Array, wanted: Uint8Array): number => {
  const last = bytes.length - wanted.length
  let at = bytes.indexOf(wanted[0]!)
  while (at >= 0 && at <= last) {
    if (wanted.every((byte, index) => bytes[at + index] === byte)) return at
    at = bytes.indexOf(wanted[0]!, at + 1)
  }
  return -1
}

/** The cursor of a byte offset. */
export const cursorAt = (offset: number): string => String(offset)

/** The byte offset of a cursor; undefined when no result ever had it. */
export const offsetOf = (cursor: string): number | undefined => {
  const offset = /^\d{1,16}$/u.test(cursor) ? Number(cursor) : Number.NaN
  return Number.isSafeInteger(offset) ? offset : undefined
}

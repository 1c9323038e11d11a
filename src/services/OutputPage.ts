/**
 * Pages of output: which bytes of a spool a result shows, and as what text. Pure. Offsets count bytes, so cursors stay
 * exact whatever the bytes are; a page never ends inside a character unless the output does.
 */

/** What a result shows of a spool. */
export interface OutputPage {
  readonly text: string
  /** Offset behind the last byte shown. */
  readonly end: number
  /** Bytes left out between head and tail, from `gap` on. */
  readonly omitted: number
  readonly gap: number
}

/** A byte order mark is output like any other; invalid bytes become U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/**
 * The bytes from `offset` on as one page. With `more` bytes to come, those of a last incomplete character are left for
 * the next page.
 */
export const follow = (bytes: Uint8Array, offset: number, more: boolean): OutputPage => {
  const length = more ? completeLength(bytes) : bytes.length
  return { text: decoder.decode(bytes.subarray(0, length)), end: offset + length, omitted: 0, gap: offset + length }
}

/** Beginning and end of an output, with the offsets they start at; between them stands how much was left out. */
export const headAndTail = (head: Uint8Array, headOffset: number, tail: Uint8Array, tailOffset: number, more: boolean): OutputPage => {
  const kept = completeLength(head)
  const gap = headOffset + kept
  const skipped = leadingPartial(tail)
  const last = follow(tail.subarray(skipped), tailOffset + skipped, more)
  const omitted = tailOffset + skipped - gap
  const seam = `\n[${omitted} bytes left out here; read_process with cursor "${cursorAt(gap)}" returns them]\n`
  return { text: decoder.decode(head.subarray(0, kept)) + seam + last.text, end: last.end, omitted, gap }
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
const leadingPartial = (bytes: Uint8Array): number => {
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

/**
 * A file's bytes seen as lines. Nothing is decoded to split or to change them, so every byte that no change names
 * survives: mixed line endings, a byte order mark, other encodings, a missing final newline.
 */
import { Result } from "effect"

/** A line ends at CR LF, LF or a lone CR; the last may end at the end of the file. */
export interface TextLines {
  readonly bytes: Uint8Array
  readonly count: number
  /** Where each line starts, and the end of the last one. The first starts behind a byte order mark, unless that is text. */
  readonly starts: Uint32Array
  /** The line ending that added lines get. */
  readonly ending: "\n" | "\r\n" | "\r"
  /** False where the last line has no line ending. An empty file counts as ended. */
  readonly finalNewline: boolean
}

const LF = 10
const CR = 13

/** With `markIsText` a byte order mark is the first character of the first line, as diff programs show it. */
export const textLines = (bytes: Uint8Array, markIsText = false): TextLines => {
  const first = !markIsText && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
  // Four bytes at once, where they lie so in memory.
  const words = bytes.byteOffset % 4 === 0 ? new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2) : new Int32Array()
  let starts = new Uint32Array(64 + (bytes.length >> 5))
  starts[0] = first
  let count = 0
  let lf = 0
  let crlf = 0
  let firstEnding: "\n" | "\r\n" | undefined
  for (let at = first; at < bytes.length; at++) {
    if (at % 4 === 0) at = 4 * nextControl(words, at / 4)
    const byte = bytes[at]
    if (byte !== LF && byte !== CR) continue
    if (byte === LF) {
      lf++
      firstEnding ??= "\n"
    } else if (bytes[at + 1] === LF) {
      crlf++
      at++
      firstEnding ??= "\r\n"
    }
    // Room for this line's end, and for that of a last line without one.
    if (count + 2 >= starts.length) starts = doubled(starts)
    starts[++count] = at + 1
  }
  const finalNewline = starts[count] === bytes.length
  if (!finalNewline) starts[++count] = bytes.length
  // A lone CR is the file's ending only where it has no other; a draw goes to the one that comes first.
  const loneOr = count > 1 || (count === 1 && finalNewline) ? "\r" : "\n"
  const ending = lf === crlf ? (firstEnding ?? loneOr) : crlf > lf ? "\r\n" : "\n"
  return { bytes, count, starts: starts.subarray(0, count + 1), ending, finalNewline }
}

/** The first word from `word` on with a byte below 0x0e: others hold no line ending, and most words are like that. */
const nextControl = (words: Int32Array, word: number): number => {
  while (word < words.length) {
    const four = words[word] ?? 0
    if (((four - 0x0e0e0e0e) & ~four & 0x80808080) !== 0) break
    word++
  }
  return word
}

const doubled = (numbers: Uint32Array): Uint32Array<ArrayBuffer> => {
  const room = new Uint32Array(2 * numbers.length)
  room.set(numbers)
  return room
}

/** Where the content of line `index` ends, before its line ending. */
export const contentEnd = ({ bytes, starts }: TextLines, index: number): number => {
  const start = starts[index] ?? bytes.length
  const next = starts[index + 1] ?? bytes.length
  if (next === start) return next
  if (bytes[next - 1] === CR) return next - 1
  if (bytes[next - 1] !== LF) return next
  return next - 1 > start && bytes[next - 2] === CR ? next - 2 : next - 1
}

/** The content of all lines, decoded at once. Bytes that are not UTF-8 become U+FFFD. */
export const decodedLines = ({ bytes, count, starts }: TextLines): ReadonlyArray<string> => {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(starts[0] ?? 0))
  return text.split(/\r\n|\n|\r/u).slice(0, count)
}

/** The line, from 0, that a byte position lies in. */
export const lineAt = ({ starts }: TextLines, position: number): number => {
  let low = 0
  let high = starts.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((starts[middle] ?? 0) <= position) low = middle
    else high = middle - 1
  }
  return low
}

/** At line `at`, `remove` lines give way to `add`. */
export interface LineChange {
  readonly at: number
  readonly remove: number
  readonly add: ReadonlyArray<string>
}

/**
 * The file after changes that do not overlap. Added lines take the file's line ending. A new last line ends as the old
 * last one did, or as `finalNewline` says.
 */
export const applyChanges = (file: TextLines, changes: ReadonlyArray<LineChange>, finalNewline?: boolean): Uint8Array => {
  const { bytes, count, ending, starts } = file
  // Insertions stand before what is replaced at the same line; the sort keeps the order of hunks otherwise.
  const sorted = changes.toSorted((a, b) => a.at - b.at || Math.min(a.remove, 1) - Math.min(b.remove, 1))
  const encoder = new TextEncoder()
  const pieces: Array<Uint8Array> = []
  let copied = 0
  for (const { add, at, remove } of sorted) {
    const place = starts[at] ?? bytes.length
    pieces.push(bytes.subarray(copied, place))
    if (add.length > 0 && at === count && !file.finalNewline && place > copied) pieces.push(encoder.encode(ending))
    pieces.push(encoder.encode(add.map((line) => line + ending).join("")))
    copied = starts[at + remove] ?? bytes.length
  }
  pieces.push(bytes.subarray(copied))
  const last = sorted.at(-1)
  const lastIsNew = last !== undefined && last.at + last.remove === count && last.add.length > 0
  const oldLastStays = last === undefined || last.at + last.remove < count
  // A diff knows only LF as a line's end, and so says of every file of lone CRs that its last line has none.
  const told = ending === "\r" ? undefined : finalNewline
  const wanted = told ?? (lastIsNew ? file.finalNewline || last.add.at(-1) === "" : undefined)
  if (wanted === false) return withoutFinalEnding(joined(pieces))
  if (wanted === true && oldLastStays && !file.finalNewline) pieces.push(encoder.encode(ending))
  return joined(pieces)
}

/** The pieces one after the other. */
export const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

const withoutFinalEnding = (bytes: Uint8Array): Uint8Array => {
  const ends = bytes.at(-1) === LF ? (bytes.at(-2) === CR ? 2 : 1) : bytes.at(-1) === CR ? 1 : 0
  return bytes.subarray(0, bytes.length - ends)
}

/** What kind of text this is when it is none whose lines can be found byte by byte. */
export const foreignEncoding = (bytes: Uint8Array): string | undefined => {
  const [a, b, c, d] = bytes
  if (a === 0xff && b === 0xfe) return bytes.length >= 4 && c === 0 && d === 0 ? "UTF-32 text" : "UTF-16 text (little endian)"
  return a === 0xfe && b === 0xff ? "UTF-16 text (big endian)" : undefined
}

/** One UTF-16 unit for each byte, so that string search and comparison work on bytes. */
export const toBinary = (bytes: Uint8Array): string => {
  const parts: Array<string> = []
  for (let at = 0; at < bytes.length; at += 8192) parts.push(Reflect.apply(String.fromCharCode, undefined, bytes.subarray(at, at + 8192)))
  return parts.join("")
}

/** The bytes of a text that `toBinary` made. */
export const fromBinary = (binary: string): Uint8Array => {
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at)
  return bytes
}

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => a === b || (a.length === b.length && commonStart(a, b) === a.length)

/** How many bytes two contents have in common at the start. */
export const commonStart = (a: Uint8Array, b: Uint8Array): number => {
  const shorter = Math.min(a.length, b.length)
  let at = 0
  // Eight bytes at once where they lie so in memory.
  if (a.byteOffset % 8 === 0 && b.byteOffset % 8 === 0) {
    const count = shorter >> 3
    const [eightsOfA, eightsOfB] = [a, b].map(({ buffer, byteOffset }) => new BigInt64Array(buffer, byteOffset, count))
    let eight = 0
    if (eightsOfA !== undefined && eightsOfB !== undefined) while (eight < count && eightsOfA[eight] === eightsOfB[eight]) eight++
    at = 8 * eight
  }
  while (at < shorter && a[at] === b[at]) at++
  return at
}

const block = 1 << 16

/** How many bytes two contents have in common at the end, at most `limit`. */
export const commonEnd = (a: Uint8Array, b: Uint8Array, limit: number): number => {
  let count = 0
  // A copy lies in memory as the comparison likes it, wherever the original ends.
  const copyOf = (bytes: Uint8Array) => new Uint8Array(bytes.subarray(bytes.length - count - block, bytes.length - count))
  while (count + block <= limit && sameBytes(copyOf(a), copyOf(b))) count += block
  while (count < limit && a[a.length - 1 - count] === b[b.length - 1 - count]) count++
  return count
}

/** Whether the content is UTF-8 throughout. */
export const isUtf8 = (bytes: Uint8Array): boolean =>
  Result.isSuccess(Result.try(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes)))

/**
 * What a file's bytes say when they pass by once: how its lines end, how many there are, whether it is UTF-8 text. The
 * part that was asked for is kept on the way. Pure.
 */
import type { LineEnding } from "../schema/Files.ts"

/** Where the wanted part begins, and how many bytes of it to keep. */
export interface Wanted {
  readonly from: { readonly line: number } | { readonly byte: number }
  readonly bytes: number
  /** The byte that ends a line: LF, or CR in files that have no LF. */
  readonly lineBreak: number
}

export interface Survey {
  readonly size: number
  /** The first bytes, enough to tell kinds of files apart. */
  readonly head: Uint8Array
  readonly bom: boolean
  readonly format: "utf-8" | "utf-16le" | "utf-16be" | "binary" | "other"
  readonly eol: LineEnding
  readonly totalLines: number
  /** The only line ends are CRs: lines must be counted by those. */
  readonly carriageReturnsOnly: boolean
  readonly kept: {
    readonly bytes: Uint8Array
    /** Offset of the first byte; the size of the file when the wanted part is behind its end. */
    readonly start: number
    /** Number of the line it lies in, from 1. */
    readonly line: number
  }
}

export const LF = 10
export const CR = 13
const headBytes = 16

export interface RunningSurvey {
  readonly push: (bytes: Uint8Array) => void
  readonly finish: () => Survey
}

export const surveyText = (wanted: Wanted): RunningSurvey => {
  const breaksWanted = "line" in wanted.from ? wanted.from.line - 1 : Number.POSITIVE_INFINITY
  const keep = makeKeeper(wanted.bytes)
  const decoder = new TextDecoder("utf-8", { fatal: true })
  const counts = { lf: 0, cr: 0, crlf: 0 }
  let start = "byte" in wanted.from ? wanted.from.byte : breaksWanted === 0 ? 0 : undefined
  let breaksBefore = 0
  let size = 0
  let head: Uint8Array = new Uint8Array(0)
  let last = -1
  let nul = false
  let valid = true

  const decode = (bytes: Uint8Array, more: boolean): string => {
    try {
      return decoder.decode(bytes, { stream: more })
    } catch {
      valid = false
      return ""
    }
  }

  const push = (bytes: Uint8Array): void => {
    if (bytes.length === 0) return
    if (head.length < headBytes) head = concat(head, bytes.subarray(0, headBytes - head.length))
    const breaksAhead = wanted.lineBreak === LF ? counts.lf : counts.cr
    // A line end is one byte in UTF-8, and counting in text is several times faster than counting in bytes.
    if (valid) countLineEnds(decode(bytes, true), counts)
    if (last === CR && bytes[0] === LF) counts.crlf++
    if (!nul) nul = bytes.includes(0)
    const breaks = wanted.lineBreak === LF ? counts.lf : counts.cr
    if (start === undefined && breaks >= breaksWanted) start = size + endOfLine(bytes, wanted.lineBreak, breaksWanted - breaksAhead)
    if (start !== undefined && start < size + bytes.length) {
      if (start >= size)
        breaksBefore = "line" in wanted.from ? breaksWanted : breaksAhead + countBytes(bytes.subarray(0, start - size), wanted.lineBreak)
      keep.push(bytes.subarray(Math.max(0, start - size)))
    }
    last = bytes[bytes.length - 1]!
    size += bytes.length
  }

  const finish = (): Survey => {
    if (valid) decode(new Uint8Array(0), false)
    const { lf, cr, crlf } = counts
    const breaks = wanted.lineBreak === LF ? lf : cr
    const bom = startsWith(head, [0xef, 0xbb, 0xbf])
    const behindEnd = start === undefined || start >= size
    const totalLines = breaks + (size > (bom ? 3 : 0) && last !== wanted.lineBreak ? 1 : 0)
    return {
      size,
      head,
      bom,
      format: formatOf(head, nul, valid),
      eol: endingOf(lf - crlf, crlf, cr - crlf),
      totalLines,
      carriageReturnsOnly: lf === 0 && cr > 0,
      kept: {
        bytes: keep.bytes(),
        start: behindEnd ? size : (start ?? size),
        line: !behindEnd ? breaksBefore + 1 : "line" in wanted.from ? wanted.from.line : Math.max(1, totalLines),
      },
    }
  }
  return { push, finish }
}

export const startsWith = (bytes: Uint8Array, prefix: ReadonlyArray<number>): boolean => prefix.every((byte, at) => bytes[at] === byte)

const formatOf = (head: Uint8Array, nul: boolean, valid: boolean): Survey["format"] => {
  if (startsWith(head, [0xff, 0xfe])) return "utf-16le"
  if (startsWith(head, [0xfe, 0xff])) return "utf-16be"
  if (nul) return "binary"
  return valid ? "utf-8" : "other"
}

const endingOf = (lf: number, crlf: number, cr: number): LineEnding => {
  const kinds = (
    [
      ["lf", lf],
      ["crlf", crlf],
      ["cr", cr],
    ] as const
  ).filter(([, number]) => number > 0)
  if (kinds.length > 1) return "mixed"
  return kinds[0]?.[0] ?? "none"
}

const countLineEnds = (text: string, counts: { lf: number; cr: number; crlf: number }): void => {
  counts.lf += countText(text, "\n")
  if (!text.includes("\r")) return
  counts.cr += countText(text, "\r")
  counts.crlf += countText(text, "\r\n")
}

const countText = (text: string, wanted: string): number => {
  let found = 0
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) found++
  return found
}

const countBytes = (bytes: Uint8Array, wanted: number): number => {
  let found = 0
  for (let at = bytes.indexOf(wanted); at !== -1; at = bytes.indexOf(wanted, at + 1)) found++
  return found
}

/** The offset behind the `number`th line end. */
const endOfLine = (bytes: Uint8Array, lineBreak: number, number: number): number => {
  let end = 0
  for (let line = 0; line < number; line++) end = bytes.indexOf(lineBreak, end) + 1
  return end
}

/** Keeps the first `limit` of the bytes it is given. The first piece is kept as it is, without a copy. */
const makeKeeper = (limit: number) => {
  const pieces: Array<Uint8Array> = []
  let length = 0
  return {
    push: (bytes: Uint8Array): void => {
      if (length >= limit || bytes.length === 0) return
      const piece = bytes.subarray(0, limit - length)
      pieces.push(piece)
      length += piece.length
    },
    bytes: (): Uint8Array => (pieces.length === 1 ? pieces[0]! : pieces.reduce(concat, new Uint8Array(0))),
  }
}

const concat = (left: Uint8Array, right: Uint8Array): Uint8Array => {
  const both = new Uint8Array(left.length + right.length)
  both.set(left)
  both.set(right, left.length)
  return both
}

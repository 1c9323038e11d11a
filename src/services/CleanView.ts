/**
 * Output as a person would have seen it in the end: a line that was written over with carriage returns shows its last
 * state, and control codes are gone. What was written stays what it was; this is a view of it. Pure, on bytes, so that
 * every byte shown knows the offset it comes from.
 */
import { completeLength } from "./OutputPage.ts"

export interface CleanView {
  readonly bytes: Uint8Array
  /** For each byte shown, where it stands in what was given. */
  readonly origins: Uint32Array
  /** How much of what was given the view stands for. */
  readonly taken: number
}

const BACKSPACE = 0x08
const TAB = 0x09
const NEWLINE = 0x0a
const RETURN = 0x0d
const ESCAPE = 0x1b
const DELETE = 0x7f

/** A control code longer than this is no control code. */
const LONGEST_CODE = 4096

/** With `more` bytes to come, a control code, a character or a carriage return at the end is left for the next view. */
export const cleanView = (given: Uint8Array, more: boolean): CleanView => {
  const limit = more ? completeLength(given) : given.length
  const bytes = new Uint8Array(limit)
  const origins = new Uint32Array(limit)
  let length = 0
  let lineStart = 0
  let isReturned = false
  let index = 0
  while (index < limit) {
    const byte = given[index]!
    if (byte === ESCAPE) {
      const end = codeEnd(given, index, limit)
      if (end === undefined && more && limit - index < LONGEST_CODE) break
      index = end ?? index + 1
      continue
    }
    if (byte === RETURN) {
      if (more && index + 1 === limit) break
      isReturned = given[index + 1] !== NEWLINE
    } else if (byte === BACKSPACE) {
      if (length > lineStart) length = characterStart(bytes, length - 1)
    } else if (byte === NEWLINE || byte === TAB || (byte >= 0x20 && byte !== DELETE)) {
      // Only what is written after the return takes the place of the line.
      if (isReturned && byte !== NEWLINE) length = lineStart
      isReturned = false
      bytes[length] = byte
      origins[length] = index
      length += 1
      if (byte === NEWLINE) lineStart = length
    }
    index += 1
  }
  return { bytes: bytes.subarray(0, length), origins: origins.subarray(0, length), taken: index }
}

/** Behind a code that starts with ESC; undefined when its end is not there. */
const codeEnd = (given: Uint8Array, start: number, limit: number): number | undefined => {
  const kind = given[start + 1]
  if (start + 1 >= limit || kind === undefined) return undefined
  // CSI: parameters and intermediates, then one final byte.
  if (kind === 0x5b) return endOf(given, start + 2, limit, (byte) => byte >= 0x40 && byte <= 0x7e)
  // OSC, DCS, SOS, PM, APC: a text up to BEL or ST.
  if ([0x5d, 0x50, 0x58, 0x5e, 0x5f].includes(kind)) {
    for (let at = start + 2; at < limit; at++) {
      if (given[at] === 0x07) return at + 1
      if (given[at] === ESCAPE && given[at + 1] === 0x5c) return at + 2
    }
    return undefined
  }
  // Others: intermediates, then one final byte.
  return endOf(given, start + 1, limit, (byte) => byte >= 0x30)
}

const endOf = (given: Uint8Array, start: number, limit: number, isFinal: (byte: number) => boolean): number | undefined => {
  for (let at = start; at < limit; at++) if (isFinal(given[at]!)) return at + 1
  return undefined
}

const characterStart = (bytes: Uint8Array, last: number): number => {
  let start = last
  while (start > 0 && (bytes[start]! & 0xc0) === 0x80) start--
  return start
}

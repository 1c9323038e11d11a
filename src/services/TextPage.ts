/** Cuts a page out of UTF-8 bytes: at a line end where one is in reach, else between two characters. Pure. */

export interface PageLimits {
  readonly cut: "lines" | "characters"
  /** Lines at most; undefined takes as many as fit into the bytes. */
  readonly lines: number | undefined
  readonly bytes: number
  readonly lineBreak: number
  /** Nothing of the file follows the bytes given. */
  readonly atEnd: boolean
}

/** How long a page is; at least one character, so that a reader always gets on. */
export const pageLength = (bytes: Uint8Array, limits: PageLimits): number => {
  const reach = Math.min(bytes.length, limits.bytes)
  const isRest = reach === bytes.length && limits.atEnd
  if (limits.cut === "characters") return isRest ? reach : characterEnd(bytes, reach)
  if (isRest && limits.lines === undefined) return reach
  if (limits.lines === undefined) return bytes.lastIndexOf(limits.lineBreak, reach - 1) + 1 || characterEnd(bytes, reach)
  let end = 0
  for (let line = 0; line < limits.lines; line++) {
    const at = bytes.indexOf(limits.lineBreak, end)
    if (at === -1 || at >= reach) return isRest ? reach : end || characterEnd(bytes, reach)
    end = at + 1
  }
  return end
}

/** The start of the character that the byte at `at` belongs to. */
export const characterStart = (bytes: Uint8Array, at: number): number => {
  let start = at
  while (start > 0 && at - start < 3 && isContinuation(bytes[start])) start--
  return start
}

const characterEnd = (bytes: Uint8Array, reach: number): number => {
  const before = characterStart(bytes, reach)
  if (before > 0) return before
  let end = 1
  while (isContinuation(bytes[end])) end++
  return Math.min(end, bytes.length)
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

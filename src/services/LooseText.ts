/**
 * How two lines may differ and still be taken for the same one: four steps, from exact to typographic look-alikes. The
 * trim set is Unicode White_Space, which is not what JavaScript's `trim` removes.
 */

/** The steps behind exact equality, in the order they are tried. */
export const steps = ["trailing white space", "white space at both ends", "dashes, quotes and spaces"] as const
/** 0 is exact; above it, index + 1 of `steps`. */
export type Step = 0 | 1 | 2 | 3
export const allSteps: ReadonlyArray<Step> = [0, 1, 2, 3]

/** What must be equal of two lines at a step; undefined for a line that is not UTF-8, which only fits exactly. */
export const keyOf = (line: string, step: Step): string | undefined => {
  if (line.includes("\ufffd")) return undefined
  switch (step) {
    case 0:
      return line
    case 1:
      return trimmed(line, false)
    case 2:
      return trimmed(line, true)
    case 3:
      return folded(trimmed(line, true))
  }
}

const isSpace = (unit: number): boolean =>
  unit === 0x20 ||
  (unit >= 0x09 && unit <= 0x0d) ||
  (unit >= 0x85 &&
    (unit === 0x85 ||
      unit === 0xa0 ||
      unit === 0x1680 ||
      (unit >= 0x2000 && unit <= 0x200a) ||
      unit === 0x2028 ||
      unit === 0x2029 ||
      unit === 0x202f ||
      unit === 0x205f ||
      unit === 0x3000))

const trimmed = (line: string, bothEnds: boolean): string => {
  let start = 0
  let end = line.length
  while (end > 0 && isSpace(line.charCodeAt(end - 1))) end--
  if (bothEnds) while (start < end && isSpace(line.charCodeAt(start))) start++
  return line.slice(start, end)
}

const dashes = /[\p{Pd}\u2212]/gu
const singleQuotes = /[\u2018-\u201b\u2039\u203a\uff07]/gu
const doubleQuotes = /["\u00ab\u00bb\u201c-\u201f\u2e42\u301d-\u301f\uff02]/gu
const spaces = /\p{Zs}/gu
const ascii = /^[\x00-\x7f]*$/u

const folded = (line: string): string =>
  ascii.test(line) ? line : line.replace(dashes, "-").replace(singleQuotes, "'").replace(doubleQuotes, '"').replace(spaces, " ")

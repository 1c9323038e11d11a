/** Finds a run of lines (or of bytes) in many, in time that grows with their number and not with how alike they are. */

/** Where the keyed lines can only begin, told by the rarest of them; undefined where none of them has a key. */
export const startsOf = (
  keys: ReadonlyArray<string | undefined>,
  linesByKey: ReadonlyMap<string, ReadonlyArray<number>>,
): ReadonlyArray<number> | undefined => {
  let starts: { readonly lines: ReadonlyArray<number>; readonly index: number } | undefined
  for (const [index, key] of keys.entries()) {
    if (key === undefined) continue
    const lines = linesByKey.get(key) ?? []
    if (starts === undefined || lines.length < starts.lines.length) starts = { lines, index }
  }
  return starts?.lines.map((line) => line - starts.index)
}

/**
 * Every place of the wanted lines among `count` lines, overlapping ones too, by the method of Knuth, Morris and Pratt.
 * `fits` tells whether line `line` is the wanted line `index`; `wanted` tells which of those are the same.
 */
export const runsOf = (
  wanted: ArrayLike<string | number | undefined>,
  count: number,
  fits: (line: number, index: number) => boolean,
): ReadonlyArray<number> => {
  const resume = resumptions(wanted)
  const places: Array<number> = []
  let fitted = 0
  for (let line = 0; line < count; line++) {
    let isFit = fits(line, fitted)
    while (!isFit && fitted > 0) {
      fitted = resume[fitted - 1] ?? 0
      isFit = fits(line, fitted)
    }
    if (isFit) fitted++
    if (fitted < wanted.length) continue
    places.push(line + 1 - fitted)
    fitted = resume[fitted - 1] ?? 0
  }
  return places
}

/** After `n + 1` lines that fitted, how many of the last ones are also the first ones. */
const resumptions = (wanted: ArrayLike<string | number | undefined>): ReadonlyArray<number> => {
  const resume = [0]
  let fitted = 0
  for (let at = 1; at < wanted.length; at++) {
    while (fitted > 0 && wanted[at] !== wanted[fitted]) fitted = resume[fitted - 1] ?? 0
    if (wanted[at] === wanted[fitted]) fitted++
    resume.push(fitted)
  }
  return resume
}

/** Random files, random edits of them, and how each patch format writes such an edit. Everything follows from one seed. */

/** Numbers that follow from a seed (xorshift), so that a case can be run again. */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = Math.imul(seed + 1, 0x9e3779b1) >>> 0 || 1
    for (let warm = 0; warm < 4; warm++) this.below(2)
  }

  below(limit: number): number {
    this.#state ^= this.#state << 13
    this.#state ^= this.#state >>> 17
    this.#state ^= this.#state << 5
    return (this.#state >>> 0) % limit
  }

  chance(oneIn: number): boolean {
    return this.below(oneIn) === 0
  }

  pick<A>(choices: ReadonlyArray<A>): A {
    return choices[this.below(choices.length)] as A
  }
}

export type Ending = "\n" | "\r\n" | "\r"

/** A line and what ends it; only a last line has no ending. */
export interface Line {
  readonly text: string
  readonly ending: Ending | ""
}

export interface TextFile {
  readonly mark: boolean
  readonly lines: ReadonlyArray<Line>
}

export const bytesOf = ({ lines, mark }: TextFile): Uint8Array =>
  new TextEncoder().encode((mark ? "\ufeff" : "") + lines.map(({ ending, text }) => text + ending).join(""))

const words = [
  "",
  "a",
  "b",
  "}",
  "  return x",
  "\tif (a) {",
  "-- dashes",
  "++ pluses",
  "@@ -1 +1 @@",
  "@@",
  "*** Begin Patch",
  "*** End Patch",
  "*** End of File",
  "*** Update File: f",
  "\\ No newline at end of file",
  "diff --git a/f b/f",
  "--- a/f",
  "+++ b/f",
  "trailing  ",
  "naïve — “quoted” text",
  "日本語 \u{1f600}",
  "nul \0 inside",
  "\u00a0indented\u3000",
  "$& $1 $$ `",
]

const endings: ReadonlyArray<ReadonlyArray<Ending>> = [["\n"], ["\n"], ["\r\n"], ["\r"], ["\n", "\r\n"], ["\n", "\n", "\r\n", "\r"]]

export const randomFile = (dice: Dice): TextFile => {
  const style = dice.pick(endings)
  const count = dice.below(dice.chance(10) ? 60 : 14)
  // Some files have lines of their own, some the same few over and over.
  const distinct = dice.below(4)
  const pool = dice.chance(3) ? words.slice(0, 4) : words
  const line = (index: number) => (dice.below(4) < distinct ? `${dice.pick(words)} ${index}` : dice.pick(pool))
  const lines = Array.from({ length: count }, (_, index): Line => ({ text: line(index), ending: dice.pick(style) }))
  // A lone CR and the LF of a blank line would be one ending.
  for (const [index, { ending, text }] of lines.entries())
    if (text === "" && ending === "\n" && lines[index - 1]?.ending === "\r") lines[index] = { text: "not blank", ending }
  const last = lines.at(-1)
  const unended = last !== undefined && last.text !== "" && dice.chance(3)
  // Where endings differ, which of two equal lines is kept would show.
  const lastText = style.length > 1 ? "the last line" : last?.text
  return { mark: dice.chance(6), lines: unended ? [...lines.slice(0, -1), { text: lastText ?? "", ending: "" }] : lines }
}

/** What happens to each line of the old file, and what comes before it. */
export type Change =
  | { readonly kind: "keep"; readonly line: Line }
  | { readonly kind: "remove"; readonly line: Line }
  | { readonly kind: "add"; readonly text: string }

export const randomChanges = (dice: Dice, { lines }: TextFile): ReadonlyArray<Change> => {
  const changes: Array<Change> = []
  const rate = dice.pick([3, 8, 20])
  // A line that is removed and added again keeps its own ending; where endings differ, that would be another edit.
  const isMixed = new Set(lines.map(({ ending }) => ending)).size > 1
  const add = () => {
    for (let more = 1 + dice.below(2); more > 0; more--)
      changes.push({ kind: "add", text: dice.pick(words) + (isMixed || dice.chance(2) ? " new" : "") })
  }
  for (const line of lines) {
    if (dice.chance(rate)) add()
    changes.push(dice.chance(rate) ? { kind: "remove", line } : { kind: "keep", line })
  }
  if (lines.length === 0 || dice.chance(rate)) add()
  return changes
}

/** The ending that most lines have; a lone CR counts where there is no other, and a draw goes to the first. */
const dominant = (lines: ReadonlyArray<Line>): Ending => {
  const count = (wanted: Ending) => lines.filter(({ ending }) => ending === wanted).length
  if (count("\n") === count("\r\n"))
    return lines.find(({ ending }) => ending === "\n" || ending === "\r\n")?.ending || (count("\r") > 0 ? "\r" : "\n")
  return count("\n") > count("\r\n") ? "\n" : "\r\n"
}

/** The file that the changes are meant to make: kept lines as they are, added ones in the file's ending. */
export const changedFile = (file: TextFile, changes: ReadonlyArray<Change>): TextFile => {
  const ending = dominant(file.lines)
  const isEnded = file.lines.at(-1)?.ending !== ""
  const lines = changes.flatMap((change): ReadonlyArray<Line> => {
    if (change.kind === "remove") return []
    return [change.kind === "keep" ? change.line : { text: change.text, ending }]
  })
  const closed = lines.map((line, index) => (line.ending === "" && index < lines.length - 1 ? { ...line, ending } : line))
  const last = closed.at(-1)
  // A new last line ends as the old one did; an empty one without an ending would be no line.
  const lastIsNew = changes.findLast(({ kind }) => kind !== "remove")?.kind === "add" && changes.at(-1)?.kind !== undefined
  const isOpen = last !== undefined && last.text !== "" && lastIsNew && !isEnded && followsAll(changes)
  return { mark: file.mark, lines: isOpen ? [...closed.slice(0, -1), { text: last.text, ending: "" }] : closed }
}

/** Whether what is added last stands behind every line that is kept. */
const followsAll = (changes: ReadonlyArray<Change>): boolean =>
  changes.findLastIndex(({ kind }) => kind === "add") > changes.findLastIndex(({ kind }) => kind === "keep")

/** One stretch of the changes, as a hunk shows it; `old` and `fresh` count the lines before it in both files. */
interface Stretch {
  readonly changes: ReadonlyArray<Change>
  readonly old: number
  readonly fresh: number
  readonly endsOld: boolean
}

const stretches = (changes: ReadonlyArray<Change>, context: number): ReadonlyArray<Stretch> => {
  const shown = changes.map((_, index) =>
    changes.slice(Math.max(0, index - context), index + context + 1).some(({ kind }) => kind !== "keep"),
  )
  const found: Array<Stretch> = []
  let old = 0
  let fresh = 0
  let open: { readonly changes: Array<Change>; readonly old: number; readonly fresh: number } | undefined
  for (const [index, change] of changes.entries()) {
    if (shown[index]) {
      open ??= { changes: [], old, fresh }
      open.changes.push(change)
    }
    if (change.kind !== "add") old++
    if (change.kind !== "remove") fresh++
    if (open !== undefined && !shown[index + 1]) {
      found.push({ ...open, endsOld: changes.slice(index + 1).every(({ kind }) => kind === "add") })
      open = undefined
    }
  }
  return found
}

const noNewline = "\\ No newline at end of file"

/** As `diff -u` prints it; each line of the file on a line of its own, whatever ends it there. */
export const printUnified = (path: string, before: TextFile, changes: ReadonlyArray<Change>, context: number): string => {
  const after = changedFile(before, changes)
  const out = [`--- a/${path}`, `+++ b/${path}`]
  for (const { changes: shown, fresh, old } of stretches(changes, context)) {
    const olds = shown.filter(({ kind }) => kind !== "add").length
    const freshes = shown.filter(({ kind }) => kind !== "remove").length
    out.push(`@@ -${olds === 0 ? old : old + 1},${olds} +${freshes === 0 ? fresh : fresh + 1},${freshes} @@`)
    let [oldAt, freshAt] = [old, fresh]
    const inOrder = [...shown]
    for (const change of inOrder) {
      const endsOld = change.kind !== "add" && ++oldAt === before.lines.length && before.lines.at(-1)?.ending === ""
      const endsFresh = change.kind !== "remove" && ++freshAt === after.lines.length && after.lines.at(-1)?.ending === ""
      // A kept line that gains or loses its ending is another line to a diff.
      if (change.kind === "keep" && endsOld !== endsFresh)
        out.push(`-${change.line.text}`, ...(endsOld ? [noNewline] : []), `+${change.line.text}`, ...(endsFresh ? [noNewline] : []))
      else {
        out.push(
          `${change.kind === "keep" ? " " : change.kind === "add" ? "+" : "-"}${change.kind === "add" ? change.text : change.line.text}`,
        )
        if (change.kind === "add" ? endsFresh : endsOld) out.push(noNewline)
      }
    }
  }
  return `${out.join("\n")}\n`
}

/** As a model writes it: no numbers, and no word about the end of the file. */
export const printCodex = (path: string, changes: ReadonlyArray<Change>, context: number, dice: Dice): string => {
  const out = ["*** Begin Patch", `*** Update File: ${path}`]
  for (const { changes: shown, endsOld } of stretches(changes, context)) {
    out.push("@@")
    for (const change of shown)
      out.push(
        `${change.kind === "keep" ? " " : change.kind === "add" ? "+" : "-"}${change.kind === "add" ? change.text : change.line.text}`,
      )
    if (endsOld && dice.chance(2)) out.push("*** End of File")
  }
  return [...out, "*** End Patch", ""].join("\n")
}

/** The changes that lead back. */
export const inverted = (changes: ReadonlyArray<Change>, after: TextFile): ReadonlyArray<Change> => {
  let at = 0
  return changes.map((change): Change => {
    if (change.kind === "remove") return { kind: "add", text: change.line.text }
    const line = after.lines[at++] as Line
    return change.kind === "add" ? { kind: "remove", line } : { kind: "keep", line }
  })
}

/** Random parsed patches, and the text that each stands for in both formats: what a reader must read back. */
import type { Hunk, HunkLine, Section } from "../../src/schema/Patch.ts"
import type { Dice } from "./PatchCases.ts"

/** Lines of the text so far. What is read back carries the number of the line it stood on. */
class Page {
  readonly lines: Array<string> = []

  /** Adds a line and tells its number. */
  add(text: string): number {
    this.lines.push(text)
    return this.lines.length
  }
}

const paths = ["a", "src/b.ts", "with space/c d.md", "e-é", "f.b/*** g", "日本/h", "b/a/b", 'quote"and\\slash']
const texts = [
  "",
  "x",
  "  y",
  "-- z",
  "++ w",
  "@@",
  "*** End Patch",
  "*** Add File: q",
  "\\ No newline",
  "ünï",
  "--- a/f",
  "+++ b/f",
  " ",
  "\t",
]
const anchors = ["class A", "  def f():", "b", "x @@", "«é»"]

const marks = { keep: " ", remove: "-", add: "+" } as const

const printLines = (page: Page, dice: Dice, first: HunkLine["kind"]): ReadonlyArray<HunkLine> =>
  Array.from({ length: 1 + dice.below(5) }, (_, index) => {
    const kind = index === 0 ? first : dice.pick(["keep", "remove", "add"] as const)
    const text = dice.pick(texts)
    return { kind, text, line: page.add(marks[kind] + text) }
  })

const printCodexHunk = (page: Page, dice: Dice): Hunk => {
  const leading = Array.from({ length: dice.below(3) }, () => dice.pick(anchors))
  const lines = leading.length === 0 ? [page.add("@@")] : leading.map((text) => page.add(`@@ ${text}`))
  const body = printLines(page, dice, dice.pick(["keep", "remove", "add"]))
  const endOfFile = dice.chance(4)
  if (endOfFile) page.add("*** End of File")
  const found = leading.map((text, index) => ({ text, line: lines[index] ?? 0 }))
  return { line: lines[0] ?? 0, anchors: found, lines: body, looseTail: 0, endOfFile }
}

/** A patch of a few sections and its text from the begin marker to the end marker. */
export const randomCodexPatch = (dice: Dice): { readonly text: string; readonly sections: ReadonlyArray<Section> } => {
  const page = new Page()
  page.add("*** Begin Patch")
  const sections = Array.from({ length: 1 + dice.below(4) }, () => printCodexSection(page, dice))
  page.add("*** End Patch")
  return { text: `${page.lines.join("\n")}\n`, sections }
}

const printCodexSection = (page: Page, dice: Dice): Section => {
  const path = dice.pick(paths)
  switch (dice.pick(["add", "delete", "update", "update"] as const)) {
    case "add": {
      const line = page.add(`*** Add File: ${path}`)
      const body = Array.from({ length: dice.below(4) }, () => dice.pick(texts))
      for (const text of body) page.add(`+${text}`)
      const open = body.length > 0 && dice.chance(4)
      if (open) page.add("\\ No newline at end of file")
      return { kind: "add", path, line, text: open ? body.join("\n") : body.map((text) => `${text}\n`).join("") }
    }
    case "delete":
      return { kind: "delete", path, line: page.add(`*** Delete File: ${path}`), hunks: [] }
    case "update": {
      const line = page.add(`*** Update File: ${path}`)
      const moveTo = dice.chance(3) ? dice.pick(paths) : undefined
      if (moveTo !== undefined) page.add(`*** Move to: ${moveTo}`)
      const hunks = Array.from({ length: moveTo === undefined ? 1 + dice.below(3) : dice.below(3) }, () => printCodexHunk(page, dice))
      return { kind: "update", path, line, ...(moveTo === undefined ? {} : { moveTo }), hunks }
    }
  }
}

const printUnifiedHunk = (page: Page, dice: Dice): Hunk => {
  const start = 1 + dice.below(50)
  const line = page.add("")
  const lines = printLines(page, dice, dice.pick(["keep", "remove"]))
  const count = (without: HunkLine["kind"]) => lines.filter(({ kind }) => kind !== without).length
  page.lines[line - 1] = `@@ -${start},${count("add")} +${start},${count("remove")} @@ ${dice.chance(2) ? "class A" : ""}`
  return { line, anchors: [], at: start - 1, lines, looseTail: 0, endOfFile: false }
}

/** Git writes other bytes than plain ones as octal escapes, in quotes. */
const quoted = (path: string): string => {
  const bytes = [...new TextEncoder().encode(path)]
  if (bytes.every((byte) => byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c)) return path
  const shown = bytes.map((byte) => {
    if (byte === 0x22 || byte === 0x5c) return `\\${String.fromCharCode(byte)}`
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, "0")}`
  })
  return `"${shown.join("")}"`
}

/** A patch as `git diff` prints it: new, deleted, renamed, changed files, and modes. */
export const randomGitDiff = (dice: Dice): { readonly text: string; readonly sections: ReadonlyArray<Section> } => {
  const page = new Page()
  const sections = Array.from({ length: 1 + dice.below(4) }, () => printGitSection(page, dice))
  return { text: `${page.lines.join("\n")}\n`, sections }
}

const printGitSection = (page: Page, dice: Dice): Section => {
  const path = dice.pick(paths)
  const [old, fresh] = [quoted(`a/${path}`), quoted(`b/${path}`)]
  const kind = dice.pick(["add", "delete", "rename", "mode", "update"] as const)
  const moveTo = `moved/${path}`
  const line = page.add(`diff --git ${old} ${kind === "rename" ? quoted(`b/${moveTo}`) : fresh}`)
  const names = (oldName: string, freshName: string) => [page.add(`--- ${oldName}`), page.add(`+++ ${freshName}`)]
  const hunks = (least: number) => Array.from({ length: least + dice.below(3) }, () => printUnifiedHunk(page, dice))
  switch (kind) {
    case "add": {
      const executable = dice.chance(2)
      page.add(`new file mode ${executable ? "100755" : "100644"}`)
      page.add("index 0000000..1234567")
      const body = Array.from({ length: dice.below(4) }, () => dice.pick(texts))
      if (body.length > 0) {
        names("/dev/null", fresh)
        page.add(`@@ -0,0 +1,${body.length} @@`)
        for (const text of body) page.add(`+${text}`)
      }
      return { kind, path, line, text: body.map((text) => `${text}\n`).join(""), executable }
    }
    case "delete": {
      page.add("deleted file mode 100644")
      names(old, "/dev/null")
      const start = page.add("@@ -1 +0,0 @@")
      const removed: HunkLine = { kind: "remove", text: "x", line: page.add("-x") }
      return { kind, path, line, hunks: [{ line: start, anchors: [], at: 0, lines: [removed], looseTail: 0, endOfFile: false }] }
    }
    case "rename": {
      page.add("similarity index 90%")
      page.add(`rename from ${quoted(path)}`)
      page.add(`rename to ${quoted(moveTo)}`)
      if (dice.chance(2)) return { kind: "update", path, line, moveTo, hunks: [] }
      names(old, quoted(`b/${moveTo}`))
      return { kind: "update", path, line, moveTo, hunks: hunks(1) }
    }
    case "mode": {
      page.add("old mode 100644")
      page.add("new mode 100755")
      if (dice.chance(2)) return { kind: "update", path, line, executable: true, hunks: [] }
      names(old, fresh)
      return { kind: "update", path, line, executable: true, hunks: hunks(1) }
    }
    case "update":
      page.add("index 1234567..89abcde 100644")
      names(old, fresh)
      return { kind: "update", path, line, hunks: hunks(1) }
  }
}

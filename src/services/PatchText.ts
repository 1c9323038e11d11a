/**
 * Finds the patch in the text a caller sent and reads it, whichever of the two formats it is in.
 *
 * Around the patch there may be prose, a code fence or a shell heredoc; nothing of that is kept and nothing is run.
 * A text is read whole or refused with the line, what is there, and what was wanted; every wrong shape has its own words.
 */
import { Result } from "effect"
import { InvalidPatch, type Section } from "../schema/Patch.ts"
import { beginMarker, endMarker, readCodexPatch, sectionHeader } from "./CodexPatch.ts"
import { invalid } from "./HunkText.ts"
import { readUnifiedDiff, startsUnifiedDiff } from "./UnifiedDiff.ts"

/** The sections of a patch text, at least one. */
export const parse = (text: string): Result.Result<ReadonlyArray<Section>, InvalidPatch> => {
  if (!text.isWellFormed())
    return Result.fail(new InvalidPatch({ line: 1, found: "half of a surrogate pair", wanted: "text that can be written as UTF-8" }))
  const lines = text
    .replace(/^\ufeff/u, "")
    .replace(/\r?\n$/u, "")
    .split("\n")
    .map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line))
  const begin = lines.findIndex((line) => line.trim() === beginMarker)
  const unified = lines.findIndex((_, index) => startsUnifiedDiff(lines, index))
  if (unified !== -1 && (begin === -1 || unified < begin)) return readUnifiedDiff(lines, unified)
  return begin === -1 ? noPatch(lines) : unwrapped(lines, begin)
}

/** The paths a patch names, as written, each once. */
export const touchedPaths = (text: string): Result.Result<ReadonlyArray<string>, InvalidPatch> => Result.map(parse(text), pathsOf)

export const pathsOf = (sections: ReadonlyArray<Section>): ReadonlyArray<string> => [
  ...new Set(
    sections.flatMap((section) =>
      section.kind === "update" && section.moveTo !== undefined ? [section.path, section.moveTo] : [section.path],
    ),
  ),
]

const unwrapped = (lines: ReadonlyArray<string>, begin: number): Result.Result<ReadonlyArray<Section>, InvalidPatch> => {
  // `<<-` strips the tabs that a script indents its heredoc with.
  const texts = /<<-\s*['"]?[\w-]/u.test(lines[begin - 1] ?? "") ? lines.map((line) => line.replace(/^\t+/u, "")) : lines
  const exact = texts.findIndex((line, index) => index > begin && line.trimEnd() === endMarker)
  // An indented marker inside an update is a kept line, so it ends the patch only when no other does.
  const end = exact === -1 ? texts.findLastIndex((line, index) => index > begin && line.trim() === endMarker) : exact
  if (end === -1) return invalid(texts, lastFilled(texts), `"${endMarker}" as the last line; the patch may have been cut off`)
  const second = texts.findIndex((line, index) => index > end && (line.trim() === beginMarker || sectionHeader(line) !== undefined))
  if (second !== -1) return invalid(texts, second, `nothing more after "${endMarker}": one patch a call, with all sections in it`)
  const first = texts.findIndex((line, index) => index > begin && line.trim() !== "")
  return startsUnifiedDiff(texts, first) ? readUnifiedDiff(texts.slice(0, end), first) : readCodexPatch(texts, begin, end)
}

const noPatch = (lines: ReadonlyArray<string>): Result.Result<never, InvalidPatch> => {
  const first = lines.findIndex((line) => line.trim() !== "")
  const marker = lines.findIndex((line) => /begin\s*patch/iu.test(line) || sectionHeader(line) !== undefined)
  if (first === -1) return invalid(lines, 0, `a patch: "${beginMarker}", sections, "${endMarker}"; or a unified diff`)
  const start = lines[first]?.trimStart() ?? ""
  if (start.startsWith("{") || start.startsWith("[")) return invalid(lines, first, "the patch text itself, not JSON around it")
  if (marker === -1) return invalid(lines, first, `"${beginMarker}" on a line of its own, or the "--- " and "+++ " lines of a unified diff`)
  if (sectionHeader(lines[marker] ?? "") !== undefined) return invalid(lines, marker, `"${beginMarker}" before the first section`)
  if (/begin patch.*\\n/iu.test(lines[marker] ?? "")) return invalid(lines, marker, "real line breaks, not \\n written out")
  return invalid(lines, marker, `exactly "${beginMarker}" alone on its line`)
}

const lastFilled = (lines: ReadonlyArray<string>): number => lines.findLastIndex((line) => line.trim() !== "")

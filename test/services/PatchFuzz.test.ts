/**
 * Broken patches. Whatever is done to a patch text, it is refused with a code of its own, or it does only what it says: no
 * line comes that it does not add, none goes that it does not remove, no file changes that it does not name.
 * `PATCH_SEED=<number>` runs that case first.
 */
import { createHash } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { Version } from "../../src/schema/Files.ts"
import { type FileState, type Plan, type PlanRefusal, parse, plan, touchedPaths } from "../../src/services/PatchEngine.ts"
import { bytesOf, Dice, printCodex, printUnified, randomChanges, randomFile, type TextFile } from "../support/PatchCases.ts"
import { randomCodexPatch, randomGitDiff } from "../support/PatchPrinter.ts"

const firstSeed = Number(process.env["PATCH_SEED"] ?? 1)
const rounds = 20_000

const versionOf = (bytes: Uint8Array): Version => Version.make(createHash("sha256").update(bytes).digest("hex").slice(0, 16))

const splinters = [
  "*** Begin Patch",
  "*** End Patch",
  "*** Add File: f",
  "*** Update File: g",
  "*** Delete File: f",
  "*** Move to: h",
  "*** End of File",
  "*** ",
  "@@",
  "@@ }",
  "@@ -1,99 +1 @@",
  "@@ -0,0 +1,2 @@",
  "@@ -999999999,1 +1,1 @@",
  "--- a/f",
  "+++ b/f",
  "--- /dev/null",
  "diff --git a/f b/f",
  "new file mode 100755",
  "rename from f",
  "rename to g",
  "\\ No newline at end of file",
  "",
  " ",
  "+",
  "-",
  "-}",
  "```",
  "cat <<'EOF'",
  "\ufeff",
  "\r",
  "\ud800",
]

const mutated = (dice: Dice, text: string): string => {
  let lines = text.split("\n")
  for (let more = 1 + dice.below(4); more > 0; more--) {
    const at = dice.below(lines.length)
    const line = lines[at] ?? ""
    const letter = dice.below(line.length + 1)
    switch (dice.below(9)) {
      case 0:
        lines.splice(at, 1)
        break
      case 1:
        lines.splice(at, 0, line)
        break
      case 2:
        lines.splice(at, 0, dice.pick(splinters))
        break
      case 3:
        lines.splice(at, 1, dice.pick(splinters))
        break
      case 4:
        lines = lines.slice(0, at)
        break
      case 5:
        lines.splice(at, 1, line.slice(0, letter) + line.slice(letter + 1))
        break
      case 6:
        lines.splice(at, 1, line.slice(0, letter) + dice.pick([" ", "\t", "x", "-", "+", "@", "\\", "*"]) + line.slice(letter))
        break
      case 7:
        lines.splice(at, 0, ...lines.slice(dice.below(lines.length), at))
        break
      case 8:
        lines.splice(at, 1, ...[line, lines[dice.below(lines.length)] ?? ""].toReversed())
        break
    }
    if (lines.length === 0) lines = [""]
  }
  return lines.join("\n")
}

/** How often each line stands in a text, whatever ends it. */
const tally = (text: string): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const line of text.replace(/(\r\n|\n|\r)$/u, "").split(/\r\n|\n|\r/u)) counts.set(line, (counts.get(line) ?? 0) + 1)
  return counts
}

const contentOf = (file: FileState | undefined): string =>
  file === undefined ? "" : new TextDecoder("utf-8", { ignoreBOM: true }).decode(file.bytes).replace(/^\ufeff/u, "")

/** Lines that are compared as a tolerant match compares them, roughly: white space and look-alikes do not count. */
const plain = (line: string): string =>
  line
    .normalize("NFKC")
    .replace(/[\s\u0085\ufeff]/gu, "")
    .replace(/\p{Pd}/gu, "-")
    .replace(/["“”]/gu, '"')

/** What a plan does that its patch does not say. */
const overreach = (planned: Plan, patch: string): ReadonlyArray<string> => {
  const named = Result.getOrThrow(touchedPaths(patch))
  const texts = patch.split("\n").flatMap((line) => line.split("\r"))
  const said = new Set(texts.flatMap((line) => [plain(line.replace(/^\t*[-+]/u, "")), plain(line)]))
  const gone = new Map<string, number>()
  const strangers = planned.targets.filter(({ path }) => !named.includes(path)).map(({ path }) => `touches ${path}`)
  for (const { after, before } of planned.targets) {
    for (const [line, count] of tally(contentOf(before))) gone.set(line, (gone.get(line) ?? 0) + count)
    for (const [line, count] of tally(contentOf(after))) gone.set(line, (gone.get(line) ?? 0) - count)
  }
  const deleted = new Set(Result.getOrThrow(parse(patch)).flatMap(({ kind, path }) => (kind === "delete" ? [path] : [])))
  const whole = planned.targets
    .filter(({ after, path }) => deleted.has(path) || (after === undefined && deleted.size > 0))
    .flatMap(({ before }) => [...tally(contentOf(before)).keys()])
  const lines = [...gone].filter(
    ([line, count]) => count !== 0 && line !== "" && !said.has(plain(line)) && !(count > 0 && whole.includes(line)),
  )
  return [...strangers, ...lines.map(([line, count]) => `${count > 0 ? "removes" : "adds"} ${JSON.stringify(line)}`)]
}

const codes = new Set([
  "INVALID_PATCH",
  "CONTEXT_NOT_FOUND",
  "CONTEXT_AMBIGUOUS",
  "ADD_FILE_EXISTS",
  "MOVE_DESTINATION_EXISTS",
  "PATH_NOT_FOUND",
  "ENCODING_UNSUPPORTED",
])

const state = (file: TextFile): FileState => ({ bytes: bytesOf(file), mode: 0o644 })

/** A patch for file f, or one for many files of which some are there, with something done to its text. */
const brokenPatch = (seed: number) => {
  const dice = new Dice(seed)
  const file = randomFile(dice)
  const changes = randomChanges(dice, file)
  const text = dice.pick([
    () => printCodex("f", changes, 2, dice),
    () => printUnified("f", file, changes, 2),
    () => randomCodexPatch(dice).text,
    () => randomGitDiff(dice).text,
  ])()
  const files = new Map([
    ["f", state(file)],
    ["a", state(randomFile(dice))],
    ["src/b.ts", state(randomFile(dice))],
  ])
  return { files, patch: mutated(dice, text) }
}

describe("a broken patch", { timeout: 180_000 }, () => {
  it("is refused with a code and bounded words, or does only what it says", () => {
    const counted = { refused: 0, applied: 0 }
    const seen = new Set<string>()
    for (let seed = firstSeed; seed < firstSeed + rounds; seed++) {
      const { files, patch } = brokenPatch(seed)
      const told = `PATCH_SEED=${seed}\n${JSON.stringify(patch)}`
      const result: Result.Result<Plan, PlanRefusal> = Result.flatMap(parse(patch), (sections) => plan(sections, files, versionOf))
      if (Result.isFailure(result)) {
        const { _tag, message } = result.failure
        assert.isTrue(codes.has(_tag), told)
        assert.isTrue(message.isWellFormed() && message.length < 700 && !message.includes("undefined"), `${message}\n${told}`)
        seen.add(_tag)
        counted.refused++
      } else {
        assert.deepStrictEqual(overreach(result.success, patch), [], told)
        assert.isAbove(result.success.targets.length, 0, told)
        counted.applied++
      }
    }
    assert.isAbove(counted.refused, rounds / 4)
    assert.isAbove(counted.applied, rounds / 20)
    assert.deepStrictEqual(
      [...codes].filter((code) => !seen.has(code)),
      ["ENCODING_UNSUPPORTED"],
    )
  })
})

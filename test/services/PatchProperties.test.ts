/**
 * What holds for every file and every edit. Each case follows from its own number; a failure names it, and
 * `PATCH_SEED=<number>` runs that case first.
 */
import { createHash } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { Version } from "../../src/schema/Files.ts"
import { unifiedDiff } from "../../src/services/PatchDiff.ts"
import { type FileState, type Files, type Plan, type PlanRefusal, parse, plan } from "../../src/services/PatchEngine.ts"
import {
  bytesOf,
  type Change,
  changedFile,
  Dice,
  inverted,
  printCodex,
  printUnified,
  randomChanges,
  randomFile,
  type TextFile,
} from "../support/PatchCases.ts"
import { randomCodexPatch, randomGitDiff } from "../support/PatchPrinter.ts"

/** Milliseconds for thousands of cases on a busy machine; a few seconds on an idle one. */
const timeout = 180_000

const firstSeed = Number(process.env["PATCH_SEED"] ?? 1)

const versionOf = (bytes: Uint8Array): Version => Version.make(createHash("sha256").update(bytes).digest("hex").slice(0, 16))
const state = (bytes: Uint8Array): FileState => ({ bytes, mode: 0o644 })
const shown = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString("latin1")

const applied = (files: Files, patch: string): Result.Result<Plan, PlanRefusal> =>
  Result.flatMap(parse(patch), (sections) => plan(sections, files, versionOf))

const contentAfter = (files: Files, patch: string, path: string): Result.Result<Uint8Array | undefined, PlanRefusal> =>
  Result.map(applied(files, patch), ({ targets }) => targets.find((target) => target.path === path)?.after?.bytes)

/** One random file with an edit that changes it. */
interface Case {
  readonly seed: number
  readonly dice: Dice
  readonly before: TextFile
  readonly changes: ReadonlyArray<Change>
  readonly after: TextFile
  readonly files: Files
}

const caseOf = (seed: number): Case | undefined => {
  const dice = new Dice(seed)
  const before = randomFile(dice)
  const changes = randomChanges(dice, before)
  const after = changedFile(before, changes)
  if (shown(bytesOf(before)) === shown(bytesOf(after))) return undefined
  return { seed, dice, before, changes, after, files: new Map([["f", state(bytesOf(before))]]) }
}

const forCases = (count: number, check: (one: Case) => void): void => {
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    const one = caseOf(seed)
    if (one !== undefined) check(one)
  }
}

/** Half of all patches come with CR LF, as from a client on another system. */
const asSent = ({ dice }: Case, patch: string): string => (dice.chance(2) ? patch.replaceAll("\n", "\r\n") : patch)

const wrong = ({ seed }: Case, patch: string, why = ""): string => `PATCH_SEED=${seed} ${why}\n${JSON.stringify(patch)}`

/** Every line ends alike, so that a line that comes back can be told how it ended. */
const isUniform = (file: TextFile): boolean => new Set(file.lines.flatMap(({ ending }) => (ending === "" ? [] : [ending]))).size === 1

const isEnded = ({ lines }: TextFile): boolean => lines.at(-1)?.ending !== ""

const endsAlike = (a: TextFile, b: TextFile): boolean =>
  isUniform({ mark: false, lines: [...a.lines, ...b.lines] }) && isUniform(a) && isUniform(b)

describe("a printed patch, read", { timeout }, () => {
  for (const [format, make] of [
    ["the format of Codex", randomCodexPatch],
    ["git's unified diff", randomGitDiff],
  ] as const)
    it(`is the patch that was printed, in ${format}`, () => {
      for (let seed = firstSeed; seed < firstSeed + 10_000; seed++) {
        const dice = new Dice(seed)
        const { sections, text } = make(dice)
        const sent = dice.chance(2) ? text.replaceAll("\n", "\r\n") : text
        assert.deepStrictEqual(parse(sent), Result.succeed(sections), `PATCH_SEED=${seed}\n${JSON.stringify(sent)}`)
      }
    })
})

describe("a printed edit, applied", { timeout }, () => {
  it("gives the edited file, from a unified diff: always", () => {
    const counted = { applied: 0 }
    forCases(20_000, (one) => {
      const patch = asSent(one, printUnified("f", one.before, one.changes, one.dice.below(4)))
      const content = contentAfter(one.files, patch, "f")
      if (Result.isFailure(content)) assert.fail(wrong(one, patch, content.failure.message))
      assert.strictEqual(shown(content.success), shown(bytesOf(one.after)), wrong(one, patch))
      counted.applied++
    })
    assert.isAbove(counted.applied, 15_000)
  })

  it("gives the edited file, from a patch without numbers, unless it says that several places fit", () => {
    const counted = { applied: 0, ambiguous: 0 }
    forCases(20_000, (one) => {
      const context = one.before.lines.length === 0 ? 0 : 1 + one.dice.below(3)
      const patch = asSent(one, printCodex("f", one.changes, context, one.dice))
      const content = contentAfter(one.files, patch, "f")
      if (Result.isSuccess(content)) {
        assert.strictEqual(shown(content.success), shown(bytesOf(one.after)), wrong(one, patch))
        counted.applied++
      } else {
        assert.strictEqual(content.failure._tag, "CONTEXT_AMBIGUOUS", wrong(one, patch, content.failure.message))
        counted.ambiguous++
      }
    })
    assert.isAbove(counted.applied, 10_000)
    assert.isAbove(counted.ambiguous, 100)
  })

  it("is undone by the inverse patch, in both formats", () => {
    const counted = { unified: 0, codex: 0 }
    forCases(10_000, (one) => {
      if (!endsAlike(one.before, one.after)) return
      const back = inverted(one.changes, one.after)
      if (shown(bytesOf(changedFile(one.after, back))) !== shown(bytesOf(one.before))) return
      const files = new Map([["f", state(bytesOf(one.after))]])
      const unified = printUnified("f", one.after, back, 3)
      const content = contentAfter(files, unified, "f")
      if (Result.isFailure(content)) assert.fail(wrong(one, unified, content.failure.message))
      assert.strictEqual(shown(content.success), shown(bytesOf(one.before)), wrong(one, unified))
      counted.unified++
      const codex = contentAfter(files, printCodex("f", back, 3, one.dice), "f")
      if (Result.isFailure(codex)) return
      assert.strictEqual(shown(codex.success), shown(bytesOf(one.before)), wrong(one, "codex"))
      counted.codex++
    })
    assert.isAbove(counted.unified, 3_000)
    assert.isAbove(counted.codex, 2_000)
  })
})

describe("the diff that a preview shows", { timeout }, () => {
  it("is a patch that gives the same content, and turned around the old one", () => {
    const counted = { there: 0, back: 0 }
    forCases(10_000, (one) => {
      if (!endsAlike(one.before, one.after)) return
      const [old, fresh] = [state(bytesOf(one.before)), state(bytesOf(one.after))]
      // A diff cannot say that a lone CR at the end comes or goes.
      if (one.before.lines.some(({ ending }) => ending === "\r") && isEnded(one.before) !== isEnded(one.after)) return
      // NUL bytes are shown as binary, which nothing can be read back from.
      if (old.bytes.includes(0) || fresh.bytes.includes(0)) return
      for (const [from, to, name] of [
        [old, fresh, "there"],
        [fresh, old, "back"],
      ] as const) {
        const { text } = unifiedDiff([{ path: "f", before: from, after: to }], 1_000_000)
        const content = contentAfter(new Map([["f", from]]), text, "f")
        if (Result.isFailure(content)) assert.fail(wrong(one, text, `${name}: ${content.failure.message}`))
        assert.strictEqual(shown(content.success), shown(to.bytes), wrong(one, text, name))
        counted[name]++
      }
    })
    assert.isAbove(counted.there, 3_000)
    assert.isAbove(counted.back, 3_000)
  })
})

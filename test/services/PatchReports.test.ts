/**
 * What users of other patch tools reported, each on a real folder: the smallest case of a report, and what must come of it.
 * The numbers are those of our list of reports. Files are written and compared as bytes, in Latin-1.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import type { Delta } from "../../src/schema/Patch.ts"
import type { PatchIntent, PatchRefusal } from "../../src/services/PatchTransaction.ts"
import { openTransaction, type PatchingOptions } from "../support/Patching.ts"
import { type Content, readTree, temporaryFolder, writeTree } from "../support/Tree.ts"

const utf8 = (text: string): string => Buffer.from(text).toString("latin1")
const codex = (...sections: ReadonlyArray<string>): string => `*** Begin Patch\n${sections.join("\n")}\n*** End Patch\n`
const update = (file: string, ...hunks: ReadonlyArray<string>): string => codex(`*** Update File: ${file}`, ...hunks)

interface Outcome {
  readonly result: Result.Result<Delta, PatchRefusal>
  readonly before: Readonly<Record<string, string>>
  readonly after: Readonly<Record<string, string>>
}

/** Applies a patch to a fresh folder with these files. */
const applied = Effect.fnUntraced(function* (
  files: Readonly<Record<string, Content>>,
  change: string | PatchIntent,
  options?: PatchingOptions,
) {
  const root = yield* temporaryFolder
  writeTree(root, files)
  const before = readTree(root)
  const transaction = yield* openTransaction(root, options)
  const result = yield* Effect.result(transaction.apply(typeof change === "string" ? { kind: "patch", patch: change } : change))
  return { result, before, after: readTree(root) } satisfies Outcome
})

const contentOf = ({ after, result }: Outcome, file: string): string | undefined => {
  if (Result.isFailure(result)) assert.fail(result.failure.message)
  return after[file]?.replace(/^[0-7]+ /u, "")
}

/** The refusal; everything on disk is as it was. */
const refusalOf = ({ after, before, result }: Outcome): PatchRefusal => {
  if (Result.isSuccess(result)) assert.fail("expected a refusal")
  assert.deepStrictEqual(after, before)
  return result.failure
}

const numbered = (count: number): ReadonlyArray<string> => Array.from({ length: count }, (_, index) => `line ${index + 1} of the file`)
const textOf = (lines: ReadonlyArray<string>): string => `${lines.join("\n")}\n`

describe("bytes", () => {
  it.live("R001: a CRLF file stays one, and a mixed one keeps the bytes of untouched lines", () =>
    Effect.gen(function* () {
      const patch = update("f", "@@\n a\n-b\n+B\n+x\n c")
      assert.strictEqual(contentOf(yield* applied({ f: "a\r\nb\r\nc\r\n" }, patch), "f"), "a\r\nB\r\nx\r\nc\r\n")
      assert.strictEqual(contentOf(yield* applied({ f: "a\r\nb\r\nc\nd\r\n" }, patch), "f"), "a\r\nB\r\nx\r\nc\nd\r\n")
    }),
  )

  it.live("R003: a file without final newline gets none, and the counts say one line", () =>
    Effect.gen(function* () {
      const outcome = yield* applied({ f: "line1\nline2\nline3" }, update("f", "@@\n-line1\n+LINE1\n line2"))
      assert.strictEqual(contentOf(outcome, "f"), "LINE1\nline2\nline3")
      assert.deepInclude(Result.getOrThrow(outcome.result).changes[0], { added: 1, removed: 1 })
    }),
  )

  it.live("R005: the first line behind a byte order mark can be patched", () =>
    Effect.gen(function* () {
      const outcome = yield* applied({ f: utf8("\ufeffconst v = 1;\n") }, update("f", "@@\n-const v = 1;\n+const v = 2;"))
      assert.strictEqual(contentOf(outcome, "f"), utf8("\ufeffconst v = 2;\n"))
    }),
  )

  it.live("R006: an edit in a Latin-1 file changes no other byte, and brings in no second encoding", () =>
    Effect.gen(function* () {
      const patch = update("f", "@@\n-b\n+B")
      assert.strictEqual(contentOf(yield* applied({ f: "a\xe9\nb\n" }, patch), "f"), "a\xe9\nB\n")
      const mixing = refusalOf(yield* applied({ f: "a\xe9\nb\n" }, update("f", "@@\n-b\n+\u00fc")))
      assert.strictEqual(mixing._tag, "ENCODING_UNSUPPORTED")
      const edit: PatchIntent = { kind: "edit", path: "f", edits: [{ old: "b", new: "B" }] }
      assert.strictEqual(contentOf(yield* applied({ f: "a\xe9\nb\n" }, edit), "f"), "a\xe9\nB\n")
    }),
  )

  it.live("R007: UTF-16 is refused by name, and the rest of the patch with it", () =>
    Effect.gen(function* () {
      const files = { u: "\xff\xfea\0\n\0", f: "1\n" }
      const refusal = refusalOf(yield* applied(files, codex("*** Update File: f\n@@\n-1\n+2", "*** Update File: u\n@@\n-a\n+b")))
      assert.strictEqual(refusal._tag, "ENCODING_UNSUPPORTED")
      assert.match(refusal.message, /"u" is UTF-16/u)
    }),
  )

  it.live("R027: a script stays executable", () =>
    Effect.gen(function* () {
      const { after } = yield* applied({ run: { text: "a\n", mode: 0o755 } }, update("run", "@@\n-a\n+b"))
      assert.deepStrictEqual(after, { run: "755 b\n" })
    }),
  )

  it.live("R040: dollar sequences are text, in a patch and in an edit", () =>
    Effect.gen(function* () {
      const money = "$$ $& $1 $` $'"
      assert.strictEqual(contentOf(yield* applied({ f: "a\nb\n" }, update("f", `@@\n-b\n+${money}`)), "f"), `a\n${money}\n`)
      const edit: PatchIntent = { kind: "edit", path: "f", edits: [{ old: "b", new: money }] }
      assert.strictEqual(contentOf(yield* applied({ f: "a\nb\n" }, edit), "f"), `a\n${money}\n`)
    }),
  )
})

describe("finding the place", () => {
  it.live("R008: typographic look-alikes are found where exactly one place fits", () =>
    Effect.gen(function* () {
      const line = "x \u2013 y \u2212\u00a0z\u3000\u201cq\u201d"
      const outcome = yield* applied({ f: utf8(`${line}\nb\n`) }, update("f", '@@\n x - y - z "q"\n-b\n+B'))
      assert.strictEqual(contentOf(outcome, "f"), utf8(`${line}\nB\n`))
      const twice = refusalOf(yield* applied({ f: utf8("a \u2013 b\na \u2014 b\n") }, update("f", "@@\n-a - b\n+x")))
      assert.strictEqual(twice._tag, "CONTEXT_AMBIGUOUS")
    }),
  )

  const block = "begin\n  work\nend\n"

  it.live("R010: a hunk that fits twice is refused with the lines, and an anchor decides", () =>
    Effect.gen(function* () {
      const files = { f: `one\n${block}two\n${block}` }
      const hunk = " begin\n-  work\n+  play\n end"
      const refusal = refusalOf(yield* applied(files, update("f", `@@\n${hunk}`)))
      assert.deepInclude(refusal, { _tag: "CONTEXT_AMBIGUOUS", path: "f", section: 1, hunk: 1, lines: [2, 6] })
      const second = yield* applied(files, update("f", `@@ two\n${hunk}`))
      assert.strictEqual(contentOf(second, "f"), `one\n${block}two\nbegin\n  play\nend\n`)
    }),
  )

  it.live("R010: where the operator chose it, the first place is taken and the result says so", () =>
    Effect.gen(function* () {
      const options = { patch: { ambiguity: "first" } } as const
      const outcome = yield* applied({ f: `one\n${block}two\n${block}` }, update("f", "@@\n begin\n-  work\n+  play\n end"), options)
      assert.strictEqual(contentOf(outcome, "f"), `one\nbegin\n  play\nend\ntwo\n${block}`)
      assert.deepStrictEqual(Result.getOrThrow(outcome.result).notes, ['"f": hunk 1 fits at lines 2, 6; the first was taken.'])
      const inserted = yield* applied({ f: "def f():\n1\ndef f():\n2\n" }, update("f", "@@ def f():\n+new"), options)
      assert.strictEqual(contentOf(inserted, "f"), "def f():\nnew\n1\ndef f():\n2\n")
      assert.match(Result.getOrThrow(inserted.result).notes?.join() ?? "", /hunk 1 fits at lines 1, 3; the first was taken/u)
      const counted: PatchIntent = { kind: "edit", path: "f", edits: [{ old: "x", new: "y" }] }
      assert.strictEqual(refusalOf(yield* applied({ f: "x\nx\n" }, counted, options))._tag, "CONTEXT_AMBIGUOUS", "an edit says its count")
    }),
  )

  it.live("R012: stacked anchors lead to the method of the right class", () =>
    Effect.gen(function* () {
      const body = (name: string, word: string) => `class ${name}:\n    def run():\n        ${word}\n`
      const files = { f: body("A", "pass") + body("B", "pass") }
      const outcome = yield* applied(files, update("f", "@@ class B\n@@ def run():\n-        pass\n+        return"))
      assert.strictEqual(contentOf(outcome, "f"), body("A", "pass") + body("B", "return"))
    }),
  )

  it.live("R013: the end-of-file marker binds to the end, or the hunk is refused", () =>
    Effect.gen(function* () {
      const outcome = yield* applied({ f: "x\nmid\nx\n" }, update("f", "@@\n-x\n+y\n*** End of File"))
      assert.strictEqual(contentOf(outcome, "f"), "x\nmid\ny\n")
      const middle = refusalOf(yield* applied({ f: "x\nmid\nx\n" }, update("f", "@@\n-mid\n+y\n*** End of File")))
      assert.strictEqual(middle._tag, "CONTEXT_NOT_FOUND")
    }),
  )

  it.live("R014: hunks out of order land where each fits, and nothing is doubled", () =>
    Effect.gen(function* () {
      const lines = numbered(30)
      const hunk = (at: number) => `@@\n ${lines[at - 1]}\n-${lines[at]}\n+changed ${at}`
      const outcome = yield* applied({ f: textOf(lines) }, update("f", hunk(20), hunk(5)))
      const wanted = lines.map((line, index) => (index === 20 || index === 5 ? `changed ${index}` : line))
      assert.strictEqual(contentOf(outcome, "f"), textOf(wanted))
    }),
  )

  it.live("R039: the error names the one line of twenty that differs", () =>
    Effect.gen(function* () {
      const lines = numbered(40)
      const context = lines.slice(10, 30).map((line, index) => ` ${index === 11 ? line.replace("the", "this") : line}`)
      const refusal = refusalOf(yield* applied({ f: textOf(lines) }, update("f", "@@", ...context, "+new")))
      assert.deepInclude(refusal, {
        _tag: "CONTEXT_NOT_FOUND",
        path: "f",
        section: 1,
        hunk: 1,
        wanted: "line 22 of this file",
        wanted_line: 15,
        found: "line 22 of the file",
        file_line: 22,
        nearest_line: 11,
      })
      assert.match(refusal.message, /^hunk 1 of section 1 does not fit "f": wanted "line 22 of this file" \(line 15 of the patch\)\./u)
      assert.isBelow(refusal.message.length, 600)
    }),
  )
})

describe("whole files", () => {
  it.live("R016: delete then add of one path is one update that keeps the mode; a failure brings the old file back", () =>
    Effect.gen(function* () {
      const files = { "p.md": { text: "old\n", mode: 0o640 }, f: "1\n" }
      const sections = ["*** Delete File: p.md", "*** Add File: p.md\n+new"]
      assert.deepInclude((yield* applied(files, codex(...sections))).after, { "p.md": "640 new\n" })
      const failing = yield* applied(files, codex(...sections, "*** Update File: f\n@@\n-2\n+3"))
      assert.strictEqual(refusalOf(failing)._tag, "CONTEXT_NOT_FOUND")
    }),
  )

  it.live("R018: a move onto another file is refused", () =>
    Effect.gen(function* () {
      const files = { "source.txt": "alpha\n", "target.txt": "important\n" }
      const patch = codex("*** Update File: source.txt\n*** Move to: target.txt\n@@\n-alpha\n+beta")
      assert.strictEqual(refusalOf(yield* applied(files, patch))._tag, "MOVE_DESTINATION_EXISTS")
    }),
  )

  it.live("R019: an added file never replaces one, nor what a link points to", () =>
    Effect.gen(function* () {
      const patch = codex("*** Add File: existing.txt\n+new")
      assert.strictEqual(refusalOf(yield* applied({ "existing.txt": "old\n" }, patch))._tag, "ADD_FILE_EXISTS")
      const root = yield* temporaryFolder
      writeTree(root, { "secret/env": "KEY\n" })
      fs.mkdirSync(path.join(root, "ws"))
      fs.symlinkSync("../secret/env", path.join(root, "ws/.env"))
      const before = readTree(root)
      const transaction = yield* openTransaction(path.join(root, "ws"))
      const refusal = yield* Effect.flip(transaction.apply({ kind: "patch", patch: codex("*** Add File: .env\n+KEY=2") }))
      assert.strictEqual(refusal._tag, "SYMLINK_REJECTED")
      assert.deepStrictEqual(readTree(root), before)
    }),
  )

  it.live("R020: nothing outside is edited through a link", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "outside/secret": "s\n", "ws/f": "1\n" })
      fs.symlinkSync("../outside/secret", path.join(root, "ws/link"))
      fs.symlinkSync("../outside", path.join(root, "ws/folder"))
      const [before, time] = [readTree(root), fs.statSync(path.join(root, "outside/secret")).mtimeMs]
      const transaction = yield* openTransaction(path.join(root, "ws"))
      for (const file of ["link", "folder/secret"]) {
        const refusal = yield* Effect.flip(transaction.apply({ kind: "patch", patch: update(file, "@@\n-s\n+t") }))
        assert.strictEqual(refusal._tag, "SYMLINK_REJECTED")
      }
      assert.deepStrictEqual(readTree(root), before)
      assert.strictEqual(fs.statSync(path.join(root, "outside/secret")).mtimeMs, time)
    }),
  )

  it.live("R022: a hard link is replaced, never written through, and the result says so", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "outside/f": "old\n", "ws/g": "1\n" })
      fs.linkSync(path.join(root, "outside/f"), path.join(root, "ws/h"))
      const transaction = yield* openTransaction(path.join(root, "ws"))
      const delta = yield* transaction.apply({ kind: "patch", patch: update("h", "@@\n-old\n+new") })
      assert.match(delta.notes?.join() ?? "", /"h" had 2 hard links/u)
      assert.deepInclude(readTree(root), { "outside/f": "644 old\n", "ws/h": "644 new\n" })
    }),
  )

  it.live("R037: an empty file takes lines; a missing one is not made by an update", () =>
    Effect.gen(function* () {
      assert.strictEqual(contentOf(yield* applied({ "e.txt": "" }, update("e.txt", "@@\n+one\n+two")), "e.txt"), "one\ntwo\n")
      assert.strictEqual(refusalOf(yield* applied({ f: "" }, update("absent.txt", "@@\n+one")))._tag, "PATH_NOT_FOUND")
    }),
  )

  it.live("R038: only the named workspace changes, whatever others hold under the same path", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "A/f": "1\n", "B/f": "1\n", "linked/f": "1\n", "linked/.git": "gitdir: ../A/.git/worktrees/linked\n" })
      for (const [name, others] of [
        ["B", { "A/f": "644 1\n", "B/f": "644 2\n", "linked/f": "644 1\n" }],
        ["linked", { "A/f": "644 1\n", "B/f": "644 2\n", "linked/f": "644 2\n" }],
      ] as const) {
        const transaction = yield* openTransaction(path.join(root, name))
        yield* transaction.apply({ kind: "patch", patch: update("f", "@@\n-1\n+2") })
        assert.deepInclude(readTree(root), others)
      }
    }),
  )

  it.live("R041: a file added and updated by earlier patches is deleted; a folder and a missing file are refused", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "keep/k": "k\n" })
      const before = readTree(root)
      const transaction = yield* openTransaction(root)
      const apply = (patch: string) => transaction.apply({ kind: "patch", patch })
      for (const file of ["f", "keep/f"]) {
        yield* apply(codex(`*** Add File: ${file}\n+1`))
        yield* apply(update(file, "@@\n-1\n+2"))
        yield* apply(codex(`*** Delete File: ${file}`))
      }
      assert.deepStrictEqual(readTree(root), before)
      assert.strictEqual((yield* Effect.flip(apply(codex("*** Delete File: keep"))))._tag, "NOT_A_FILE")
      assert.strictEqual((yield* Effect.flip(apply(codex("*** Delete File: f"))))._tag, "PATH_NOT_FOUND")
    }),
  )
})

describe("the text of a patch", () => {
  const good = update("f", "@@\n-a\n+b")

  it.live("R032: errors are cut between characters, whatever their width", () =>
    Effect.gen(function* () {
      for (const size of [100, 120, 200, 256, 400, 1000])
        for (const shift of [-2, -1, 0, 1, 2]) {
          const text = "\u65e5".repeat(size + shift) + "\u{1f600}".repeat(300)
          const unmarked = refusalOf(yield* applied({ f: "a\n" }, update("f", `@@\n-a\n${text}`)))
          const missing = refusalOf(yield* applied({ f: utf8(`${text}x\n`) }, update("f", `@@\n-${text}y\n+b`)))
          for (const { message } of [unmarked, missing]) {
            assert.isTrue(message.isWellFormed())
            assert.isBelow(message.length, 600)
          }
        }
    }),
  )

  it.live("R033: a fence and prose are taken; three other shapes are each refused in words of their own", () =>
    Effect.gen(function* () {
      for (const patch of [`\`\`\`\n${good}\`\`\`\n`, `I will now change f.\n\n${good}`])
        assert.strictEqual(contentOf(yield* applied({ f: "a\n" }, patch), "f"), "b\n")
      const wrong = [good.replaceAll("*** ", "***"), JSON.stringify({ patch: good }), good.replace("*** End Patch\n", "")]
      const messages: Array<string> = []
      for (const patch of wrong) {
        const refusal = refusalOf(yield* applied({ f: "a\n" }, patch))
        assert.strictEqual(refusal._tag, "INVALID_PATCH")
        assert.match(refusal.message, /^line \d+ of the patch: found ".*", wanted ./u)
        messages.push(refusal.message)
      }
      assert.strictEqual(new Set(messages).size, wrong.length)
    }),
  )

  it.live("R034: any heredoc around the patch is taken off, and nothing in it is run", () =>
    Effect.gen(function* () {
      for (const word of ["EOF", "'EOF'", '"PATCH-1"', "PATCH-1"])
        for (const command of ["apply_patch", "applypatch", "touch pwned; cat"]) {
          const end = word.replaceAll(/['"]/gu, "")
          const outcome = yield* applied({ f: "a\n" }, `${command} <<${word}\n${good}${end}\n`)
          assert.deepStrictEqual(outcome.after, { f: "644 b\n" })
        }
    }),
  )

  it.live("R035: numbers in a hunk's header are understood, and counts are those of a diff", () =>
    Effect.gen(function* () {
      const outcome = yield* applied({ f: "a\nb\nc\n" }, update("f", "@@ -2 +2 @@\n-b\n+B"))
      assert.strictEqual(contentOf(outcome, "f"), "a\nB\nc\n")
      assert.deepInclude(Result.getOrThrow(outcome.result).changes[0], { added: 1, removed: 1 })
      const nothing = refusalOf(yield* applied({ f: "a\nb\nc\n" }, update("f", "@@ -2 +2 @@\n-b\n+b")))
      assert.strictEqual(nothing._tag, "INVALID_PATCH")
    }),
  )

  it.live("R036: an empty line is a blank kept one, also between sections; other unmarked lines are refused", () =>
    Effect.gen(function* () {
      const patch = codex("*** Update File: f\n@@\n a\n\n-b\n+B\n c\n", "*** Add File: g\n+g\n")
      const outcome = yield* applied({ f: "a\n\nb\nc\n" }, patch)
      assert.strictEqual(contentOf(outcome, "f"), "a\n\nB\nc\n")
      assert.strictEqual(contentOf(outcome, "g"), "g\n")
      const unmarked = refusalOf(yield* applied({ f: "a\n\nb\nc\n" }, update("f", "@@\n a\n\n-b\n+B\nc")))
      assert.strictEqual(unmarked._tag, "INVALID_PATCH")
    }),
  )
})

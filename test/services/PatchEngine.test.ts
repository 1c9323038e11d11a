/** What a plan is for a given patch and given bytes; the scenarios cover whole folders, this covers facts and refusals. */
import { createHash } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { Version } from "../../src/schema/Files.ts"
import type { ContextNotFound, Edit } from "../../src/schema/Patch.ts"
import { unifiedDiff } from "../../src/services/PatchDiff.ts"
import {
  type FileState,
  type Plan,
  type PlanRefusal,
  parse,
  plan,
  planEdits,
  planWrite,
  touchedPaths,
} from "../../src/services/PatchEngine.ts"

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const versionOf = (bytes: Uint8Array): Version => Version.make(createHash("sha256").update(bytes).digest("hex").slice(0, 16))

type Given = Readonly<Record<string, string | Uint8Array>>

const filesOf = (given: Given): ReadonlyMap<string, FileState> =>
  new Map(
    Object.entries(given).map(([path, content]) => [
      path,
      { bytes: typeof content === "string" ? bytesOf(content) : content, mode: path.endsWith(".sh") ? 0o755 : 0o644 },
    ]),
  )

const planOf = (given: Given, patch: string): Result.Result<Plan, PlanRefusal> =>
  Result.flatMap(parse(patch), (sections) => plan(sections, filesOf(given), versionOf))

const update = (path: string, body: string) => `*** Begin Patch\n*** Update File: ${path}\n${body}\n*** End Patch`

const success = (result: Result.Result<Plan, PlanRefusal>): Plan => {
  if (Result.isFailure(result)) assert.fail(result.failure.message)
  return result.success
}

const failure = <A>(result: Result.Result<A, PlanRefusal>): PlanRefusal => {
  if (Result.isSuccess(result)) assert.fail("expected a refusal")
  return result.failure
}

const textAfter = (planned: Plan, path: string): string | undefined => {
  const after = planned.targets.find((target) => target.path === path)?.after
  return after && new TextDecoder().decode(after.bytes)
}

describe("reading a patch", () => {
  it("names the paths a patch touches, each once, sources and destinations of moves too", () => {
    const patch = "*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+x\n*** Update File: b c\n*** Move to: d\n*** End Patch"
    assert.deepStrictEqual(touchedPaths(patch), Result.succeed(["a", "b c", "d"]))
    const diff = "diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
    assert.deepStrictEqual(touchedPaths(diff), Result.succeed(["x", "y", "z"]))
  })

  it("refuses every wrong shape with words of its own", () => {
    const wrong = {
      empty: "  \n",
      json: '{"patch":"x"}',
      array: '["x"]',
      prose: "please change the file",
      noSpace: "***Begin Patch\n***End Patch",
      noBegin: "*** Update File: f\n@@\n-1\n+2\n*** End Patch",
      escaped: "*** Begin Patch\\n*** End Patch",
      noEnd: "*** Begin Patch\n*** Delete File: f\n",
      noSection: "*** Begin Patch\n*** End Patch",
      unknownHeader: "*** Begin Patch\n*** Rename File: f\n*** End Patch",
      starsOnly: "*** Begin Patch\n***Update File: f\n*** End Patch",
      environment: "*** Begin Patch\n*** Environment ID: x\n*** Delete File: f\n*** End Patch",
      strayMove: "*** Begin Patch\n*** Move to: g\n*** End Patch",
      noHunk: "*** Begin Patch\n*** Update File: f\n*** End Patch",
      noLines: "*** Begin Patch\n*** Update File: f\n@@ x\n*** End Patch",
      unmarked: "*** Begin Patch\n*** Update File: f\n@@\nx\n*** End Patch",
      afterEnd: "*** Begin Patch\n*** Update File: f\n@@\n-x\n*** End of File\n-y\n*** End Patch",
      earlyEnd: "*** Begin Patch\n*** Update File: f\n*** End of File\n*** End Patch",
      blankInAdd: "*** Begin Patch\n*** Add File: f\n+a\n\n+b\n*** End Patch",
      second: "*** Begin Patch\n*** Delete File: f\n*** End Patch\n*** Begin Patch\n",
      surrogate: "*** Begin Patch\n*** Add File: f\n+\ud800\n*** End Patch",
      emptyMove: "*** Begin Patch\n*** Update File: f\n*** Move to:\n*** End Patch",
      headerCounts: "*** Begin Patch\n*** Update File: f\n@@ -3,2 +3,3 @@\n+x\n*** End Patch",
      unifiedEmpty: "--- a/f\n+++ b/f\n",
      unifiedUnmarked: "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\nb\n",
      unifiedStray: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nand so on\n-c\n+d\n",
      unifiedNew: "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n b\n",
      unifiedLink: "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+target\n",
      unifiedCopy: "diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n",
      unifiedBinary: "diff --git a/f b/f\nGIT binary patch\nliteral 1\n",
      unifiedNoName: "diff --git a/f b/g\n",
    }
    const messages = Object.entries(wrong).map(([shape, patch]) => {
      const refusal = failure(parse(patch))
      assert.strictEqual(refusal._tag, "INVALID_PATCH", shape)
      return refusal.message
    })
    for (const [index, message] of messages.entries()) assert.strictEqual(messages.indexOf(message), index, message)
  })

  it("says line, text found and text wanted, in a bounded and well-formed message", () => {
    for (const width of [99, 100, 119, 120, 121, 399, 400, 401]) {
      const refusal = failure(parse(update("f", `@@\n-x\n#${"\u{1f600}".repeat(width)}`)))
      assert.match(refusal.message, /^line 5 of the patch: found "#.*, wanted a line starting with /u)
      assert.isTrue(refusal.message.isWellFormed())
      assert.isBelow(refusal.message.length, 600)
    }
  })

  it("takes markers with spaces around them, and prose around the patch", () => {
    const patch = "Done!\n  *** Begin Patch  \n  *** Delete File: f  \n *** End Patch\nHope this helps."
    assert.deepStrictEqual(touchedPaths(patch), Result.succeed(["f"]))
  })

  it("keeps an indented marker inside an update as a line of the file", () => {
    const planned = success(planOf({ f: "*** End Patch\nx\n" }, update("f", "@@\n *** End Patch\n-x\n+y")))
    assert.strictEqual(textAfter(planned, "f"), "*** End Patch\ny\n")
  })

  it("does not take a unified diff for a patch of the other kind because of what is in it", () => {
    const diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n *** Begin Patch\n-x\n+y\n"
    assert.strictEqual(textAfter(success(planOf({ f: "*** Begin Patch\nx\n" }, diff)), "f"), "*** Begin Patch\ny\n")
  })

  it("reads the numbers of a plain diff's own kind: backups, folders, modes", () => {
    const backup = "--- f.orig\t2026-01-01 00:00:00\n+++ f\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-1\n+2\n"
    assert.deepStrictEqual(touchedPaths(backup), Result.succeed(["f"]))
    const moved = "--- a/old\n+++ b/new\n@@ -1 +1 @@\n-1\n+2\n"
    assert.deepStrictEqual(touchedPaths(moved), Result.succeed(["old", "new"]))
    const mode = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
    assert.strictEqual(success(planOf({ run: "x\n" }, mode)).targets[0]?.after?.mode, 0o755)
  })
})

describe("finding the place", () => {
  const twice = "a\nx = 1\nb\nc\nx = 1\nd\n"

  it("lists the lines where a hunk fits more than once", () => {
    const refusal = failure(planOf({ f: twice }, update("f", "@@\n-x = 1\n+x = 2")))
    assert.deepInclude(refusal, { _tag: "CONTEXT_AMBIGUOUS", path: "f", hunk: 1, lines: [2, 5] })
  })

  it("stays ambiguous below an anchor that opens no block", () => {
    const refusal = failure(planOf({ f: twice }, update("f", "@@ a\n-x = 1\n+x = 2")))
    assert.deepInclude(refusal, { _tag: "CONTEXT_AMBIGUOUS", lines: [2, 5] })
    const inserted = failure(planOf({ f: twice }, update("f", "@@ x = 1\n+y = 1")))
    assert.deepInclude(inserted, { _tag: "CONTEXT_AMBIGUOUS", lines: [2, 5] })
  })

  it("prefers an exact place to a look-alike elsewhere, and says how it found the others", () => {
    const exact = success(planOf({ f: "  x\ny\nx\n" }, update("f", "@@\n-x\n+z")))
    assert.strictEqual(textAfter(exact, "f"), "  x\ny\nz\n")
    assert.deepStrictEqual(exact.notes, [])
    const loose = success(planOf({ f: "  x  \ny\n" }, update("f", "@@\n-x\n+z")))
    assert.deepStrictEqual(loose.notes, ['"f": hunk 1 was found only by ignoring white space at both ends.'])
  })

  it("covers all dashes, quotes and spaces", () => {
    const dashes = "\u00ad\u058a\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d".slice(1)
    const quotes = "\u2018\u2019\u201a\u201b"
    const doubles = "\u201c\u201d\u201e\u201f\u00ab\u00bb"
    const spaces = "\u00a0\u1680\u2000\u2001\u2002\u2009\u200a\u202f\u205f\u3000"
    const line = `a${dashes}b${quotes}c${doubles}d${spaces}e`
    const typed = `a${"-".repeat(dashes.length)}b${"'".repeat(quotes.length)}c${'"'.repeat(doubles.length)}d${" ".repeat(spaces.length)}e`
    const planned = success(planOf({ f: `${line}\nend\n` }, update("f", `@@\n ${typed}\n-end\n+END`)))
    assert.strictEqual(textAfter(planned, "f"), `${line}\nEND\n`)
  })

  it("trims what Unicode calls white space: not U+FEFF, but U+0085", () => {
    assert.strictEqual(textAfter(success(planOf({ f: "x\u0085\n" }, update("f", "@@\n-x\n+y"))), "f"), "y\n")
    assert.strictEqual(failure(planOf({ f: "a\nx\ufeff\n" }, update("f", "@@\n-x\n+y")))._tag, "CONTEXT_NOT_FOUND")
  })

  it("never takes bytes that are not UTF-8 for the replacement character", () => {
    const file = new Uint8Array([0x61, 0xe9, 0x0a])
    assert.strictEqual(failure(planOf({ f: file }, update("f", "@@\n-a\ufffd\n+b\ufffd")))._tag, "CONTEXT_NOT_FOUND")
  })

  it("names the first line that differs in the nearest place", () => {
    const lines = Array.from({ length: 60 }, (_, index) => `line ${index} of the file`)
    const context = lines.slice(20, 40).map((line, index) => ` ${index === 11 ? line.replace("of", "off") : line}`)
    const refusal = failure(planOf({ f: `${lines.join("\n")}\n` }, update("f", ["@@", ...context, "-line 40 of the file"].join("\n"))))
    const wanted: Partial<ContextNotFound> = {
      hunk: 1,
      wanted: "line 31 off the file",
      wanted_line: 15,
      found: "line 31 of the file",
      file_line: 32,
      nearest_line: 21,
    }
    assert.deepInclude(refusal, { _tag: "CONTEXT_NOT_FOUND", ...wanted })
  })

  it("finds a likely counterpart of a single line, and says when there is none", () => {
    const near = failure(planOf({ f: "one\nconst total = sum(items)\n" }, update("f", "@@\n-const total = sum(item)\n+x")))
    assert.deepInclude(near, { found: "const total = sum(items)", file_line: 2 })
    const none = failure(planOf({ f: "one\ntwo\n" }, update("f", "@@\n-entirely different\n+x")))
    assert.match(none.message, /No similar place was found/u)
  })

  it("quotes at most a few hundred characters of a huge line", () => {
    const refusal = failure(planOf({ f: `${"x".repeat(100_000)}\n` }, update("f", `@@\n-${"x".repeat(99_000)}y\n+z`)))
    assert.isBelow(JSON.stringify(refusal).length, 2_000)
    assert.isBelow(refusal.message.length, 600)
  })

  it("names an anchor that is not there", () => {
    const refusal = failure(planOf({ f: "a\nb\n" }, update("f", "@@ a\n@@ nowhere\n-b\n+c")))
    assert.deepInclude(refusal, { _tag: "CONTEXT_NOT_FOUND", wanted: "nowhere", wanted_line: 4 })
  })

  it("refuses more equal hunks than there are places", () => {
    const hunk = "@@\n-x\n+y"
    const refusal = failure(planOf({ f: "x\na\nx\n" }, update("f", [hunk, hunk, hunk].join("\n"))))
    assert.deepInclude(refusal, { _tag: "CONTEXT_NOT_FOUND", hunk: 3 })
  })

  it("takes a blank line between hunk and next section for spacing where it does not fit", () => {
    const patch = "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+B\n\n*** Update File: g\n+new\n\n*** End Patch"
    const planned = success(planOf({ f: "a\nb\nc\n", g: "first\n\nlast\n" }, patch))
    assert.strictEqual(textAfter(planned, "f"), "a\nB\nc\n")
    assert.strictEqual(textAfter(planned, "g"), "first\n\nlast\nnew\n")
  })
})

describe("bytes", () => {
  it("gives added lines the ending most lines have, and a new last line the old one's", () => {
    const mixed = success(planOf({ f: "a\r\nb\nc\r\nd" }, update("f", "@@\n-b\n+B\n@@\n d\n+e")))
    assert.strictEqual(textAfter(mixed, "f"), "a\r\nB\r\nc\r\nd\r\ne")
  })

  it("leaves what is above alone when the unended last line goes", () => {
    assert.strictEqual(textAfter(success(planOf({ f: "a\n\nb" }, update("f", "@@\n-b"))), "f"), "a\n\n")
  })

  it("keeps a byte order mark in an emptied and in a filled file", () => {
    const mark = new Uint8Array([0xef, 0xbb, 0xbf])
    const emptied = success(planOf({ f: new Uint8Array([...mark, 0x61, 0x0a]) }, update("f", "@@\n-a")))
    assert.deepStrictEqual(emptied.targets[0]?.after?.bytes, mark)
    const filled = success(planOf({ f: mark }, update("f", "@@\n+a")))
    assert.deepStrictEqual([...(filled.targets[0]?.after?.bytes ?? [])], [...mark, 0x61, 0x0a])
  })

  it("names the encoding it cannot work on, and still moves and deletes such files", () => {
    const utf16 = new Uint8Array([0xfe, 0xff, 0, 0x61])
    const refusal = failure(planOf({ u: utf16 }, update("u", "@@\n-a\n+b")))
    assert.deepInclude(refusal, { _tag: "ENCODING_UNSUPPORTED", path: "u", found: "UTF-16 text (big endian)" })
    const moved = success(planOf({ u: utf16 }, "*** Begin Patch\n*** Update File: u\n*** Move to: v\n*** End Patch"))
    assert.deepStrictEqual(moved.targets.find(({ path }) => path === "v")?.after?.bytes, utf16)
  })

  it("adds a file without final newline where the patch says so", () => {
    const patch = "*** Begin Patch\n*** Add File: n\n+a\n+b\n\\ No newline at end of file\n*** Add File: e\n*** End Patch"
    const planned = success(planOf({}, patch))
    assert.strictEqual(textAfter(planned, "n"), "a\nb")
    assert.strictEqual(textAfter(planned, "e"), "")
  })
})

describe("facts", () => {
  const factsOf = (planned: Plan) =>
    planned.changes.map(({ facts: { added, from, kind, path, removed } }) => [kind, from, path, added, removed])

  it("composes the sections for one path into one change, mode kept", () => {
    const patch = "*** Begin Patch\n*** Delete File: p.sh\n*** Add File: p.sh\n+new\n*** Update File: p.sh\n@@\n-new\n+newer\n*** End Patch"
    const planned = success(planOf({ "p.sh": "old\n" }, patch))
    assert.deepStrictEqual(factsOf(planned), [["update", undefined, "p.sh", 1, 1]])
    assert.strictEqual(planned.targets[0]?.after?.mode, 0o755)
    assert.strictEqual(planned.changes[0]?.facts.before, versionOf(bytesOf("old\n")))
  })

  it("tells a move once, with its source's version", () => {
    const patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Update File: b\n*** Move to: c\n@@\n-1\n+2\n*** End Patch"
    const planned = success(planOf({ a: "1\n" }, patch))
    assert.deepStrictEqual(factsOf(planned), [["move", "a", "c", 1, 1]])
    assert.deepStrictEqual(planned.targets.map(({ path }) => path).toSorted(), ["a", "c"])
    assert.strictEqual(planned.changes[0]?.facts.before, versionOf(bytesOf("1\n")))
  })

  it("swaps two files as two updates", () => {
    const moves = [
      ["a", "t"],
      ["b", "a"],
      ["t", "b"],
    ].map(([from, to]) => `*** Update File: ${from}\n*** Move to: ${to}\n`)
    const planned = success(planOf({ a: "A\n", b: "B\n" }, `*** Begin Patch\n${moves.join("")}*** End Patch`))
    assert.deepStrictEqual(
      factsOf(planned)
        .map(([kind, , path]) => [kind, path])
        .toSorted(),
      [
        ["update", "a"],
        ["update", "b"],
      ],
    )
    assert.strictEqual(textAfter(planned, "a"), "B\n")
  })

  it("leaves out what comes and goes again, and refuses a patch that changes nothing", () => {
    const patch = "*** Begin Patch\n*** Add File: t\n+x\n*** Update File: a\n@@\n-1\n+2\n*** Delete File: t\n*** End Patch"
    assert.deepStrictEqual(factsOf(success(planOf({ a: "1\n" }, patch))), [["update", undefined, "a", 1, 1]])
    for (const body of ["@@\n 1", "@@\n-1\n+1", "*** Move to: a"])
      assert.match(failure(planOf({ a: "1\n" }, update("a", body))).message, /^line|^found "a patch after which every file is as before"/u)
  })

  it("refuses to add or move onto what is there, and to touch what is not", () => {
    assert.deepInclude(failure(planOf({ a: "1" }, "*** Begin Patch\n*** Add File: a\n+2\n*** End Patch")), {
      _tag: "ADD_FILE_EXISTS",
      version: versionOf(bytesOf("1")),
    })
    assert.deepInclude(failure(planOf({ a: "1", b: "2" }, update("a", "*** Move to: b"))), {
      _tag: "MOVE_DESTINATION_EXISTS",
      destination: "b",
    })
    assert.strictEqual(failure(planOf({}, "*** Begin Patch\n*** Delete File: a\n*** End Patch"))._tag, "PATH_NOT_FOUND")
    assert.strictEqual(failure(planOf({}, update("a", "@@\n+x")))._tag, "PATH_NOT_FOUND")
  })

  it("counts lines as a diff of the whole files does, however the patch was written", () => {
    const planned = success(planOf({ f: "a\nb\nc\nd\n" }, update("f", "@@\n-a\n-b\n-c\n+a\n+B\n+c\n+new\n d")))
    assert.deepStrictEqual(factsOf(planned), [["update", undefined, "f", 2, 1]])
  })
})

describe("edits and writes", () => {
  const edited = (text: string, ...edits: ReadonlyArray<Edit>) => planEdits("f", edits, filesOf({ f: text }), versionOf)

  it("replaces text literally, in order", () => {
    const planned = success(edited("one $x two\n", { old: "$x", new: "$& $1 $$" }, { old: "$1 $$ two", new: "2" }))
    assert.strictEqual(textAfter(planned, "f"), "one $& 2\n")
  })

  it("wants exactly as many places as stated", () => {
    assert.deepInclude(failure(edited("x\ny\nx\n", { old: "x", new: "z" })), {
      _tag: "CONTEXT_AMBIGUOUS",
      edit: 1,
      lines: [1, 3],
      wanted: 1,
    })
    assert.deepInclude(failure(edited("x\n", { old: "x", new: "z", count: 2 })), { _tag: "CONTEXT_AMBIGUOUS", lines: [1], wanted: 2 })
    assert.strictEqual(failure(edited("aaa", { old: "aa", new: "b" }))._tag, "CONTEXT_AMBIGUOUS", "overlapping places are two")
    assert.strictEqual(textAfter(success(edited("x y x", { old: "x", new: "z", count: 2 })), "f"), "z y z")
    assert.strictEqual(textAfter(success(edited("aaaa", { old: "aa", new: "b", count: "all" })), "f"), "bb")
    assert.deepInclude(failure(edited("x\n", { old: "x", new: "z" }, { old: "x", new: "q" })), { _tag: "CONTEXT_NOT_FOUND", edit: 2 })
  })

  it("lets a line break stand for the file's own", () => {
    assert.strictEqual(textAfter(success(edited("a\r\nb\r\nc\r\n", { old: "a\nb", new: "A\nB\nX" })), "f"), "A\r\nB\r\nX\r\nc\r\n")
    assert.strictEqual(textAfter(success(edited("a\r\nb\r\n", { old: "\nb", new: "\nc" })), "f"), "a\r\nc\r\n")
    assert.strictEqual(textAfter(success(edited("a\r\nb\r\n", { old: "b", new: "b\nc" })), "f"), "a\r\nb\r\nc\r\n")
    assert.strictEqual(textAfter(success(edited("a\nb\n", { old: "a\r\nb", new: "x\r\ny" })), "f"), "x\ny\n")
  })

  it("keeps bytes that are not UTF-8, and mixes no second encoding into them", () => {
    const files = filesOf({ f: new Uint8Array([0x61, 0xe9, 0x62]) })
    const planned = success(planEdits("f", [{ old: "b", new: "B" }], files, versionOf))
    assert.deepStrictEqual([...(planned.targets[0]?.after?.bytes ?? [])], [0x61, 0xe9, 0x42])
    const refusal = failure(planEdits("f", [{ old: "b", new: "é" }], files, versionOf))
    assert.deepInclude(refusal, { _tag: "ENCODING_UNSUPPORTED", path: "f" })
  })

  it("speaks of edits, not of hunks", () => {
    assert.match(failure(edited("x\nx\n", { old: "x", new: "z" })).message, /^edit 1 fits "f" at 2 places \(lines 1, 2\), not 1/u)
    const missing = failure(edited("abc = 1\n", { old: "abc = 1", new: "q" }, { old: "abc = 2", new: "r" })).message
    assert.match(missing, /^edit 2 does not fit "f": wanted "abc = 2" \(line 1 of its old text\)\./u)
  })

  it("refuses edits that say or change nothing", () => {
    for (const edit of [
      { old: "", new: "x" },
      { old: "x", new: "x" },
      { old: "x", new: "\ud800" },
    ])
      assert.strictEqual(failure(edited("x", edit))._tag, "INVALID_PATCH")
    assert.strictEqual(failure(edited("x", { old: "x", new: "y" }, { old: "y", new: "x" }))._tag, "INVALID_PATCH")
    assert.strictEqual(failure(planEdits("g", [{ old: "x", new: "y" }], filesOf({}), versionOf))._tag, "PATH_NOT_FOUND")
    const utf16 = filesOf({ f: new Uint8Array([0xff, 0xfe, 0x61, 0]) })
    assert.strictEqual(failure(planEdits("f", [{ old: "a", new: "b" }], utf16, versionOf))._tag, "ENCODING_UNSUPPORTED")
  })

  it("writes whole files, mode kept, and reports equal content as an update of nothing", () => {
    const files = filesOf({ "f.sh": "old\n" })
    const written = success(planWrite("f.sh", "a\r\nb", files, versionOf))
    assert.deepInclude(written.changes[0]?.facts, { kind: "update", added: 2, removed: 1 })
    assert.strictEqual(written.targets[0]?.after?.mode, 0o755)
    const same = success(planWrite("f.sh", "old\n", files, versionOf))
    assert.deepStrictEqual(same.targets, [])
    assert.deepInclude(same.changes[0]?.facts, {
      kind: "update",
      before: versionOf(bytesOf("old\n")),
      after: versionOf(bytesOf("old\n")),
      added: 0,
      removed: 0,
    })
    assert.deepInclude(success(planWrite("new", "", files, versionOf)).changes[0]?.facts, { kind: "add", before: "absent", added: 0 })
    assert.strictEqual(failure(planWrite("f", "\udc00", files, versionOf))._tag, "INVALID_PATCH")
  })
})

describe("the diff of a plan", () => {
  const given = { up: "1\n2\n3", "old name": "a\nb\n", gone: "x\n", "run.sh": "s\n", pure: "p\n" }
  const patch =
    "*** Begin Patch\n*** Update File: up\n@@\n-2\n+two\n@@\n 3\n+4\n*** Update File: old name\n*** Move to: n/ä\n@@\n-b\n+c\n" +
    "*** Delete File: gone\n*** Add File: made\n+m\n*** Add File: empty\n*** Update File: pure\n*** Move to: purer\n*** Update File: run.sh\n@@\n+t\n*** End Patch"

  it("is a patch that gives the same plan", () => {
    const planned = success(planOf(given, patch))
    const { text } = unifiedDiff(planned.changes, 30_000)
    const again = success(planOf(given, text))
    const sorted = (one: Plan) =>
      one.targets.toSorted((a, b) => (a.path < b.path ? -1 : 1)).map(({ after, path }) => [path, after?.mode, after?.bytes])
    assert.deepStrictEqual(sorted(again), sorted(planned))
  })

  it("gives the second of any two texts from the first, with line numbers or without; without them perhaps a refusal", () => {
    const words = [
      "a",
      "b",
      "",
      " c",
      "-- d",
      "++ e",
      "*** Begin Patch",
      "@@ -1 +1 @@",
      "\\ No newline at end of file",
      "diff --git a/f b/f",
      "é—",
      "\ttab ",
    ]
    const state = { seed: 7 }
    const below = (limit: number): number => {
      state.seed = (state.seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor(state.seed / 256) % limit
    }
    const word = () => words[below(words.length)] ?? ""
    const changed = (line: string) => [[], [line, word()], [word()]][below(8)] ?? [line]
    const joined = (lines: ReadonlyArray<string>) =>
      lines.join("\n") + (lines.length > 0 && (lines.at(-1) === "" || below(3) > 0) ? "\n" : "")
    const counts = { exact: 0, withoutNumbers: 0 }
    for (let round = 0; round < 3_000; round++) {
      const lines = Array.from({ length: below(14) }, word)
      const [before, after] = [joined(lines), joined(lines.flatMap(changed))]
      if (before === after) continue
      const files = filesOf({ f: before })
      const target = { bytes: bytesOf(after), mode: 0o644 }
      const { text } = unifiedDiff([{ path: "f", before: files.get("f"), after: target }], 1_000_000)
      assert.strictEqual(textAfter(success(planOf({ f: before }, text)), "f"), after, text)
      const bare = text
        .split("\n")
        .slice(3, -1)
        .map((line) => (line.startsWith("@@ ") ? "@@" : line))
      const planned = planOf({ f: before }, update("f", bare.join("\n")))
      if (Result.isSuccess(planned)) assert.strictEqual(textAfter(planned.success, "f"), after, text)
      counts.exact++
      counts.withoutNumbers += Result.isSuccess(planned) ? 1 : 0
    }
    assert.isAbove(counts.exact, 1_000)
    assert.isAbove(counts.withoutNumbers, counts.exact / 2)
  })

  it("is cut at a line's end and says how much is left out", () => {
    const planned = success(planOf({}, `*** Begin Patch\n*** Add File: f\n${"+äöü line\n".repeat(500)}*** End Patch`))
    const whole = new TextEncoder().encode(unifiedDiff(planned.changes, 1_000_000).text).length
    const { leftOut, text } = unifiedDiff(planned.changes, 1_000)
    assert.isTrue(text.endsWith("+äöü line\n"))
    assert.strictEqual(new TextEncoder().encode(text).length + leftOut, whole)
  })
})

describe("large and repetitive input", { timeout: 60_000 }, () => {
  // Each of these takes minutes where work grows with the square of the size; the test's time limit tells.
  const numbered = (count: number) => Array.from({ length: count }, (_, index) => `  const value${index} = compute(${index})`)
  const textOf = (lines: ReadonlyArray<string>) => `${lines.join("\n")}\n`

  it("places thousands of equal hunks", () => {
    const hunk = "@@\n-x\n+z\n y"
    const planned = success(planOf({ f: "x\ny\n".repeat(3_000) }, update("f", Array(3_000).fill(hunk).join("\n"))))
    assert.strictEqual(textAfter(planned, "f"), "z\ny\n".repeat(3_000))
  })

  it("places thousands of different hunks in 200,000 lines", () => {
    const lines = numbered(200_000)
    const hunks = Array.from({ length: 5_000 }, (_, index) => `@@\n ${lines[40 * index]}\n-${lines[40 * index + 1]}\n+  changed ${index}`)
    const planned = success(planOf({ f: textOf(lines) }, update("f", hunks.join("\n"))))
    assert.deepInclude(planned.changes[0]?.facts, { added: 5_000, removed: 5_000 })
    const expected = lines.map((line, index) => (index % 40 === 1 ? `  changed ${(index - 1) / 40}` : line))
    assert.strictEqual(textAfter(planned, "f"), textOf(expected))
  })

  it("finds thousands of anchored insertions", () => {
    const lines = numbered(20_000)
    const hunks = Array.from({ length: 2_000 }, (_, index) => `@@ const value${10 * index} =\n+  more ${index}`)
    const planned = success(planOf({ f: textOf(lines) }, update("f", hunks.join("\n"))))
    assert.deepInclude(planned.changes[0]?.facts, { added: 2_000, removed: 0 })
  })

  it("looks for a long run of the same line among many of them", () => {
    const equal = Array<string>(60_000).fill("same")
    const wanted = equal.slice(0, 30_000).map((line) => ` ${line}`)
    const several = failure(planOf({ f: textOf(equal) }, update("f", ["@@", ...wanted, "+new"].join("\n"))))
    assert.strictEqual(several._tag, "CONTEXT_AMBIGUOUS")
    const nowhere = failure(planOf({ f: textOf(equal) }, update("f", ["@@", ...wanted, "-other"].join("\n"))))
    assert.deepInclude(nowhere, { _tag: "CONTEXT_NOT_FOUND", wanted: "other" })
    const only = success(planOf({ f: textOf([...equal, "end"]) }, update("f", ["@@", ...wanted, "-end"].join("\n"))))
    assert.deepInclude(only.changes[0]?.facts, { added: 0, removed: 1 })
  })

  it("reads a hunk of a hundred thousand blank lines, and as many sections", () => {
    const blank = `--- a/f\n+++ b/f\n@@\n+x\n${"\n".repeat(100_000)}-y\n`
    assert.strictEqual(failure(planOf({ f: "y\n" }, blank))._tag, "CONTEXT_NOT_FOUND")
    const sections = Array.from({ length: 30_000 }, (_, index) => `*** Add File: f${index}\n+x\n`).join("")
    assert.strictEqual(success(planOf({}, `*** Begin Patch\n${sections}*** End Patch`)).targets.length, 30_000)
  })

  it("takes lines and files of several megabytes", () => {
    const huge = "x".repeat(4_000_000)
    assert.deepInclude(success(planOf({ f: `${huge}\n` }, update("f", `@@\n-${huge}\n+y`))).changes[0]?.facts, { added: 1, removed: 1 })
    const added = success(planOf({}, `*** Begin Patch\n*** Add File: f\n${"+a line of text\n".repeat(200_000)}*** End Patch`))
    assert.strictEqual(added.targets[0]?.after?.bytes.length, 200_000 * 15)
  })

  it("looks for an edit's text where nearly everything is like it", () => {
    const much = "a".repeat(3_000_000)
    const old = `${"a".repeat(40_000)}b${"a".repeat(40_000)}`
    const edited = (text: string) => planEdits("f", [{ old, new: "x" }], filesOf({ f: text }), versionOf)
    assert.strictEqual(failure(edited(much))._tag, "CONTEXT_NOT_FOUND")
    assert.strictEqual(textAfter(success(edited(`${much}b${much}`)), "f"), `${"a".repeat(2_960_000)}x${"a".repeat(2_960_000)}`)
  })

  it("counts what changed between two large files with nothing in common", () => {
    const files = filesOf({ f: textOf(numbered(100_000)) })
    const written = success(planWrite("f", textOf(numbered(100_000).map((line) => `${line};`)), files, versionOf))
    assert.deepInclude(written.changes[0]?.facts, { added: 100_000, removed: 100_000 })
  })

  it("bounds its notes however many hunks were found only loosely", () => {
    const lines = numbered(300)
    const hunks = lines.map((line) => `@@\n-${line}  \n+x`)
    const { notes } = success(planOf({ f: textOf(lines) }, update("f", hunks.join("\n"))))
    assert.strictEqual(notes.length, 1)
    assert.match(notes[0] ?? "", /^"f": hunks 1, 2, .* 20 and 280 more were found only by ignoring trailing white space\.$/u)
  })
})

describe("cost", () => {
  it("edits one line of 50,000 without decoding the file", () => {
    const lines = Array.from({ length: 50_000 }, (_, index) => `  const value${index} = compute(${index}, "some text")`)
    const text = `${lines.join("\n")}\n`
    const files = { f: bytesOf(text) }
    const patch = update("f", `@@\n ${lines[40_000]}\n-${lines[40_001]}\n+  changed\n ${lines[40_002]}`)
    const once = () => {
      const start = performance.now()
      assert.strictEqual(success(planOf(files, patch)).changes[0]?.facts.added, 1)
      return performance.now() - start
    }
    const times = Array.from({ length: 9 }, once).toSorted((a, b) => a - b)
    assert.isBelow(times[0] ?? Number.POSITIVE_INFINITY, 150, "milliseconds, at best of nine; a few on an idle machine")
  })
})

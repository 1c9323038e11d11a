import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { ReadArguments, ReadResult } from "../../src/schema/Files.ts"
import type { ReadReply } from "../../src/services/FileRead.ts"
import type { Files } from "../../src/services/Files.ts"
import { openFiles } from "../support/Looking.ts"

const versionOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex").slice(0, 16)
const latin1 = (text: string) => Buffer.from(text, "utf8").toString("latin1")

/** Reads to the end, page by page, as a caller would. */
const readThrough = Effect.fnUntraced(function* (files: Files["Service"], args: ReadArguments) {
  const pages: Array<ReadResult> = []
  let next: ReadArguments | undefined = args
  while (next !== undefined) {
    const { result }: ReadReply = yield* files.read(next)
    pages.push(result)
    const { start_line: _line, start_byte: _byte, max_lines: lines, ...same }: ReadArguments = next
    next = undefined
    if (result.next_line !== undefined)
      next = { ...same, start_line: result.next_line, ...(lines === undefined ? {} : { max_lines: lines }) }
    else if (result.next_byte !== undefined) next = { ...same, start_byte: result.next_byte }
    assert.strictEqual(result.truncated, next !== undefined)
  }
  return pages
})

const joined = (pages: ReadonlyArray<ReadResult>) => pages.map(({ text }) => text).join("")

describe("read", () => {
  it.live("gives text as it is, and what there is to know about it", () =>
    Effect.gen(function* () {
      const text = "eins\nzw\u00f6lf \u2713\n\n\u{1f600} Ende"
      const { files } = yield* openFiles({ "a/f.txt": latin1(text) })
      assert.deepStrictEqual(yield* files.read({ path: "./a/f.txt" }), {
        result: {
          path: "a/f.txt",
          version: versionOf(Buffer.from(text)),
          size: Buffer.byteLength(text),
          text,
          start_line: 1,
          total_lines: 4,
          eol: "lf",
          bom: false,
          truncated: false,
        },
      })
    }),
  )

  it.live("names line ends and counts lines", () =>
    Effect.gen(function* () {
      const cases = [
        ["", "none", 0],
        ["a", "none", 1],
        ["a\n", "lf", 1],
        ["a\nb", "lf", 2],
        ["a\r\nb\r\n", "crlf", 2],
        ["a\rb\rc", "cr", 3],
        ["a\r\nb\n", "mixed", 2],
        ["a\rb\n", "mixed", 1],
        ["\n\n", "lf", 2],
        ["\xef\xbb\xbf", "none", 0],
      ] as const
      const { files } = yield* openFiles(Object.fromEntries(cases.map(([text], index) => [`f${index}`, text])))
      for (const [index, [text, eol, lines]] of cases.entries()) {
        const { result } = yield* files.read({ path: `f${index}` })
        assert.deepStrictEqual([result.eol, result.total_lines], [eol, lines], JSON.stringify(text))
      }
    }),
  )

  it.live("keeps a BOM out of the text and says that it is there", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({ f: "\xef\xbb\xbfone\ntwo\n" })
      const { result } = yield* files.read({ path: "f" })
      assert.deepStrictEqual([result.text, result.bom, result.size], ["one\ntwo\n", true, 11])
      assert.strictEqual((yield* files.read({ path: "f", start_line: 2 })).result.text, "two\n")
      const bytes = yield* files.read({ path: "f", start_byte: 0, max_bytes: 3 })
      assert.deepStrictEqual([bytes.result.text, bytes.result.start_byte, bytes.result.next_byte], ["one", 3, 6])
      assert.strictEqual((yield* files.read({ path: "f", start_byte: 1, max_bytes: 100 })).result.text, "one\ntwo\n")
    }),
  )

  it.live("reads a range of lines", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({ f: "1\n2\n3\n4\n5", cr: "1\r2\r3\r4" })
      const middle = yield* files.read({ path: "f", start_line: 2, max_lines: 2 })
      assert.deepStrictEqual([middle.result.text, middle.result.start_line, middle.result.next_line], ["2\n3\n", 2, 4])
      const end = yield* files.read({ path: "f", start_line: 4, max_lines: 9 })
      assert.deepStrictEqual([end.result.text, end.result.truncated, end.result.next_line], ["4\n5", false, undefined])
      const behind = yield* files.read({ path: "f", start_line: 9 })
      assert.deepStrictEqual([behind.result.text, behind.result.truncated, behind.result.total_lines], ["", false, 5])
      const returns = yield* files.read({ path: "cr", start_line: 2, max_lines: 2 })
      assert.deepStrictEqual([returns.result.text, returns.result.next_line, returns.result.total_lines], ["2\r3\r", 4, 4])
    }),
  )

  it.live("gives 800 lines and 40,000 bytes when nothing is said, and as many bytes as are asked for", () =>
    Effect.gen(function* () {
      const short = "x\n".repeat(1000)
      const long = `${"y".repeat(99)}\n`.repeat(1000)
      const { files } = yield* openFiles({ short, long })
      const byLines = (yield* files.read({ path: "short" })).result
      assert.deepStrictEqual([byLines.text, byLines.next_line], ["x\n".repeat(800), 801])
      const byBytes = (yield* files.read({ path: "long" })).result
      assert.deepStrictEqual([byBytes.text?.length, byBytes.next_line], [40_000, 401])
      const whole = (yield* files.read({ path: "long", max_bytes: 2_000_000 })).result
      assert.deepStrictEqual([whole.text, whole.truncated], [long, false])
      const ragged = (yield* files.read({ path: "long", max_bytes: 250 })).result
      assert.deepStrictEqual([ragged.text?.length, ragged.next_line], [200, 3])
    }),
  )

  it.live("goes on inside one huge line, and never splits a character", () =>
    Effect.gen(function* () {
      const text = `${"a\u00e4\u2713\u{1f600}".repeat(300)}\nshort\n${"\u{1f600}".repeat(50)}`
      const { files } = yield* openFiles({ f: latin1(text) })
      for (const size of [1, 2, 3, 5, 7, 64, 1000]) {
        const pages = yield* readThrough(files, { path: "f", max_bytes: size })
        assert.strictEqual(joined(pages), text, `pages of ${size}`)
        assert.isTrue(pages.every((page) => Buffer.byteLength(page.text ?? "") <= Math.max(size, 4)))
      }
      const inside = (yield* files.read({ path: "f", start_byte: 2, max_bytes: 3 })).result
      assert.deepStrictEqual([inside.text, inside.start_byte, inside.next_byte, inside.start_line], ["\u00e4", 1, 3, 1])
      const later = (yield* files.read({ path: "f", start_byte: Buffer.byteLength(text) - 4 })).result
      assert.deepStrictEqual([later.text, later.start_line, later.truncated], ["\u{1f600}", 3, false])
    }),
  )

  it.live("pages lines without a gap or a repetition", () =>
    Effect.gen(function* () {
      const text = Array.from({ length: 500 }, (_, index) => "\u00e4".repeat(index % 90)).join("\r\n")
      const { files } = yield* openFiles({ f: latin1(text) })
      for (const limits of [{ max_lines: 7 }, { max_lines: 50, max_bytes: 300 }, { max_bytes: 1000 }])
        assert.strictEqual(joined(yield* readThrough(files, { path: "f", ...limits })), text)
    }),
  )

  it.live("says binary, and gives bytes on request", () =>
    Effect.gen(function* () {
      const bytes = Buffer.concat([Buffer.alloc(9000, "text "), Buffer.alloc(1240)])
      const { files } = yield* openFiles({ f: bytes.toString("latin1"), "x.pdf": "%PDF-1.7 \x00\xff", text: "plain" })
      assert.deepStrictEqual(yield* files.read({ path: "f" }), {
        result: {
          path: "f",
          version: versionOf(bytes),
          size: 10_240,
          binary: true,
          mime_type: "application/octet-stream",
          truncated: false,
        },
      })
      assert.strictEqual((yield* files.read({ path: "x.pdf" })).result.mime_type, "application/pdf")
      const page = (yield* files.read({ path: "f", encoding: "base64", start_byte: 8998, max_bytes: 4 })).result
      assert.deepStrictEqual(Buffer.from(page.base64 ?? "", "base64"), bytes.subarray(8998, 9002))
      assert.deepStrictEqual([page.start_byte, page.next_byte, page.truncated], [8998, 9002, true])
      const all = (yield* files.read({ path: "f", encoding: "base64" })).result
      assert.deepStrictEqual([Buffer.from(all.base64 ?? "", "base64").equals(bytes), all.truncated], [true, false])
      assert.strictEqual((yield* files.read({ path: "text", encoding: "base64" })).result.base64, "cGxhaW4=")
    }),
  )

  it.live("refuses what was asked for as text and is none", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({
        nul: "a\x00b",
        latin: "caf\xe9\n",
        cut: "ok \xe2\x9c",
        little: "\xff\xfea\x00",
        big: "\xfe\xff\x00a",
      })
      const refusal = (path: string) => Effect.flip(files.read({ path, encoding: "text" }))
      assert.strictEqual((yield* refusal("nul"))._tag, "NOT_TEXT")
      const found = {
        latin: "not valid UTF-8",
        cut: "not valid UTF-8",
        little: "UTF-16 (little-endian)",
        big: "UTF-16 (big-endian)",
      }
      for (const [path, encoding] of Object.entries(found)) {
        const failure = yield* refusal(path)
        assert.strictEqual(failure._tag === "ENCODING_UNSUPPORTED" && failure.found, encoding)
        const { result } = yield* files.read({ path })
        assert.deepStrictEqual([result.binary, result.text], [true, undefined])
      }
      assert.strictEqual((yield* files.read({ path: "little" })).result.mime_type, "text/plain; charset=utf-16le")
    }),
  )

  it.live("gives images beside the result, up to a size", () =>
    Effect.gen(function* () {
      const starts = { png: "\x89PNG\r\n\x1a\n", jpeg: "\xff\xd8\xff\xe0", gif: "GIF89a\x00", webp: "RIFF\x00\x00\x00\x00WEBP" }
      const { files } = yield* openFiles({
        ...Object.fromEntries(Object.entries(starts).map(([kind, start]) => [kind, `${start}\x00rest`])),
        large: `${starts.png}${"\x00".repeat(1_000_000)}`,
        wave: "RIFF\x00\x00\x00\x00WAVE",
      })
      for (const [kind, start] of Object.entries(starts)) {
        const { result, image } = yield* files.read({ path: kind })
        assert.deepStrictEqual([result.mime_type, image?.mimeType], [`image/${kind}`, `image/${kind}`])
        assert.strictEqual(Buffer.from(image?.data ?? "", "base64").toString("latin1"), `${start}\x00rest`)
      }
      for (const path of ["large", "wave"]) assert.strictEqual((yield* files.read({ path })).image, undefined)
    }),
  )

  it.live("refuses what is no file, at once", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles({ "d/f": "" }, { files: [{ glob: "secret", access: "deny" }] })
      execFileSync("mkfifo", [join(folder, "pipe")])
      fs.symlinkSync("/dev/zero", join(folder, "device"))
      const code = (path: string) => Effect.map(Effect.flip(files.read({ path })), ({ _tag }) => _tag)
      assert.strictEqual(yield* code("pipe").pipe(Effect.timeout("2 seconds")), "SPECIAL_FILE_REJECTED")
      assert.strictEqual(yield* code("device"), "PATH_ESCAPE")
      assert.strictEqual(yield* code("d"), "NOT_A_FILE")
      assert.strictEqual(yield* code("none"), "PATH_NOT_FOUND")
      assert.strictEqual(yield* code("../none"), "PATH_ESCAPE")
      assert.strictEqual(yield* code("secret"), "POLICY_DENIED")
    }),
  )

  it.live("refuses two ways to ask for a part", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({ f: "1" })
      const code = (args: Omit<ReadArguments, "path">) => Effect.map(Effect.flip(files.read({ path: "f", ...args })), ({ _tag }) => _tag)
      assert.strictEqual(yield* code({ start_line: 1, start_byte: 0 }), "INVALID_ARGUMENTS")
      assert.strictEqual(yield* code({ max_lines: 1, start_byte: 0 }), "INVALID_ARGUMENTS")
      assert.strictEqual(yield* code({ start_line: 1, encoding: "base64" }), "INVALID_ARGUMENTS")
    }),
  )

  it.live("keeps its memory while the file grows, and lets others work meanwhile", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles({})
      const line = `${"z\u00e4hl".repeat(20)}\r\n`
      const lines = 500_000
      const handle = fs.openSync(join(folder, "big"), "w")
      const hash = createHash("sha256")
      const chunk = Buffer.from(line.repeat(1000))
      for (let index = 0; index < lines / 1000; index++) {
        fs.writeSync(handle, chunk)
        hash.update(chunk)
      }
      fs.closeSync(handle)
      let turns = 0
      const ticking = setInterval(() => turns++, 1)
      const before = process.memoryUsage()
      const { result } = yield* files.read({ path: "big", start_line: 300_000, max_lines: 2 })
      const after = process.memoryUsage()
      clearInterval(ticking)
      assert.deepStrictEqual([result.text, result.next_line, result.total_lines, result.eol], [line.repeat(2), 300_002, lines, "crlf"])
      assert.strictEqual(result.version, hash.digest("hex").slice(0, 16))
      assert.isAbove(turns, 2)
      assert.isBelow(after.rss - before.rss, 60_000_000)
      const inside = (yield* files.read({ path: "big", start_byte: 50_000_001, max_bytes: 10 })).result
      const expected = Buffer.from(line.repeat(2))
      const offset = 50_000_001 % Buffer.byteLength(line)
      assert.include(expected.subarray(Math.max(0, offset - 1), offset + 12).toString(), inside.text ?? "missing")
      assert.strictEqual(inside.start_line, Math.floor(50_000_001 / Buffer.byteLength(line)) + 1)
    }),
  )
})

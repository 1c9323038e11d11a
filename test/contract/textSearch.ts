/** What every way to search text is held to, through the files service. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import type { SearchArguments, SearchResult } from "../../src/schema/Files.ts"
import type { Files } from "../../src/services/Files.ts"
import type { TextSearch } from "../../src/services/TextSearch.ts"
import { openFiles } from "../support/Looking.ts"

const placesOf = ({ matches }: SearchResult) => matches.map(({ path, line, text }) => `${path}:${line}:${text}`)

const searchAll = Effect.fnUntraced(function* (files: Files["Service"], args: SearchArguments) {
  const pages: Array<SearchResult> = []
  let cursor: string | undefined
  do {
    const page: SearchResult = yield* files.search({ ...args, ...(cursor === undefined ? {} : { cursor }) })
    pages.push(page)
    cursor = page.cursor
    assert.strictEqual(page.truncated, cursor !== undefined)
  } while (cursor !== undefined)
  return pages
})

export const textSearchContract = (name: string, search: Layer.Layer<TextSearch>): void => {
  const opened = (tree: Parameters<typeof openFiles>[0], options: Parameters<typeof openFiles>[1] = {}) =>
    openFiles(tree, { ...options, search })

  describe(name, () => {
    it.live("finds lines, sorted by path and line, also in hidden files, and says what it left out", () =>
      Effect.gen(function* () {
        const { files } = yield* opened({
          "b.txt": "one needle\nnone\nneedle two",
          "a/c.txt": "needle\n",
          ".hidden/h": "a needle\n",
          "dist/out.js": "needle\n",
          "B.txt": "needle\r\n",
          ".git/x": "needle\n",
          ".gitignore": "dist/\n",
        })
        const result = yield* files.search({ pattern: "needle" })
        assert.deepStrictEqual(placesOf(result), [
          ".hidden/h:1:a needle",
          "B.txt:1:needle",
          "a/c.txt:1:needle",
          "b.txt:1:one needle",
          "b.txt:3:needle two",
        ])
        assert.deepStrictEqual(
          { ...result, matches: [] },
          { matches: [], files_matched: 4, truncated: false, left_out: { ".git folders": 1, gitignore: 1 } },
        )
        const ignored = yield* files.search({ pattern: "needle", include_ignored: true, glob: "dist/**" })
        assert.deepStrictEqual(placesOf(ignored), ["dist/out.js:1:needle"])
        const none = yield* files.search({ pattern: "nothing like it" })
        assert.deepStrictEqual([none.matches, none.files_matched, none.truncated], [[], 0, false])
      }),
    )

    it.live("takes regular expressions, plain text and letter case as it is told", () =>
      Effect.gen(function* () {
        const { files } = yield* opened({ f: "Foo(bar)\nfoo.bar\nfooxbar\nFOO\n", w: "end\r\nendless\r\n" })
        const lines = (args: SearchArguments) =>
          Effect.map(files.search(args), ({ matches }) => matches.map(({ path, line }) => `${path}${line}`))
        assert.deepStrictEqual(yield* lines({ pattern: "foo.bar" }), ["f2", "f3"])
        assert.deepStrictEqual(yield* lines({ pattern: "foo.bar", literal: true }), ["f2"])
        assert.deepStrictEqual(yield* lines({ pattern: "Foo(", literal: true }), ["f1"])
        assert.deepStrictEqual(yield* lines({ pattern: "foo", case: "insensitive" }), ["f1", "f2", "f3", "f4"])
        assert.deepStrictEqual(yield* lines({ pattern: "foo", case: "smart" }), ["f1", "f2", "f3", "f4"])
        assert.deepStrictEqual(yield* lines({ pattern: "Foo", case: "smart" }), ["f1"])
        assert.deepStrictEqual(yield* lines({ pattern: "^foo\\w+$" }), ["f3"])
        assert.deepStrictEqual(yield* lines({ pattern: "end$" }), ["w1"])
        assert.deepStrictEqual(yield* lines({ pattern: "--files", literal: true }), [])
      }),
    )

    it.live("refuses a pattern that is none, with the reason", () =>
      Effect.gen(function* () {
        const { files } = yield* opened({ f: "x" })
        const refusal = yield* Effect.flip(files.search({ pattern: "a(b" }))
        assert.strictEqual(refusal._tag, "INVALID_ARGUMENTS")
        assert.match(refusal.message, /unclosed group|[Uu]nterminated group/)
        for (const pattern of ["a\nb", "a\0b"])
          assert.strictEqual((yield* Effect.flip(files.search({ pattern, literal: true })))._tag, "INVALID_ARGUMENTS")
      }),
    )

    it.live("searches only what a glob names", () =>
      Effect.gen(function* () {
        const paths = ["a.ts", "a.md", "src/b.ts", "src/deep/c.ts", "src/deep/c.md", "src/a.log", "ignored/d.ts", "src/[id]/e.ts"]
        const { folder, files } = yield* opened({
          ...Object.fromEntries(paths.map((path) => [path, "needle\n"])),
          ".gitignore": "ignored/\n*.log\n",
        })
        const found = (glob: string) =>
          Effect.map(files.search({ pattern: "needle", glob }), ({ matches }) => matches.map(({ path }) => path))
        assert.deepStrictEqual(yield* found("*.ts"), ["a.ts"])
        assert.deepStrictEqual(yield* found("**/*.ts"), ["a.ts", "src/[id]/e.ts", "src/b.ts", "src/deep/c.ts"])
        assert.deepStrictEqual(yield* found("src/**/*.{md,txt}"), ["src/deep/c.md"])
        assert.deepStrictEqual(yield* found("src/**"), ["src/[id]/e.ts", "src/b.ts", "src/deep/c.md", "src/deep/c.ts"])
        assert.deepStrictEqual(yield* found("src"), ["src/[id]/e.ts", "src/b.ts", "src/deep/c.md", "src/deep/c.ts"])
        assert.deepStrictEqual(yield* found("src/[id]/*"), ["src/[id]/e.ts"])
        assert.deepStrictEqual(yield* found("ignored/d.ts"), ["ignored/d.ts"])
        assert.deepStrictEqual(yield* found("ignored/*.ts"), ["ignored/d.ts"])
        assert.deepStrictEqual(yield* found(`${folder}/src/deep/**`), ["src/deep/c.md", "src/deep/c.ts"])
        assert.deepStrictEqual(yield* found("none/**"), [])
        assert.strictEqual((yield* Effect.flip(files.search({ pattern: "x", glob: "../**" })))._tag, "PATH_ESCAPE")
      }),
    )

    it.live("shows lines around a match, of its own file only", () =>
      Effect.gen(function* () {
        const { files } = yield* opened({ a: "1\n2\nneedle 3\n4\nneedle 5\n6\n7\n8\n9\nneedle 10", b: "needle\n" })
        const { matches } = yield* files.search({ pattern: "needle", context_lines: 2 })
        assert.deepStrictEqual(matches, [
          { path: "a", line: 3, text: "needle 3", before: ["1", "2"], after: ["4", "needle 5"] },
          { path: "a", line: 5, text: "needle 5", before: ["needle 3", "4"], after: ["6", "7"] },
          { path: "a", line: 10, text: "needle 10", before: ["8", "9"] },
          { path: "b", line: 1, text: "needle" },
        ])
      }),
    )

    it.live("goes on where a page ended, without gap or repetition", () =>
      Effect.gen(function* () {
        const { files } = yield* opened(
          Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`d${index % 2}/f${index}`, "needle\nx\nneedle\nneedle\n"])),
        )
        const whole = placesOf(yield* files.search({ pattern: "needle" }))
        assert.strictEqual(whole.length, 27)
        const pages = yield* searchAll(files, { pattern: "needle", limit: 5 })
        assert.deepStrictEqual(pages.flatMap(placesOf), whole)
        assert.deepStrictEqual(
          pages.map(({ matches }) => matches.length),
          [5, 5, 5, 5, 5, 2],
        )
        assert.isTrue(pages.every((page) => page.files_matched === 9))
        assert.deepStrictEqual(pages[0]?.left_out, { limit: 22 })
        assert.strictEqual((yield* Effect.flip(files.search({ pattern: "x", cursor: "bm9uZQ" })))._tag, "INVALID_ARGUMENTS")
      }),
    )

    it.live("cuts long lines between characters, and bounds an answer by its size", () =>
      Effect.gen(function* () {
        const long = `needle ${"\u{1f600}".repeat(40_000)}`
        const { files } = yield* opened({ long: Buffer.from(long).toString("latin1"), many: `${"needle ".repeat(60)}\n`.repeat(300) })
        const cut = (yield* files.search({ pattern: "needle", glob: "long" })).matches[0]
        assert.deepStrictEqual([cut?.cut, cut?.text.isWellFormed()], [true, true])
        assert.isTrue(long.startsWith(cut?.text.slice(0, -1) ?? "missing"))
        assert.isBelow(cut?.text.length ?? 0, 502)
        const page = yield* files.search({ pattern: "needle", glob: "many" })
        assert.isBelow(page.matches.length, 100)
        const pages = yield* searchAll(files, { pattern: "needle", glob: "many" })
        assert.deepStrictEqual(
          pages.flatMap(({ matches }) => matches.map(({ line }) => line)),
          Array.from({ length: 300 }, (_, at) => at + 1),
        )
      }),
    )

    it.live("shows nothing that the profile denies, and counts it whatever is in it", () =>
      Effect.gen(function* () {
        const { folder, files } = yield* opened(
          { ".env": "needle=1\n", "a/.env": "other\n", "secrets/k": "needle\n", "c.ts": "needle\n" },
          {
            files: [
              { glob: "**/.env*", access: "deny" },
              { glob: "secrets", access: "deny" },
            ],
          },
        )
        fs.symlinkSync(".env", join(folder, "innocent"))
        const found = yield* files.search({ pattern: "needle" })
        assert.deepStrictEqual([placesOf(found), found.files_matched], [["c.ts:1:needle"], 1])
        const none = yield* files.search({ pattern: "nothing" })
        assert.deepStrictEqual(none.left_out, { "denied by profile": 3 })
        assert.deepStrictEqual(found.left_out, none.left_out)
        assert.strictEqual((yield* Effect.flip(files.search({ pattern: "needle", glob: ".env" })))._tag, "POLICY_DENIED")
      }),
    )

    it.live("passes over binary files, pipes, and links", () =>
      Effect.gen(function* () {
        const { folder, files } = yield* opened({
          bin: "needle\n\x00\x00\n",
          bin2: `${"x\n".repeat(10)}needle\x00\n`,
          "d/t": "needle\n",
          latin: "caf\xe9 needle\n",
        })
        execFileSync("mkfifo", [join(folder, "pipe")])
        fs.symlinkSync("d/t", join(folder, "link"))
        fs.symlinkSync("..", join(folder, "d/loop"))
        const result = yield* files.search({ pattern: "needle" }).pipe(Effect.timeout("5 seconds"))
        assert.deepStrictEqual(
          result.matches.filter(({ path }) => !path.startsWith("bin")).map(({ path, text }) => `${path} ${text}`),
          ["d/t needle", "latin caf\ufffd needle"],
        )
        assert.isFalse(JSON.stringify(result).includes("\\u0000"))
        assert.deepStrictEqual(placesOf(yield* files.search({ pattern: "needle", glob: "link" })), ["d/t:1:needle"])
      }),
    )

    it.live("finds text in files with unusual names", () =>
      Effect.gen(function* () {
        const odd = ["-rf", "a b", "a:1:b", "a\u0001b", "\u00e4", "$HOME", "--", "*"]
        const { files } = yield* opened(Object.fromEntries(odd.map((path) => [`${path}/${path}`, "needle\n"])))
        const { matches } = yield* files.search({ pattern: "needle" })
        assert.deepStrictEqual(
          matches.map(({ path }) => path),
          odd.map((path) => `${path}/${path}`).sort(),
        )
        assert.deepStrictEqual(placesOf(yield* files.search({ pattern: "needle", glob: "-rf/*" })), ["-rf/-rf:1:needle"])
      }),
    )
  })
}

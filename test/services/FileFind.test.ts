import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import type { FindArguments } from "../../src/schema/Files.ts"
import { DiskFault, type Root } from "../../src/services/Disk.ts"
import type { Files } from "../../src/services/Files.ts"
import { openFiles } from "../support/Looking.ts"

const names = (...paths: ReadonlyArray<string>) => Object.fromEntries(paths.map((path) => [path, ""]))

/** All pages of an answer. */
const findAll = Effect.fnUntraced(function* (files: Files["Service"], args: FindArguments) {
  const pages: Array<ReadonlyArray<string>> = []
  let cursor: string | undefined
  do {
    const page: { readonly paths: ReadonlyArray<string>; readonly cursor?: string; readonly truncated: boolean } = yield* files.find({
      ...args,
      ...(cursor === undefined ? {} : { cursor }),
    })
    pages.push(page.paths)
    cursor = page.cursor
    assert.strictEqual(page.truncated, cursor !== undefined)
  } while (cursor !== undefined)
  return pages
})

describe("find", () => {
  it.live("lists hidden files, sorted by code units, without what is ignored, and says so", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({
        ...names(
          "b.ts",
          "B.ts",
          "a/z.ts",
          "a.ts",
          "\u00fc.ts",
          ".github/workflows/ci.yml",
          "dist/app.js",
          "node_modules/p/i.js",
          ".git/HEAD",
        ),
        ".gitignore": "dist\nnode_modules/\n",
      })
      const all = yield* files.find({ glob: "**/*" })
      assert.deepStrictEqual(all, {
        paths: [".github/workflows/ci.yml", ".gitignore", "B.ts", "a.ts", "a/z.ts", "b.ts", "\u00fc.ts"],
        considered: 7,
        truncated: false,
        left_out: { ".git folders": 1, gitignore: 2 },
      })
      const ignored = yield* files.find({ glob: "**/*.js", include_ignored: true })
      assert.deepStrictEqual([ignored.paths, ignored.left_out], [["dist/app.js", "node_modules/p/i.js"], { ".git folders": 1 }])
    }),
  )

  it.live("always finds what is named exactly, and a folder as all in it", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles({
        ...names("dist/app.js", "node_modules/p/i.js", ".git/config", "src/[id]/page.ts", "src/x.ts"),
        ".gitignore": "dist\nnode_modules/\n",
      })
      const paths = (glob: string) => Effect.map(files.find({ glob }), (result) => result.paths)
      for (const path of ["dist/app.js", "node_modules/p/i.js", ".git/config", "src/[id]/page.ts"])
        assert.deepStrictEqual(yield* paths(path), [path])
      assert.deepStrictEqual(yield* paths(join(folder, "dist/app.js")), ["dist/app.js"])
      assert.deepStrictEqual(yield* paths("node_modules/**/*.js"), ["node_modules/p/i.js"])
      assert.deepStrictEqual(yield* paths("src"), ["src/[id]/page.ts", "src/x.ts"])
      assert.deepStrictEqual(yield* paths("src/[id]/*"), ["src/[id]/page.ts"])
      assert.deepStrictEqual(yield* paths(`${folder}/src/*.ts`), ["src/x.ts"])
      assert.deepStrictEqual(yield* paths("none.ts"), [])
      assert.deepStrictEqual(yield* paths("none/**"), [])
      assert.deepStrictEqual(yield* paths("src/x.ts/*"), [])
      assert.strictEqual((yield* Effect.flip(files.find({ glob: "../**" })))._tag, "PATH_ESCAPE")
      assert.strictEqual((yield* Effect.flip(files.find({ glob: "/etc/*" })))._tag, "PATH_ESCAPE")
    }),
  )

  it.live("holds rules from above a folder that a glob begins in", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({ ...names("src/a.log", "src/a.ts", "src/gen/b.ts"), ".gitignore": "*.log\n/src/gen\n" })
      assert.deepStrictEqual((yield* files.find({ glob: "src/**" })).paths, ["src/a.ts"])
      assert.deepStrictEqual((yield* files.find({ glob: "src/gen/*" })).paths, ["src/gen/b.ts"])
    }),
  )

  it.live("goes on where a page ended", () =>
    Effect.gen(function* () {
      const paths = Array.from({ length: 57 }, (_, index) => `d${index % 5}/f${index}.ts`)
      const { files } = yield* openFiles(names(...paths))
      const first = yield* files.find({ glob: "**/*.ts", limit: 10 })
      assert.deepStrictEqual([first.paths.length, first.truncated, first.left_out], [10, true, { limit: 47 }])
      const pages = yield* findAll(files, { glob: "**/*.ts", limit: 10 })
      assert.deepStrictEqual(pages.flat(), paths.sort())
      assert.deepStrictEqual(
        pages.map((page) => page.length),
        [10, 10, 10, 10, 10, 7],
      )
      assert.strictEqual((yield* files.find({ glob: "**", limit: 57 })).truncated, false)
      assert.strictEqual((yield* Effect.flip(files.find({ glob: "**", cursor: "%%" })))._tag, "INVALID_ARGUMENTS")
    }),
  )

  it.live("bounds an answer by its size too", () =>
    Effect.gen(function* () {
      const paths = Array.from({ length: 400 }, (_, index) => `${"long".repeat(50)}${index}`)
      const { files } = yield* openFiles(names(...paths))
      const page = yield* files.find({ glob: "**", limit: 5000 })
      assert.isFalse(page.truncated)
      const standard = yield* files.find({ glob: "**" })
      assert.isBelow(standard.paths.join("").length, 40_001)
      assert.deepStrictEqual(standard.left_out, { limit: 400 - standard.paths.length })
      assert.deepStrictEqual((yield* findAll(files, { glob: "**" })).flat(), paths.sort())
    }),
  )

  it.live("hides what the profile denies, and counts it", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles(names(".env", "a/.env.local", "a/b.ts", "secrets/deep/k", "c.ts"), {
        files: [
          { glob: "**/.env*", access: "deny" },
          { glob: "secrets", access: "deny" },
        ],
      })
      fs.symlinkSync(".env", join(folder, "innocent"))
      const { paths, left_out } = yield* files.find({ glob: "**", include_ignored: true })
      assert.deepStrictEqual([paths, left_out], [["a/b.ts", "c.ts"], { "denied by profile": 4 }])
      assert.strictEqual((yield* Effect.flip(files.find({ glob: ".env" })))._tag, "POLICY_DENIED")
      assert.strictEqual((yield* Effect.flip(files.find({ glob: "secrets/**" })))._tag, "POLICY_DENIED")
    }),
  )

  it.live("is not disturbed by links and special files", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles(names("a/1", "a/2", "b/3"))
      fs.symlinkSync("..", join(folder, "a/loop"))
      fs.symlinkSync("1", join(folder, "a/to-file"))
      fs.symlinkSync("nowhere", join(folder, "a/dangling"))
      fs.symlinkSync("round", join(folder, "a/round"))
      fs.symlinkSync("/etc/passwd", join(folder, "a/out"))
      execFileSync("mkfifo", [join(folder, "b/pipe")])
      const result = yield* files.find({ glob: "**" }).pipe(Effect.timeout("2 seconds"))
      assert.deepStrictEqual(result.paths, ["a/1", "a/2", "a/to-file", "b/3"])
      assert.deepStrictEqual(result.left_out, { "links out of the workspace": 1, "links to folders": 1, "not a regular file": 1 })
      assert.deepStrictEqual(result.unreadable, [
        { path: "a/dangling", reason: "a link to nothing" },
        { path: "a/round", reason: "a link into a loop" },
      ])
      fs.symlinkSync("a", join(folder, "linked"))
      assert.deepStrictEqual((yield* files.find({ glob: "linked/*" })).paths, ["a/1", "a/2", "a/to-file"])
    }),
  )

  it.live("reports a folder that cannot be listed, and goes on", () =>
    Effect.gen(function* () {
      const through = (root: Root): Root => ({
        ...root,
        list: (path) => (path === "closed" ? Effect.fail(new DiskFault({ operation: "list", path, code: "EACCES" })) : root.list(path)),
      })
      const { files } = yield* openFiles(names("a/1", "closed/2", "z/3"), { through })
      const { paths, unreadable, truncated } = yield* files.find({ glob: "**" })
      assert.deepStrictEqual([paths, unreadable, truncated], [["a/1", "z/3"], [{ path: "closed", reason: "EACCES" }], false])
    }),
  )

  it.live("reports names that cannot be written as text", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles(names("fine", "with \ufffd in it"))
      fs.writeFileSync(Buffer.concat([Buffer.from(`${folder}/bad`), Buffer.from([0xff])]), "")
      fs.mkdirSync(Buffer.concat([Buffer.from(`${folder}/folder`), Buffer.from([0xff])]))
      const { paths, unreadable } = yield* files.find({ glob: "**" })
      assert.deepStrictEqual(paths, ["fine", "with \ufffd in it"])
      assert.deepStrictEqual(
        unreadable?.map(({ path }) => path),
        ["bad\ufffd", "folder\ufffd"],
      )
    }),
  )

  it.effect("ends in time with what it has", () =>
    Effect.gen(function* () {
      const through = (root: Root): Root => ({ ...root, list: (path) => Effect.tap(root.list(path), TestClock.adjust("4 seconds")) })
      const { files } = yield* openFiles(names("1", "a/2", "a/b/3", "a/b/c/4", "a/b/c/d/5"), { through })
      const { paths, unreadable, truncated } = yield* files.find({ glob: "**" })
      assert.deepStrictEqual([paths, truncated], [["1", "a/2", "a/b/3"], true])
      assert.deepStrictEqual(unreadable, [{ path: ".", reason: "not all was looked at within 10 seconds" }])
    }),
  )
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { ConfinedPath } from "../../src/schema/Workspace.ts"
import type { Root } from "../../src/services/Disk.ts"
import { TextSearch } from "../../src/services/TextSearch.ts"
import { openFiles } from "../support/Looking.ts"

const found = { path: ConfinedPath.make("a"), lines: [{ line: 1, text: "needle", isMatch: true }] }

/** Finds one line, and goes on searching. */
const endless = Layer.succeed(TextSearch, {
  search: (_request, onFile) =>
    Effect.andThen(
      Effect.sync(() => onFile(found)),
      Effect.never,
    ),
})

const quick = Layer.succeed(TextSearch, {
  search: (_request, onFile) =>
    Effect.as(
      Effect.sync(() => onFile(found)),
      [],
    ),
})

describe("search", () => {
  it.effect("ends in time with what it has", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles({ a: "needle" }, { search: endless })
      const fiber = yield* Effect.forkChild(files.search({ pattern: "needle" }), { startImmediately: true })
      yield* TestClock.adjust("20 seconds")
      const { matches, truncated, unreadable } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([matches.length, truncated], [1, true])
      assert.deepStrictEqual(unreadable, [{ path: ".", reason: "not all was searched within 20 seconds" }])
    }),
  )

  it.effect("counts what it leaves out once for many searches, and again later", () =>
    Effect.gen(function* () {
      let lists = 0
      const through = (root: Root): Root => ({
        ...root,
        list: (path) =>
          Effect.suspend(() => {
            lists++
            return root.list(path)
          }),
      })
      const { files } = yield* openFiles({ a: "", "b.log": "", ".gitignore": "*.log" }, { search: quick, through })
      for (const pattern of ["one", "two"]) assert.deepStrictEqual((yield* files.search({ pattern })).left_out, { gitignore: 1 })
      assert.strictEqual(lists, 1)
      assert.deepStrictEqual((yield* files.search({ pattern: "one", glob: "*.md" })).left_out, {})
      assert.strictEqual(lists, 2)
      yield* TestClock.adjust("31 seconds")
      yield* files.search({ pattern: "one" })
      assert.strictEqual(lists, 3)
    }),
  )
})

import { chmodSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { rgPath } from "@vscode/ripgrep"
import { Effect, Fiber } from "effect"
import * as Ripgrep from "../../src/layers/Ripgrep.ts"
import { textSearchContract } from "../contract/textSearch.ts"
import { openFiles } from "../support/Looking.ts"

textSearchContract("ripgrep", Ripgrep.layer)

/** Running ripgrep processes with this text among their arguments. */
const running = (text: string) =>
  readdirSync("/proc").filter((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8")
      return command.startsWith(rgPath) && command.includes(text)
    } catch {
      return false
    }
  })

const isRoot = process.getuid?.() === 0
if (isRoot) console.warn("Ripgrep.test.ts does not test unreadable files: root can read them all")

describe("a folder without permission", () => {
  it.live.skipIf(isRoot)("is reported, and does not end find and search", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles(
        { "a/1": "needle", "closed/2": "needle", "z/3": "needle", "z/4": "needle" },
        { search: Ripgrep.layer },
      )
      chmodSync(join(folder, "z/4"), 0o000)
      chmodSync(join(folder, "closed"), 0o000)
      const found = yield* files.find({ glob: "**" })
      const searched = yield* files.search({ pattern: "needle" })
      const invalid = yield* Effect.flip(files.search({ pattern: "a(b" }))
      chmodSync(join(folder, "closed"), 0o700)
      assert.deepStrictEqual([found.paths, found.unreadable], [["a/1", "z/3", "z/4"], [{ path: "closed", reason: "EACCES" }]])
      assert.deepStrictEqual(
        searched.matches.map(({ path }) => path),
        ["a/1", "z/3"],
      )
      assert.deepStrictEqual(searched.unreadable, [
        { path: "closed", reason: "Permission denied (os error 13)" },
        { path: "z/4", reason: "Permission denied (os error 13)" },
      ])
      assert.strictEqual(invalid._tag, "INVALID_ARGUMENTS")
    }),
  )
})

describe("the child", () => {
  it.live("ends when the search is interrupted, and inherits no environment", () =>
    Effect.gen(function* () {
      const { files } = yield* openFiles(
        Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}`, "slow line of text\n".repeat(200_000)])),
        { search: Ripgrep.layer },
      )
      const mark = `never${process.pid}`
      const search = Effect.forkChild(files.search({ pattern: `(\\w+ ){2,9}(.*a.*e.*|.*t.*x){1,9}${mark}` }), { startImmediately: true })
      let fiber = yield* search
      let pid = running(mark)[0]
      // On a machine with other work it may have come and gone between two looks.
      while (pid === undefined) {
        if (fiber.pollUnsafe() !== undefined) fiber = yield* search
        yield* Effect.promise(() => new Promise(setImmediate))
        pid = running(mark)[0]
      }
      assert.strictEqual(readFileSync(`/proc/${pid}/environ`, "utf8"), "")
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(running(mark), [])
    }),
  )
})

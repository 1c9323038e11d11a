import * as fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { DiskFault, type Root } from "../../src/services/Disk.ts"
import * as PlainSearch from "../../src/services/PlainSearch.ts"
import { textSearchContract } from "../contract/textSearch.ts"
import { openFiles } from "../support/Looking.ts"

textSearchContract("without another program", PlainSearch.layer)

describe("without another program", () => {
  it.live("reports what cannot be read, and goes on", () =>
    Effect.gen(function* () {
      const fault = (path: string) => Effect.fail(new DiskFault({ operation: "read", path, code: "EACCES" }))
      const through = (root: Root): Root => ({
        ...root,
        list: (path) => (path === "closed" ? fault(path) : root.list(path)),
        readFile: (path) => (path === "a/2" ? fault(path) : root.readFile(path)),
      })
      const { folder, files } = yield* openFiles({ "a/1": "needle", "a/2": "needle", "closed/3": "x", "z/4": "needle" }, { through })
      fs.truncateSync(join(folder, "z/4"), 10_000_001)
      const { matches, unreadable } = yield* files.search({ pattern: "needle" })
      assert.deepStrictEqual(
        matches.map(({ path }) => path),
        ["a/1"],
      )
      assert.deepStrictEqual(unreadable, [
        { path: "a/2", reason: "EACCES" },
        { path: "closed", reason: "EACCES" },
        { path: "z/4", reason: "larger than 10000000 bytes" },
      ])
    }),
  )
})

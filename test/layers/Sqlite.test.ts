import { statSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import { Store } from "../../src/services/Store.ts"
import { layerIn } from "../support/Records.ts"
import { temporaryFolder } from "../support/Tree.ts"

const file = Effect.map(temporaryFolder, (folder) => join(folder, "records.sqlite"))
const journalMode = Effect.map(
  SqlClient.SqlClient.use((sql) => sql<{ readonly journal_mode: string }>`PRAGMA journal_mode`),
  ([row]) => row?.journal_mode,
)

describe("opening", () => {
  it.live("waits for another server that is just making the same file", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const other = new DatabaseSync(filename)
      other.exec("BEGIN IMMEDIATE; CREATE TABLE t (i INTEGER)")
      const opening = yield* Effect.forkChild(Effect.provide(journalMode, Sqlite.layer(filename)), { startImmediately: true })
      yield* Effect.sleep(50)
      other.exec("COMMIT")
      assert.strictEqual(yield* Fiber.join(opening), "wal")
      other.close()
    }),
  )

  it.live("refuses what is no database at once", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(Effect.provide(journalMode, Sqlite.layer("/nowhere-at-all/records.sqlite")))
      assert.strictEqual(refused._tag, "SqlError")
    }),
  )
})

const MEGABYTE = 1024 * 1024

describe("the write-ahead log", () => {
  const operations = (count: number) =>
    Effect.gen(function* () {
      const store = yield* Store
      for (let n = 0; n < count; n += 1) {
        const { operation } = yield* store.begin({
          key: undefined,
          caller: "local",
          workspaceId: "app",
          kind: "write",
          fingerprint: "f",
          checkOnly: false,
        })
        yield* store.settle(operation, { state: "done", result: { status: "applied", changes: [] } })
      }
    })
  const stored = (filename: string) => layerIn(Sqlite.layer(filename))
  const logOf = (filename: string) => statSync(`${filename}-wal`).size / MEGABYTE

  it.live("stays small over 2,000 operations while another server's connection stays open and reads", () =>
    Effect.gen(function* () {
      const filename = yield* file
      yield* Effect.gen(function* () {
        const reader = new DatabaseSync(filename, { readOnly: true })
        const count = reader.prepare("SELECT count(*) AS operations FROM operations")
        for (let round = 0; round < 20; round += 1) {
          yield* operations(100)
          assert.deepEqual({ ...count.get() }, { operations: (round + 1) * 100 })
        }
        assert.isBelow(logOf(filename), 8)
        reader.close()
      }).pipe(Effect.provide(stored(filename)))
    }),
  )

  it.live("is cut again after somebody kept one snapshot open, which is all that makes it grow", () =>
    Effect.gen(function* () {
      const filename = yield* file
      yield* Effect.gen(function* () {
        const reader = new DatabaseSync(filename, { readOnly: true })
        reader.exec("BEGIN")
        reader.prepare("SELECT count(*) FROM operations").get()
        yield* operations(1_000)
        assert.isAbove(logOf(filename), 20)
        reader.exec("COMMIT")
        yield* operations(10)
        assert.isAtMost(logOf(filename), 16)
        reader.close()
      }).pipe(Effect.provide(stored(filename)))
    }),
  )
})

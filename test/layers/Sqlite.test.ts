import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, statSync, writeSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Migrations from "../../src/layers/Migrations.ts"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import { Store } from "../../src/services/Store.ts"
import { refused as refusedBy } from "../../src/services/StoreFault.ts"
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

  it.live("fails while the folder is missing, and opens once it is there", () =>
    Effect.gen(function* () {
      const folder = join(yield* temporaryFolder, "state")
      yield* Effect.gen(function* () {
        const refused = yield* Effect.flip(journalMode)
        assert.strictEqual(refused._tag, "SqlError")
        mkdirSync(folder)
        assert.strictEqual(yield* journalMode, "wal")
      }).pipe(Effect.provide(Sqlite.layer(join(folder, "records.sqlite"))))
    }),
  )

  it.live("waits for another server's write without keeping anything else waiting", () =>
    Effect.gen(function* () {
      const filename = yield* file
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE t (i INTEGER)`
        const other = new DatabaseSync(filename)
        other.exec("BEGIN IMMEDIATE")
        const writing = yield* Effect.forkChild(sql.withTransaction(sql`INSERT INTO t VALUES (1)`), { startImmediately: true })
        // Were this process blocked, its own clock could not tick in the meantime.
        let ticks = 0
        yield* Effect.repeat(
          Effect.sync(() => {
            ticks += 1
          }).pipe(Effect.delay(10)),
          { times: 19 },
        )
        assert.strictEqual(ticks, 20)
        assert.isUndefined(writing.pollUnsafe())
        other.exec("COMMIT")
        other.close()
        yield* Fiber.join(writing)
        assert.deepEqual(yield* sql`SELECT i FROM t`, [{ i: 1 }])
      }).pipe(Effect.provide(Sqlite.layer(filename)))
    }),
  )

  it.live("refuses the tables of a newer version", () =>
    Effect.gen(function* () {
      const filename = yield* file
      const options = { prepare: Migrations.migrate }
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`INSERT INTO effect_sql_migrations (migration_id, name) VALUES (9999, 'later')`),
        Sqlite.layer(filename, options),
      )
      const refused = yield* Effect.flip(Effect.provide(refusedBy(journalMode), Sqlite.layer(filename, options)))
      assert.include(refused.message, "a newer version of codespace made its tables")
    }),
  )
})

describe("durability", () => {
  for (const [durability, synchronous] of [
    ["process", 1],
    ["power", 2],
  ] as const)
    it.live(`${durability}: synchronous is ${synchronous}`, () =>
      Effect.gen(function* () {
        const filename = yield* file
        const found = yield* Effect.provide(
          Effect.flatMap(SqlClient.SqlClient, (sql) => sql`PRAGMA synchronous`),
          Sqlite.layer(filename, { durability }),
        )
        assert.deepEqual(found, [{ synchronous }])
      }),
    )
})

describe("a damaged file (R122)", () => {
  const table = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT count(*) AS rows FROM t`)
  /** Enough rows for some hundred pages. */
  const filled = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql`CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) SELECT i, hex(randomblob(40)) AS x FROM n`,
  )
  const damage = (filename: string, offset: number) => {
    const handle = openSync(filename, "r+")
    writeSync(handle, Buffer.alloc(4096, 0xa5), 0, 4096, offset)
    closeSync(handle)
    return readFileSync(filename)
  }

  for (const [where, offset] of [
    ["in the middle", (size: number) => Math.floor(size / 2)],
    ["at its beginning", () => 0],
  ] as const)
    it.live(`${where}: is set aside byte for byte, and no new one is begun unseen`, () =>
      Effect.gen(function* () {
        const filename = yield* file
        yield* Effect.provide(filled, Sqlite.layer(filename))
        const bytes = damage(filename, offset(statSync(filename).size))
        for (const _start of [1, 2]) {
          const refused = yield* Effect.flip(Effect.provide(refusedBy(table), Sqlite.layer(filename)))
          assert.strictEqual(refused._tag, "STORE_UNAVAILABLE")
          assert.match(refused.message, /damaged.*is kept as records\.damaged-\d+\.sqlite.*codespace audit renew/u)
          assert.isAtMost(refused.message.length, 600)
          assert.isFalse(existsSync(filename))
        }
        const [aside, ...others] = readdirSync(dirname(filename)).filter((name) => name.endsWith(".sqlite"))
        assert.deepStrictEqual(others, [])
        assert.isTrue(readFileSync(join(dirname(filename), String(aside))).equals(bytes))
        assert.strictEqual(yield* Effect.provide(journalMode, Sqlite.layer(filename, { renew: true })), "wal")
        assert.strictEqual(yield* Effect.provide(journalMode, Sqlite.layer(filename)), "wal")
      }),
    )

  it.live("is noticed while it is open, too, and by the other servers that have it open", () =>
    Effect.gen(function* () {
      const filename = yield* file
      yield* Effect.provide(filled, Sqlite.layer(filename))
      const scope = yield* Effect.scope
      const [one, two] = yield* Effect.all(
        [1, 2].map(() => Effect.map(Layer.buildWithScope(Layer.fresh(Sqlite.layer(filename)), scope), Context.get(SqlClient.SqlClient))),
      )
      assert.isDefined(one)
      assert.isDefined(two)
      // The check when it was opened has read all pages; these are read again.
      yield* one`PRAGMA shrink_memory`
      yield* two`SELECT 1`
      damage(filename, Math.floor(statSync(filename).size / 2))
      const refused = yield* Effect.flip(Effect.provideService(refusedBy(table), SqlClient.SqlClient, one))
      assert.include(refused.message, "is kept as records.damaged-")
      const other = yield* Effect.flip(Effect.provideService(refusedBy(journalMode), SqlClient.SqlClient, two))
      assert.include(other.message, "is kept as records.damaged-")
      // Both go on by themselves once the operator has begun a new one.
      yield* Effect.provide(journalMode, Sqlite.layer(filename, { renew: true }))
      for (const client of [one, two]) assert.strictEqual(yield* Effect.provideService(journalMode, SqlClient.SqlClient, client), "wal")
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

  it.live("stays small over 2,000 operations while another server's connection stays open and reads (R121)", () =>
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

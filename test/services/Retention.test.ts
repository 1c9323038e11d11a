import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { defaults } from "../../src/schema/ConfigDefaults.ts"
import { AppConfig } from "../../src/services/AppConfig.ts"
import { Audit } from "../../src/services/Audit.ts"
import { Ledger } from "../../src/services/Ledger.ts"
import { Retention } from "../../src/services/Retention.ts"
import { Store } from "../../src/services/Store.ts"
import { layerRecords } from "../support/Records.ts"

const kept = (over: Partial<AppConfig["Service"]["retention"]> = {}) =>
  Layer.succeed(AppConfig, {
    retention: { ...defaults.retention, operations: Duration.days(90), ...over },
  } as unknown as AppConfig["Service"])

const layer = (over?: Partial<AppConfig["Service"]["retention"]>) =>
  Layer.mergeAll(Retention.layer, Audit.layer).pipe(Layer.provideMerge(layerRecords), Layer.provide(kept(over)))

const begin = (key: string) =>
  Store.use((store) => store.begin({ key, caller: "local", workspaceId: "app", kind: "write", fingerprint: "f", checkOnly: false }))

const done = (key: string, text = "") =>
  Effect.gen(function* () {
    const { operation } = yield* begin(key)
    yield* Store.use((store) => store.settle(operation, { state: "done", result: { status: "applied", text } }))
    return operation.operationId
  })

const apply = Retention.use((retention) => retention.apply)
const verify = Audit.use((audit) => audit.verify())
const rows = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT * FROM operations ORDER BY operation_id`)

describe("retention", () => {
  it.effect("lets go what is older than it says, keeps what is not over, and the chain can be verified", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const old = yield* Effect.forEach(
        Array.from({ length: 700 }, (_, n) => `old-${n}`),
        (key) => done(key),
      )
      const { operation: live } = yield* begin("live")
      yield* store.settle(live, { state: "running", result: { process_id: "proc_1" }, processId: "proc_1" })
      yield* TestClock.adjust(Duration.days(50))
      const young = yield* done("young")
      assert.strictEqual(yield* apply, 0)
      yield* TestClock.adjust(Duration.days(41))
      // What happened in the meantime by itself, every hour, is the same.
      yield* apply
      for (const id of old) assert.isTrue(Option.isNone(yield* store.byId(id)))
      assert.isTrue(Option.isSome(yield* store.byId(young)))
      assert.isTrue((yield* begin("old-3")).begun)
      assert.isFalse((yield* begin("young")).begun)
      assert.isFalse((yield* begin("live")).begun)

      const verdict = yield* verify
      assert.isUndefined(verdict.broken)
      assert.isAbove(verdict.first, 1400)
      const before = yield* rows
      yield* Ledger.use(({ rebuild }) => rebuild)
      assert.deepStrictEqual(yield* rows, before)
      // The carried one ends as it would have.
      yield* store.settle(live, { state: "done", result: { process_id: "proc_1", exit_code: 0 }, processId: "proc_1" })
      assert.strictEqual(Option.getOrThrow(yield* store.byProcess("proc_1")).state, "done")
      yield* TestClock.adjust(Duration.days(91))
      yield* apply
      assert.isTrue(Option.isNone(yield* store.byProcess("proc_1")))
      assert.isUndefined((yield* verify).broken)
    }).pipe(Effect.provide(layer())),
  )

  it.effect("shrinks the database below state_bytes, but keeps the last hour", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let n = 0; n < 600; n += 1) yield* done(`old-${n}`, "x".repeat(2000))
      yield* TestClock.adjust("2 hours")
      for (let n = 0; n < 20; n += 1) yield* done(`new-${n}`, "x".repeat(20_000))
      yield* apply
      const left = (yield* rows).map((row) => String(row["operation_key"]))
      assert.deepStrictEqual(left.filter((key) => key.startsWith("new")).length, 20)
      assert.isBelow(left.length, 200)
      assert.isUndefined((yield* verify).broken)
      const [size] = yield* sql<{ readonly page_count: number }>`PRAGMA page_count`
      assert.isBelow((size?.page_count ?? 0) * 4096, 3_000_000)
    }).pipe(Effect.provide(layer({ state_bytes: 1_000_000 }))),
  )

  it.effect("keeps the records within their bound over a day of 5,000 commands (R157)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const used = Effect.map(
        sql<{ readonly bytes: number }>`SELECT (p.page_count - f.freelist_count) * s.page_size AS bytes
          FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s`,
        ([size]) => size?.bytes ?? 0,
      )
      let most = 0
      for (let index = 0; index < 5000; index++) {
        yield* done(`k${index}`, "x".repeat(1000))
        if (index % 50 !== 49) continue
        yield* TestClock.adjust(Duration.minutes(14.4))
        most = Math.max(most, yield* used)
      }
      const left = (yield* rows).map((row) => String(row["operation_key"]))
      assert.include(left, "k4999")
      assert.notInclude(left, "k0")
      // Nothing of the last hour goes, and it is looked at once an hour: two hours of commands may come on top.
      const ofAnHour = (yield* used) / (left.length / (5000 / 24))
      assert.isAtMost(most, 4_000_000 + 2 * ofAnHour)
      assert.isAbove(most, 4_000_000)
      assert.isUndefined((yield* verify).broken)
    }).pipe(Effect.provide(layer({ state_bytes: 4_000_000 }))),
  )

  it.effect("lets nothing go that no event tells of", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let n = 0; n < 300; n += 1) yield* done(`old-${n}`)
      yield* TestClock.adjust(Duration.days(91))
      yield* apply
      const { first } = yield* verify
      assert.isAbove(first, 600)
      assert.strictEqual((yield* Effect.flip(sql`DELETE FROM events WHERE seq = ${first}`))._tag, "SqlError")
      // Somebody who has the file can cut more, and is found out.
      yield* done("one")
      yield* sql`DROP TRIGGER events_are_kept`
      yield* sql`DELETE FROM events WHERE seq = ${first}`
      assert.include((yield* verify).broken?.why ?? "", "events between them are missing")
    }).pipe(Effect.provide(layer())),
  )
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../src/services/Audit.ts"
import { Store } from "../../src/services/Store.ts"
import { layerRecords } from "../support/Records.ts"

const layer = Audit.layer.pipe(Layer.provideMerge(layerRecords))

const operations = (count: number) =>
  Effect.gen(function* () {
    const store = yield* Store
    for (let n = 0; n < count; n += 1) {
      const { operation } = yield* store.begin({
        key: `k${n}`,
        caller: "local",
        workspaceId: "app",
        kind: "write",
        fingerprint: "f",
        checkOnly: false,
      })
      yield* store.settle(operation, { state: "done", result: { n } })
    }
  })

const verify = (anchor?: Parameters<Audit["Service"]["verify"]>[0]) => Audit.use((audit) => audit.verify(anchor))

describe("audit", () => {
  it.effect("finds every event of an honest ledger, and the place it ends", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* verify(), { events: 0, first: 1, newest: { seq: 0, hash: "" } })
      yield* operations(600)
      const verdict = yield* verify()
      assert.deepInclude(verdict, { events: 1200, first: 1 })
      assert.isUndefined(verdict.broken)
      assert.deepStrictEqual(yield* verify(verdict.newest), verdict)
    }).pipe(Effect.provide(layer)),
  )

  for (const [what, change, seq, why] of [
    [
      "a changed body",
      (sql) => sql`UPDATE events SET body = replace(body, '"n":3', '"n":4') WHERE seq = 8`,
      8,
      "its hash does not continue",
    ],
    ["a changed time", (sql) => sql`UPDATE events SET at = at + 1 WHERE seq = 5`, 5, "its hash does not continue"],
    ["another subject", (sql) => sql`UPDATE events SET subject = 'op_x' WHERE seq = 1`, 1, "its hash does not continue"],
    ["a removed event", (sql) => sql`DELETE FROM events WHERE seq = 7`, 8, "events between them are missing"],
    ["a removed beginning", (sql) => sql`DELETE FROM events WHERE seq < 4`, 4, "events between them are missing"],
    ["a removed end", (sql) => sql`DELETE FROM events WHERE seq > 15`, 16, "events from here to 20 are missing"],
    ["bytes that are no JSON", (sql) => sql`UPDATE events SET body = 'x' WHERE seq = 10`, 10, "its hash does not continue"],
  ] satisfies ReadonlyArray<readonly [string, (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>, number, string]>)
    it.effect(`names the first event that is not as it was: ${what}`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* operations(10)
        yield* sql`DROP TRIGGER events_are_kept`
        yield* sql`DROP TRIGGER events_are_final`
        yield* change(sql)
        const { broken } = yield* verify()
        assert.strictEqual(broken?.seq, seq)
        assert.include(broken?.why ?? "", why)
      }).pipe(Effect.provide(layer)),
    )

  it.effect("finds out a ledger that was written anew, by a place noted before", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* operations(10)
      const { newest } = yield* verify()
      yield* sql`DROP TRIGGER events_are_kept`
      yield* sql`DELETE FROM events`
      yield* sql`DELETE FROM operations`
      yield* sql`DELETE FROM sqlite_sequence WHERE name = 'events'`
      yield* operations(12)
      assert.isUndefined((yield* verify()).broken)
      assert.include((yield* verify(newest)).broken?.why ?? "", "it is not the event that the anchor names")
      yield* sql`DELETE FROM events`
      yield* sql`DELETE FROM sqlite_sequence WHERE name = 'events'`
      assert.include((yield* verify(newest)).broken?.why ?? "", "events from here to 20 are missing")
    }).pipe(Effect.provide(layer)),
  )
})

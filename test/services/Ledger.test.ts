import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { LedgerEvent } from "../../src/schema/Ledger.ts"
import { toRecord } from "../../src/schema/Refusal.ts"
import { PathEscape } from "../../src/schema/Workspace.ts"
import { Digest } from "../../src/services/Digest.ts"
import { chained, Ledger } from "../../src/services/Ledger.ts"
import { operationEvents } from "../../src/services/OperationEvents.ts"
import { projections } from "../../src/services/Projections.ts"
import { Store } from "../../src/services/Store.ts"
import { layerRecords } from "../support/Records.ts"

const started = {
  kind: "write",
  workspace_id: "app",
  caller: "local",
  fingerprint: "f",
  check_only: false,
  server: "this",
} as const

/** Operations in every state, under keys that were kept, taken over and never given. */
const history = Effect.gen(function* () {
  const store = yield* Store
  const begin = (key?: string, caller = "local") =>
    Effect.map(
      store.begin({ key, caller, workspaceId: "app", kind: "write", fingerprint: "f", checkOnly: false }),
      ({ operation }) => operation,
    )
  yield* store.settle(yield* begin("kept"), { state: "done", result: { status: "applied", changes: [] } })
  yield* store.settle(yield* begin(), { state: "failed", refusal: toRecord(new PathEscape({ path: "../x" })) })
  yield* store.settle(yield* begin("taken"), { state: "interrupted", result: { status: "failed_rolled_back" }, reason: "its server ended" })
  yield* store.settle(yield* begin("taken"), { state: "cancelled", reason: "its patch was rolled back" })
  const live = yield* begin("live", "bob")
  yield* store.settle(live, { state: "running", result: { process_id: "proc_1", state: "running" }, processId: "proc_1" })
  yield* store.settle(yield* begin("server"), { state: "running", processId: "proc_2" })
  yield* store.settle(live, { state: "done", result: { process_id: "proc_1", state: "exited", exit_code: 0 }, processId: "proc_1" })
  yield* begin("unfinished")
})

const tableNames = projections.flatMap(({ tables }) => tables.map(({ name }) => name))

const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.forEach(tableNames, (table) => sql`SELECT * FROM ${sql(table)} ORDER BY 1`)
})

const everything = Ledger.use((ledger) => ledger.read({ after: 0, limit: 10_000 }))

layer(layerRecords)("Ledger", (it) => {
  it.effect("gives all projections back from the events alone", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* history
      const before = yield* tables
      assert.isAbove(before.flat().length ?? 0, 6)
      for (const table of tableNames) yield* sql`DELETE FROM ${sql(table)}`
      assert.strictEqual(yield* Ledger.use(({ rebuild }) => rebuild), (yield* everything).length)
      assert.deepStrictEqual(yield* tables, before)
    }),
  )

  it.effect("chains every event to the one before it, whatever it is about", () =>
    Effect.gen(function* () {
      const { append } = yield* Ledger
      const { sha256 } = yield* Digest
      yield* append(operationEvents.started, "op_chain", started)
      yield* append(operationEvents.done, "op_chain", { result: { text: "two\nlines", deep: [1, { a: null }] } })
      const events = yield* everything
      events.forEach((event, index) => {
        const text = chained(events[index - 1]?.hash ?? "", event, JSON.stringify(event.body))
        assert.strictEqual(event.hash, sha256(text), `event ${event.seq}`)
      })
    }),
  )

  it.effect("reads on from a cursor, all subjects or one", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const { seq } = yield* ledger.append(operationEvents.started, "op_a", started)
      yield* ledger.append(operationEvents.started, "op_b", started)
      yield* ledger.append(operationEvents.done, "op_a", {})
      const named = (events: ReadonlyArray<LedgerEvent>) => events.map(({ event, subject }) => [subject, event])
      assert.deepStrictEqual(named(yield* ledger.read({ after: seq, limit: 10 })), [
        ["op_b", "OperationStarted"],
        ["op_a", "OperationFinished"],
      ])
      assert.deepStrictEqual(named(yield* ledger.read({ after: 0, limit: 10, subject: "op_a" })), [
        ["op_a", "OperationStarted"],
        ["op_a", "OperationFinished"],
      ])
      assert.strictEqual(yield* ledger.newest, seq + 2)
      assert.deepStrictEqual(yield* ledger.read({ after: seq + 2, limit: 10 }), [])
    }),
  )

  it.effect("keeps all appends of a transaction or none, and lets its other failures through", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const before = yield* ledger.newest
      const failed = yield* Effect.result(
        ledger.transaction(
          Effect.gen(function* () {
            yield* ledger.append(operationEvents.started, "op_none", started)
            yield* ledger.transaction(ledger.append(operationEvents.done, "op_none", {}))
            return yield* new PathEscape({ path: "../x" })
          }),
        ),
      )
      assert.strictEqual(Result.isFailure(failed) ? failed.failure._tag : "", "PATH_ESCAPE")
      assert.strictEqual(yield* ledger.newest, before)
      assert.isTrue((yield* (yield* Store).byId("op_none"))._tag === "None")
      // The row cannot be added twice, so neither is the event.
      yield* ledger.append(operationEvents.started, "op_once", started)
      const twice = yield* Effect.flip(ledger.append(operationEvents.started, "op_once", started))
      assert.strictEqual(twice._tag, "STORE_UNAVAILABLE")
      assert.strictEqual(yield* ledger.newest, before + 1)
    }),
  )

  it.effect("names the event that keeps it from a rebuild, and leaves the projections as they are", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* tables
      for (const [event, body] of [
        ["OperationStarted", '{"kind":1}'],
        ["NotYetInvented", "{}"],
      ] as const) {
        yield* sql`INSERT INTO events (at, subject, event, body, hash) VALUES (1, 'x', ${event}, ${body}, '')`
        const refusal = yield* Effect.flip(Ledger.use(({ rebuild }) => rebuild))
        const seq = yield* Ledger.use(({ newest }) => newest)
        assert.include(refusal.message, `event ${seq} (${event}) cannot be read`)
        assert.deepStrictEqual(yield* tables, before)
        yield* sql`DROP TRIGGER events_are_kept`
        yield* sql`DELETE FROM events WHERE seq = ${seq}`
        yield* sql`CREATE TRIGGER events_are_kept BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END`
      }
    }),
  )
})

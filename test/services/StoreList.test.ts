import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { lineOf, Store } from "../../src/services/Store.ts"
import { layerRecords } from "../support/Records.ts"

const begin = (key: string, over: { readonly caller?: string; readonly workspaceId?: string; readonly kind?: string } = {}) =>
  Effect.gen(function* () {
    yield* TestClock.adjust("1 second")
    const store = yield* Store
    const beginning = { key, caller: "local", workspaceId: "app", kind: "write", fingerprint: "f", checkOnly: false, ...over }
    return (yield* store.begin(beginning)).operation
  })

layer(layerRecords)("a list of operations", (it) => {
  it.effect("has the newest first, filtered, page by page, and names what cannot be read instead of leaving it out", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const sql = yield* SqlClient.SqlClient
      // Ids sort by time as long as the time has as many digits, which it has until 2059.
      yield* TestClock.adjust("20000 days")
      for (let n = 0; n < 5; n += 1) yield* store.settle(yield* begin(`k${n}`), { state: "done", result: {} })
      const failed = yield* begin("failed", { kind: "edit" })
      yield* store.settle(failed, { state: "failed", reason: "why" })
      yield* begin("other", { workspaceId: "other" })
      yield* begin("hers", { caller: "bob" })
      const keys = (page: { readonly operations: ReadonlyArray<{ readonly key: string | undefined }> }) =>
        page.operations.map(({ key }) => key)

      const first = yield* store.list({ caller: "local", workspaces: ["app"], limit: 4 })
      assert.deepStrictEqual(keys(first), ["failed", "k4", "k3", "k2"])
      assert.isDefined(first.next)
      const second = yield* store.list({ caller: "local", workspaces: ["app"], limit: 4, before: String(first.next) })
      assert.deepStrictEqual(keys(second), ["k1", "k0"])
      assert.isUndefined(second.next)
      assert.deepStrictEqual(keys(yield* store.list({ states: ["running"], limit: 9 })), ["hers", "other"])
      assert.deepStrictEqual(keys(yield* store.list({ caller: "local", kind: "edit", limit: 9 })), ["failed"])
      assert.deepStrictEqual(keys(yield* store.list({ workspaces: [], limit: 9 })), [])
      assert.deepInclude(lineOf(first.operations[0] as never), { state: "failed", reason: "why", kind: "edit" })

      yield* sql`UPDATE operations SET result = '{' WHERE operation_key = 'k3'`
      const damaged = yield* store.list({ caller: "local", workspaces: ["app"], limit: 4 })
      assert.deepStrictEqual(keys(damaged), ["failed", "k4", "k2"])
      assert.strictEqual(damaged.unreadable.length, 1)
      // Nor does it keep a server from settling what others left.
      yield* sql`UPDATE operations SET state = 'running', server = 'gone-1' WHERE operation_key IN ('k3', 'k2')`
      assert.deepStrictEqual(keys({ operations: yield* store.orphans }), ["k2"])
    }),
  )
})

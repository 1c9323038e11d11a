import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import { WorkspaceBusy } from "../../src/schema/Lease.ts"
import { fromRecord, toRecord } from "../../src/schema/Refusal.ts"
import { PathEscape } from "../../src/schema/Workspace.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { type Beginning, Store } from "../../src/services/Store.ts"
import { layerIn, layerRecords } from "../support/Records.ts"

const beginning = (over: Partial<Beginning> = {}): Beginning => ({
  key: undefined,
  caller: "local",
  workspaceId: "app",
  kind: "apply_patch",
  fingerprint: "f1",
  checkOnly: false,
  ...over,
})

layer(layerRecords)("Store", (it) => {
  it.effect("records the beginning before anything else, and the end with its result", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const { begun, operation } = yield* store.begin(beginning())
      assert.isTrue(begun)
      const during = Option.getOrThrow(yield* store.byId(operation.operationId))
      assert.strictEqual(during.state, "running")
      yield* store.settle(operation, { state: "done", result: { status: "applied", changes: [] } })
      const after = Option.getOrThrow(yield* store.byId(operation.operationId))
      assert.strictEqual(after.state, "done")
      assert.deepStrictEqual(after.result, { status: "applied", changes: [] })
      const { events } = yield* store.status(after)
      assert.deepStrictEqual(
        events.map(({ event }) => event),
        ["OperationStarted", "OperationFinished"],
      )
    }),
  )

  it.effect("gives a key to one operation for ever, per caller and workspace", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const first = yield* store.begin(beginning({ key: "k" }))
      const again = yield* store.begin(beginning({ key: "k", fingerprint: "other" }))
      assert.isFalse(again.begun)
      assert.strictEqual(again.operation.operationId, first.operation.operationId)
      assert.isTrue((yield* store.begin(beginning({ key: "k", caller: "bob" }))).begun)
      assert.isTrue((yield* store.begin(beginning({ key: "k", workspaceId: "other" }))).begun)
    }),
  )

  it.effect("keeps the key of a refusal, but gives it back when the refusal says later", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const kept = (yield* store.begin(beginning({ key: "kept" }))).operation
      yield* store.settle(kept, { state: "failed", refusal: toRecord(new PathEscape({ path: "../x" })) })
      assert.isFalse((yield* store.begin(beginning({ key: "kept" }))).begun)
      const busy = new WorkspaceBusy({ workspace_id: "app", holder: "h", kind: "path", since: "s", expires: "e", waited_ms: 0 })
      const free = (yield* store.begin(beginning({ key: "free" }))).operation
      yield* store.settle(free, { state: "failed", refusal: toRecord(busy) })
      assert.isTrue((yield* store.begin(beginning({ key: "free" }))).begun)
      const record = Option.getOrThrow(yield* store.byId(free.operationId)).refusal
      assert.strictEqual(record?.code, "WORKSPACE_BUSY")
    }),
  )

  it.effect("finds an operation by its process", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const { operation } = yield* store.begin(beginning({ kind: "exec_command" }))
      yield* store.settle(operation, { state: "running", result: { process_id: "proc_1" }, processId: "proc_1" })
      const found = Option.getOrThrow(yield* store.byProcess("proc_1"))
      assert.strictEqual(found.operationId, operation.operationId)
      assert.isUndefined(found.finishedAt)
      assert.isTrue(Option.isNone(yield* store.byProcess("proc_2")))
    }),
  )

  it.effect("never changes or drops an entry, and chains each to the one before", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* (yield* Store).begin(beginning())
      assert.strictEqual((yield* Effect.flip(sql`UPDATE events SET event = 'x'`))._tag, "SqlError")
      assert.strictEqual((yield* Effect.flip(sql`DELETE FROM events`))._tag, "SqlError")
      const hashes = yield* sql<{ readonly hash: string }>`SELECT hash FROM events`
      assert.isAbove(hashes.length, 1)
      assert.strictEqual(new Set(hashes.map(({ hash }) => hash)).size, hashes.length)
    }),
  )

  it.effect("marks what a server that is gone left running, and only that", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const sql = yield* SqlClient.SqlClient
      const mine = (yield* store.begin(beginning())).operation
      const theirs = (yield* store.begin(beginning())).operation
      yield* sql`UPDATE operations SET server = 'gone-1' WHERE operation_id = ${theirs.operationId}`
      assert.deepStrictEqual(
        (yield* store.orphans).map(({ operationId }) => operationId),
        [theirs.operationId],
      )
      yield* store.settleOrphan(theirs, { state: "interrupted", reason: "its server ended" })
      yield* store.settleOrphan(mine, { state: "interrupted" })
      const settled = Option.getOrThrow(yield* store.byId(theirs.operationId))
      assert.strictEqual(settled.state, "interrupted")
      assert.deepInclude((yield* store.status(settled)).events.at(-1), { event: "OperationInterrupted", detail: "its server ended" })
      assert.strictEqual(Option.getOrThrow(yield* store.byId(mine.operationId)).state, "running")
      assert.deepStrictEqual(yield* store.orphans, [])
      // Another server was faster: what it recorded stays.
      yield* store.settleOrphan(theirs, { state: "done", result: {} })
      assert.strictEqual(Option.getOrThrow(yield* store.byId(theirs.operationId)).state, "interrupted")
    }),
  )

  it.effect("takes what a server recorded right before it died for recorded", () =>
    Effect.gen(function* () {
      const lastWords = { say: () => {} }
      // Whoever asks whether it lives is told no, and it has written something since its operations were read.
      const identity = Layer.succeed(ServerIdentity, {
        self: "this",
        isAlive: () => {
          lastWords.say()
          return false
        },
      })
      const [orphan] = yield* Effect.gen(function* () {
        const store = yield* Store
        const sql = yield* SqlClient.SqlClient
        const { operation } = yield* store.begin(beginning({ kind: "exec_command" }))
        yield* sql`UPDATE operations SET server = 'dying' WHERE operation_id = ${operation.operationId}`
        lastWords.say = () => Effect.runSync(sql`UPDATE operations SET process_id = 'proc_1', result = '{"state":"running"}'`)
        return yield* store.orphans
      }).pipe(Effect.provide(Layer.fresh(layerIn(Sqlite.layerMemory, identity))))
      assert.deepInclude(orphan, { processId: "proc_1", result: { state: "running" } })
    }),
  )

  it.effect("keeps the key of a patch that was rolled back for its status, until another call takes it", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const { operation } = yield* store.begin(beginning({ key: "again" }))
      yield* store.settle(operation, { state: "interrupted", result: { status: "failed_rolled_back", changes: [] } })
      assert.strictEqual(Option.getOrThrow(yield* store.byKey("local", "app", "again")).operationId, operation.operationId)
      const second = yield* store.begin(beginning({ key: "again" }))
      assert.isTrue(second.begun)
      assert.isFalse((yield* store.begin(beginning({ key: "again" }))).begun)
      assert.strictEqual(Option.getOrThrow(yield* store.byKey("local", "app", "again")).operationId, second.operation.operationId)
      assert.isUndefined(Option.getOrThrow(yield* store.byId(operation.operationId)).key)
    }),
  )

  it.effect("answers STORE_UNAVAILABLE while its tables cannot be used, and works again after", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const sql = yield* SqlClient.SqlClient
      yield* sql`ALTER TABLE operations RENAME TO hidden`
      const refusal = yield* Effect.flip(store.begin(beginning()))
      assert.strictEqual(refusal._tag, "STORE_UNAVAILABLE")
      yield* sql`ALTER TABLE hidden RENAME TO operations`
      assert.isTrue((yield* store.begin(beginning())).begun)
    }),
  )

  it.effect("answers STORAGE_FULL when the disk is full, loses nothing, and works again after", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const sql = yield* SqlClient.SqlClient
      const kept = (yield* store.begin(beginning())).operation
      const [{ page_count: pages } = { page_count: 0 }] = yield* sql<{ readonly page_count: number }>`PRAGMA page_count`
      yield* sql.unsafe(`PRAGMA max_page_count = ${pages}`)
      const big = { text: "x".repeat(100_000) }
      const refusal = yield* Effect.flip(store.settle(kept, { state: "done", result: big }))
      assert.strictEqual(refusal._tag, "STORAGE_FULL")
      assert.strictEqual(Option.getOrThrow(yield* store.byId(kept.operationId)).state, "running")
      yield* sql.unsafe(`PRAGMA max_page_count = ${pages + 1000}`)
      yield* store.settle(kept, { state: "done", result: big })
      assert.strictEqual(Option.getOrThrow(yield* store.byId(kept.operationId)).state, "done")
    }),
  )

  it("keeps a refusal whole: the record gives back the same refusal", ({ expect }) => {
    const refusal = new PathEscape({ path: "../../etc/passwd" })
    const back = fromRecord(toRecord(refusal))
    expect(back).toBeInstanceOf(PathEscape)
    expect(back.message).toBe(refusal.message)
    expect(back.retry).toBe("change_request")
  })
})

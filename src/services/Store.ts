/**
 * The ledger. It promises that an operation is recorded before it runs, that a key names one operation for ever, and
 * that entries are only added: each holds a hash over itself and the entry before it. Operations are projections of it.
 * It never runs anything.
 */
import { Clock, Context, DateTime, Effect, Layer, Option, Random, Schema } from "effect"
import { SqlClient, type SqlError, SqlSchema } from "effect/sql"
import {
  type OperationId,
  OperationState,
  type OperationStatus,
  RefusalRecord,
  StorageFull,
  StoreUnavailable,
} from "../schema/Operation.ts"
import { FileChange } from "../schema/Patch.ts"
import { Digest } from "./Digest.ts"
import { ServerIdentity } from "./ServerIdentity.ts"

export type StoreFailure = StoreUnavailable | StorageFull

/** What the gate knows when it begins an operation. */
export interface Beginning {
  readonly key: string | undefined
  readonly caller: string
  readonly workspaceId: string
  readonly kind: string
  /** Over the decoded arguments without key and `check_only`. */
  readonly fingerprint: string
  readonly checkOnly: boolean
}

/** How an operation ended, or that it left a process running. */
export interface Ending {
  readonly state: "running" | "done" | "failed" | "cancelled" | "interrupted"
  readonly result?: Schema.JsonObject
  readonly refusal?: RefusalRecord
  readonly processId?: string
}

/** An operation as its row says. */
export interface Recorded extends Beginning {
  readonly operationId: OperationId
  readonly state: OperationState
  /** Epoch milliseconds, like `finishedAt`. */
  readonly createdAt: number
  readonly finishedAt: number | undefined
  readonly processId: string | undefined
  readonly result: Schema.JsonObject | undefined
  readonly refusal: RefusalRecord | undefined
}

export class Store extends Context.Service<
  Store,
  {
    /** Records that an operation begins; or, when the key is taken, returns the operation that has it. */
    readonly begin: (beginning: Beginning) => Effect.Effect<{ readonly begun: boolean; readonly operation: Recorded }, StoreFailure>
    /**
     * Records an outcome. A refusal that says "later" gives the key back, since nothing was done and the same call is
     * meant to be repeated.
     */
    readonly settle: (operation: Recorded, ending: Ending) => Effect.Effect<void, StoreFailure>
    readonly byId: (operationId: string) => Effect.Effect<Option.Option<Recorded>, StoreFailure>
    readonly byKey: (caller: string, workspaceId: string, key: string) => Effect.Effect<Option.Option<Recorded>, StoreFailure>
    readonly byProcess: (processId: string) => Effect.Effect<Option.Option<Recorded>, StoreFailure>
    /** The operation with its events, as `operation_status` answers. */
    readonly status: (operation: Recorded) => Effect.Effect<OperationStatus, StoreFailure>
    /** Marks what a server that is gone left running; returns how many operations that were. */
    readonly interruptOrphans: Effect.Effect<number, StoreFailure>
  }
>()("codespace/services/Store") {
  static readonly layer = Layer.effect(
    Store,
    Effect.suspend(() => make),
  )
}

const fromJson = <S extends Schema.Top>(schema: S) => Schema.NullOr(Schema.fromJsonString(schema))

const Row = Schema.Struct({
  operation_id: Schema.String,
  operation_key: Schema.NullOr(Schema.String),
  caller: Schema.String,
  workspace_id: Schema.String,
  kind: Schema.String,
  fingerprint: Schema.String,
  check_only: Schema.Int,
  state: OperationState,
  created_at: Schema.Int,
  finished_at: Schema.NullOr(Schema.Int),
  process_id: Schema.NullOr(Schema.String),
  result: fromJson(Schema.JsonObject),
  refusal: fromJson(RefusalRecord),
})

const EventRow = Schema.Struct({ at: Schema.Int, event: Schema.String, body: Schema.String })

const toRecorded = (row: typeof Row.Type): Recorded => ({
  operationId: row.operation_id as OperationId,
  key: row.operation_key ?? undefined,
  caller: row.caller,
  workspaceId: row.workspace_id,
  kind: row.kind,
  fingerprint: row.fingerprint,
  checkOnly: row.check_only === 1,
  state: row.state,
  createdAt: row.created_at,
  finishedAt: row.finished_at ?? undefined,
  processId: row.process_id ?? undefined,
  result: row.result ?? undefined,
  refusal: row.refusal ?? undefined,
})

const isoTime = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))

const decodeChanges = Schema.decodeUnknownOption(Schema.Array(FileChange))
const toJson = Schema.encodeUnknownSync(Schema.fromJsonString(Schema.Unknown))

/** The events of an ending, in the past tense. */
const eventOf = (ending: Ending): string =>
  ({
    running: "ProcessStarted",
    done: "OperationFinished",
    failed: "OperationFailed",
    cancelled: "OperationCancelled",
    interrupted: "OperationInterrupted",
  })[ending.state]

const SQLITE_FULL = 13

/** Faults of the database in the words of a refusal. */
const refusalOf = (error: SqlError.SqlError | Schema.SchemaError): StoreFailure => {
  if (error._tag === "SchemaError") return new StoreUnavailable({ cause: "a record cannot be read" })
  const cause: unknown = error.reason.cause
  const code = typeof cause === "object" && cause !== null && "errcode" in cause ? cause.errcode : undefined
  return code === SQLITE_FULL ? new StorageFull({ where: "the record store" }) : new StoreUnavailable({ cause: error.reason._tag })
}

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const digest = yield* Digest
  const server = yield* ServerIdentity

  const refused = <A, R>(effect: Effect.Effect<A, SqlError.SqlError | Schema.SchemaError, R>): Effect.Effect<A, StoreFailure, R> =>
    Effect.mapError(effect, refusalOf)

  const append = Effect.fnUntraced(function* (operationId: string, event: string, body: Schema.JsonObject, at: number) {
    const [last] = yield* sql<{ readonly hash: string }>`SELECT hash FROM events ORDER BY seq DESC LIMIT 1`
    const text = toJson(body)
    const hash = digest.sha256([last?.hash ?? "", String(at), operationId, event, text].join("\n"))
    yield* sql`INSERT INTO events (at, operation_id, event, body, hash) VALUES (${at}, ${operationId}, ${event}, ${text}, ${hash})`
  })

  const rowById = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Row,
    execute: (id) => sql`SELECT * FROM operations WHERE operation_id = ${id}`,
  })
  const rowByProcess = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Row,
    execute: (id) => sql`SELECT * FROM operations WHERE process_id = ${id}`,
  })
  const rowByKey = SqlSchema.findOneOption({
    Request: Schema.Struct({ caller: Schema.String, workspaceId: Schema.String, key: Schema.String }),
    Result: Row,
    execute: ({ caller, key, workspaceId }) =>
      sql`SELECT * FROM operations WHERE caller = ${caller} AND workspace_id = ${workspaceId} AND operation_key = ${key}`,
  })
  const eventRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: EventRow,
    execute: (id) => sql`SELECT at, event, body FROM events WHERE operation_id = ${id} ORDER BY seq LIMIT 100`,
  })

  const byKey = (caller: string, workspaceId: string, key: string) =>
    refused(Effect.map(rowByKey({ caller, workspaceId, key }), Option.map(toRecorded)))

  const insert = Effect.fnUntraced(function* (beginning: Beginning) {
    const at = yield* Clock.currentTimeMillis
    const operation: Recorded = {
      ...beginning,
      operationId: yield* newId(at),
      state: "running",
      createdAt: at,
      finishedAt: undefined,
      processId: undefined,
      result: undefined,
      refusal: undefined,
    }
    yield* append(operation.operationId, "OperationStarted", { ...startedBody(beginning), server: server.self }, at)
    yield* sql`INSERT INTO operations (operation_id, operation_key, caller, workspace_id, kind, fingerprint, check_only, state, server, created_at)
      VALUES (${operation.operationId}, ${beginning.key ?? null}, ${beginning.caller}, ${beginning.workspaceId}, ${beginning.kind},
        ${beginning.fingerprint}, ${beginning.checkOnly ? 1 : 0}, 'running', ${server.self}, ${at})`
    return operation
  })

  const begin = Effect.fn("Store.begin")(function* (beginning: Beginning) {
    const known = beginning.key === undefined ? Option.none() : yield* rowByKey({ ...beginning, key: beginning.key })
    return Option.isSome(known)
      ? { begun: false, operation: toRecorded(known.value) }
      : { begun: true, operation: yield* insert(beginning) }
  }, sql.withTransaction)

  const settle = Effect.fn("Store.settle")(function* (operation: Recorded, ending: Ending) {
    const at = yield* Clock.currentTimeMillis
    const keyIsFree = ending.refusal?.retry === "later"
    yield* append(operation.operationId, eventOf(ending), endedBody(ending), at)
    yield* sql`UPDATE operations SET state = ${ending.state},
      finished_at = ${ending.state === "running" ? null : at},
      operation_key = ${keyIsFree ? null : (operation.key ?? null)},
      process_id = coalesce(${ending.processId ?? null}, process_id),
      result = ${ending.result === undefined ? null : toJson(ending.result)},
      refusal = ${ending.refusal === undefined ? null : toJson(ending.refusal)}
      WHERE operation_id = ${operation.operationId}`
  }, sql.withTransaction)

  const status = Effect.fn("Store.status")(function* (operation: Recorded) {
    const events = yield* eventRows(operation.operationId)
    return {
      operation_id: operation.operationId,
      ...(operation.key === undefined ? {} : { operation_key: operation.key }),
      kind: operation.kind,
      workspace_id: operation.workspaceId,
      state: operation.state,
      created_at: isoTime(operation.createdAt),
      ...(operation.finishedAt === undefined ? {} : { finished_at: isoTime(operation.finishedAt) }),
      ...(operation.result === undefined ? {} : { result: operation.result }),
      ...(operation.refusal === undefined ? {} : { refusal: operation.refusal }),
      changes: Option.getOrElse(decodeChanges(operation.result?.["changes"]), () => []),
      ...(operation.processId === undefined ? {} : { process_id: operation.processId }),
      events: events.map((row) => ({ at: isoTime(row.at), event: row.event })),
    }
  })

  const interruptOrphans = Effect.gen(function* () {
    const running = yield* sql<{ readonly operation_id: string; readonly server: string }>`
      SELECT operation_id, server FROM operations WHERE state = 'running'`
    const orphans = running.filter((row) => !server.isAlive(row.server))
    const at = yield* Clock.currentTimeMillis
    for (const orphan of orphans) {
      yield* append(orphan.operation_id, "OperationInterrupted", { reason: "its server ended" }, at)
      yield* sql`UPDATE operations SET state = 'interrupted', finished_at = ${at} WHERE operation_id = ${orphan.operation_id}`
    }
    return orphans.length
  }).pipe(sql.withTransaction)

  return Store.of({
    begin: (beginning) => refused(begin(beginning)),
    settle: (operation, ending) =>
      refused(settle(operation, ending)).pipe(
        Effect.mapError((failure) =>
          failure._tag === "STORE_UNAVAILABLE"
            ? new StoreUnavailable({ cause: failure.cause, operation_id: operation.operationId })
            : failure,
        ),
      ),
    byId: (id) => refused(Effect.map(rowById(id), Option.map(toRecorded))),
    byKey,
    byProcess: (id) => refused(Effect.map(rowByProcess(id), Option.map(toRecorded))),
    status: (operation) => refused(status(operation)),
    interruptOrphans: refused(interruptOrphans),
  })
})

const startedBody = (beginning: Beginning): Schema.JsonObject => ({
  kind: beginning.kind,
  workspace_id: beginning.workspaceId,
  caller: beginning.caller,
  fingerprint: beginning.fingerprint,
  check_only: beginning.checkOnly,
  ...(beginning.key === undefined ? {} : { operation_key: beginning.key }),
})

const endedBody = (ending: Ending): Schema.JsonObject => ({
  ...(ending.result === undefined ? {} : { result: ending.result }),
  ...(ending.refusal === undefined ? {} : { refusal: ending.refusal }),
  ...(ending.processId === undefined ? {} : { process_id: ending.processId }),
})

/** Sorts by time and cannot be guessed apart; an id grants nothing. */
const newId = Effect.fnUntraced(function* (at: number) {
  const random = yield* Random.nextIntBetween(0, 36 ** 8)
  return `op_${at.toString(36)}${random.toString(36).padStart(8, "0")}` as OperationId
})

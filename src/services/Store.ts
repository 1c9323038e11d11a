/**
 * The records of operations. It promises that an operation is in the ledger before it runs, and that a key names one
 * operation for ever. It never runs anything.
 */
import { Clock, Context, Effect, Layer, Option, Result, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import {
  type OperationId,
  type OperationLine,
  OperationState,
  type OperationStatus,
  RefusalRecord,
  StoreUnavailable,
} from "../schema/Operation.ts"
import { FileChange } from "../schema/Patch.ts"
import { isoTime } from "./IsoTime.ts"
import { Ledger } from "./Ledger.ts"
import { decidedIn, NetworkDecided, NetworkUntold, networkDetail } from "./NetworkEvents.ts"
import { type Ended, operationEvents, type Started } from "./OperationEvents.ts"
import { ServerIdentity } from "./ServerIdentity.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"
import { timedId } from "./TimedId.ts"

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

/** Whether a call may go on to run, and the operation that has its key or id. */
export interface Begun {
  readonly begun: boolean
  readonly operation: Recorded
}

/** How an operation ended, or that it left a process running. */
export interface Ending {
  readonly state: "running" | "done" | "failed" | "denied" | "cancelled" | "interrupted"
  readonly result?: Schema.JsonObject
  readonly refusal?: RefusalRecord
  readonly processId?: string
  /** Why, where neither result nor refusal says it. */
  readonly reason?: string
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
  /** Why it is in its state, where neither result nor refusal says it. */
  readonly reason: string | undefined
  /** The server that runs or ran it. */
  readonly server: string
}

/**
 * Whether nothing was done for certain, so that the next call with the key runs: a refusal that says "later", or a patch
 * that was rolled back because its server ended.
 */
export const keyIsFree = ({ refusal, result, state }: Recorded): boolean =>
  refusal?.retry === "later" || (state === "interrupted" && result?.["status"] === "failed_rolled_back")

/** Which operations to list, newest first. */
export interface WantedOperations {
  readonly caller?: string
  readonly workspaces?: ReadonlyArray<string>
  readonly states?: ReadonlyArray<OperationState>
  readonly kind?: string
  /** Only those that began before this one. */
  readonly before?: string
  readonly limit: number
}

/** A page of operations. */
export interface OperationsPage {
  readonly operations: ReadonlyArray<Recorded>
  /** Ids of rows of this page that cannot be read. */
  readonly unreadable: ReadonlyArray<string>
  /** There are more, before this one. */
  readonly next: string | undefined
}

export class Store extends Context.Service<
  Store,
  {
    /** Records that an operation begins; or, when the key is taken, returns the operation that has it. */
    readonly begin: (beginning: Beginning) => Effect.Effect<Begun, StoreFailure>
    /** The same for an operation that is held and does not run yet. */
    readonly hold: (beginning: Beginning) => Effect.Effect<Begun, StoreFailure>
    /** Records that a held operation runs now, in this server; only once, whoever asks. */
    readonly resume: (operationId: string) => Effect.Effect<Begun | undefined, StoreFailure>
    /** Records an outcome. */
    readonly settle: (operation: Recorded, ending: Ending) => Effect.Effect<void, StoreFailure>
    readonly byId: (operationId: string) => Effect.Effect<Option.Option<Recorded>, StoreFailure>
    readonly byKey: (caller: string, workspaceId: string, key: string) => Effect.Effect<Option.Option<Recorded>, StoreFailure>
    readonly byProcess: (processId: string) => Effect.Effect<Option.Option<Recorded>, StoreFailure>
    readonly list: (wanted: WantedOperations) => Effect.Effect<OperationsPage, StoreFailure>
    /** The operation with its events, as `operation_status` answers. */
    readonly status: (operation: Recorded) => Effect.Effect<OperationStatus, StoreFailure>
    /** Operations that run in no living server, oldest first. */
    readonly orphans: Effect.Effect<ReadonlyArray<Recorded>, StoreFailure>
    readonly isOrphan: (operation: Recorded) => boolean
    /** Records what became of an orphan, unless another server has done so. */
    readonly settleOrphan: (operation: Recorded, ending: Ending) => Effect.Effect<void, StoreFailure>
    /** Takes over an orphan whose process goes on; false when another server has settled it or taken it over. */
    readonly adopt: (operation: Recorded) => Effect.Effect<boolean, StoreFailure>
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
  reason: Schema.NullOr(Schema.String),
  server: Schema.String,
})

/** A row before it is read. */
type RawRow = { readonly operation_id: string }
const decodeRow = Schema.decodeUnknownResult(Row)

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
  reason: row.reason ?? undefined,
  server: row.server,
})

/** The events of one operation are few; the bound guards against a mistake. */
const SHOWN_EVENTS = 100

const decodeChanges = Schema.decodeUnknownOption(Schema.Array(FileChange))

/** An operation as a list shows it. */
export const lineOf = (operation: Recorded): OperationLine => ({
  operation_id: operation.operationId,
  ...(operation.key === undefined ? {} : { operation_key: operation.key }),
  kind: operation.kind,
  workspace_id: operation.workspaceId,
  state: operation.state,
  created_at: isoTime(operation.createdAt),
  ...(operation.finishedAt === undefined ? {} : { finished_at: isoTime(operation.finishedAt) }),
  ...(operation.processId === undefined ? {} : { process_id: operation.processId }),
  ...(operation.refusal === undefined ? {} : { refusal: operation.refusal.code }),
  ...(operation.reason === undefined ? {} : { reason: operation.reason }),
})

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Ledger
  const server = yield* ServerIdentity

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
  /** One row that cannot be read must not hide the others. */
  const readable = Effect.fnUntraced(function* (rows: ReadonlyArray<RawRow>) {
    const operations: Array<Recorded> = []
    const unreadable: Array<string> = []
    for (const row of rows) {
      const decoded = decodeRow(row)
      if (Result.isSuccess(decoded)) operations.push(toRecorded(decoded.success))
      else unreadable.push(row.operation_id)
    }
    if (unreadable.length > 0) yield* Effect.logError(`records that cannot be read: ${unreadable.join(", ")}`)
    return { operations, unreadable }
  })

  const list = Effect.fn("Store.list")(function* ({ before, caller, kind, limit, states, workspaces }: WantedOperations) {
    const rows = yield* sql<RawRow>`SELECT * FROM operations WHERE ${sql.and([
      sql`TRUE`,
      ...(caller === undefined ? [] : [sql`caller = ${caller}`]),
      ...(workspaces === undefined ? [] : [sql.in("workspace_id", workspaces)]),
      ...(states === undefined ? [] : [sql.in("state", states)]),
      ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
      ...(before === undefined ? [] : [sql`operation_id < ${before}`]),
    ])} ORDER BY operation_id DESC LIMIT ${limit + 1}`
    const page = rows.slice(0, limit)
    return { ...(yield* readable(page)), next: rows.length > limit ? page.at(-1)?.operation_id : undefined }
  })

  const byKey = (caller: string, workspaceId: string, key: string) =>
    refused(Effect.map(rowByKey({ caller, workspaceId, key }), Option.map(toRecorded)))

  const comeIn = Effect.fnUntraced(function* (beginning: Beginning, state: "running" | "held") {
    const known = beginning.key === undefined ? Option.none() : yield* rowByKey({ ...beginning, key: beginning.key })
    const holder = Option.map(known, toRecorded)
    if (Option.isSome(holder) && !keyIsFree(holder.value)) return { begun: false, operation: holder.value }
    const operationId = (yield* timedId("op", yield* Clock.currentTimeMillis)) as OperationId
    const event = state === "held" ? operationEvents.held : operationEvents.started
    const { at } = yield* ledger.append(event, operationId, startedBody(beginning, server.self))
    const operation: Recorded = {
      ...beginning,
      operationId,
      state,
      createdAt: at,
      finishedAt: undefined,
      processId: undefined,
      result: undefined,
      refusal: undefined,
      reason: undefined,
      server: server.self,
    }
    return { begun: true, operation }
  }, ledger.transaction)

  const resume = Effect.fn("Store.resume")(function* (operationId: string) {
    const known = Option.map(yield* rowById(operationId), toRecorded)
    if (Option.isNone(known)) return undefined
    const operation = known.value
    if (operation.state !== "held") return { begun: false, operation }
    yield* ledger.append(operationEvents.resumed, operationId, { server: server.self })
    return { begun: true, operation: { ...operation, state: "running" as const, server: server.self } }
  }, ledger.transaction)

  const settle = Effect.fn("Store.settle")(function* (operation: Recorded, ending: Ending) {
    const { decided, untold } = decidedIn(ending.result)
    for (const body of decided) yield* ledger.append(NetworkDecided, operation.operationId, body)
    if (untold !== undefined) yield* ledger.append(NetworkUntold, operation.operationId, untold)
    yield* ledger.append(operationEvents[ending.state], operation.operationId, endedBody(ending))
  }, ledger.transaction)

  const isOrphan = ({ server: owner, state }: Recorded) => state === "running" && owner !== server.self && !server.isAlive(owner)

  const runningNow = Effect.gen(function* () {
    return (yield* readable(yield* sql<RawRow>`SELECT * FROM operations WHERE state = 'running' ORDER BY created_at`)).operations
  })

  const orphans = Effect.gen(function* () {
    const gone = new Set((yield* runningNow).filter(isOrphan).map(({ server: owner }) => owner))
    // Read again: what a server recorded between the first reading and its death would be taken for not recorded.
    return gone.size === 0 ? [] : (yield* runningNow).filter(({ server: owner }) => gone.has(owner))
  }).pipe(refused)

  const settleOrphan = Effect.fn("Store.settleOrphan")(function* (operation: Recorded, ending: Ending) {
    const now = yield* rowById(operation.operationId)
    if (Option.isSome(now) && isOrphan(toRecorded(now.value)))
      yield* settle(operation, { ...(operation.result === undefined ? {} : { result: operation.result }), ...ending })
  }, ledger.transaction)

  const adopt = Effect.fn("Store.adopt")(function* (operation: Recorded) {
    const now = yield* rowById(operation.operationId)
    if (Option.isNone(now) || !isOrphan(toRecorded(now.value))) return false
    yield* ledger.append(operationEvents.adopted, operation.operationId, { server: server.self })
    return true
  }, ledger.transaction)

  const status = Effect.fn("Store.status")(function* (operation: Recorded) {
    const events = yield* ledger.read({ after: 0, limit: SHOWN_EVENTS, subject: operation.operationId })
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
      events: events.map(({ at, body, event }) => ({
        at: isoTime(at),
        event,
        ...detailOf(event, body),
      })),
    }
  })

  return Store.of({
    begin: Effect.fn("Store.begin")((beginning: Beginning) => comeIn(beginning, "running")),
    hold: Effect.fn("Store.hold")((beginning: Beginning) => comeIn(beginning, "held")),
    resume,
    settle: (operation, ending) =>
      settle(operation, ending).pipe(
        Effect.mapError((failure) =>
          failure._tag === "STORE_UNAVAILABLE"
            ? new StoreUnavailable({ cause: failure.cause, operation_id: operation.operationId })
            : failure,
        ),
      ),
    byId: (id) => refused(Effect.map(rowById(id), Option.map(toRecorded))),
    byKey,
    list: (wanted) => refused(list(wanted)),
    byProcess: (id) => refused(Effect.map(rowByProcess(id), Option.map(toRecorded))),
    status,
    orphans,
    isOrphan,
    settleOrphan,
    adopt,
  })
})

/** What an event says beside its name. */
const detailOf = (event: string, body: Schema.JsonObject): { readonly detail?: string } => {
  const detail = event.startsWith("Network") ? networkDetail(body) : body["reason"]
  return typeof detail === "string" ? { detail } : {}
}

const startedBody = (beginning: Beginning, server: string): typeof Started.Type => ({
  kind: beginning.kind,
  workspace_id: beginning.workspaceId,
  caller: beginning.caller,
  fingerprint: beginning.fingerprint,
  check_only: beginning.checkOnly,
  ...(beginning.key === undefined ? {} : { operation_key: beginning.key }),
  server,
})

const endedBody = (ending: Ending): typeof Ended.Type => ({
  ...(ending.result === undefined ? {} : { result: ending.result }),
  ...(ending.refusal === undefined ? {} : { refusal: ending.refusal }),
  ...(ending.processId === undefined ? {} : { process_id: ending.processId }),
  ...(ending.reason === undefined ? {} : { reason: ending.reason }),
})

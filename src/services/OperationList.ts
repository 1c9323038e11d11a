/** Recorded operations page by page, newest first, for people who look over all of them. */
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { OperationState, type OperationSummary } from "../schema/Operation.ts"
import { isoTime } from "./IsoTime.ts"
import { ServerIdentity } from "./ServerIdentity.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"

export interface WantedOperations {
  readonly workspaceId?: string
  readonly caller?: string
  readonly state?: OperationState
  /** The tool that was called. */
  readonly kind?: string
  /** The id of the last one seen. */
  readonly before?: string
  readonly limit: number
}

export class OperationList extends Context.Service<
  OperationList,
  {
    readonly page: (wanted: WantedOperations) => Effect.Effect<ReadonlyArray<OperationSummary>, StoreFailure>
  }
>()("codespace/services/OperationList") {
  static readonly layer = Layer.effect(
    OperationList,
    Effect.suspend(() => make),
  )
}

const Row = Schema.Struct({
  operation_id: Schema.String,
  operation_key: Schema.NullOr(Schema.String),
  caller: Schema.String,
  workspace_id: Schema.String,
  kind: Schema.String,
  state: OperationState,
  server: Schema.String,
  created_at: Schema.Int,
  finished_at: Schema.NullOr(Schema.Int),
  process_id: Schema.NullOr(Schema.String),
  code: Schema.NullOr(Schema.String),
  reason: Schema.NullOr(Schema.String),
})

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { isAlive, self } = yield* ServerIdentity
  const optional = Schema.optionalKey(Schema.String)

  const rows = SqlSchema.findAll({
    Request: Schema.Struct({
      workspaceId: optional,
      caller: optional,
      state: Schema.optionalKey(OperationState),
      kind: optional,
      before: optional,
      limit: Schema.Int,
    }),
    Result: Row,
    execute: ({ before, caller, kind, limit, state, workspaceId }) => sql`SELECT *, refusal ->> 'code' AS code FROM operations
      WHERE ${sql.and([
        ...(workspaceId === undefined ? [] : [sql`workspace_id = ${workspaceId}`]),
        ...(caller === undefined ? [] : [sql`caller = ${caller}`]),
        ...(state === undefined ? [] : [sql`state = ${state}`]),
        ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
        ...(before === undefined
          ? []
          : [sql`(created_at, operation_id) < (SELECT created_at, operation_id FROM operations WHERE operation_id = ${before})`]),
        sql`TRUE`,
      ])} ORDER BY created_at DESC, operation_id DESC LIMIT ${limit}`,
  })

  const summaryOf = (row: typeof Row.Type): OperationSummary => ({
    operation_id: row.operation_id,
    ...(row.operation_key === null ? {} : { operation_key: row.operation_key }),
    kind: row.kind,
    workspace_id: row.workspace_id,
    caller: row.caller,
    state: row.state,
    created_at: isoTime(row.created_at),
    ...(row.finished_at === null ? {} : { finished_at: isoTime(row.finished_at) }),
    ...(row.process_id === null ? {} : { process_id: row.process_id }),
    ...(row.code === null ? {} : { refusal: row.code }),
    ...(row.reason === null ? {} : { reason: row.reason }),
    ...(row.state === "running" && row.server !== self && !isAlive(row.server) ? { server_gone: true } : {}),
  })

  return OperationList.of({
    page: Effect.fn("OperationList.page")((wanted) => refused(Effect.map(rows(wanted), (found) => found.map(summaryOf)))),
  })
})

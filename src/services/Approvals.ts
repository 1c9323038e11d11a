/**
 * Calls that wait for a person. It promises that a hold is shown whole and stored before it is answered, that it is
 * decided once, runs at most once, and ends by itself when nobody decides. It decides nothing and runs nothing: a person
 * does the one, the gate the other.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type Approval, ApprovalConflict, ApprovalId, ApprovalNotFound, ApprovalState, type Grant, Hold } from "../schema/Approval.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import { AppConfig } from "./AppConfig.ts"
import { approvalEvents } from "./ApprovalEvents.ts"
import { isoTime } from "./IsoTime.ts"
import { Ledger } from "./Ledger.ts"
import { type Beginning, type Begun, type Recorded, Store } from "./Store.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"
import { timedId } from "./TimedId.ts"

/** An approval with what it holds. */
export interface Held {
  readonly approvalId: ApprovalId
  readonly operationId: string
  readonly workspaceId: string
  readonly caller: string
  readonly fingerprint: string
  readonly state: ApprovalState
  /** Epoch milliseconds, like the others. */
  readonly createdAt: number
  readonly expiresAt: number
  readonly decidedAt: number | undefined
  readonly decidedBy: string | undefined
  readonly reason: string | undefined
  readonly hold: Hold
}

/** Which approvals to list, newest first. */
export interface WantedApprovals {
  readonly states?: ReadonlyArray<ApprovalState>
  readonly caller?: string
  readonly limit: number
}

/** Open holds one caller may have: a loop that never looks at the answer must not fill the operator's list. */
export const OPEN_LIMIT = 100

export class Approvals extends Context.Service<
  Approvals,
  {
    /**
     * Holds a call. One with the same arguments that is open already is given instead where the call has no key; where its
     * key is taken, the operation that has it.
     */
    readonly ask: (beginning: Beginning, hold: Hold) => Effect.Effect<Held | Recorded, StoreFailure | LimitExceeded>
    readonly byId: (approvalId: string) => Effect.Effect<Option.Option<Held>, StoreFailure>
    readonly byOperation: (operationId: string) => Effect.Effect<Option.Option<Held>, StoreFailure>
    readonly list: (wanted: WantedApprovals) => Effect.Effect<ReadonlyArray<Held>, StoreFailure>
    /**
     * A person grants: the call may run once. `remember` are the words with which later commands in that workspace need
     * nobody any more.
     */
    readonly grant: (
      approvalId: string,
      by: string,
      remember?: ReadonlyArray<string>,
    ) => Effect.Effect<Held, ApprovalNotFound | ApprovalConflict | StoreFailure>
    /** A person denies: the call never runs. */
    readonly deny: (
      approvalId: string,
      by: string,
      reason?: string,
    ) => Effect.Effect<Held, ApprovalNotFound | ApprovalConflict | StoreFailure>
    /** Uses a grant up: whoever is told `begun` runs the operation, and nobody else ever does. */
    readonly consume: (held: Held) => Effect.Effect<Begun, ApprovalConflict | StoreFailure>
    /** Grants that are remembered for a workspace, or all of them. */
    readonly grants: (workspaceId?: string) => Effect.Effect<ReadonlyArray<Grant>, StoreFailure>
    /** False when there is no such grant. */
    readonly revoke: (grantId: string, by: string) => Effect.Effect<boolean, StoreFailure>
  }
>()("codespace/services/Approvals") {
  static readonly layer = Layer.effect(
    Approvals,
    Effect.suspend(() => make),
  )
}

export const isHeld = (known: Held | Recorded): known is Held => "approvalId" in known

const Row = Schema.Struct({
  approval_id: ApprovalId,
  operation_id: Schema.String,
  workspace_id: Schema.String,
  caller: Schema.String,
  fingerprint: Schema.String,
  state: ApprovalState,
  hold: Schema.fromJsonString(Hold),
  created_at: Schema.Int,
  expires_at: Schema.Int,
  decided_at: Schema.NullOr(Schema.Int),
  decided_by: Schema.NullOr(Schema.String),
  reason: Schema.NullOr(Schema.String),
})

const GrantRow = Schema.Struct({
  grant_id: Schema.String,
  workspace_id: Schema.String,
  argv: Schema.fromJsonString(Schema.Array(Schema.String)),
  granted_by: Schema.String,
  created_at: Schema.Int,
})

const toHeld = (row: typeof Row.Type): Held => ({
  approvalId: row.approval_id,
  operationId: row.operation_id,
  workspaceId: row.workspace_id,
  caller: row.caller,
  fingerprint: row.fingerprint,
  state: row.state,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  decidedAt: row.decided_at ?? undefined,
  decidedBy: row.decided_by ?? undefined,
  reason: row.reason ?? undefined,
  hold: row.hold,
})

/** An approval as people and loops are shown it. */
export const toApproval = (held: Held): Approval => ({
  approval_id: held.approvalId,
  operation_id: held.operationId,
  workspace_id: held.workspaceId,
  caller: held.caller,
  state: held.state,
  created_at: isoTime(held.createdAt),
  expires_at: isoTime(held.expiresAt),
  ...(held.decidedAt === undefined ? {} : { decided_at: isoTime(held.decidedAt) }),
  ...(held.decidedBy === undefined ? {} : { decided_by: held.decidedBy }),
  ...(held.reason === undefined ? {} : { decision_reason: held.reason }),
  shown: held.hold.shown,
})

/** Why it says in the record that an operation ended without having run. */
const endedBecause = { denied: "denied by", expired: "nobody decided before it expired; no person refused it" } as const

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Ledger
  const store = yield* Store
  const { approvals } = yield* AppConfig
  const lifetime = Duration.toMillis(approvals.expires)

  const row = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Row,
    execute: (id) => sql`SELECT * FROM approvals WHERE approval_id = ${id} OR operation_id = ${id}`,
  })
  const dueRows = SqlSchema.findAll({
    Request: Schema.Int,
    Result: Row,
    execute: (now) => sql`SELECT * FROM approvals WHERE state IN ('pending', 'granted') AND expires_at <= ${now}`,
  })
  const openRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: Row,
    execute: (caller) => sql`SELECT * FROM approvals WHERE caller = ${caller} AND state IN ('pending', 'granted') ORDER BY created_at`,
  })
  const listed = SqlSchema.findAll({
    Request: Schema.Struct({ states: Schema.Array(ApprovalState), caller: Schema.NullOr(Schema.String), limit: Schema.Int }),
    Result: Row,
    execute: ({ caller, limit, states }) => sql`SELECT * FROM approvals
      WHERE ${sql.in("state", states)} AND (${caller} IS NULL OR caller = ${caller})
      ORDER BY created_at DESC, approval_id DESC LIMIT ${limit}`,
  })
  const grantRows = SqlSchema.findAll({
    Request: Schema.NullOr(Schema.String),
    Result: GrantRow,
    execute: (workspace) => sql`SELECT * FROM grants WHERE ${workspace} IS NULL OR workspace_id = ${workspace} ORDER BY created_at`,
  })

  /** Gives up what nobody decided about, or used, in time. Called before anything is looked at, so no clock has to run. */
  const expireDue = Effect.fnUntraced(function* () {
    const now = yield* Clock.currentTimeMillis
    if ((yield* dueRows(now)).length === 0) return
    yield* ledger.transaction(
      Effect.gen(function* () {
        for (const due of (yield* dueRows(now)).map(toHeld)) {
          yield* ledger.append(approvalEvents.expired, due.operationId, { approval_id: due.approvalId })
          yield* endOperation(due.operationId, "cancelled", endedBecause.expired)
        }
      }),
    )
  })

  const endOperation = Effect.fnUntraced(function* (operationId: string, state: "denied" | "cancelled", reason: string) {
    const operation = yield* store.byId(operationId)
    if (Option.isSome(operation)) yield* store.settle(operation.value, { state, reason })
  })

  const find = (id: string) => refused(Effect.andThen(expireDue(), Effect.map(row(id), Option.map(toHeld))))

  const ask = Effect.fn("Approvals.ask")(function* (beginning: Beginning, hold: Hold) {
    yield* expireDue()
    const open = (yield* openRows(beginning.caller)).map(toHeld)
    const same = open.find(
      ({ fingerprint, workspaceId, hold: { shown } }) =>
        fingerprint === beginning.fingerprint && workspaceId === beginning.workspaceId && shown.kind === beginning.kind,
    )
    if (same !== undefined && beginning.key === undefined) return same
    if (open.length >= OPEN_LIMIT)
      return yield* new LimitExceeded({ limit: "open approvals of one caller", value: OPEN_LIMIT, asked: open.length + 1 })
    const { begun, operation } = yield* store.hold(beginning)
    if (!begun) return operation
    const approvalId = yield* timedId("apr", yield* Clock.currentTimeMillis)
    const expiresAt = operation.createdAt + lifetime
    yield* ledger.append(approvalEvents.asked, operation.operationId, {
      approval_id: approvalId,
      workspace_id: beginning.workspaceId,
      caller: beginning.caller,
      fingerprint: beginning.fingerprint,
      expires_at: expiresAt,
      hold,
    })
    return {
      approvalId: ApprovalId.make(approvalId),
      operationId: operation.operationId,
      workspaceId: beginning.workspaceId,
      caller: beginning.caller,
      fingerprint: beginning.fingerprint,
      state: "pending",
      createdAt: operation.createdAt,
      expiresAt,
      decidedAt: undefined,
      decidedBy: undefined,
      reason: undefined,
      hold,
    } satisfies Held
  }, ledger.transaction)

  /** What is open, for a decision about it. */
  const openById = Effect.fnUntraced(function* (approvalId: string, from: ApprovalState) {
    const held = Option.getOrUndefined(Option.map(yield* row(approvalId), toHeld))
    if (held === undefined) return yield* new ApprovalNotFound({ approval_id: approvalId })
    if (held.state === from) return held
    return yield* conflictOf(held)
  })

  const decide = (approvalId: string, decision: (held: Held) => Effect.Effect<unknown, StoreFailure>) =>
    Effect.andThen(
      refused(expireDue()),
      ledger.transaction(
        Effect.gen(function* () {
          const held = yield* openById(approvalId, "pending")
          yield* decision(held)
          return Option.getOrElse(Option.map(yield* row(approvalId), toHeld), () => held)
        }),
      ),
    )

  const grant = Effect.fn("Approvals.grant")((approvalId: string, by: string, remember?: ReadonlyArray<string>) =>
    decide(approvalId, ({ operationId, workspaceId }) =>
      Effect.andThen(
        ledger.append(approvalEvents.granted, operationId, { approval_id: approvalId, by }),
        remember === undefined || remember.length === 0
          ? Effect.void
          : Effect.flatMap(
              Effect.flatMap(Clock.currentTimeMillis, (at) => timedId("grt", at)),
              (id) => ledger.append(approvalEvents.remembered, id, { workspace_id: workspaceId, argv: remember, by }),
            ),
      ),
    ),
  )

  const deny = Effect.fn("Approvals.deny")((approvalId: string, by: string, reason?: string) =>
    decide(approvalId, ({ operationId }) =>
      Effect.andThen(
        ledger.append(approvalEvents.denied, operationId, { approval_id: approvalId, by, ...(reason === undefined ? {} : { reason }) }),
        endOperation(operationId, "denied", `${endedBecause.denied} ${by}${reason === undefined ? "" : `: ${reason}`}`),
      ),
    ),
  )

  const consume = Effect.fn("Approvals.consume")(function* ({ approvalId }: Held) {
    const held = Option.getOrUndefined(Option.map(yield* row(approvalId), toHeld))
    if (held === undefined) return yield* Effect.die(new Error(`${approvalId} is not stored`))
    if (held.state !== "granted" && held.state !== "consumed") return yield* conflictOf(held)
    const resumed = yield* store.resume(held.operationId)
    if (resumed === undefined) return yield* conflictOf(held)
    if (resumed.begun) yield* ledger.append(approvalEvents.consumed, held.operationId, { approval_id: approvalId })
    return resumed
  }, ledger.transaction)

  return Approvals.of({
    ask,
    byId: find,
    byOperation: find,
    list: Effect.fn("Approvals.list")(({ caller, limit, states }: WantedApprovals) =>
      refused(
        Effect.andThen(
          expireDue(),
          Effect.map(listed({ states: states ?? ApprovalState.literals, caller: caller ?? null, limit }), (rows) => rows.map(toHeld)),
        ),
      ),
    ),
    grant,
    deny,
    consume,
    grants: (workspaceId) =>
      refused(Effect.map(grantRows(workspaceId ?? null), (rows) => rows.map((one) => ({ ...one, created_at: isoTime(one.created_at) })))),
    revoke: Effect.fn("Approvals.revoke")(function* (grantId: string, by: string) {
      const known = yield* grantRows(null)
      if (!known.some((one) => one.grant_id === grantId)) return false
      yield* ledger.append(approvalEvents.revoked, grantId, { by })
      return true
    }, ledger.transaction),
  })
})

export const conflictOf = ({ approvalId, reason, state }: Held): ApprovalConflict =>
  new ApprovalConflict({ approval_id: approvalId, state, ...(reason === undefined ? {} : { reason }) })

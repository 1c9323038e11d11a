/**
 * Works and the instructions people give to the loop that carries one (contract §11). It promises that instructions are
 * handed out in the order in which they were queued, each to one loop at a time; that an instruction whose loop is heard
 * of no more for the time of its claim goes back to its place; and that a claim, a draft or an end that was answered
 * survives every restart, whichever of the servers on the state folder is asked next.
 *
 * A caller may use every work of the workspaces it may use: who may change the files may also hear what is wanted of
 * them. Instructions are text. Nothing here reads them, and nothing they say changes what anybody may do.
 */
import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { OperationKeyConflict } from "../schema/Operation.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import {
  type Coordination,
  type Instruction,
  InstructionConflict,
  type InstructionEnd,
  InstructionNotFound,
  InstructionState,
  WorkClosed,
  WorkNotFound,
  WorkState,
  type WorkSummary,
} from "../schema/Work.ts"
import { Caller } from "./Caller.ts"
import { isoTime } from "./IsoTime.ts"
import { Ledger } from "./Ledger.ts"
import { ServerIdentity } from "./ServerIdentity.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"
import { timedId } from "./TimedId.ts"
import { workEvents } from "./WorkEvents.ts"

/** Instructions of one work that have not ended; people write them, so this only stops a program gone wrong. */
export const OPEN_INSTRUCTIONS = 1000

/** How long a claim lasts when the loop does not say, in milliseconds. */
export const DEFAULT_CLAIM = 15 * 60_000

/** A work as its row says; times in epoch milliseconds. */
export interface Work {
  readonly workId: string
  readonly workspaceId: string
  readonly caller: string
  readonly title: string | undefined
  readonly state: WorkState
  readonly openedAt: number
  readonly closedAt: number | undefined
}

export interface Opening {
  readonly workspaceId: string
  readonly title: string | undefined
  /** The same key, caller and workspace give the same work again. */
  readonly key: string | undefined
}

export interface Claim {
  readonly workId: string
  /** How long it is the caller's, in milliseconds. */
  readonly leaseMs: number
  /** The same key and caller give the same instruction again; where it is in hand, its time begins anew. */
  readonly key: string | undefined
}

export interface Completion {
  readonly workId: string
  readonly instructionId: string
  readonly status: InstructionEnd
  readonly note: string | undefined
}

type ForCaller<A, E = never> = Effect.Effect<A, WorkNotFound | StoreFailure | E, Caller>
type ForPeople<A, E = never> = Effect.Effect<A, WorkNotFound | StoreFailure | E>
type Changed = InstructionNotFound | InstructionConflict

export class Works extends Context.Service<
  Works,
  {
    /** Opens a work in a workspace, which the caller may use: whoever asks has made sure of that. */
    readonly open: (opening: Opening) => Effect.Effect<Work, OperationKeyConflict | StoreFailure, Caller>
    /** What waits for a work's loop. */
    readonly coordination: (workId: string) => ForCaller<Coordination>
    /** The same, with how much has ended and what the caller has in hand, oldest first. */
    readonly status: (
      workId: string,
    ) => ForCaller<{ readonly work: WorkSummary; readonly inHand: ReadonlyArray<Instruction>; readonly coordination: Coordination }>
    /** Hands out the oldest instruction that waits; none when the queue is empty. A repeated key is refused when another has it now. */
    readonly claimNext: (
      claim: Claim,
    ) => ForCaller<{ readonly instruction: Instruction | undefined; readonly coordination: Coordination }, InstructionConflict>
    /**
     * Ends an instruction that the caller was given, also after its time as long as nobody else was. Repeating it changes
     * nothing; one that another has now, or that ended otherwise, is refused.
     */
    readonly complete: (completion: Completion) => ForCaller<Coordination, Changed>
    /** Closes the work, unless instructions wait or are in hand. Closing it again changes nothing. */
    readonly finish: (workId: string) => ForCaller<{ readonly closed: boolean; readonly coordination: Coordination }>

    /** For people: works, newest first, behind that work when one is given. */
    readonly list: (wanted: {
      readonly workspaceId?: string
      readonly state?: WorkState
      readonly before?: string
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<WorkSummary>, StoreFailure>
    /** Over all works: how many instructions wait, and how many are in hand. */
    readonly waiting: Effect.Effect<{ readonly queued: number; readonly claimed: number }, StoreFailure>
    /** For people: one work with its instructions, those that wait in their order, then drafts, then what has ended, newest first. */
    readonly show: (workId: string) => ForPeople<{ readonly work: WorkSummary; readonly instructions: ReadonlyArray<Instruction> }>
    /** For people: writes an instruction down, and queues it at once if asked to. */
    readonly draft: (workId: string, text: string, queue: boolean) => ForPeople<Instruction, WorkClosed | LimitExceeded>
    /** For people: rewrites an instruction that nobody was given. */
    readonly edit: (workId: string, instructionId: string, text: string) => ForPeople<Instruction, Changed>
    /** For people: lets a draft be given out, behind all that wait already. Queueing it again changes nothing. */
    readonly queue: (workId: string, instructionId: string) => ForPeople<Instruction, Changed | WorkClosed>
    /** For people: takes back an instruction that nobody was given. Doing so again changes nothing. */
    readonly cancel: (workId: string, instructionId: string) => ForPeople<Instruction, Changed>
  }
>()("codespace/services/Works") {
  static readonly layer = Layer.effect(
    Works,
    Effect.suspend(() => make),
  )
}

const WorkRow = Schema.Struct({
  work_id: Schema.String,
  workspace_id: Schema.String,
  caller: Schema.String,
  title: Schema.NullOr(Schema.String),
  state: WorkState,
  opened_at: Schema.Int,
  closed_at: Schema.NullOr(Schema.Int),
})

const CountedRow = Schema.Struct({
  ...WorkRow.fields,
  drafts: Schema.Int,
  queued: Schema.Int,
  claimed: Schema.Int,
  done: Schema.Int,
  blocked: Schema.Int,
})

const InstructionRow = Schema.Struct({
  instruction_id: Schema.String,
  work_id: Schema.String,
  state: InstructionState,
  text: Schema.String,
  drafted_at: Schema.Int,
  queued_at: Schema.NullOr(Schema.Int),
  claimed_by: Schema.NullOr(Schema.String),
  claimed_until: Schema.NullOr(Schema.Int),
  server: Schema.NullOr(Schema.String),
  deliveries: Schema.Int,
  ended_at: Schema.NullOr(Schema.Int),
  note: Schema.NullOr(Schema.String),
})
type InstructionRow = typeof InstructionRow.Type

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Ledger
  const identity = yield* ServerIdentity

  const workRow = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: WorkRow,
    execute: (id) => sql`SELECT * FROM works WHERE work_id = ${id}`,
  })
  const workByKey = SqlSchema.findOneOption({
    Request: Schema.Struct({ caller: Schema.String, workspaceId: Schema.String, key: Schema.String }),
    Result: WorkRow,
    execute: ({ caller, key, workspaceId }) =>
      sql`SELECT * FROM works WHERE caller = ${caller} AND workspace_id = ${workspaceId} AND operation_key = ${key}`,
  })
  /** A claim whose time is over counts as waiting, also before anybody has put it back. */
  const counted = (now: number) => sql`SELECT works.*,
    count(*) FILTER (WHERE i.state = 'draft') AS drafts,
    count(*) FILTER (WHERE i.state = 'queued' OR i.state = 'claimed' AND i.claimed_until <= ${now}) AS queued,
    count(*) FILTER (WHERE i.state = 'claimed' AND i.claimed_until > ${now}) AS claimed,
    count(*) FILTER (WHERE i.state = 'done') AS done,
    count(*) FILTER (WHERE i.state = 'blocked') AS blocked
    FROM works LEFT JOIN instructions AS i USING (work_id)`
  const countedRow = SqlSchema.findOneOption({
    Request: Schema.Struct({ id: Schema.String, now: Schema.Int }),
    Result: CountedRow,
    execute: ({ id, now }) => sql`${counted(now)} WHERE work_id = ${id} GROUP BY work_id`,
  })
  const countedRows = SqlSchema.findAll({
    Request: Schema.Struct({
      workspaceId: Schema.optionalKey(Schema.String),
      state: Schema.optionalKey(WorkState),
      before: Schema.optionalKey(Schema.String),
      limit: Schema.Int,
      now: Schema.Int,
    }),
    Result: CountedRow,
    execute: ({ before, limit, now, state, workspaceId }) =>
      sql`${counted(now)} WHERE ${sql.and([
        ...(workspaceId === undefined ? [] : [sql`workspace_id = ${workspaceId}`]),
        ...(state === undefined ? [] : [sql`works.state = ${state}`]),
        ...(before === undefined ? [] : [sql`works.number < (SELECT number FROM works WHERE work_id = ${before})`]),
        sql`TRUE`,
      ])} GROUP BY work_id ORDER BY works.number DESC LIMIT ${limit}`,
  })
  const instructionRow = SqlSchema.findOneOption({
    Request: Schema.Struct({ workId: Schema.String, id: Schema.String }),
    Result: InstructionRow,
    execute: ({ id, workId }) => sql`SELECT * FROM instructions WHERE work_id = ${workId} AND instruction_id = ${id}`,
  })
  const instructionRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: InstructionRow,
    execute: (id) => sql`SELECT * FROM instructions WHERE work_id = ${id}
      ORDER BY state NOT IN ('claimed', 'queued'), CASE WHEN state IN ('claimed', 'queued') THEN position END, state <> 'draft',
        CASE WHEN state = 'draft' THEN drafted_at END, ended_at DESC, instruction_id`,
  })
  const claimedRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: InstructionRow,
    execute: (id) => sql`SELECT * FROM instructions WHERE work_id = ${id} AND state = 'claimed' ORDER BY position`,
  })
  const lapsedRows = SqlSchema.findAll({
    Request: Schema.Struct({ workId: Schema.String, now: Schema.Int }),
    Result: InstructionRow,
    execute: ({ now, workId }) =>
      sql`SELECT * FROM instructions WHERE work_id = ${workId} AND state = 'claimed' AND claimed_until <= ${now} ORDER BY position`,
  })
  const nextRow = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: InstructionRow,
    execute: (id) => sql`SELECT * FROM instructions WHERE work_id = ${id} AND state = 'queued' ORDER BY position LIMIT 1`,
  })
  const rowByKey = SqlSchema.findOneOption({
    Request: Schema.Struct({ workId: Schema.String, caller: Schema.String, key: Schema.String }),
    Result: InstructionRow,
    execute: ({ caller, key, workId }) => sql`SELECT instructions.* FROM claims JOIN instructions USING (instruction_id)
      WHERE claims.work_id = ${workId} AND caller = ${caller} AND operation_key = ${key}`,
  })

  /** The work, when this caller may use its workspace; to any other it is as good as unknown. */
  const usable = Effect.fnUntraced(function* (workId: string) {
    const { workspaces } = yield* Caller
    const found = yield* workRow(workId)
    if (Option.isNone(found) || !(workspaces?.includes(found.value.workspace_id) ?? true))
      return yield* new WorkNotFound({ work_id: workId })
    return found.value
  })

  const summary = Effect.fnUntraced(function* (workId: string) {
    const found = yield* countedRow({ id: workId, now: yield* Clock.currentTimeMillis })
    if (Option.isNone(found)) return yield* new WorkNotFound({ work_id: workId })
    return summaryOf(found.value)
  })

  const instruction = Effect.fnUntraced(function* (workId: string, instructionId: string) {
    const found = yield* instructionRow({ workId, id: instructionId })
    if (Option.isSome(found)) return found.value
    return yield* Option.isNone(yield* workRow(workId))
      ? new WorkNotFound({ work_id: workId })
      : new InstructionNotFound({ work_id: workId, instruction_id: instructionId })
  })

  /** The instruction as it is after a change of it. */
  const changed = (workId: string, instructionId: string) =>
    instruction(workId, instructionId).pipe(Effect.map(instructionOf), Effect.catchTag("INSTRUCTION_NOT_FOUND", Effect.die))

  /** Puts claims back whose time is over. */
  const settle = Effect.fnUntraced(function* (workId: string) {
    for (const { instruction_id } of yield* lapsedRows({ workId, now: yield* Clock.currentTimeMillis }))
      yield* ledger.append(workEvents.Returned, workId, { instruction_id })
  })

  /**
   * Whether an instruction is in this caller's hands. Two clients of one name on two servers are two; but a server that is
   * gone may have been this client's own, started anew.
   */
  const isInHandOf = (caller: string, { claimed_by, server, state }: InstructionRow) =>
    state === "claimed" && claimed_by === caller && (server === identity.self || !identity.isAlive(server ?? ""))

  const open = Effect.fn("Works.open")(function* ({ key, title, workspaceId }: Opening) {
    const { name: caller } = yield* Caller
    const known = key === undefined ? Option.none() : yield* workByKey({ caller, workspaceId, key })
    if (Option.isSome(known)) {
      if (known.value.title === (title ?? null)) return workOf(known.value)
      return yield* new OperationKeyConflict({ operation_key: key ?? "", operation_id: known.value.work_id, kind: "work_open" })
    }
    const workId = yield* timedId("work", yield* Clock.currentTimeMillis)
    yield* ledger.append(workEvents.WorkOpened, workId, {
      workspace_id: workspaceId,
      caller,
      ...(title === undefined ? {} : { title }),
      ...(key === undefined ? {} : { operation_key: key }),
    })
    return yield* Effect.map(Effect.flatMap(workRow(workId), Effect.fromOption), workOf).pipe(
      Effect.catchTag("NoSuchElementError", Effect.die),
    )
  }, ledger.transaction)

  const coordination = Effect.fnUntraced(function* (workId: string) {
    yield* usable(workId)
    return coordinationOf(yield* summary(workId))
  })

  const status = Effect.fn("Works.status")(function* (workId: string) {
    const { name } = yield* Caller
    yield* usable(workId)
    yield* settle(workId)
    const inHand = (yield* claimedRows(workId)).filter((row) => isInHandOf(name, row)).map(instructionOf)
    const work = yield* summary(workId)
    return { work, inHand, coordination: coordinationOf(work) }
  }, ledger.transaction)

  /** What a claim with this key was given before; refused when it is in other hands now. */
  const givenBefore = Effect.fnUntraced(function* (caller: string, { key, workId }: Claim) {
    if (key === undefined) return Option.none<InstructionRow>()
    const given = yield* rowByKey({ workId, caller, key })
    if (Option.isSome(given) && given.value.state === "claimed" && !isInHandOf(caller, given.value))
      return yield* new InstructionConflict({ ...given.value, asked: "given again: another client has it now" })
    return given
  })

  const claimNext = Effect.fn("Works.claimNext")(function* (claim: Claim) {
    const { key, leaseMs, workId } = claim
    const { name: caller } = yield* Caller
    yield* usable(workId)
    yield* settle(workId)
    const before = yield* givenBefore(caller, claim)
    const given = Option.getOrUndefined(Option.isSome(before) ? before : yield* nextRow(workId))
    if (given === undefined) return { instruction: undefined, coordination: coordinationOf(yield* summary(workId)) }
    const facts = { instruction_id: given.instruction_id, server: identity.self, lease_ms: leaseMs }
    if (given.state === "queued")
      yield* ledger.append(workEvents.Claimed, workId, {
        ...facts,
        caller,
        ...(key === undefined || Option.isSome(before) ? {} : { operation_key: key }),
      })
    else if (given.state === "claimed") yield* ledger.append(workEvents.Kept, workId, facts)
    return {
      instruction: yield* changed(workId, given.instruction_id),
      coordination: coordinationOf(yield* summary(workId)),
    }
  }, ledger.transaction)

  const complete = Effect.fn("Works.complete")(function* ({ instructionId, note, status, workId }: Completion) {
    const { name: caller } = yield* Caller
    yield* usable(workId)
    yield* settle(workId)
    const row = yield* instruction(workId, instructionId)
    const ends = isInHandOf(caller, row) || (row.state === "queued" && row.deliveries > 0)
    if (ends)
      yield* ledger.append(workEvents.Completed, workId, {
        instruction_id: instructionId,
        caller,
        status,
        ...(note === undefined ? {} : { note }),
      })
    else if (row.state !== status || row.claimed_by !== caller)
      return yield* new InstructionConflict({ ...row, asked: `ended as ${status}` })
    return coordinationOf(yield* summary(workId))
  }, ledger.transaction)

  const finish = Effect.fn("Works.finish")(function* (workId: string) {
    const { name: caller } = yield* Caller
    const { state } = yield* usable(workId)
    yield* settle(workId)
    const { claimed, queued } = yield* summary(workId)
    const closes = queued + claimed === 0
    if (closes && state === "open") yield* ledger.append(workEvents.WorkFinished, workId, { caller })
    return { closed: closes, coordination: coordinationOf(yield* summary(workId)) }
  }, ledger.transaction)

  const waiting = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const [counts] = yield* sql<{ readonly queued: number; readonly claimed: number }>`SELECT
      count(*) FILTER (WHERE state = 'queued' OR claimed_until <= ${now}) AS queued,
      count(*) FILTER (WHERE state = 'claimed' AND claimed_until > ${now}) AS claimed
      FROM instructions WHERE state IN ('queued', 'claimed')`
    return { queued: counts?.queued ?? 0, claimed: counts?.claimed ?? 0 }
  })

  const show = Effect.fn("Works.show")(function* (workId: string) {
    yield* settle(workId)
    return { work: yield* summary(workId), instructions: (yield* instructionRows(workId)).map(instructionOf) }
  }, ledger.transaction)

  const draft = Effect.fn("Works.draft")(function* (workId: string, text: string, queue: boolean) {
    const { claimed, drafts, queued, state } = yield* summary(workId)
    if (state === "closed") return yield* new WorkClosed({ work_id: workId })
    const unended = drafts + queued + claimed
    if (unended >= OPEN_INSTRUCTIONS)
      return yield* new LimitExceeded({ limit: "open instructions of a work", value: OPEN_INSTRUCTIONS, asked: unended + 1 })
    const instruction_id = yield* timedId("ins", yield* Clock.currentTimeMillis)
    yield* ledger.append(workEvents.Drafted, workId, { instruction_id, text })
    if (queue) yield* ledger.append(workEvents.Queued, workId, { instruction_id })
    return yield* changed(workId, instruction_id)
  }, ledger.transaction)

  /** A change of an instruction by people, where it fits; in the state `after` it has been made already. */
  const change = (
    workId: string,
    instructionId: string,
    asked: { readonly asked: string; readonly fits: (row: InstructionRow) => boolean; readonly after?: InstructionState },
    append: Effect.Effect<unknown, StoreFailure | WorkClosed | WorkNotFound>,
  ) =>
    Effect.gen(function* () {
      yield* settle(workId)
      const row = yield* instruction(workId, instructionId)
      const isFit = asked.fits(row)
      if (!isFit && row.state !== asked.after) return yield* new InstructionConflict({ ...row, asked: asked.asked })
      if (isFit) yield* append
      return yield* changed(workId, instructionId)
    }).pipe(ledger.transaction)

  const edit = Effect.fn("Works.edit")((workId: string, instruction_id: string, text: string) =>
    change(
      workId,
      instruction_id,
      // Whoever was given it once may still end it, so its text stays what was given.
      { asked: "edited", fits: ({ deliveries, state }) => (state === "draft" || state === "queued") && deliveries === 0 },
      ledger.append(workEvents.Edited, workId, { instruction_id, text }),
    ).pipe(Effect.catchTag("WORK_CLOSED", Effect.die)),
  )

  const queue = Effect.fn("Works.queue")((workId: string, instruction_id: string) =>
    change(
      workId,
      instruction_id,
      { asked: "queued", fits: ({ state }) => state === "draft", after: "queued" },
      Effect.gen(function* () {
        if ((yield* refused(summary(workId))).state === "closed") return yield* new WorkClosed({ work_id: workId })
        yield* ledger.append(workEvents.Queued, workId, { instruction_id })
      }),
    ),
  )

  const cancel = Effect.fn("Works.cancel")((workId: string, instruction_id: string) =>
    change(
      workId,
      instruction_id,
      { asked: "cancelled", fits: ({ state }) => state === "draft" || state === "queued", after: "cancelled" },
      ledger.append(workEvents.Cancelled, workId, { instruction_id }),
    ).pipe(Effect.catchTag("WORK_CLOSED", Effect.die)),
  )

  return Works.of({
    open,
    coordination: (workId) => refused(coordination(workId)),
    status,
    claimNext,
    complete,
    finish,
    list: Effect.fn("Works.list")((wanted) =>
      refused(
        Effect.map(
          Effect.flatMap(Clock.currentTimeMillis, (now) => countedRows({ ...wanted, now })),
          (rows) => rows.map(summaryOf),
        ),
      ),
    ),
    waiting: refused(waiting),
    show,
    draft,
    edit,
    queue,
    cancel,
  })
})

const workOf = (row: typeof WorkRow.Type): Work => ({
  workId: row.work_id,
  workspaceId: row.workspace_id,
  caller: row.caller,
  title: row.title ?? undefined,
  state: row.state,
  openedAt: row.opened_at,
  closedAt: row.closed_at ?? undefined,
})

const summaryOf = ({ closed_at, opened_at, title, ...row }: typeof CountedRow.Type): WorkSummary => ({
  work_id: row.work_id,
  workspace_id: row.workspace_id,
  ...(title === null ? {} : { title }),
  caller: row.caller,
  state: row.state,
  opened_at: isoTime(opened_at),
  ...(closed_at === null ? {} : { closed_at: isoTime(closed_at) }),
  drafts: row.drafts,
  queued: row.queued,
  claimed: row.claimed,
  done: row.done,
  blocked: row.blocked,
})

const coordinationOf = ({ claimed, queued, state, work_id }: WorkSummary): Coordination => ({ work_id, state, queued, claimed })

const instructionOf = (row: InstructionRow): Instruction => ({
  instruction_id: row.instruction_id,
  work_id: row.work_id,
  state: row.state,
  text: row.text,
  drafted_at: isoTime(row.drafted_at),
  ...(row.queued_at === null ? {} : { queued_at: isoTime(row.queued_at) }),
  ...(row.claimed_by === null ? {} : { claimed_by: row.claimed_by }),
  ...(row.claimed_until === null ? {} : { claimed_until: isoTime(row.claimed_until) }),
  deliveries: row.deliveries,
  ...(row.ended_at === null ? {} : { ended_at: isoTime(row.ended_at) }),
  ...(row.note === null ? {} : { note: row.note }),
})

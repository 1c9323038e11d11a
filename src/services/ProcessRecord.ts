/**
 * What stays known of a process when its server is gone: a small text beside its output, written when it starts and when
 * it has ended. Whoever reads it later knows the process as it was; one that ran when its server was killed is lost.
 */
import { Deferred, Effect, Option, Schema } from "effect"
import { Access, EndedBy, NetworkDenial, NetworkVerdict, ProcessId, ProcessState } from "../schema/Process.ts"
import { WorkspaceId } from "../schema/Workspace.ts"
import { type Ending, type KnownProcess, NOTHING_DECIDED, spoolsOf } from "./KnownProcess.ts"
import type { LeftProcess } from "./ProcessSpawner.ts"

const Record = Schema.fromJsonString(
  Schema.Struct({
    process_id: ProcessId,
    workspace_id: WorkspaceId,
    command: Schema.String,
    cwd: Schema.String,
    access: Access,
    tty: Schema.Boolean,
    sandbox: Schema.String,
    /** Milliseconds since the epoch, as all times here: the clock of a server ends with it. */
    started_on: Schema.Number,
    room_bytes: Schema.Number,
    ending: Schema.optionalKey(
      Schema.Struct({
        state: ProcessState,
        exit_code: Schema.optionalKey(Schema.Number),
        signal: Schema.optionalKey(Schema.String),
        ended_by: EndedBy,
        ended_on: Schema.Number,
        duration_ms: Schema.Number,
        kept_bytes: Schema.Number,
        notes: Schema.Array(Schema.String),
        denials: Schema.Array(NetworkDenial),
        verdicts: Schema.Array(NetworkVerdict),
        untold: Schema.Number,
      }),
    ),
  }),
)
type Record = typeof Record.Type

const encode = Schema.encodeSync(Record)
const decode = Schema.decodeOption(Record)

/** The record of a process as it is now. `time` is that of its clock, `date` that of the calendar. */
export const recordOf = (process: KnownProcess, time: number, date: number): string =>
  encode({
    process_id: process.id,
    workspace_id: process.workspaceId,
    command: process.command,
    cwd: process.cwd,
    access: process.access,
    tty: process.tty,
    sandbox: process.level,
    started_on: process.startedOn,
    room_bytes: process.roomBytes,
    ...(process.ending === undefined ? {} : { ending: endingRecord(process.ending, date - (time - process.ending.endedAt)) }),
  })

const endingRecord = (ending: Ending, endedOn: number): NonNullable<Record["ending"]> => ({
  state: ending.state,
  ...(ending.exit === undefined ? {} : "code" in ending.exit ? { exit_code: ending.exit.code } : { signal: ending.exit.signal }),
  ended_by: ending.endedBy,
  ended_on: endedOn,
  duration_ms: ending.durationMs,
  kept_bytes: ending.keptBytes,
  notes: ending.notes,
  denials: ending.denials,
  ...ending.decided,
})

/** A process that a server before this one left; undefined when its record cannot be read. */
export const fromRecord = Effect.fnUntraced(function* (left: LeftProcess, time: number, date: number) {
  const record = Option.getOrUndefined(decode(left.record))
  if (record === undefined) return undefined
  const ofClock = (on: number) => time - (date - on)
  const ending =
    record.ending === undefined ? yield* lost(left, record, ofClock) : endingFrom(record.ending, ofClock(record.ending.ended_on))
  const ended = Deferred.makeUnsafe<Ending>()
  Deferred.doneUnsafe(ended, Effect.succeed(ending))
  return {
    id: record.process_id,
    workspaceId: record.workspace_id,
    command: record.command,
    cwd: record.cwd,
    access: record.access,
    tty: record.tty,
    level: record.sandbox,
    startedAt: ofClock(record.started_on),
    startedOn: record.started_on,
    roomBytes: record.room_bytes,
    spool: left.spool,
    errors: left.errors,
    readableTo: Number.POSITIVE_INFINITY,
    ending,
    ended,
  } satisfies KnownProcess
})

const endingFrom = (ending: NonNullable<Record["ending"]>, endedAt: number): Ending => ({
  state: ending.state,
  exit: ending.exit_code !== undefined ? { code: ending.exit_code } : ending.signal === undefined ? undefined : { signal: ending.signal },
  endedBy: ending.ended_by,
  endedAt,
  durationMs: ending.duration_ms,
  keptBytes: ending.kept_bytes,
  notes: ending.notes,
  denials: ending.denials,
  decided: { verdicts: ending.verdicts, untold: ending.untold },
})

/** Its end was seen by nobody; the last sign of it was its output. */
const lost = Effect.fnUntraced(function* (left: LeftProcess, record: Record, ofClock: (on: number) => number) {
  const lastOn = Math.max(record.started_on, left.lastOn)
  let keptBytes = 0
  for (const spool of spoolsOf(left)) keptBytes += (yield* spool.size) - (spool.gap().to - spool.gap().from)
  return {
    state: "lost",
    exit: undefined,
    endedBy: "server_stop",
    endedAt: ofClock(lastOn),
    durationMs: Math.round(lastOn - record.started_on),
    keptBytes,
    notes: ["its server ended without a word, and the process with it"],
    denials: [],
    decided: NOTHING_DECIDED,
  } satisfies Ending
})

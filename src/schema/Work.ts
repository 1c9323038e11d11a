/**
 * Works and the instructions that people give to the loop which carries one (contract §11). A work is a piece of work in
 * a workspace; its instructions are text and nothing else: none of them changes what a caller may do.
 */
import { Schema } from "effect"

export const WorkId = Schema.String.check(Schema.isPattern(/^work_[0-9a-z]+$/u, { expected: "an id that work_open gave" })).pipe(
  Schema.brand("WorkId"),
)
export type WorkId = typeof WorkId.Type

export const InstructionId = Schema.String.check(
  Schema.isPattern(/^ins_[0-9a-z]+$/u, { expected: "an id that steer_claim_next gave" }),
).pipe(Schema.brand("InstructionId"))
export type InstructionId = typeof InstructionId.Type

export const WorkState = Schema.Literals(["open", "closed"])
export type WorkState = typeof WorkState.Type

/**
 * `draft` is seen by people only; `queued` waits for a loop; `claimed` is in the hands of one; the rest are ends. A claim
 * whose time is over makes its instruction `queued` again, in its old place.
 */
export const InstructionState = Schema.Literals(["draft", "queued", "claimed", "done", "blocked", "cancelled"])
export type InstructionState = typeof InstructionState.Type

/** Most characters of an instruction: a long page, and still small in a result. */
export const instructionLimit = 20_000

export const InstructionText = Schema.String.check(
  Schema.isMinLength(1, { expected: "a text that is not empty" }),
  Schema.isMaxLength(instructionLimit),
)

/** How much of what its people want a work has before it; every result of a call with `work_id` says so. */
export const Coordination = Schema.Struct({
  work_id: Schema.String,
  state: WorkState,
  queued: Schema.Int,
  claimed: Schema.Int,
})
export type Coordination = typeof Coordination.Type

/** What a loop says of an instruction it had. */
export const InstructionEnd = Schema.Literals(["done", "blocked"])
export type InstructionEnd = typeof InstructionEnd.Type

/** A work as people see it. */
export const WorkSummary = Schema.Struct({
  work_id: Schema.String,
  workspace_id: Schema.String,
  title: Schema.optionalKey(Schema.String),
  caller: Schema.String,
  state: WorkState,
  opened_at: Schema.String,
  closed_at: Schema.optionalKey(Schema.String),
  drafts: Schema.Int,
  queued: Schema.Int,
  claimed: Schema.Int,
  done: Schema.Int,
  blocked: Schema.Int,
})
export type WorkSummary = typeof WorkSummary.Type

/** An instruction as people see it. */
export const Instruction = Schema.Struct({
  instruction_id: Schema.String,
  work_id: Schema.String,
  state: InstructionState,
  text: Schema.String,
  drafted_at: Schema.String,
  queued_at: Schema.optionalKey(Schema.String),
  claimed_by: Schema.optionalKey(Schema.String),
  claimed_until: Schema.optionalKey(Schema.String),
  deliveries: Schema.Int.annotate({ description: "How often it was handed out: more than once only where a claim ran out" }),
  ended_at: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String.annotate({ description: "What the loop said when it ended" })),
})
export type Instruction = typeof Instruction.Type

export class WorkNotFound extends Schema.TaggedError<WorkNotFound>()("WORK_NOT_FOUND", { work_id: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `there is no work "${this.work_id}" that this caller may use. Nothing was run. Use an id that work_open gave, or leave work_id out.`
  }
}

export class WorkClosed extends Schema.TaggedError<WorkClosed>()("WORK_CLOSED", { work_id: Schema.String }) {
  readonly retry = "never"
  override get message() {
    return `"${this.work_id}" was closed, so nobody asks for its instructions any more. Give them to a work that is open.`
  }
}

export class InstructionNotFound extends Schema.TaggedError<InstructionNotFound>()("INSTRUCTION_NOT_FOUND", {
  work_id: Schema.String,
  instruction_id: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.work_id}" has no instruction "${this.instruction_id}". Use the id that steer_claim_next gave.`
  }
}

/** The instruction has gone on since; nothing was changed. */
export class InstructionConflict extends Schema.TaggedError<InstructionConflict>()("INSTRUCTION_CONFLICT", {
  instruction_id: Schema.String,
  state: InstructionState,
  asked: Schema.String,
}) {
  readonly retry = "never"
  override get message() {
    return `${this.instruction_id} is ${this.state}, so it cannot be ${this.asked}. Nothing was changed.`
  }
}

/** work_open, steer_status, steer_claim_next, steer_complete, work_finish: what people want of the loop while it works. */
import { Effect, Schema } from "effect"
import { OperationKey } from "../../schema/Operation.ts"
import { excerpt } from "../../schema/Retry.ts"
import { Coordination, Instruction, InstructionEnd, InstructionId, instructionLimit, WorkId } from "../../schema/Work.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import { Operations } from "../../services/Operations.ts"
import { DEFAULT_CLAIM, Works } from "../../services/Works.ts"
import { coordinationText } from "../Coordinated.ts"
import { factsOf } from "../Facts.ts"
import { controlTool } from "../ToolEntry.ts"

const work_id = WorkId.annotate({ description: "From work_open" })
const title = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))

/** An instruction as the loop that has it sees it. */
const Given = Schema.Struct({
  instruction_id: Schema.String,
  state: Instruction.fields.state,
  text: Schema.String,
  claimed_until: Instruction.fields.claimed_until,
  deliveries: Instruction.fields.deliveries,
})

const givenOf = ({ claimed_until, deliveries, instruction_id, state, text }: Instruction, limit = instructionLimit): typeof Given.Type => ({
  instruction_id,
  state,
  text: text.length <= limit ? text : excerpt(text, limit),
  ...(claimed_until === undefined ? {} : { claimed_until }),
  deliveries,
})

const givenText = ({ text, ...facts }: typeof Given.Type): string =>
  `${factsOf(facts, ["instruction_id", "state", "claimed_until", "deliveries"])}\n\n${text}`

const changing = { readOnly: false, destructive: false, openWorld: false }

export const workOpen = controlTool({
  name: "work_open",
  set: "works",
  title: "Open a work",
  description:
    "Open a piece of work, so that people can send you instructions meanwhile. Pass its work_id with your calls: each result then says how many wait. Take them with steer_claim_next; close it with work_finish.",
  parameters: Schema.Struct({
    workspace_id: WorkspaceId,
    title: Schema.optionalKey(title.annotate({ description: "For its people" })),
    operation_key: Schema.optionalKey(OperationKey),
  }),
  success: Schema.Struct({
    work_id: Schema.String,
    workspace_id: Schema.String,
    title: Schema.optionalKey(Schema.String),
    coordination: Coordination,
  }),
  hints: { ...changing, idempotent: false },
  text: (result) => `${factsOf(result, ["work_id", "workspace_id", "title"])}\n${coordinationText(result.coordination)}`,
  answer: Effect.fnUntraced(function* ({ operation_key, title, workspace_id }) {
    const works = yield* Works
    yield* Operations.use((operations) => operations.authorize(workspace_id))
    const { workId } = yield* works.open({ workspaceId: workspace_id, title, key: operation_key })
    return {
      work_id: workId,
      workspace_id: workspace_id as string,
      ...(title === undefined ? {} : { title }),
      coordination: yield* works.coordination(workId),
    }
  }),
})

/** A status shows the beginning of what is in hand: enough to know it by, for several. */
const SHOWN_TEXT = 1000
const SHOWN = 20

export const steerStatus = controlTool({
  name: "steer_status",
  set: "works",
  title: "Show a work",
  description: "How many instructions of a work wait, are in hand and have ended, and which you have in hand. It hands out none.",
  parameters: Schema.Struct({ work_id }),
  success: Schema.Struct({
    workspace_id: Schema.String,
    title: Schema.optionalKey(Schema.String),
    done: Schema.Int,
    blocked: Schema.Int,
    in_hand: Schema.Array(Given),
    coordination: Coordination,
  }),
  hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
  text: (result) =>
    [
      factsOf(result, ["workspace_id", "title", "done", "blocked"]),
      coordinationText(result.coordination),
      ...result.in_hand.map((given) => `\n${givenText(given)}`),
    ].join("\n"),
  answer: Effect.fnUntraced(function* ({ work_id }) {
    const { coordination, inHand, work } = yield* Works.use((works) => works.status(work_id))
    return {
      workspace_id: work.workspace_id,
      ...(work.title === undefined ? {} : { title: work.title }),
      done: work.done,
      blocked: work.blocked,
      in_hand: inHand.slice(0, SHOWN).map((given) => givenOf(given, SHOWN_TEXT)),
      coordination,
    }
  }),
})

export const steerClaimNext = controlTool({
  name: "steer_claim_next",
  set: "works",
  title: "Take the next instruction",
  description:
    "Take the oldest waiting instruction: text from the work's people. It is yours for lease_ms, then goes back to the queue; end it with steer_complete. Repeat with the same operation_key after a lost answer, or to keep it longer.",
  parameters: Schema.Struct({
    work_id,
    lease_ms: Schema.optionalKey(
      Schema.Int.check(Schema.isBetween({ minimum: 1000, maximum: 86_400_000 })).annotate({
        description: `Default ${DEFAULT_CLAIM}`,
      }),
    ),
    operation_key: Schema.optionalKey(OperationKey),
  }),
  success: Schema.Struct({
    instruction: Schema.optionalKey(Given).annotate({ description: "Absent when none waits" }),
    coordination: Coordination,
  }),
  hints: { ...changing, idempotent: false },
  text: ({ coordination, instruction }) =>
    `${coordinationText(coordination)}\n\n${instruction === undefined ? "no instruction waits" : givenText(instruction)}`,
  answer: Effect.fnUntraced(function* ({ lease_ms = DEFAULT_CLAIM, operation_key, work_id }) {
    const claim = { workId: work_id, leaseMs: lease_ms, key: operation_key }
    const { coordination, instruction } = yield* Works.use((works) => works.claimNext(claim))
    return { ...(instruction === undefined ? {} : { instruction: givenOf(instruction) }), coordination }
  }),
})

export const steerComplete = controlTool({
  name: "steer_complete",
  set: "works",
  title: "End an instruction",
  description: "Say that an instruction you took is done, or blocked: you cannot follow it, and note says why.",
  parameters: Schema.Struct({
    work_id,
    instruction_id: InstructionId.annotate({ description: "From steer_claim_next" }),
    status: InstructionEnd.annotate({ description: "done or blocked" }),
    note: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(2000)).annotate({ description: "For its people" })),
  }),
  success: Schema.Struct({ instruction_id: Schema.String, state: InstructionEnd, coordination: Coordination }),
  hints: { ...changing, idempotent: true },
  text: (result) => `${factsOf(result, ["instruction_id", "state"])}\n${coordinationText(result.coordination)}`,
  answer: Effect.fnUntraced(function* ({ instruction_id, note, status, work_id }) {
    const completion = { workId: work_id, instructionId: instruction_id, status, note }
    const coordination = yield* Works.use((works) => works.complete(completion))
    return { instruction_id: instruction_id as string, state: status, coordination }
  }),
})

export const workFinish = controlTool({
  name: "work_finish",
  set: "works",
  title: "Close a work",
  description: "Close a work. While instructions wait or are in hand it stays open and says pending_user_input: take and end them first.",
  parameters: Schema.Struct({ work_id }),
  success: Schema.Struct({
    closed: Schema.Boolean,
    reason: Schema.optionalKey(Schema.Literal("pending_user_input")),
    coordination: Coordination,
  }),
  hints: { ...changing, idempotent: true },
  text: (result) => `${factsOf(result, ["closed", "reason"])}\n${coordinationText(result.coordination)}`,
  answer: Effect.fnUntraced(function* ({ work_id }) {
    const { closed, coordination } = yield* Works.use((works) => works.finish(work_id))
    return { closed, ...(closed ? {} : { reason: "pending_user_input" as const }), coordination }
  }),
})

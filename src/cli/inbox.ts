/** `codespace inbox`: what people want of the loops that work, written down, changed, handed over and taken back. */
import { Effect } from "effect"
import type { Instruction, WorkSummary } from "../schema/Work.ts"
import { type Asked, type Commands, command, jsonOption } from "./Command.ts"
import { operating, operatorOptions } from "./Operating.ts"
import { plain, printAs } from "./Output.ts"

const options = { ...operatorOptions, ...jsonOption } as const

const workLine = ({
  blocked,
  caller,
  claimed,
  done,
  drafts,
  opened_at,
  queued,
  state,
  title,
  work_id,
  workspace_id,
}: WorkSummary): string =>
  `${work_id}  ${state}  ${workspace_id}  ${caller}  ${opened_at}  ${drafts} drafts, ${queued} queued, ${claimed} in hand, ${done} done, ${blocked} blocked` +
  `${title === undefined ? "" : `  ${title}`}\n`

const instructionText = ({ claimed_by, claimed_until, deliveries, instruction_id, note, state, text }: Instruction): string =>
  [
    `${instruction_id}  ${state}${claimed_by === undefined ? "" : ` by ${claimed_by}`}${claimed_until === undefined ? "" : ` until ${claimed_until}`}` +
      (deliveries > 1 ? `  given out ${deliveries} times` : ""),
    ...text.split("\n").map((line) => `    ${line}`),
    ...(note === undefined ? [] : [`    note: ${note}`]),
    "",
  ].join("\n")

const told = (asked: Asked<typeof jsonOption>, instruction: Instruction) =>
  printAs(asked.options.json, instruction, plain(instructionText(instruction)))

const list = command({
  details: "The works that are open, newest first.",
  options,
  run: Effect.fnUntraced(function* (asked) {
    const { works } = yield* (yield* operating(asked)).inbox.list()
    yield* printAs(asked.options.json, { works }, works.length === 0 ? "No work is open.\n" : plain(works.map(workLine).join("")))
    return 0
  }),
})

const show = command({
  args: "WORK_ID",
  details: "What waits comes first and in its order, then drafts, then what has ended.",
  options,
  run: Effect.fnUntraced(function* (asked) {
    const shown = yield* (yield* operating(asked)).inbox.show({ params: { work_id: asked.args[0] ?? "" } })
    yield* printAs(asked.options.json, shown, plain([workLine(shown.work), ...shown.instructions.map(instructionText)].join("\n")))
    return 0
  }),
})

/** A draft, or one that is queued at once. */
const written = (queue: boolean, details: string) =>
  command({
    args: "WORK_ID TEXT",
    details,
    options,
    run: Effect.fnUntraced(function* (asked) {
      const [work_id = "", text = ""] = asked.args
      yield* told(asked, yield* (yield* operating(asked)).inbox.draft({ params: { work_id }, payload: { text, queue } }))
      return 0
    }),
  })

const edit = command({
  args: "WORK_ID INSTRUCTION_ID TEXT",
  details: "Rewrites an instruction that nobody was given.",
  options,
  run: Effect.fnUntraced(function* (asked) {
    const [work_id = "", instruction_id = "", text = ""] = asked.args
    yield* told(asked, yield* (yield* operating(asked)).inbox.edit({ params: { work_id, instruction_id }, payload: { text } }))
    return 0
  }),
})

/** A change of the state of one instruction. */
const moved = (how: "queue" | "cancel", details: string) =>
  command({
    args: "WORK_ID INSTRUCTION_ID",
    details,
    options,
    run: Effect.fnUntraced(function* (asked) {
      const [work_id = "", instruction_id = ""] = asked.args
      yield* told(asked, yield* (yield* operating(asked)).inbox[how]({ params: { work_id, instruction_id } }))
      return 0
    }),
  })

export const inbox: Commands = {
  commands: {
    list: { summary: "the works that are open", load: () => list },
    show: { summary: "a work and its instructions", load: () => show },
    draft: { summary: "write an instruction down", load: () => written(false, "Only people see a draft; queue hands it over.") },
    send: {
      summary: "write an instruction down and queue it",
      load: () => written(true, "The loop is given it when it asks, behind all that wait."),
    },
    edit: { summary: "rewrite an instruction", load: () => edit },
    queue: { summary: "hand a draft over", load: () => moved("queue", "The loop is given it when it asks, behind all that wait.") },
    cancel: { summary: "take an instruction back", load: () => moved("cancel", "Takes back one that is in nobody's hands.") },
  },
}

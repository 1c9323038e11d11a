/**
 * `codespace approvals`: what waits for a person, shown whole, and the person's word on it. It works on the records in the
 * state folder, so it needs no running server: whoever may read that folder is the operator.
 */
import { userInfo } from "node:os"
import { Context, Effect, Layer, Option } from "effect"
import { type Approval, ApprovalNotFound, ApprovalState, type Grant } from "../schema/Approval.ts"
import { Approvals, toApproval } from "../services/Approvals.ts"
import { whyNotRemembered } from "../services/Remembered.ts"
import { type Asked, type Commands, command, configOption, jsonOption, UsageError } from "./Command.ts"
import { print } from "./Output.ts"
import { configured } from "./Prepare.ts"

const options = { ...configOption, ...jsonOption } as const

/** Loaded by the command: the database takes a moment to load. */
const opened = Effect.fnUntraced(function* ({ options }: Asked<typeof configOption>) {
  const config = yield* configured({ args: [], options }, "workspaces optional")
  const { layerOperatorRecords } = yield* Effect.promise(() => import("../layers/App.ts"))
  return Context.get(yield* Layer.build(layerOperatorRecords(config)), Approvals)
})

const operator = () => `operator (${userInfo().username} on this machine)`

const printed = (asked: Asked<typeof jsonOption>, value: unknown, text: string) =>
  print(asked.options.json === true ? `${JSON.stringify(value, undefined, 2)}\n` : text)

const line = ({ approval_id, expires_at, shown, state, workspace_id }: Approval): string =>
  `${approval_id}  ${state}  ${workspace_id}  ${shown.kind}  ${headline(shown)}${state === "pending" ? `  until ${expires_at}` : ""}\n`

const headline = ({ changes, command, script }: Approval["shown"]): string =>
  changes !== undefined ? changes.map(({ kind, path }) => `${kind} ${path}`).join(", ") : JSON.stringify(command ?? script ?? "")

/** Everything the person decides about; control characters of a caller's text must not reach a terminal. */
const whole = (approval: Approval): string => {
  const { shown, ...facts } = approval
  const { diff, script, ...more } = shown
  const lines = [...Object.entries(facts), ...Object.entries(more)].map(
    ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
  )
  const parts = [lines.join("\n"), ...(script === undefined ? [] : [`script:\n${script}`]), ...(diff === undefined ? [] : [diff])]
  return `${parts.join("\n\n").replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/gu, "�")}\n`
}

const grantLine = ({ argv, created_at, grant_id, granted_by, workspace_id }: Grant): string =>
  `${grant_id}  ${workspace_id}  ${argv.join(" ")}  (${granted_by}, ${created_at})\n`

const list = command({
  details: "Lists what waits for a decision; with --all also what was decided, newest first.",
  options: { ...options, all: { summary: "also those that are decided, expired or used" } },
  run: Effect.fnUntraced(function* (asked) {
    const approvals = yield* opened(asked)
    const states: ReadonlyArray<ApprovalState> = asked.options.all === true ? ApprovalState.literals : ["pending", "granted"]
    const found = (yield* approvals.list({ states, limit: 200 })).map(toApproval)
    yield* printed(asked, found, found.length === 0 ? "Nothing waits for a decision.\n" : found.map(line).join(""))
    return 0
  }),
})

const show = command({
  args: "APPROVAL_ID",
  options,
  run: Effect.fnUntraced(function* (asked) {
    const [approval_id = ""] = asked.args
    const held = yield* (yield* opened(asked)).byId(approval_id)
    if (Option.isNone(held)) return yield* new ApprovalNotFound({ approval_id })
    yield* printed(asked, toApproval(held.value), whole(toApproval(held.value)))
    return 0
  }),
})

const grant = command({
  args: "APPROVAL_ID",
  details:
    "The call may run once, when its caller resumes it. With --remember later commands in that workspace that begin with the same words need nobody:\n" +
    '--remember "npm test" covers npm test -- x, not npm testx, not what stands behind && or a variable set in front.',
  options: { ...options, remember: { value: "WORDS", summary: "the first words of commands to allow for good, separated by spaces" } },
  run: Effect.fnUntraced(function* (asked) {
    const [approvalId = ""] = asked.args
    const words = asked.options.remember?.split(" ").filter((word) => word !== "")
    const approvals = yield* opened(asked)
    if (words !== undefined) yield* checkRemembered(approvals, approvalId, words)
    const granted = toApproval(yield* approvals.grant(approvalId, operator(), words))
    yield* printed(asked, granted, `${approvalId} is granted: its caller may run it once until ${granted.expires_at}.\n`)
    return 0
  }),
})

/** Words that the held command itself does not begin with would be a mistake. */
const checkRemembered = Effect.fnUntraced(function* (approvals: Approvals["Service"], approvalId: string, words: ReadonlyArray<string>) {
  const held = yield* approvals.byId(approvalId)
  if (Option.isNone(held)) return yield* new ApprovalNotFound({ approval_id: approvalId })
  const why = whyNotRemembered(held.value.hold.shown, words)
  if (why !== undefined) return yield* new UsageError({ message: `--remember: ${why}` })
})

const deny = command({
  args: "APPROVAL_ID",
  options: { ...options, reason: { value: "TEXT", summary: "told to the caller" } },
  run: Effect.fnUntraced(function* (asked) {
    const [approvalId = ""] = asked.args
    const denied = toApproval(yield* (yield* opened(asked)).deny(approvalId, operator(), asked.options.reason))
    yield* printed(asked, denied, `${approvalId} is denied.\n`)
    return 0
  }),
})

const grants = command({
  details: "Lists the commands that were allowed for good.",
  options,
  run: Effect.fnUntraced(function* (asked) {
    const found = yield* (yield* opened(asked)).grants()
    yield* printed(asked, found, found.length === 0 ? "Nothing is allowed for good.\n" : found.map(grantLine).join(""))
    return 0
  }),
})

const revoke = command({
  args: "GRANT_ID",
  options,
  run: Effect.fnUntraced(function* (asked) {
    const [grantId = ""] = asked.args
    if (!(yield* (yield* opened(asked)).revoke(grantId, operator())))
      return yield* new UsageError({ message: `there is no grant "${grantId}"; codespace approvals grants lists them` })
    yield* printed(asked, { revoked: grantId }, `${grantId} is revoked.\n`)
    return 0
  }),
})

export const approvals: Commands = {
  commands: {
    list: { summary: "what waits for a decision", load: () => list },
    show: { summary: "all of one held call", load: () => show },
    grant: { summary: "let a held call run once", load: () => grant },
    deny: { summary: "never let a held call run", load: () => deny },
    grants: { summary: "commands that are allowed for good", load: () => grants },
    revoke: { summary: "end what was allowed for good", load: () => revoke },
  },
}

/**
 * Asks the person at the client about a call that is held, where that client can show a question.
 *
 * An answer that comes through a client has only the caller's authority, since a loop without a person can answer its own
 * questions. So a question leads to the operator's page, where the operator's login decides and the answer means no more
 * than that the page was opened. Only for a caller whom the operator trusts with it, the client's own form decides.
 *
 * The plain call is the main path: whatever is said here, the decision stands in the records, and the same call, made once
 * more, finds it there. So an answer that is forged, late or repeated can run nothing twice, and nothing that was not held.
 */
import type { InputRequiredResult } from "@modelcontextprotocol/server"
import { Clock, Effect, Option, Result } from "effect"
import type { ApprovalRequired } from "../schema/Approval.ts"
import type { Refusal } from "../schema/Refusal.ts"
import { type Approvals, conflictOf, type Held } from "../services/Approvals.ts"
import type { Caller } from "../services/Caller.ts"
import { isObject } from "./Rpc.ts"
import type { Answer } from "./ToolRow.ts"

/** A question as clients of both revisions take it. */
export type Question =
  | { readonly mode: "url"; readonly message: string; readonly url: string; readonly elicitationId: string }
  | { readonly mode: "form"; readonly message: string; readonly requestedSchema: typeof decision }

/** What a client answered. */
export interface Said {
  readonly action: string
  readonly content?: unknown
}

/** How a call's client can ask its person. */
export interface Prompts {
  readonly form: boolean
  readonly url: boolean
  /** Where the operator's pages are, as this client reaches them. */
  readonly console: string
  /** 2025: asks while the call waits; undefined when no answer came. */
  readonly ask?: (question: Question, waitMs: number) => Promise<Said | undefined>
  /** 2026: what the call was answered with before, and what the client says to it. */
  readonly answer?: { readonly approvalId: string; readonly said: Said | undefined }
}

/** One question with one choice; in a form nothing secret may be asked. */
const decision = {
  type: "object",
  properties: { decision: { type: "string", enum: ["allow once", "deny"], title: "Decision" } },
  required: ["decision"],
} as const

/** Milliseconds an answer is waited for: clients give up on a call after a minute. */
const WAIT = 45_000
const LOOK_EVERY = 250

export interface AskOptions {
  readonly approvals: Effect.Effect<Approvals["Service"], Refusal>
  readonly caller: Caller["Service"]
  readonly prompts: Prompts
  /** Instead of `WAIT`. */
  readonly waitMs?: number
}

/** Makes the call, asking where it is held; the result is the call's own, or for a 2026 client the question. */
export const asking = <R>(
  call: Effect.Effect<Answer, Refusal, R>,
  { approvals, caller, prompts, waitMs = WAIT }: AskOptions,
): Effect.Effect<Answer | InputRequiredResult, Refusal, R> => {
  const mode = prompts.url ? "url" : prompts.form && caller.trustPrompts === true ? "form" : undefined

  /** Takes what the client said to a question about this approval; afterwards the call tells what became of it. */
  const settle = Effect.fnUntraced(function* (approvalId: string, said: Said | undefined) {
    const service = yield* approvals
    const held = Option.getOrUndefined(yield* service.byId(approvalId))
    if (held === undefined || held.caller !== caller.name || said === undefined) return undefined
    if (mode === "url") return said.action === "accept" ? yield* decided(service, approvalId, waitMs) : held
    if (mode === undefined || said.action === "cancel") return held
    const by = `prompt of ${caller.name}`
    const isGranted = said.action === "accept" && isObject(said.content) && said.content["decision"] === "allow once"
    const resolved = yield* Effect.result(isGranted ? service.grant(approvalId, by) : service.deny(approvalId, by))
    // Somebody else may have decided meanwhile; that stands.
    return Result.isSuccess(resolved) ? resolved.success : Option.getOrUndefined(yield* service.byId(approvalId))
  })

  /** The call once more; without a key it would only be held anew after a denial. */
  const again = (known: Held | undefined) =>
    known?.state === "denied" || known?.state === "expired" ? Effect.fail(conflictOf(known)) : call

  return Effect.gen(function* () {
    if (prompts.answer !== undefined) return yield* again(yield* settle(prompts.answer.approvalId, prompts.answer.said))
    const first = yield* Effect.result(call)
    if (Result.isSuccess(first)) return first.success
    const held = first.failure
    if (held._tag !== "APPROVAL_REQUIRED" || mode === undefined) return yield* held
    const question = questionOf(held, mode, prompts.console)
    if (prompts.ask === undefined) return inputRequired(held, question)
    const { ask } = prompts
    const said = yield* Effect.promise(() => ask(question, waitMs))
    return said === undefined ? yield* held : yield* again(yield* settle(held.approval_id, said))
  })
}

/** The approval once somebody has decided, or as it is when the wait is over. */
const decided = Effect.fnUntraced(function* (service: Approvals["Service"], approvalId: string, waitMs: number) {
  const end = (yield* Clock.currentTimeMillis) + waitMs
  for (;;) {
    const held = Option.getOrUndefined(yield* service.byId(approvalId))
    if (held?.state !== "pending" || (yield* Clock.currentTimeMillis) >= end) return held
    yield* Effect.sleep(LOOK_EVERY)
  }
})

/** An id, never a secret: whoever opens the page must log in. */
const questionOf = (held: ApprovalRequired, mode: "url" | "form", console: string): Question => {
  const message = `CodeSpace: ${held.subject} waits for a decision (${held.rule})`
  return mode === "url"
    ? { mode, message, url: `${console}/approvals/${held.approval_id}`, elicitationId: held.approval_id }
    : { mode, message, requestedSchema: decision }
}

/** The state that comes back names the approval and nothing else: it is looked up, and believed in nothing. */
const inputRequired = (held: ApprovalRequired, question: Question): InputRequiredResult =>
  ({
    resultType: "input_required",
    inputRequests: { approval: { method: "elicitation/create", params: question } },
    requestState: held.approval_id,
  }) as unknown as InputRequiredResult

/** Whether a call was answered with a question. */
export const isQuestion = (value: Answer | InputRequiredResult): value is InputRequiredResult => "inputRequests" in value

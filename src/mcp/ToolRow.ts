/**
 * One row of the tool table as the edges see it: what a client is told about the tool, and how to call it. Whatever
 * stands behind `call` (decoding, the gate, the runner) is no business of a transport.
 */
import type { Effect, Schema } from "effect"
import type { Refusal } from "../schema/Refusal.ts"
import type { Caller } from "../services/Caller.ts"

/** A successful answer: text and structured part each say everything (contract §3). */
export interface Answer {
  readonly result: Schema.JsonObject
  readonly text: string
  readonly image?: { readonly mimeType: string; readonly data: string }
}

export interface ToolRow {
  readonly name: string
  readonly title: string
  readonly description: string
  /** JSON Schemas with a plain object at the top. */
  readonly input: Schema.JsonObject
  readonly output: Schema.JsonObject
  readonly hints: {
    readonly readOnlyHint: boolean
    readonly destructiveHint: boolean
    readonly idempotentHint: boolean
    readonly openWorldHint: boolean
  }
  /** The call may wait for seconds: HTTP keeps the connection alive while it does. */
  readonly waits: boolean
  /** Checks the arguments, passes the gate, performs the call. */
  readonly call: (args: unknown) => Effect.Effect<Answer, Refusal, Caller>
}

/** What every answer to a call with `work_id` says besides its own: how much its people want of the loop. */
import type { CallToolResult } from "@modelcontextprotocol/server"
import { Schema } from "effect"
import { Coordination } from "../schema/Work.ts"
import { factsOf } from "./Facts.ts"

/** In the result of a tool that takes `work_id`. */
export const Coordinated = { coordination: Schema.optionalKey(Coordination) }

export const coordinationText = (coordination: Coordination): string =>
  `${factsOf({ coordination }, ["coordination"])}${coordination.queued === 0 ? "" : ". People sent instructions: take them with steer_claim_next"}`

/** Whether a result says so by itself. */
export const isCoordinated = ({ structuredContent }: CallToolResult): boolean =>
  typeof structuredContent === "object" && structuredContent !== null && "coordination" in structuredContent

/** The result with these counts: in its structure, or beside a refusal, and in its text. */
export const withCoordination = (result: CallToolResult, coordination: Coordination): CallToolResult => {
  const text = { type: "text" as const, text: coordinationText(coordination) }
  return {
    ...result,
    content: [...result.content, text],
    ...(result.structuredContent === undefined
      ? { _meta: { ...result._meta, "codespace/coordination": coordination } }
      : { structuredContent: { ...result.structuredContent, coordination } }),
  }
}

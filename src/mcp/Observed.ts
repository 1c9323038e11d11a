/**
 * What can be seen of a tool call from outside: its span, in the trace of whoever called, and its place in the figures. The
 * span carries names, ids and the code of a refusal; never arguments, keys, paths or output.
 */
import { Clock, Effect, Exit, Option, Tracer } from "effect"
import type { Refusal } from "../schema/Refusal.ts"
import { countCall } from "../services/Figures.ts"
import type { Answer } from "./ToolRow.ts"

/** A call's place in its caller's trace, from the text of a W3C `traceparent`. */
export const parentOf = (traceparent: unknown): Tracer.ExternalSpan | undefined => {
  if (typeof traceparent !== "string") return undefined
  const found = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-|$)/.exec(traceparent)
  const [, traceId, spanId, flags = "00"] = found ?? []
  if (traceId === undefined || spanId === undefined) return undefined
  return Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 })
}

/** Ids a call's arguments or result may have. */
const ids = ["workspace_id", "work_id", "process_id", "operation_id", "approval_id", "instruction_id"] as const

const idsIn = (fields: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    ids.flatMap((id) => {
      const value = fields[id]
      return typeof value === "string" && /^[\w.-]{1,100}$/.test(value) ? [[`codespace.${id}`, value]] : []
    }),
  )

/** The outcome in one word. */
const outcomeOf = (exit: Exit.Exit<Answer, Refusal>): string => {
  if (Exit.isSuccess(exit)) return "ok"
  if (Exit.hasInterrupts(exit)) return "CANCELLED"
  return Option.match(Exit.findErrorOption(exit), { onNone: () => "INTERNAL", onSome: ({ _tag }) => _tag })
}

export interface Observation {
  readonly tool: string
  readonly caller: string
  readonly args: Readonly<Record<string, unknown>>
  readonly parent: Tracer.ExternalSpan | undefined
}

/** The call, watched. */
export const observed = <R>(
  { args, caller, parent, tool }: Observation,
  call: Effect.Effect<Answer, Refusal, R>,
): Effect.Effect<Answer, Refusal, R> =>
  Effect.useSpan(
    `tools/call ${tool}`,
    {
      kind: "server",
      ...(parent === undefined ? {} : { parent }),
      attributes: { "mcp.method.name": "tools/call", "gen_ai.tool.name": tool, "codespace.caller": caller, ...idsIn(args) },
    },
    (span) =>
      Effect.flatMap(Clock.currentTimeMillis, (began) =>
        Effect.onExit(Effect.withParentSpan(call, span), (exit) =>
          Effect.flatMap(Clock.currentTimeMillis, (ended) => {
            const outcome = outcomeOf(exit)
            if (outcome !== "ok") span.attribute("error.type", outcome)
            if (Exit.isSuccess(exit)) for (const [id, value] of Object.entries(idsIn(exit.value.result))) span.attribute(id, value)
            return countCall(tool, outcome, (ended - began) / 1000)
          }),
        ),
      ),
  )

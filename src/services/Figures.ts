/**
 * What is counted, for `/metrics`. Labels are names of tools, codes and states: few, and none of them a caller's own text.
 */
import { Effect, Metric } from "effect"

const calls = Metric.counter("codespace_tool_calls", {
  description: "Tool calls that ended, by tool and outcome: ok, or the code of the refusal",
  incremental: true,
})

const durations = Metric.histogram("codespace_tool_call_duration_seconds", {
  description: "How long tool calls took, by tool",
  boundaries: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 10, 30, 60],
})

/** A call of this tool ended. */
export const countCall = (tool: string, outcome: string, seconds: number): Effect.Effect<void> =>
  Effect.andThen(
    Metric.update(Metric.withAttributes(calls, { tool, outcome }), 1),
    Metric.update(Metric.withAttributes(durations, { tool }), seconds),
  )

const waiting = Metric.gauge("codespace_instructions", { description: "Instructions of open works that have not ended, by state" })
const approvals = Metric.gauge("codespace_approvals_pending", { description: "Held calls that wait for a person" })
const events = Metric.gauge("codespace_ledger_seq", { description: "The place of the newest event in the ledger" })

export interface Standing {
  readonly queued: number
  readonly claimed: number
  readonly pendingApprovals: number
  readonly newestEvent: number
}

/** How things stand now; asked when somebody looks. */
export const setStanding = ({ claimed, newestEvent, pendingApprovals, queued }: Standing): Effect.Effect<void> =>
  Effect.all(
    [
      Metric.update(Metric.withAttributes(waiting, { state: "queued" }), queued),
      Metric.update(Metric.withAttributes(waiting, { state: "claimed" }), claimed),
      Metric.update(approvals, pendingApprovals),
      Metric.update(events, newestEvent),
    ],
    { discard: true },
  )

/** The decisions of a proxy as notes for the result of its process: what was refused, why and how often. Bounded. */
import type { NetworkDecision } from "./NetworkProxy.ts"

export interface NetworkNotes {
  readonly onDecision: (decision: NetworkDecision) => void
  /** A line for each place that could not be reached, in the order of first refusal. */
  readonly notes: () => ReadonlyArray<string>
}

/** Places told one by one; others are counted. */
const MOST_PLACES = 20

export const networkNotes = (profile: string): NetworkNotes => {
  const counts = new Map<string, number>()
  let others = 0
  return {
    onDecision: (decision) => {
      if (decision.outcome === "allowed") return
      const line = lineOf(profile, decision)
      if (counts.has(line) || counts.size < MOST_PLACES) counts.set(line, (counts.get(line) ?? 0) + 1)
      else others++
    },
    notes: () => [
      ...[...counts].map(([line, count]) => (count === 1 ? line : `${line} (${count} times)`)),
      ...(others === 0 ? [] : [`network: ${others} more connections were not made`]),
    ],
  }
}

const lineOf = (profile: string, { host, outcome, port, reason }: NetworkDecision): string => {
  const place = host === "" ? "a connection" : `${host.includes(":") ? `[${host}]` : host}:${port}`
  return outcome === "denied"
    ? `network: profile "${profile}" does not allow ${place}: ${reason}`
    : `network: ${place} was not reached: ${reason}`
}

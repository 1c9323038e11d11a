/** The decisions of a proxy for the result of its process: what was refused, why and how often. Bounded. */
import type { NetworkDenial, NetworkVerdict } from "../schema/Process.ts"
import { excerpt } from "../schema/Retry.ts"
import { toJson } from "./JsonText.ts"
import type { NetworkDecision } from "./NetworkProxy.ts"
import type { Denials } from "./Sandbox.ts"

export interface NetworkNotes {
  readonly onDecision: (decision: NetworkDecision) => void
  /** A line for each place that could not be reached, in the order of first refusal, and those that were denied as facts. */
  readonly denials: () => Denials
}

/** Places told one by one, and kinds of decisions; others are counted. */
const MOST_PLACES = 20
const MOST_VERDICTS = 30
/** Characters of a reason. */
const REASON_LENGTH = 200

export const networkNotes = (profile: string): NetworkNotes => {
  const places = new Map<string, { readonly decision: NetworkDecision; count: number }>()
  let others = 0
  const verdicts = new Map<string, { readonly decision: NetworkDecision; count: number }>()
  let untold = 0
  const remember = (decision: NetworkDecision): void => {
    const key = toJson([decision.outcome, decision.host, decision.port, decision.reason])
    const known = verdicts.get(key)
    if (known !== undefined) known.count++
    else if (verdicts.size < MOST_VERDICTS) verdicts.set(key, { decision, count: 1 })
    else untold++
  }
  return {
    onDecision: (decision) => {
      remember(decision)
      if (decision.outcome === "allowed") return
      const line = lineOf(profile, decision)
      const known = places.get(line)
      if (known !== undefined) known.count++
      else if (places.size < MOST_PLACES) places.set(line, { decision, count: 1 })
      else others++
    },
    denials: () => ({
      notes: [
        ...[...places].map(([line, { count }]) => (count === 1 ? line : `${line} (${count} times)`)),
        ...(others === 0 ? [] : [`network: ${others} more connections were not made`]),
      ],
      network: [...places.values()].flatMap(({ count, decision }) => (decision.outcome === "denied" ? [factOf(decision, count)] : [])),
      decided: { verdicts: [...verdicts.values()].map(({ count, decision }) => verdictOf(decision, count)), untold },
    }),
  }
}

const factOf = ({ host, port, reason }: NetworkDecision, count: number): NetworkDenial => ({
  ...(host === "" ? {} : { host, port }),
  reason,
  count,
})

const verdictOf = ({ host, outcome, port, reason }: NetworkDecision, count: number): NetworkVerdict => ({
  verdict: outcome,
  ...(host === "" ? {} : { host, port }),
  reason: excerpt(reason, REASON_LENGTH),
  count,
})

const lineOf = (profile: string, { host, outcome, port, reason }: NetworkDecision): string => {
  const place = host === "" ? "a connection" : `${host.includes(":") ? `[${host}]` : host}:${port}`
  return outcome === "denied"
    ? `network: profile "${profile}" does not allow ${place}: ${reason}`
    : `network: ${place} was not reached: ${reason}`
}

/** What the kernel refused to a command that has no network but loopback. */
export const refusedByKernel = (profile: string, network: string, count: number): Denials =>
  count === 0
    ? { notes: [], network: [] }
    : {
        notes: [
          `network: disabled by profile "${profile}" (network: ${network}): the kernel refused ${count} ${count === 1 ? "attempt" : "attempts"} to go further than loopback; looking up a name is one. This is no fault of the network.`,
        ],
        network: [{ reason: `network: ${network} (profile "${profile}")`, count }],
      }

/**
 * What a command's proxy decided, in the ledger: an event for each kind of decision about a place, with how often, when the
 * command has ended. They stand under its operation, before the event that ends it, and change no row.
 */
import { Effect, Option, Schema } from "effect"
import { NetworkVerdict, ProcessFacts } from "../schema/Process.ts"
import { eventKind, type Projection } from "./EventKind.ts"

export const NetworkDecided = eventKind(
  "NetworkDecided",
  Schema.Struct({ process_id: Schema.String, ...NetworkVerdict.fields }),
  () => Effect.void,
)

/** Decisions of kinds that were too many to be told one by one. */
export const NetworkUntold = eventKind("NetworkUntold", Schema.Struct({ process_id: Schema.String, count: Schema.Int }), () => Effect.void)

export const networkProjection: Projection = { tables: [], kinds: [NetworkDecided, NetworkUntold] }

const { network_untold, network_verdicts, process_id } = ProcessFacts.fields
const decode = Schema.decodeUnknownOption(Schema.Struct({ process_id, network_verdicts, network_untold }))

/** What the result of an operation tells of them. */
export const decidedIn = (result: Schema.JsonObject | undefined) => {
  const { network_untold = 0, network_verdicts = [], process_id } = Option.getOrUndefined(decode(result)) ?? {}
  if (process_id === undefined) return { decided: [], untold: undefined }
  return {
    decided: network_verdicts.map((verdict) => ({ process_id, ...verdict })),
    untold: network_untold === 0 ? undefined : { process_id, count: network_untold },
  }
}

/** An event of them in a few words. */
export const networkDetail = ({ count, host, port, reason, verdict }: Schema.JsonObject): string | undefined => {
  if (typeof count !== "number") return undefined
  const times = count === 1 ? "" : `, ${count} times`
  if (typeof verdict !== "string") return `${count} more decisions`
  const place = typeof host === "string" ? `${host.includes(":") ? `[${host}]` : host}:${port}` : "a connection"
  return `${verdict} ${place} (${reason})${times}`
}

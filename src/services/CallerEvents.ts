/** What the ledger keeps about callers: who was let in with what rights, and who was turned out. No secret, and no row. */
import { Effect, Schema } from "effect"
import { KnownBy, Rights } from "../schema/Caller.ts"
import { eventKind, type Projection } from "./EventKind.ts"

const Admitted = Schema.Struct({ name: Schema.String, known_by: KnownBy, ...Rights.fields })
const Revoked = Schema.Struct({ name: Schema.String })

export const CallerAdmitted = eventKind("CallerAdmitted", Admitted, () => Effect.void)
export const CallerRevoked = eventKind("CallerRevoked", Revoked, () => Effect.void)

/** Callers are found by hashes of their secrets, which are none of the ledger's business; so the table is no projection. */
export const callerProjection: Projection = { tables: [], kinds: [CallerAdmitted, CallerRevoked] }

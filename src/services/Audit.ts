/** Proves the ledger: that every event is there, continues the one before it, and can be read by this version. */
import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { LedgerEvent } from "../schema/Ledger.ts"
import { Digest } from "./Digest.ts"
import { chained } from "./Ledger.ts"
import { projections } from "./Projections.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"

/** A place in the ledger, noted before: all up to it must still be as it was. */
export interface Anchor {
  readonly seq: number
  readonly hash: string
}

export interface Verdict {
  readonly events: number
  /** The oldest event that is kept. */
  readonly first: number
  /** To be noted elsewhere: the chain alone cannot show that its newest events were taken away. */
  readonly newest: Anchor
  /** The first event that is not as it was written, and why; the chain says nothing about those behind it. */
  readonly broken?: { readonly seq: number; readonly event: string; readonly subject: string; readonly why: string }
}

export class Audit extends Context.Service<
  Audit,
  {
    /** Reads every event. `anchor` is one that must be among them. */
    readonly verify: (anchor?: Anchor) => Effect.Effect<Verdict, StoreFailure>
  }
>()("codespace/services/Audit") {
  static readonly layer = Layer.effect(
    Audit,
    Effect.suspend(() => make),
  )
}

/** The body as it was hashed. */
const Row = Schema.Struct({ ...LedgerEvent.fields, body: Schema.String })
const PAGE = 1000

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const digest = yield* Digest
  const bodies = new Map(
    projections.flatMap(({ kinds }) =>
      kinds.map(({ body, name }) => [name, Schema.decodeUnknownOption(Schema.fromJsonString(body as Schema.Codec<unknown>))] as const),
    ),
  )

  const page = SqlSchema.findAll({
    Request: Schema.Int,
    Result: Row,
    execute: (after) => sql`SELECT * FROM events WHERE seq > ${after} ORDER BY seq LIMIT ${PAGE}`,
  })

  const start = Effect.map(sql<{ readonly through: number; readonly hash: string }>`SELECT through, hash FROM ledger_start`, ([cut]) => ({
    seq: cut?.through ?? 0,
    hash: cut?.hash ?? "",
  }))

  const whyWrong = (before: Anchor, { body, hash, ...entry }: typeof Row.Type, anchor: Anchor | undefined): string | undefined => {
    if (entry.seq !== before.seq + 1) return `it does not follow event ${before.seq}: events between them are missing`
    if (digest.sha256(chained(before.hash, entry, body)) !== hash) return "its hash does not continue the event before it"
    if (anchor?.seq === entry.seq && anchor.hash !== hash) return "it is not the event that the anchor names"
    const decode = bodies.get(entry.event)
    return decode !== undefined && Option.isNone(decode(body)) ? "its body cannot be read" : undefined
  }

  const verify = Effect.fn("Audit.verify")(function* (anchor?: Anchor) {
    const from = yield* start
    let newest = from
    for (let rows = yield* page(from.seq); rows.length > 0; rows = yield* page(newest.seq)) {
      for (const row of rows) {
        const why = whyWrong(newest, row, anchor)
        if (why !== undefined) return verdict(from, newest, { seq: row.seq, event: row.event, subject: row.subject, why })
        newest = { seq: row.seq, hash: row.hash }
      }
    }
    const ever = yield* sql<{ readonly seq: number }>`SELECT seq FROM sqlite_sequence WHERE name = 'events'`
    const last = Math.max(ever[0]?.seq ?? 0, anchor?.seq ?? 0)
    const missing = { seq: newest.seq + 1, event: "", subject: "", why: `events from here to ${last} are missing` }
    return verdict(from, newest, last > newest.seq ? missing : undefined)
  })

  return Audit.of({ verify: (anchor) => refused(verify(anchor)) })
})

const verdict = (from: Anchor, newest: Anchor, broken: Verdict["broken"]): Verdict => ({
  events: newest.seq - from.seq,
  first: from.seq + 1,
  newest,
  ...(broken === undefined ? {} : { broken }),
})

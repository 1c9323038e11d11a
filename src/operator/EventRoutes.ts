/** What happened, as pages and as a stream that goes on. */
import { Effect, Option, Stream } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type { LedgerEvent } from "../schema/Ledger.ts"
import { Ledger } from "../services/Ledger.ts"
import { Api, type StreamedEvent } from "./Api.ts"
import { problemOf } from "./ProblemOf.ts"

/** How often the stream looks for what other servers wrote, in milliseconds. */
const LOOK_EVERY = 200
/** A quiet stream says so often that it is alive, in milliseconds; proxies cut what says nothing for longer. */
const ALIVE_EVERY = 15_000
const PAGE = 200

export const layer = HttpApiBuilder.group(
  Api,
  "events",
  Effect.fnUntraced(function* (handlers) {
    const ledger = yield* Ledger
    const read = (after: number, subject: string | undefined, limit: number) =>
      Effect.mapError(ledger.read({ after, limit, ...(subject === undefined ? {} : { subject }) }), problemOf)

    const follow = (from: number, subject: string | undefined) =>
      Stream.paginate({ after: from, quietMs: 0 }, ({ after, quietMs }) =>
        Effect.gen(function* () {
          const events = yield* read(after, subject, PAGE)
          const last = events.at(-1)
          if (last !== undefined) return [events.map(streamed), Option.some({ after: last.seq, quietMs: 0 })] as const
          yield* Effect.sleep(LOOK_EVERY)
          const isDue = quietMs >= ALIVE_EVERY
          return [isDue ? [alive] : [], Option.some({ after, quietMs: isDue ? 0 : quietMs + LOOK_EVERY })] as const
        }),
      )

    return handlers.handleAll({
      list: ({ query: { cursor = 0, limit = PAGE, subject } }) =>
        Effect.map(read(cursor, subject, limit), (events) => ({ events, cursor: events.at(-1)?.seq ?? cursor })),
      follow: Effect.fnUntraced(function* ({ headers, query: { cursor, subject } }) {
        // A browser that connects again asks with its first address, and with the last event it saw.
        const from = headers["last-event-id"] ?? cursor ?? (yield* Effect.mapError(ledger.newest, problemOf))
        return Stream.concat(Stream.succeed(alive), follow(from, subject))
      }),
    })
  }),
)

const alive: StreamedEvent = { event: "alive", data: "" }
const streamed = (event: LedgerEvent): StreamedEvent => ({ id: String(event.seq), event: "ledger", data: event })

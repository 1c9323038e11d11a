/** `/metrics`: what was counted since the server started, and how things stand, as Prometheus reads it. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { Approvals } from "../services/Approvals.ts"
import { setStanding } from "../services/Figures.ts"
import { Ledger } from "../services/Ledger.ts"
import { Works } from "../services/Works.ts"

/** Counting stops there: more open holds than this are the same news. */
const MOST_HOLDS = 1000

/** Works without the store too: what was counted is told all the same. */
export const answer = Effect.gen(function* () {
  const approvals = yield* Approvals
  const ledger = yield* Ledger
  const works = yield* Works
  return Effect.gen(function* () {
    const pending = yield* approvals.list({ states: ["pending"], limit: MOST_HOLDS })
    yield* setStanding({ ...(yield* works.waiting), pendingApprovals: pending.length, newestEvent: yield* ledger.newest })
  }).pipe(
    Effect.ignore({ log: true }),
    Effect.andThen(PrometheusMetrics.format()),
    Effect.map((text) => HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })),
  )
})

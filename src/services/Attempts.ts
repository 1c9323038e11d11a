/**
 * Slows down whoever guesses: after a few wrong answers in a row nothing is looked at for a while, twice as long with
 * each wrong answer after that. All who ask count together: behind a tunnel everybody comes from the same address.
 */
import { Clock, Effect, Schema } from "effect"

/** Nothing was looked at. */
export class TooManyAttempts extends Schema.TaggedError<TooManyAttempts>()("TooManyAttempts", { seconds: Schema.Int }) {
  override get message() {
    return `too many wrong attempts; try again in ${this.seconds} seconds`
  }
}

export interface Attempts {
  /** Lets `answer` look, unless too many were wrong; `isRight` tells which answers start the count anew. */
  readonly guard: <A, E>(answer: Effect.Effect<A, E>, isRight: (answer: A) => boolean) => Effect.Effect<A, E | TooManyAttempts>
}

/** Wrong answers in a row that are free. */
const FREE = 5
/** The first pause and the longest, in milliseconds. */
const PAUSE = 2_000
const LONGEST = 15 * 60_000

export const makeAttempts = (): Attempts => {
  const state = { wrong: 0, until: 0 }
  return {
    guard: Effect.fnUntraced(function* (answer, isRight) {
      const before = yield* Clock.currentTimeMillis
      if (before < state.until) return yield* new TooManyAttempts({ seconds: Math.ceil((state.until - before) / 1000) })
      const given = yield* answer
      state.wrong = isRight(given) ? 0 : state.wrong + 1
      const over = state.wrong - FREE
      if (over >= 0) state.until = (yield* Clock.currentTimeMillis) + Math.min(LONGEST, PAUSE * 2 ** Math.min(over, 20))
      return given
    }),
  }
}

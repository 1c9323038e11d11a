/** Ids of what is recorded: they sort by time and cannot be guessed apart; an id grants nothing. */
import { Effect, Random } from "effect"

/** `at` is in epoch milliseconds. */
export const timedId = Effect.fnUntraced(function* (prefix: string, at: number) {
  const random = yield* Random.nextIntBetween(0, 36 ** 8)
  return `${prefix}_${at.toString(36)}${random.toString(36).padStart(8, "0")}`
})

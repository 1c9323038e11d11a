/** Waiting for a state, with a limit instead of a guess. */
import { patient } from "./Patience.ts"

/** Resolves when `condition` gives something; rejects when it has not after `limit` milliseconds. */
export const until = async <A>(
  condition: () => A | undefined | false | Promise<A | undefined | false>,
  limit = patient(10_000),
): Promise<A> => {
  for (const end = performance.now() + limit; performance.now() < end; ) {
    const value = await condition()
    if (value !== undefined && value !== false) return value
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(`not so after ${limit} ms: ${condition}`)
}

/**
 * What one caller may take up at once, so that it leaves room for the others: calls that run, bytes of requests that are
 * being answered, sessions. What is beyond is refused in words, never queued: a queue would only hide it.
 */
import { defaults } from "../schema/ConfigDefaults.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import { refused } from "./Results.ts"
import type { ToolTable } from "./ToolTable.ts"

export interface CallerLimits {
  readonly calls: number
  readonly sessions: number
  readonly bytes: number
}

export const callerLimits: CallerLimits = defaults.http.per_caller

const inWords = {
  calls: "concurrent calls of one caller",
  bytes: "bytes of one caller's requests under way",
  sessions: "sessions of one caller",
}

/** The refusal of one thing too many. */
export const tooMany = (limits: CallerLimits, what: keyof CallerLimits, asked: number): LimitExceeded =>
  new LimitExceeded({ limit: inWords[what], value: limits[what], asked })

export class FlowControl {
  readonly #limits: CallerLimits
  readonly #taken = new Map<string, number>()

  constructor(limits: CallerLimits) {
    this.#limits = limits
  }

  /** Takes so much for a caller, until the returned function is called; or says why it cannot have it. */
  take(caller: string, what: "calls" | "bytes", amount: number): (() => void) | LimitExceeded {
    const key = `${what} ${caller}`
    const wanted = (this.#taken.get(key) ?? 0) + amount
    if (wanted > this.#limits[what]) return tooMany(this.#limits, what, wanted)
    this.#taken.set(key, wanted)
    return () => {
      const left = (this.#taken.get(key) ?? 0) - amount
      if (left > 0) this.#taken.set(key, left)
      else this.#taken.delete(key)
    }
  }

  /** The table with no more calls at once than a caller may have. */
  over(table: ToolTable): ToolTable {
    return {
      ...table,
      call: async (params, context) => {
        const release = this.take(context.authority.name, "calls", 1)
        if (typeof release !== "function") return refused(release)
        try {
          return await table.call(params, context)
        } finally {
          release()
        }
      },
    }
  }
}

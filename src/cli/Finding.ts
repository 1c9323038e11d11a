/** What `codespace doctor` finds out about one part: one line, and the fix where there is something to mend. */
import { Effect } from "effect"

/** `note`: it works, but less well than it could. `wrong`: something a person asked for does not work. */
export interface Finding {
  readonly part: string
  readonly state: "ok" | "note" | "wrong"
  readonly found: string
  readonly fix?: string
}

export const ok = (part: string, found: string): Finding => ({ part, state: "ok", found })
export const note = (part: string, found: string, fix: string): Finding => ({ part, state: "note", found, fix })
export const wrong = (part: string, found: string, fix: string): Finding => ({ part, state: "wrong", found, fix })

/** A check; it always ends, and with a finding. */
export type Check = Effect.Effect<Finding>

/** Milliseconds a check may take. */
const LIMIT = 20_000

/** A check that takes too long, or breaks, has found something as well. */
export const within = (part: string, check: Check): Check =>
  check.pipe(
    Effect.timeoutOrElse({
      duration: LIMIT,
      orElse: () =>
        Effect.succeed(
          wrong(part, `no answer within ${LIMIT / 1000} s`, "see what keeps this machine or its disk so busy, then try again"),
        ),
    }),
    Effect.catchDefect((defect) =>
      Effect.succeed(wrong(part, `the check itself broke: ${String(defect)}`, "this is a fault of codespace; please report it")),
    ),
  )

const mark = { ok: "ok   ", note: "note ", wrong: "WRONG" } as const

/** A finding as lines for a person. */
export const findingText = ({ fix, found, part, state }: Finding): string =>
  `${mark[state]}  ${part.padEnd(13)}  ${found}${fix === undefined ? "" : `\n${" ".repeat(22)}-> ${fix}`}\n`

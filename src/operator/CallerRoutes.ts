/** Answers about callers, and who is let in or turned out. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { AppConfig } from "../services/AppConfig.ts"
import { Callers } from "../services/Callers.ts"
import { Api } from "./Api.ts"
import { Conflict, NotFound, Rejected } from "./Problem.ts"
import { problemOf } from "./ProblemOf.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "callers",
  Effect.fnUntraced(function* (handlers) {
    const callers = yield* Callers
    const { profiles } = yield* AppConfig
    return handlers.handleAll({
      list: () =>
        callers.list.pipe(
          Effect.map((callers) => ({ callers })),
          Effect.mapError(problemOf),
        ),
      admit: Effect.fnUntraced(function* ({ payload: { replace, ...admission } }) {
        const { highest, name } = admission
        if (highest !== undefined && !profiles.has(highest))
          return yield* new Rejected({
            code: "PROFILE_NOT_FOUND",
            message: `there is no profile "${highest}"; known are ${[...profiles.keys()].join(", ")}`,
            details: { highest },
          })
        const token = yield* callers
          .admit(admission, { replace: replace ?? false })
          .pipe(
            Effect.mapError((error) =>
              error._tag === "CallerExists"
                ? new Conflict({ code: "CALLER_EXISTS", message: error.message, details: { name } })
                : problemOf(error),
            ),
          )
        return { name, ...(token === undefined ? {} : { token }) }
      }),
      revoke: Effect.fnUntraced(function* ({ params: { name } }) {
        const isRevoked = yield* Effect.mapError(callers.revoke(name), problemOf)
        if (!isRevoked) return yield* new NotFound({ code: "CALLER_NOT_FOUND", message: `there is no caller "${name}"`, details: { name } })
      }),
    })
  }),
)

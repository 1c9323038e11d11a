/** Answers about works, and what people do at the inbox. */
import { Effect, Layer } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Works } from "../services/Works.ts"
import { Api } from "./Api.ts"
import { problemOf } from "./ProblemOf.ts"

/** Most works on one page. */
const PAGE = 200

const works = HttpApiBuilder.group(
  Api,
  "works",
  Effect.fnUntraced(function* (handlers) {
    const { list } = yield* Works
    return handlers.handleAll({
      list: ({ query: { before, limit = PAGE, state, workspace_id } }) =>
        list({
          limit,
          ...(workspace_id === undefined ? {} : { workspaceId: workspace_id }),
          ...(state === undefined ? {} : { state }),
          ...(before === undefined ? {} : { before }),
        }).pipe(
          Effect.map((works) => ({ works })),
          Effect.mapError(problemOf),
        ),
    })
  }),
)

const inbox = HttpApiBuilder.group(
  Api,
  "inbox",
  Effect.fnUntraced(function* (handlers) {
    const { cancel, draft, edit, list, queue, show } = yield* Works
    return handlers.handleAll({
      list: () =>
        list({ state: "open", limit: PAGE }).pipe(
          Effect.map((works) => ({ works })),
          Effect.mapError(problemOf),
        ),
      show: ({ params }) => Effect.mapError(show(params.work_id), problemOf),
      draft: ({ params, payload }) => Effect.mapError(draft(params.work_id, payload.text, payload.queue ?? false), problemOf),
      edit: ({ params, payload }) => Effect.mapError(edit(params.work_id, params.instruction_id, payload.text), problemOf),
      queue: ({ params }) => Effect.mapError(queue(params.work_id, params.instruction_id), problemOf),
      cancel: ({ params }) => Effect.mapError(cancel(params.work_id, params.instruction_id), problemOf),
    })
  }),
)

export const layer = Layer.mergeAll(works, inbox)

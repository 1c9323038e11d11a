/** Answers about processes, and the end of one. */
import { Effect, type Schema } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { ProcessFacts } from "../schema/Process.ts"
import { AppConfig } from "../services/AppConfig.ts"
import { Api, ProcessList } from "./Api.ts"
import { called, OperatorTools } from "./OperatorTools.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "processes",
  Effect.fnUntraced(function* (handlers) {
    const tools = yield* OperatorTools
    const { workspaces } = yield* AppConfig
    const listOf = (workspace_id: string) => called(tools, "list_processes", { workspace_id }, ProcessList)
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(Effect.forEach(query.workspace_id === undefined ? workspaces.keys() : [query.workspace_id], listOf), (lists) => ({
          processes: lists.flatMap(({ processes }) => processes),
        })),
      output: ({ params, query }) => called(tools, "read_process", { ...params, ...query } as Schema.JsonObject, ProcessFacts),
      stop: ({ params }) => called(tools, "terminate_process", { ...params }, ProcessFacts),
    })
  }),
)

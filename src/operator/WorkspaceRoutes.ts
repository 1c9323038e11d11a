/** Answers about workspaces. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api, WorkspaceDescription, WorkspaceList } from "./Api.ts"
import { called, OperatorTools } from "./OperatorTools.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "workspaces",
  Effect.fnUntraced(function* (handlers) {
    const tools = yield* OperatorTools
    return handlers.handleAll({
      list: () => called(tools, "workspace_info", {}, WorkspaceList),
      show: ({ params }) => called(tools, "workspace_info", { workspace_id: params.workspace_id }, WorkspaceDescription),
    })
  }),
)

/** All that is the operator's over HTTP: the API's groups, its description, and the metrics. */
import { Effect, Layer } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as OpenApi from "effect/http-api/OpenApi"
import { Api } from "./Api.ts"
import * as ApprovalRoutes from "./ApprovalRoutes.ts"
import * as CallerRoutes from "./CallerRoutes.ts"
import * as Door from "./Door.ts"
import * as EventRoutes from "./EventRoutes.ts"
import * as Measured from "./Measured.ts"
import * as OperationRoutes from "./OperationRoutes.ts"
import * as ProcessRoutes from "./ProcessRoutes.ts"
import * as WorkRoutes from "./WorkRoutes.ts"
import * as WorkspaceRoutes from "./WorkspaceRoutes.ts"

const groups = Layer.mergeAll(
  WorkspaceRoutes.layer,
  ProcessRoutes.layer,
  OperationRoutes.layer,
  ApprovalRoutes.layer,
  WorkRoutes.layer,
  CallerRoutes.layer,
  EventRoutes.layer,
)

const description = Effect.sync(() => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(Api)))

export const layer = (isOperator: Door.IsOperator) =>
  Layer.mergeAll(
    HttpApiBuilder.layer(Api).pipe(
      Layer.provide(groups),
      Layer.provide(Layer.mergeAll(Door.layer(isOperator), HttpApiMiddleware.layerProblemDetails({ includeDetails: true }))),
      Layer.provide(HttpServer.layerServices),
    ),
    Door.guarded(isOperator, "/api/openapi.json", description),
    Layer.unwrap(Effect.map(Measured.answer, (metrics) => Door.guarded(isOperator, "/metrics", metrics))),
  )

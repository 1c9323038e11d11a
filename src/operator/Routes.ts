/** All that is the operator's over HTTP: the API's groups, its description, and the metrics. */
import { Effect, Layer } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as OpenApi from "effect/http-api/OpenApi"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { Api } from "./Api.ts"
import * as Door from "./Door.ts"
import * as EventRoutes from "./EventRoutes.ts"
import * as ProcessRoutes from "./ProcessRoutes.ts"
import * as WorkRoutes from "./WorkRoutes.ts"
import * as WorkspaceRoutes from "./WorkspaceRoutes.ts"

const groups = Layer.mergeAll(WorkspaceRoutes.layer, ProcessRoutes.layer, WorkRoutes.layer, EventRoutes.layer)

const description = Effect.sync(() => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(Api)))

const metrics = Effect.map(PrometheusMetrics.format(), (text) =>
  HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" }),
)

export const layer = (isOperator: Door.IsOperator) =>
  Layer.mergeAll(
    HttpApiBuilder.layer(Api).pipe(
      Layer.provide(groups),
      Layer.provide(Layer.mergeAll(Door.layer(isOperator), HttpApiMiddleware.layerProblemDetails({ includeDetails: true }))),
      Layer.provide(HttpServer.layerServices),
    ),
    Door.guarded(isOperator, "/api/openapi.json", description),
    Door.guarded(isOperator, "/metrics", metrics),
  )

/**
 * Spans on their way to an OpenTelemetry collector, which the standard environment variables name (`OTEL_EXPORTER_OTLP_ENDPOINT`
 * and the rest). A span says how it ended by a code alone: the words of a refusal may hold what a file or a command says.
 */
import { Cause, ConfigProvider, Context, Effect, Exit, Layer, Option, Predicate, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as OtlpTracer from "effect/observability/OtlpTracer"
import { variables } from "./HostEnvironment.ts"

/** How long a stop waits for the last spans, in milliseconds; stopping as a whole is promised within 5 s. */
const LAST_SPANS = "1000"

const protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]

/** What the environment says; a collector that is named is meant to be used. */
const settings = (env: Record<string, string>) =>
  ConfigProvider.fromUnknown({ OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: LAST_SPANS }).pipe(
    ConfigProvider.orElse(ConfigProvider.fromEnv({ env })),
    ConfigProvider.orElse(ConfigProvider.fromUnknown({ OTEL_TRACES_EXPORTER: ["otlp"] })),
  )

const serialization = (protocol: string | undefined) =>
  protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf

/**
 * The tracer for an environment that names a collector, until the scope ends; the last spans leave with it. What is wrong with
 * the settings is told, and calls go on without spans.
 */
export const tracing = Effect.fnUntraced(function* (log: (line: string) => void) {
  const env = Object.fromEntries(Object.entries(variables()).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  const protocol = protocols.map((name) => env[name]).find((value) => value !== undefined && value !== "")
  if (protocol !== undefined && !protocol.startsWith("http/")) {
    log(`codespace: no traces are sent: the protocol ${protocol} is not spoken here; use http/protobuf or http/json`)
    return Context.empty()
  }
  const exporter = OtlpTracer.layerFromConfig({
    resource: { serviceName: env["OTEL_SERVICE_NAME"] ?? "codespace" },
  }).pipe(Layer.provide(serialization(protocol)), Layer.provide(FetchHttpClient.layer), Layer.provide(ConfigProvider.layer(settings(env))))
  const built = yield* Effect.exit(Layer.build(exporter))
  if (Exit.isFailure(built)) {
    log(`codespace: no traces are sent: ${Cause.pretty(built.cause).split("\n")[0]}`)
    return Context.empty()
  }
  return Context.make(Tracer.Tracer, withoutWords(Context.get(built.value as Context.Context<never>, Tracer.Tracer)))
})

const withoutWords = (tracer: Tracer.Tracer): Tracer.Tracer =>
  Tracer.make({
    ...tracer,
    span: (options) => {
      const span = tracer.span(options)
      const end = span.end.bind(span)
      return Object.assign(span, { end: (time: bigint, exit: Exit.Exit<unknown, unknown>) => end(time, codeOnly(exit)) })
    },
  })

const codeOnly = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> => {
  if (Exit.isSuccess(exit) || Exit.hasInterrupts(exit)) return exit
  const error = Option.getOrUndefined(Exit.findErrorOption(exit))
  const code = Predicate.hasProperty(error, "_tag") && typeof error._tag === "string" ? error._tag : "INTERNAL"
  return Exit.fail(Object.assign(new Error(code), { name: code, stack: code }))
}

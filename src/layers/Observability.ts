/** Logs: one JSON object a line on stderr, since stdout may belong to the protocol. */
import { Layer, Logger, References } from "effect"

export const layer = Layer.mergeAll(
  Logger.layer([Logger.withConsoleError(Logger.formatJson)]),
  Layer.succeed(References.MinimumLogLevel, "Info"),
)

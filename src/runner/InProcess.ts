/** The Runner that calls the table directly: both sides in one process, nothing encoded. */
import { Effect, Layer } from "effect"
import { Runner } from "../services/Runner.ts"
import { Handlers } from "./Handlers.ts"

export const layer: Layer.Layer<Runner, never, Handlers> = Layer.effect(
  Runner,
  Effect.map(Handlers, ({ acknowledge, handle, outcomes }) => Runner.of({ execute: handle, outcomes, acknowledge })),
)

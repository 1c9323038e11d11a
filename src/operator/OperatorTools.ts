/**
 * Port: the tools, called for the operator through the same gate as everybody's calls. So what a workspace shows, and how
 * a process is read and stopped, is written once.
 */
import { Context, Effect, Schema } from "effect"
import type { Refusal } from "../schema/Refusal.ts"
import type { Problem } from "./Problem.ts"
import { problemOf } from "./ProblemOf.ts"

export class OperatorTools extends Context.Service<
  OperatorTools,
  {
    /** The structured result of a tool. */
    readonly call: (name: string, args: Schema.JsonObject) => Effect.Effect<Schema.JsonObject, Refusal>
  }
>()("codespace/operator/OperatorTools") {}

/** A tool's result as its schema says. */
export const called = <A, I>(
  tools: OperatorTools["Service"],
  name: string,
  args: Schema.JsonObject,
  schema: Schema.Codec<A, I>,
): Effect.Effect<A, Problem> =>
  tools.call(name, args).pipe(
    Effect.mapError(problemOf),
    Effect.flatMap((result) => Effect.orDie(Schema.decodeUnknownEffect(schema)(result))),
  )

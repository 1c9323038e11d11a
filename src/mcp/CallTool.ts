/**
 * Performs tool calls for the edges: finds the row, provides the caller, and turns the outcome into a result. A call is
 * interrupted when its client cancels it. Nothing here knows what a tool does, nor how a message travels.
 */
import type { CallToolResult } from "@modelcontextprotocol/server"
import { Cause, Effect, Exit, Option } from "effect"
import { Cancelled, Internal } from "../schema/Operation.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { Coordination } from "../schema/Work.ts"
import type { Approvals } from "../services/Approvals.ts"
import { Caller } from "../services/Caller.ts"
import { asking, isQuestion } from "./Ask.ts"
import { isCoordinated, withCoordination } from "./Coordinated.ts"
import { observed, parentOf } from "./Observed.ts"
import { answered, refused, resultLimit, wireBytes } from "./Results.ts"
import { RpcCode, RpcError } from "./Rpc.ts"
import type { Answer, ToolRow } from "./ToolRow.ts"
import type { CallContext, Client, ToolTable } from "./ToolTable.ts"
import { makeTurns } from "./Turns.ts"

export interface CallOptions {
  readonly rows: ReadonlyArray<ToolRow>
  /** Runs an effect in the program's runtime; the signal interrupts it. */
  readonly run: <A, E>(effect: Effect.Effect<A, E>, signal: AbortSignal) => Promise<Exit.Exit<A, E>>
  /** What waits for the loop that carries this work; undefined where that cannot be told. */
  readonly coordination: (workId: string) => Effect.Effect<Coordination | undefined, never, Caller>
  /** Where calls that are held are decided about. */
  readonly approvals: Effect.Effect<Approvals["Service"], Refusal>
  /** Takes one line for the operator's log. */
  readonly log: (line: string) => void
}

/** The call of a `ToolTable` over these rows. */
export const makeCall = ({ approvals, coordination, log, rows, run }: CallOptions): ToolTable["call"] => {
  const byName = new Map(rows.map((row) => [row.name, row]))
  const settle = outcomes(log)
  const turn = makeTurns()
  return async (params, context) => {
    const { name, arguments: args = {}, _meta } = callParams(params)
    const row = byName.get(name)
    if (row === undefined) throw new RpcError(RpcCode.invalidParams, `Unknown tool: ${name}`)
    const caller = callerOf(context, _meta?.progressToken)
    const observation = { tool: name, caller: caller.name, args, parent: parentOf(_meta?.traceparent ?? context.traceparent) }
    const call = observed(
      observation,
      Effect.suspend(() => row.call(args)),
    )
    await turn()
    const asked = context.prompts === undefined ? call : asking(call, { approvals, caller, prompts: context.prompts })
    const exit = await run(Effect.provideService(asked, Caller, caller), context.signal).catch((cause: unknown) => Exit.die(cause))
    if (Exit.isSuccess(exit) && isQuestion(exit.value)) return exit.value
    const result = settle(row, exit as Exit.Exit<Answer, Refusal>)
    if (typeof args["work_id"] !== "string" || isCoordinated(result)) return result
    // After the call, since people may have spoken while it ran.
    const counts = await run(Effect.provideService(coordination(args["work_id"]), Caller, caller), context.signal)
    return Exit.isSuccess(counts) && counts.value !== undefined ? withCoordination(result, counts.value) : result
  }
}

interface CallParams {
  readonly name: string
  readonly arguments?: Record<string, unknown>
  readonly _meta?: { readonly progressToken?: string | number; readonly traceparent?: unknown }
}

const callParams = (params: unknown): CallParams => {
  const { name, arguments: args } = (params ?? {}) as { readonly name?: unknown; readonly arguments?: unknown }
  if (typeof name !== "string") throw new RpcError(RpcCode.invalidParams, "tools/call needs a name")
  if (args !== undefined && (typeof args !== "object" || args === null || Array.isArray(args)))
    throw new RpcError(RpcCode.invalidParams, "arguments of tools/call must be an object")
  return params as CallParams
}

const callerOf = (context: CallContext, progressToken: string | number | undefined): Caller["Service"] => ({
  ...context.authority,
  client: context.client === undefined ? "unknown" : clientLabel(context.client),
  progress: progressToken === undefined ? () => Effect.void : reporter(context, progressToken),
})

const clientLabel = (client: Client): string =>
  `${client.name}/${client.version}`
    .replace(/[\x00-\x1f\x7f]/g, " ")
    .slice(0, 120)
    .toWellFormed()

/** The number must grow with every notification; one that cannot be sent any more is no failure of the call. */
const reporter = (context: CallContext, progressToken: string | number): Caller["Service"]["progress"] => {
  let progress = 0
  return (message) =>
    Effect.promise(() => {
      progress += 1
      return context.notify({ method: "notifications/progress", params: { progressToken, progress, message } }).catch(() => undefined)
    })
}

/** How a call ended, as a result. A defect reaches the client as a reference only; the log has the rest. */
const outcomes = (log: (line: string) => void) => {
  const defect = (row: ToolRow, cause: string): CallToolResult => {
    const reference = crypto.randomUUID().slice(0, 8)
    log(JSON.stringify({ event: "defect", reference, tool: row.name, cause: cause.slice(0, 8_000) }))
    return refused(new Internal({ reference }))
  }
  return (row: ToolRow, exit: Exit.Exit<Answer, Refusal>): CallToolResult => {
    if (Exit.isSuccess(exit)) {
      const bytes = wireBytes(exit.value)
      if (bytes <= resultLimit) return answered(exit.value)
      // What a reading call found can be asked for in parts; what a changing call did is in its record.
      if (row.hints.readOnlyHint) return refused(new LimitExceeded({ limit: "result_bytes", value: resultLimit, asked: bytes }))
      return defect(row, `a result of ${bytes} bytes`)
    }
    if (Cause.hasInterruptsOnly(exit.cause)) return refused(new Cancelled({}))
    if (Cause.hasDies(exit.cause)) return defect(row, Cause.pretty(exit.cause))
    return Option.match(Cause.findErrorOption(exit.cause), {
      onSome: refused,
      onNone: () => defect(row, Cause.pretty(exit.cause)),
    })
  }
}

/**
 * The tool table as every edge serves it, in both protocol eras: it lists the tools, performs their calls and turns
 * outcomes into results. A call is interrupted when its client cancels it. Nothing here knows what a tool does, nor
 * how a message travels.
 */
import type { CallToolResult, ListToolsResult } from "@modelcontextprotocol/server"
import { Cause, Effect, Exit, Option } from "effect"
import { Cancelled, Internal } from "../schema/Operation.ts"
import { LimitExceeded } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import { Caller } from "../services/Caller.ts"
import type { Authority } from "./Authority.ts"
import { answered, refused, resultLimit, wireBytes } from "./Results.ts"
import { RpcCode, RpcError } from "./Rpc.ts"
import type { Answer, ToolRow } from "./ToolRow.ts"

export interface TableOptions {
  readonly rows: ReadonlyArray<ToolRow>
  /** Runs a call in the program's runtime; the signal interrupts it. */
  readonly run: (call: Effect.Effect<Answer, Refusal>, signal: AbortSignal) => Promise<Exit.Exit<Answer, Refusal>>
  /** What a client may tell its model about the whole server. */
  readonly instructions: string
  readonly version: string
  /** Takes one line for the operator's log. */
  readonly log: (line: string) => void
}

/** Program and version, as a client says. */
export interface Client {
  readonly name: string
  readonly version: string
}

/** What comes with a call besides its parameters. */
export interface CallContext {
  readonly authority: Authority
  readonly client: Client | undefined
  readonly signal: AbortSignal
  /** Sends a progress notification under the token the client gave. */
  readonly notify: (progress: ProgressNotification) => Promise<void>
}

export interface ProgressNotification {
  readonly method: "notifications/progress"
  readonly params: { readonly progressToken: string | number; readonly progress: number; readonly message: string }
}

export interface ToolTable {
  /** What a server says about itself. */
  readonly about: { readonly name: string; readonly title: string; readonly version: string }
  readonly instructions: string
  /** Sorted and constant, as the 2026 revision wants the list. */
  readonly tools: ListToolsResult["tools"]
  /** Whether a call of this tool may wait for seconds. */
  readonly waits: (name: string) => boolean
  /** Performs a `tools/call`. Rejects with an `RpcError` only for an unknown tool and malformed parameters. */
  readonly call: (params: unknown, context: CallContext) => Promise<CallToolResult>
}

/** Builds the table once; every connection shares it. */
export const makeTable = (options: TableOptions): ToolTable => {
  const rows = new Map(options.rows.map((row) => [row.name, row]))
  const settle = outcomes(options.log)

  const call = async (params: unknown, context: CallContext): Promise<CallToolResult> => {
    const { name, arguments: args = {}, _meta } = callParams(params)
    const row = rows.get(name)
    if (row === undefined) throw new RpcError(RpcCode.invalidParams, `Unknown tool: ${name}`)
    const effect = Effect.provideService(
      Effect.suspend(() => row.call(args)),
      Caller,
      callerOf(context, _meta?.progressToken),
    )
    return settle(row, await options.run(effect, context.signal).catch((cause: unknown) => Exit.die(cause)))
  }

  return {
    about: { name: "codespace", title: "CodeSpace", version: options.version },
    instructions: options.instructions,
    tools: listed(options.rows),
    call,
    waits: (name) => rows.get(name)?.waits ?? false,
  }
}

const listed = (rows: ReadonlyArray<ToolRow>): ListToolsResult["tools"] =>
  rows
    .map((row) => ({
      name: row.name,
      title: row.title,
      description: row.description,
      inputSchema: row.input as ListToolsResult["tools"][number]["inputSchema"],
      outputSchema: row.output as NonNullable<ListToolsResult["tools"][number]["outputSchema"]>,
      annotations: row.hints,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))

/** What a server of an era says it can do. Logging is declared because clients of the 2025 era may set its level. */
export const capabilitiesOf = (era: "legacy" | "modern") => ({ tools: {}, ...(era === "legacy" ? { logging: {} } : {}) })

interface CallParams {
  readonly name: string
  readonly arguments?: Record<string, unknown>
  readonly _meta?: { readonly progressToken?: string | number }
}

const callParams = (params: unknown): CallParams => {
  const { name, arguments: args } = (params ?? {}) as { readonly name?: unknown; readonly arguments?: unknown }
  if (typeof name !== "string") throw new RpcError(RpcCode.invalidParams, "tools/call needs a name")
  if (args !== undefined && (typeof args !== "object" || args === null || Array.isArray(args)))
    throw new RpcError(RpcCode.invalidParams, "arguments of tools/call must be an object")
  return params as CallParams
}

const callerOf = (context: CallContext, progressToken: string | number | undefined): Caller["Service"] => ({
  name: context.authority.name,
  workspaces: context.authority.workspaces,
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
      return defect(row, `a result of up to ${bytes} bytes`)
    }
    if (Cause.hasInterruptsOnly(exit.cause)) return refused(new Cancelled({}))
    if (Cause.hasDies(exit.cause)) return defect(row, Cause.pretty(exit.cause))
    return Option.match(Cause.findErrorOption(exit.cause), {
      onSome: refused,
      onNone: () => defect(row, Cause.pretty(exit.cause)),
    })
  }
}

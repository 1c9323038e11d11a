/**
 * The tool table as every edge serves it, in both protocol eras: what the server says about itself, the list, and the
 * call. It needs nothing that takes time to load; what performs a call comes with the first one.
 */
import type { CallToolResult, InputRequiredResult, ListToolsResult } from "@modelcontextprotocol/server"
import type { Prompts } from "./Ask.ts"
import type { Authority } from "./Authority.ts"
import type { ListedTool } from "./ToolList.ts"

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
  /** The request's place in its caller's trace (W3C), where a header says it. */
  readonly traceparent?: string | undefined
  /** Sends a progress notification under the token the client gave. */
  readonly notify: (progress: ProgressNotification) => Promise<void>
  /** How the client can ask its person about a call that is held; absent where it cannot. */
  readonly prompts?: Prompts
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
  /**
   * Performs a `tools/call`. Rejects with an `RpcError` only for an unknown tool and malformed parameters. A question comes
   * back only where the context says that one can be asked that way.
   */
  readonly call: (params: unknown, context: CallContext) => Promise<CallToolResult | InputRequiredResult>
}

export interface TableOptions {
  readonly list: ReadonlyArray<ListedTool>
  readonly call: ToolTable["call"]
  /** What a client may tell its model about the whole server. */
  readonly instructions: string
  readonly version: string
}

export const tableOf = ({ call, instructions, list, version }: TableOptions): ToolTable => {
  const waiting = new Set(list.filter(({ waits }) => waits).map(({ name }) => name))
  return {
    about: { name: "codespace", title: "CodeSpace", version },
    instructions,
    tools: list.map(described).sort((a, b) => (a.name < b.name ? -1 : 1)),
    call,
    waits: (name) => waiting.has(name),
  }
}

const described = (tool: ListedTool) => ({
  name: tool.name,
  title: tool.title,
  description: tool.description,
  inputSchema: tool.input as ListToolsResult["tools"][number]["inputSchema"],
  outputSchema: tool.output as NonNullable<ListToolsResult["tools"][number]["outputSchema"]>,
  annotations: tool.hints,
})

/** What a server of an era says it can do. Logging is declared because clients of the 2025 era may set its level. */
export const capabilitiesOf = (era: "legacy" | "modern") => ({ tools: {}, ...(era === "legacy" ? { logging: {} } : {}) })

/**
 * The tool table on the SDK's server, which speaks the protocol over HTTP, and over stdio with clients of the 2026
 * revision.
 */
import { type McpServerFactory, Server, type ServerContext } from "@modelcontextprotocol/server"
import { fromAuthInfo } from "./Authority.ts"
import { type CallContext, type Client, capabilitiesOf, type ToolTable } from "./ToolTable.ts"

/** Makes the SDK's server for one connection, or for one request of the 2026 revision. */
export const factoryOf =
  ({ about, call, instructions, tools }: ToolTable): McpServerFactory =>
  ({ era }) => {
    const server = new TableServer(about, {
      instructions,
      capabilities: capabilitiesOf(era),
      cacheHints: { "tools/list": cacheHint, "server/discover": cacheHint },
      jsonSchemaValidator: noValidator,
    })
    server.setRequestHandler("tools/list", () => ({ tools }))
    server.setRequestHandler("tools/call", { params: anything }, (params, context) => call(params, contextOf(server, context)))
    return server
  }

/**
 * The SDK would hold every call and result against its schemas, which costs more than a small call itself. The table
 * checks the parameters, and builds the results.
 */
class TableServer extends Server {
  protected override _wrapHandler(method: string, handler: Handler): Handler {
    return method === "tools/call" ? handler : super._wrapHandler(method, handler)
  }
}

type Handler = Parameters<Server["_wrapHandler"]>[1]

const anything = { "~standard": { version: 1, vendor: "codespace", validate: (value: unknown) => ({ value }) } } as const

const cacheHint = { ttlMs: 300_000, cacheScope: "private" } as const

/** The SDK asks for a validator only to check answers to its own form questions, and the table asks none. */
const noValidator = {
  getValidator: () => () => ({ valid: false as const, data: undefined, errorMessage: "no schema is checked here" }),
}

/** The 2026 revision names the client in every request, the older ones when the connection starts. */
const contextOf = (server: Server, context: ServerContext): CallContext => ({
  authority: fromAuthInfo(context.http?.authInfo),
  client:
    ((context.mcpReq.envelope as Record<string, unknown> | undefined)?.["io.modelcontextprotocol/clientInfo"] as Client | undefined) ??
    server.getClientVersion(),
  signal: context.mcpReq.signal,
  notify: (progress) => context.mcpReq.notify(progress),
})

/**
 * The tool table on the SDK's server, which speaks the protocol over HTTP, and over stdio with clients of the 2026
 * revision.
 */
import { inputResponse, type jsonSchemaValidator, type McpServerFactory, Server, type ServerContext } from "@modelcontextprotocol/server"
import type { Said } from "./Ask.ts"
import { consoleIn, fromAuthInfo } from "./Authority.ts"
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

/** The SDK would check answers to form questions; `Ask.ts` takes every answer but one for a refusal anyway. */
const noValidator: jsonSchemaValidator = {
  getValidator: () => (value) => ({ valid: true, data: value as never, errorMessage: undefined }),
}

/** The 2026 revision names the client in every request, the older ones when the connection starts. */
const contextOf = (server: Server, context: ServerContext): CallContext => ({
  ...promptsOf(server, context),
  authority: fromAuthInfo(context.http?.authInfo),
  client:
    ((context.mcpReq.envelope as Record<string, unknown> | undefined)?.["io.modelcontextprotocol/clientInfo"] as Client | undefined) ??
    server.getClientVersion(),
  signal: context.mcpReq.signal,
  traceparent: context.http?.req?.headers.get("traceparent") ?? undefined,
  notify: (progress) => context.mcpReq.notify(progress),
})

interface Elicitation {
  readonly elicitation?: { readonly form?: object; readonly url?: object }
}

/** The client's own prompts: in the 2025 era it is asked while the call waits, in the 2026 era the answer comes with the call. */
const promptsOf = (server: Server, { http, mcpReq }: ServerContext): Pick<CallContext, "prompts"> => {
  const console = consoleIn(http?.authInfo)
  const isModern = mcpReq.envelope !== undefined
  const { elicitation } = (
    isModern ? (mcpReq.envelope as Record<string, unknown>)["io.modelcontextprotocol/clientCapabilities"] : server.getClientCapabilities()
  ) as Elicitation
  if (console === undefined || elicitation === undefined) return {}
  // A client that names no kind knows forms only.
  const prompts = { console, url: elicitation.url !== undefined, form: elicitation.form !== undefined || elicitation.url === undefined }
  if (!isModern) return { prompts: { ...prompts, ask: (question, waitMs) => elicit(mcpReq, question, waitMs) } }
  const approvalId = mcpReq.requestState<string>()
  if (approvalId === undefined) return { prompts }
  const said = inputResponse(mcpReq.inputResponses, "approval")
  return { prompts: { ...prompts, answer: { approvalId, said: said.kind === "elicit" ? (said as Said) : undefined } } }
}

/** On the stream of the call itself: the client may not listen on another one yet, and what is sent there would be lost. */
const elicit = ({ elicitInput, id, signal }: ServerContext["mcpReq"], question: object, timeout: number): Promise<Said | undefined> =>
  elicitInput(question as Parameters<typeof elicitInput>[0], { timeout, signal, relatedRequestId: id }).catch(() => undefined)

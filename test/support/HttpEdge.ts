/** The HTTP edge on a free port of loopback, and requests as clients of both eras send them. */
import { request as nodeRequest } from "node:http"
import { Effect, Layer } from "effect"
import { endpointOf, type ListenOptions, layer } from "../../src/mcp/Http.ts"
import { makeTestTable, type Table } from "./McpTable.ts"

export const tokens: Record<string, { readonly name: string; readonly workspaces: ReadonlyArray<string> | undefined }> = {
  "token-alice": { name: "alice", workspaces: ["app"] },
  "token-bob": { name: "bob", workspaces: undefined },
}

export interface Edge extends Table {
  readonly url: string
  readonly post: (body: unknown, headers?: Record<string, string>) => Promise<Response>
  readonly send: (method: string, headers?: Record<string, string>, body?: string) => Promise<Response>
}

/** An edge until the scope ends. */
export const openEdge = (options: Partial<ListenOptions> = {}) =>
  Effect.gen(function* () {
    const made = makeTestTable()
    const server = yield* Layer.build(
      layer({
        host: "127.0.0.1",
        port: 0,
        table: made.table,
        authenticate: (token) => Effect.succeed(tokens[token]),
        log: (line) => void (made.log as Array<string>).push(line),
        ...options,
      }),
    )
    const url = endpointOf(server)
    const send: Edge["send"] = (method, headers = {}, body) => {
      const { authorization = "Bearer token-alice", ...others } = headers
      const all = { accept: "application/json, text/event-stream", authorization, ...others }
      return fetch(url, { method, headers: all, ...(body === undefined ? {} : { body }) })
    }
    const post: Edge["post"] = (body, headers = {}) =>
      send("POST", { "content-type": "application/json", ...headers }, JSON.stringify(body))
    return { ...made, url, post, send } satisfies Edge
  })

/** A request with headers that `fetch` does not let through. */
export const rawRequest = (url: string, headers: Record<string, string>, body = ""): Promise<{ status: number; body: string }> =>
  new Promise((resolve, reject) => {
    const request = nodeRequest(url, { method: "POST", headers: { "content-type": "application/json", ...headers } }, (response) => {
      const parts: Array<Buffer> = []
      response.on("data", (part: Buffer) => parts.push(part))
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString() }))
    })
    request.on("error", reject)
    request.end(body)
  })

export const initialize = (version = "2025-11-25") => ({
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: version, capabilities: {}, clientInfo: { name: "test", version: "1" } },
})

export const call = (name: string, args: Record<string, unknown> = {}, id: number | string = 1) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
})

const meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
}

/** A request of the 2026 revision, and the headers that go with it. */
export const modern = (method: string, params: Record<string, unknown> = {}, id: number | string = 1) => ({
  body: { jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } },
  headers: {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...(typeof params["name"] === "string" ? { "mcp-name": params["name"] } : {}),
  },
})

export const modernCall = (name: string, args: Record<string, unknown> = {}, id: number | string = 1) =>
  modern("tools/call", { name, arguments: args }, id)

/** Opens a session and gives the headers of its requests. */
export const openSession = async (edge: Edge, headers: Record<string, string> = {}): Promise<Record<string, string>> => {
  const response = await edge.post(initialize(), headers)
  const id = response.headers.get("mcp-session-id")
  await response.text()
  if (response.status !== 200 || id === null) throw new Error(`no session: ${response.status}`)
  return { "mcp-session-id": id, "mcp-protocol-version": "2025-11-25", ...headers }
}

/** The JSON-RPC messages in a response, whichever of its two forms it has. */
export const messagesOf = (text: string): ReadonlyArray<Record<string, unknown>> =>
  text.startsWith("{")
    ? [JSON.parse(text)]
    : text
        .split("\n")
        .filter((line) => line.startsWith("data: ") && line.length > 6)
        .map((line) => JSON.parse(line.slice(6)))

/** The answer in a response. */
export const answerOf = async (
  response: Response,
): Promise<{ id?: unknown; result?: ToolResult; error?: { code: number; message: string } }> =>
  messagesOf(await response.text()).find((message) => "result" in message || "error" in message) ?? {}

export interface ToolResult {
  readonly content: ReadonlyArray<{ readonly type: string; readonly text?: string }>
  readonly structuredContent?: Record<string, unknown>
  readonly isError?: boolean
  readonly _meta?: Record<string, Record<string, unknown>>
}

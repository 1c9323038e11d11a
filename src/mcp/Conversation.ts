/**
 * The 2025 era over one connection: initialize, ping, tools/list, tools/call and their notifications, answered without
 * the SDK. It is small, and the SDK takes as long to load as all the rest of the program together; so a stdio client of
 * this era never waits for it. The same calls over HTTP go through the SDK, and the tests hold the two to each other.
 */
import { local } from "./Authority.ts"
import { Calls, cancelled } from "./Calls.ts"
import { errorOf, isObject, type JSONRPCMessage, type RequestId, RpcCode, RpcError } from "./Rpc.ts"
import { type Client, capabilitiesOf, type ToolTable } from "./ToolTable.ts"

/** Newest first; a client that asks for another one is offered the newest. */
const versions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"]

interface Request {
  readonly id: RequestId
  readonly method: string
  readonly params?: unknown
}

export class Conversation {
  readonly #table: ToolTable
  readonly #send: (message: JSONRPCMessage) => Promise<void>
  readonly #calls: Calls
  #client: Client | undefined

  constructor(table: ToolTable, send: (message: JSONRPCMessage) => Promise<void>) {
    this.#table = table
    this.#send = send
    this.#calls = new Calls(table)
  }

  /** Takes a message. Answers are sent when they are ready, in any order. */
  receive(message: JSONRPCMessage): void {
    const id = cancelled(message)
    if (id !== undefined) this.#calls.cancel(id)
    // We ask the client nothing, so an answer belongs to no question; other notifications ask for nothing.
    if (!("method" in message) || !("id" in message)) return
    this.#answer(message)
      .then((answer) => answer && this.#send(answer))
      // Nobody is there to read it any more.
      .catch(() => undefined)
  }

  /** Interrupts the calls that still run. */
  close(): void {
    this.#calls.close()
  }

  async #answer(request: Request): Promise<JSONRPCMessage | undefined> {
    if (request.method === "tools/call") {
      const notify = (progress: object) => this.#send({ jsonrpc: "2.0", ...progress } as JSONRPCMessage)
      return this.#calls.answer(request, { authority: local, client: this.#client, notify })
    }
    try {
      return { jsonrpc: "2.0", id: request.id, result: this.#result(request) }
    } catch (error) {
      return { jsonrpc: "2.0", id: request.id, error: errorOf(error) }
    }
  }

  #result({ method, params }: Request): Record<string, unknown> {
    switch (method) {
      case "initialize":
        return this.#initialize(params)
      case "tools/list":
        return { tools: this.#table.tools }
      case "ping":
      // No log travels over the protocol, so there is no level to keep.
      case "logging/setLevel":
        return {}
      default:
        throw new RpcError(RpcCode.methodNotFound, `Method not found: ${method}`)
    }
  }

  #initialize(params: unknown): Record<string, unknown> {
    const { clientInfo, protocolVersion } = isObject(params) ? params : {}
    if (typeof protocolVersion !== "string") throw new RpcError(RpcCode.invalidParams, "initialize needs a protocolVersion")
    if (!isObject(clientInfo) || typeof clientInfo["name"] !== "string" || typeof clientInfo["version"] !== "string")
      throw new RpcError(RpcCode.invalidParams, "initialize needs clientInfo with name and version")
    this.#client = { name: clientInfo["name"], version: clientInfo["version"] }
    return {
      protocolVersion: versions.includes(protocolVersion) ? protocolVersion : versions[0],
      capabilities: capabilitiesOf("legacy"),
      serverInfo: this.#table.about,
      instructions: this.#table.instructions,
    }
  }
}

/**
 * Tool calls of one connection of the 2025 era, without the SDK, which checks each message about eight times on its way
 * in and out; that costs more than a small call. In an HTTP session only plain calls take this way, and whatever is not
 * plain is left to the SDK.
 */
import { errorOf, isId, isObject, type JSONRPCMessage, type RequestId } from "./Rpc.ts"
import type { CallContext, ToolTable } from "./ToolTable.ts"

/** A request whose shape is what the SDK would let pass, and that asks for nothing beyond a call. */
export interface PlainCall {
  readonly id: RequestId
  readonly params: { readonly name: string; readonly _meta?: { readonly progressToken?: string | number } }
}

/** The plain call in a parsed message, if it is one. */
export const plainCall = (value: unknown): PlainCall | undefined => {
  const message = value as { readonly jsonrpc?: unknown; readonly method?: unknown; readonly id?: unknown; readonly params?: unknown }
  if (!isObject(value) || message.jsonrpc !== "2.0" || message.method !== "tools/call" || !isId(message.id)) return undefined
  if (!isObject(message.params)) return undefined
  for (const key in message.params) if (key !== "name" && key !== "arguments" && key !== "_meta") return undefined
  const { name, arguments: args, _meta } = message.params
  if (typeof name !== "string" || (args !== undefined && !isObject(args))) return undefined
  if (_meta !== undefined && !isPlainMeta(_meta)) return undefined
  return value as unknown as PlainCall
}

/** The request a parsed message cancels, if that is what it does. */
export const cancelled = (value: unknown): RequestId | undefined => {
  if (!isObject(value) || value["method"] !== "notifications/cancelled" || !isObject(value["params"])) return undefined
  const id = value["params"]["requestId"]
  return isId(id) ? id : undefined
}

/** The plain calls of one connection that have not ended. */
export class Calls {
  readonly #table: ToolTable
  readonly #running = new Map<RequestId, AbortController>()

  constructor(table: ToolTable) {
    this.#table = table
  }

  /** Performs a call. Undefined when it was cancelled: then nothing is to be sent. */
  async answer(
    call: { readonly id: RequestId; readonly params?: unknown },
    context: Omit<CallContext, "signal">,
  ): Promise<JSONRPCMessage | undefined> {
    const controller = new AbortController()
    this.#running.set(call.id, controller)
    try {
      const result = await this.#table.call(call.params, { ...context, signal: controller.signal })
      return controller.signal.aborted ? undefined : { jsonrpc: "2.0", id: call.id, result }
    } catch (error) {
      return controller.signal.aborted ? undefined : { jsonrpc: "2.0", id: call.id, error: errorOf(error) }
    } finally {
      if (this.#running.get(call.id) === controller) this.#running.delete(call.id)
    }
  }

  /** Interrupts a call; false when it is not one of these. */
  cancel(id: RequestId): boolean {
    const controller = this.#running.get(id)
    controller?.abort()
    return controller !== undefined
  }

  /** Interrupts them all: the connection is gone. */
  close(): void {
    for (const controller of this.#running.values()) controller.abort()
  }
}

const isPlainMeta = (meta: unknown): boolean => {
  if (!isObject(meta)) return false
  for (const key in meta) if (key.startsWith("io.modelcontextprotocol/")) return false
  return meta["progressToken"] === undefined || isId(meta["progressToken"])
}

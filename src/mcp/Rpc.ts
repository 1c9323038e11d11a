/** JSON-RPC as far as the edges handle it themselves: what a message is, and errors with their codes. */
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/server"

export type { JSONRPCMessage, RequestId }

/** Codes of JSON-RPC 2.0. */
export const RpcCode = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const

/** A request that is answered with a protocol error instead of a result. The SDK, too, takes the code from here. */
export class RpcError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const isId = (value: unknown): value is RequestId => typeof value === "string" || Number.isSafeInteger(value)

/** The message in a parsed line: a request, a notification or an answer; undefined for anything else. */
export const messageOf = (value: unknown): JSONRPCMessage | undefined => {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return undefined
  if (value["id"] !== undefined && !isId(value["id"])) return undefined
  const { error, id, method, params, result } = value
  const isRequest = typeof method === "string" && (params === undefined || isObject(params))
  const isAnswer = method === undefined && id !== undefined && (isObject(result) || isObject(error))
  return isRequest || isAnswer ? (value as unknown as JSONRPCMessage) : undefined
}

/** What a failed request is answered with. */
export const errorOf = (error: unknown): { readonly code: number; readonly message: string } =>
  error instanceof RpcError ? { code: error.code, message: error.message } : { code: RpcCode.internal, message: "Internal error" }

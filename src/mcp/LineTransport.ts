/**
 * JSON-RPC over a pair of streams, one message a line. Reading takes time linear in the bytes; an oversized or malformed
 * line is refused and the next one served; writes keep their order and wait for the reader. When the input ends, requests
 * already read get a short grace for their answers, so that a pipe of requests gets them; when the reader is gone,
 * the connection closes at once.
 */
import type { Readable, Writable } from "node:stream"
import { isId, type JSONRPCMessage, messageOf, RpcCode } from "./Rpc.ts"

export type CloseReason = "input ended" | "reader gone" | "closed"

export interface LineTransportOptions {
  readonly input: Readable
  readonly output: Writable
  /** Longest line read, in bytes. */
  readonly limit?: number
  /** How long answers may take after the input has ended, in milliseconds. */
  readonly grace?: number
}

interface Waiting {
  readonly text: string
  readonly written: () => void
  readonly failed: (error: Error) => void
}

const newline = 10

/** Has the shape of the SDK's transports, so that the SDK can take a connection over. */
export class LineTransport {
  onmessage?: (message: JSONRPCMessage) => void
  onerror?: (error: Error) => void
  onclose?: () => void
  /** Why the connection closed, once it has. */
  reason: CloseReason | undefined

  readonly #input: Readable
  readonly #output: Writable
  readonly #limit: number
  readonly #grace: number
  #parts: Array<Buffer> = []
  #size = 0
  #tooLong = false
  #stalled = false
  readonly #waiting: Array<Waiting> = []
  readonly #unanswered = new Set<unknown>()
  #ending: NodeJS.Timeout | undefined

  constructor(options: LineTransportOptions) {
    this.#input = options.input
    this.#output = options.output
    this.#limit = options.limit ?? 16 * 1024 * 1024
    this.#grace = options.grace ?? 500
  }

  async start(): Promise<void> {
    this.#output.on("drain", this.#onDrain).on("error", this.#onReaderGone).on("close", this.#onReaderGone)
    this.#input.on("data", this.#onData).on("end", this.#onEnd).on("close", this.#onEnd).on("error", this.#onEnd)
    if (this.#input.readableEnded || this.#input.destroyed) setImmediate(this.#onEnd)
  }

  /** Resolves when the stream has taken the message, which may have to wait until the reader has caught up. */
  send(message: JSONRPCMessage): Promise<void> {
    if (this.reason !== undefined) return Promise.reject(new Error("the connection is closed"))
    const written = this.#write(JSON.stringify(message) + "\n")
    if ("id" in message && !("method" in message) && message.id !== undefined) this.#settle(message.id)
    return written
  }

  async close(): Promise<void> {
    this.#close("closed")
  }

  #close(reason: CloseReason): void {
    if (this.reason !== undefined) return
    this.reason = reason
    clearTimeout(this.#ending)
    this.#input.off("data", this.#onData).pause()
    // A late error of a stream that nobody serves any more must not end the process.
    this.#input.on("error", () => undefined)
    this.#output.on("error", () => undefined)
    for (const { failed } of this.#waiting.splice(0)) failed(new Error("the connection is closed"))
    this.onclose?.()
  }

  readonly #onReaderGone = (): void => this.#close("reader gone")

  readonly #onEnd = (): void => {
    if (this.reason !== undefined || this.#ending !== undefined) return
    this.#take(Buffer.alloc(0), true)
    this.#ending = setTimeout(() => this.#close("input ended"), this.#grace)
    this.#closeWhenDone()
  }

  /** After the end of the input: nothing is left to be answered or to be written. */
  #closeWhenDone(): void {
    if (this.#ending !== undefined && this.#unanswered.size === 0 && this.#waiting.length === 0) this.#close("input ended")
  }

  readonly #onData = (chunk: Buffer): void => {
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      this.#take(chunk.subarray(from, at), true)
      from = at + 1
    }
    if (from < chunk.length) this.#take(chunk.subarray(from), false)
  }

  /** Adds a piece to the current line, and serves the line when this was its last piece. */
  #take(part: Buffer, last: boolean): void {
    this.#size += part.length
    if (this.#size > this.#limit) {
      this.#tooLong = true
      this.#parts = []
    } else if (!this.#tooLong && part.length > 0) this.#parts.push(part)
    if (!last) return
    const [parts, tooLong] = [this.#parts, this.#tooLong]
    this.#parts = []
    this.#size = 0
    this.#tooLong = false
    if (tooLong) this.#refuse(null, RpcCode.invalidRequest, `a message may be ${this.#limit} bytes long at most`)
    else this.#serve((parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)).toString("utf8").trim())
  }

  #serve(line: string): void {
    if (line === "") return
    const value = parsed(line)
    if (value === undefined) {
      this.#refuse(null, RpcCode.parse, "Parse error: the line is not JSON")
      return
    }
    this.#expect(value)
    const message = messageOf(value)
    if (message === undefined) this.#refuse(idOf(value), RpcCode.invalidRequest, "Invalid Request: the line is not a JSON-RPC message")
    else this.onmessage?.(message)
  }

  /** Keeps count of the requests that still have to be answered; a cancelled one never is. */
  #expect(value: unknown): void {
    const { id, method, params } = (value ?? {}) as {
      readonly id?: unknown
      readonly method?: unknown
      readonly params?: { requestId?: unknown }
    }
    if (method === "notifications/cancelled") this.#settle(params?.requestId)
    else if (typeof method === "string" && id !== undefined) this.#unanswered.add(id)
  }

  #settle(id: unknown): void {
    this.#unanswered.delete(id)
    this.#closeWhenDone()
  }

  #refuse(id: string | number | null, code: number, message: string): void {
    this.onerror?.(new Error(message))
    this.#write(JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } }) + "\n").catch(() => undefined)
    this.#settle(id)
  }

  #write(text: string): Promise<void> {
    if (this.#stalled) return new Promise((written, failed) => this.#waiting.push({ text, written, failed }))
    this.#stalled = !this.#output.write(text)
    return Promise.resolve()
  }

  readonly #onDrain = (): void => {
    this.#stalled = false
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#stalled ? undefined : this.#waiting.shift()) {
      this.#stalled = !this.#output.write(next.text)
      next.written()
    }
    this.#closeWhenDone()
  }
}

const parsed = (line: string): unknown => {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

const idOf = (value: unknown): string | number | null => {
  const id = typeof value === "object" && value !== null ? (value as { readonly id?: unknown }).id : undefined
  return isId(id) ? id : null
}

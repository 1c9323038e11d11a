/**
 * What a 2025 session can send again to a client that lost its stream: the newest events, bounded by count and by bytes.
 * An event that has been dropped cannot be resumed from, and the client is told so.
 */
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server"
import { units } from "./Results.ts"

interface Event {
  readonly id: string
  readonly stream: string
  readonly message: JSONRPCMessage
  readonly size: number
}

export class Replay implements EventStore {
  readonly #count: number
  readonly #bytes: number
  #events: Array<Event> = []
  #size = 0
  #last = 0

  /** Keeps at most `count` events of at most `bytes` together, but always the newest one. */
  constructor(count: number, bytes: number) {
    this.#count = count
    this.#bytes = bytes
  }

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    this.#last += 1
    const event = { id: `${stream}_${this.#last}`, stream, message, size: units(message) }
    this.#events.push(event)
    this.#size += event.size
    while (this.#events.length > this.#count || (this.#size > this.#bytes && this.#events.length > 1))
      this.#size -= this.#events.shift()?.size ?? 0
    return event.id
  }

  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    return this.#events.find((event) => event.id === id)?.stream
  }

  async replayEventsAfter(
    lastId: string,
    { send }: { readonly send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const at = this.#events.findIndex((event) => event.id === lastId)
    const stream = this.#events[at]?.stream ?? ""
    if (at !== -1) for (const event of this.#events.slice(at + 1)) if (event.stream === stream) await send(event.id, event.message)
    return stream
  }
}

/**
 * What lately reached the endpoint, for the person who wonders whether a client got through at all: when, who, what, and
 * how it was answered. Kept in memory, bounded, without arguments and without secrets.
 */
import { DateTime } from "effect"
import type { Authority } from "./Authority.ts"
import { isObject } from "./Rpc.ts"
import type { Client, ToolTable } from "./ToolTable.ts"

export interface Sighting {
  readonly at: string
  /** The method of the message, or of the request where there was none to read. */
  readonly method: string
  readonly tool?: string
  /** Absent for whoever was turned away at the door. */
  readonly caller?: string
  readonly client?: string
  /** The first characters of the session's id, enough to tell one from another. */
  readonly session?: string
  /** How a call ended, `done` or the code of its refusal; for anything else the status of the answer. */
  readonly outcome: string
}

/** How many are kept. */
const KEPT = 200

export class Sightings {
  readonly #seen: Array<Sighting> = []
  /** Requests that are being answered, by the authority each of them has. */
  readonly #open = new WeakMap<Authority, number>()
  #count = 0

  /** Notes a request; `authority` is its own, and tells its call from others when that ends. */
  note(at: number, sighting: Omit<Sighting, "at">, authority?: Authority): void {
    this.#seen.push({ at: DateTime.formatIso(DateTime.makeUnsafe(at)), ...sighting })
    if (this.#seen.length > KEPT) this.#seen.shift()
    this.#count += 1
    if (authority !== undefined) this.#open.set(authority, this.#count)
  }

  /** The request with this authority has its answer. That of a call may begin long before the call ends. */
  answered(authority: Authority, status: number): void {
    this.#change(authority, (sighting) =>
      sighting.tool === undefined || status >= 400 ? { ...sighting, outcome: String(status) } : sighting,
    )
  }

  #change(authority: Authority, change: (sighting: Sighting) => Sighting): void {
    const place = this.#seen.length - 1 - (this.#count - (this.#open.get(authority) ?? Number.NEGATIVE_INFINITY))
    const sighting = this.#seen[place]
    if (sighting !== undefined) this.#seen[place] = change(sighting)
  }

  /** The newest first. */
  get newest(): ReadonlyArray<Sighting> {
    return this.#seen.toReversed()
  }

  /** The table, with each call's end noted. */
  over(table: ToolTable): ToolTable {
    return {
      ...table,
      call: async (params, context) => {
        const client = clientText(context.client)
        const settle = (outcome: string) =>
          this.#change(context.authority, (sighting) => ({ ...sighting, outcome, ...(client === undefined ? {} : { client }) }))
        settle("under way")
        const result = await table.call(params, context)
        const refusal = result._meta?.["codespace/refusal"] as { readonly code?: string } | undefined
        settle(refusal?.code ?? "done")
        return result
      },
    }
  }
}

/** Program and version, as a client says. */
export const clientText = (client: Client | undefined): string | undefined =>
  client === undefined ? undefined : shown(`${client.name}/${client.version}`)

/** What a message says of itself. */
export const messageFacts = (body: unknown): Partial<Pick<Sighting, "method" | "tool" | "client">> => {
  if (!isObject(body)) return {}
  const { method, params } = body
  const { clientInfo, name } = isObject(params) ? params : {}
  return {
    ...(typeof method === "string" ? { method: shown(method) } : {}),
    ...(method === "tools/call" && typeof name === "string" ? { tool: shown(name) } : {}),
    ...(isObject(clientInfo) ? { client: shown(`${String(clientInfo["name"])}/${String(clientInfo["version"])}`) } : {}),
  }
}

/** A text from outside, short and in one line. */
const shown = (text: string): string => text.replace(/[^\x20-\x7e]/g, "?").slice(0, 80)

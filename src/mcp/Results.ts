/**
 * Answers and refusals as MCP results. Every result of a tool goes through here, so this is the one place that bounds
 * what leaves: clients drop the connection on a message above 10 MiB, and nothing built here comes near it.
 */
import type { CallToolResult } from "@modelcontextprotocol/server"
import type { Schema } from "effect"
import { type Refusal, toRecord } from "../schema/Refusal.ts"
import { excerpt } from "../schema/Retry.ts"
import type { Answer } from "./ToolRow.ts"

/** Most bytes of a result on the wire. */
export const resultLimit = 8 * 1024 * 1024

const messageLimit = 600
const detailLimit = 2_000
const detailCount = 50

/** What a success looks like: the text and the structured part, each sufficient alone. */
export const answered = (answer: Answer): CallToolResult => {
  const text = { type: "text" as const, text: answer.text.toWellFormed() }
  return {
    content: answer.image === undefined ? [text] : [text, { type: "image" as const, ...answer.image }],
    structuredContent: answer.result as Record<string, unknown>,
  }
}

/** What a refusal looks like. Never structured content, which clients hold against the output schema. */
export const refused = (refusal: Refusal): CallToolResult => {
  const record = toRecord(refusal)
  const message = shortened(record.message, messageLimit)
  const { output, ...details } = record.details
  // What a command wrote is the reason itself: it stands whole in both forms.
  const shown = typeof output === "string" && output !== "" ? { text: `\n\n${output.toWellFormed()}`, details: { output } } : { text: "" }
  return {
    isError: true,
    content: [{ type: "text", text: `${record.code}: ${message} [retry: ${record.retry}]${shown.text}` }],
    _meta: { "codespace/refusal": { ...record, message, details: { ...(bounded(details, 4) as Schema.JsonObject), ...shown.details } } },
  }
}

/** Bytes an answer takes on the wire: a bound that is quick to find, and only where that is too much, the exact number. */
export const wireBytes = (answer: Answer): number => {
  // The text says what the structured part says, so a look at it is a look at both; a short one is not worth it.
  const perByte = answer.text.length < worthALook || control.test(answer.text) ? 6 : 2
  const bound = perByte * (Buffer.byteLength(answer.text) + sizeOf(answer.result, Buffer.byteLength)) + (answer.image?.data.length ?? 0)
  return bound <= resultLimit ? bound : Buffer.byteLength(JSON.stringify(answered(answer)))
}

const worthALook = 10_000
/** What JSON writes as `\u00XX`, six bytes for one; every other character takes twice its bytes at most. */
const control = /[\x00-\x07\x0b\x0e-\x1f]/

/** UTF-16 units of a value's JSON, without building it. */
export const units = (value: unknown): number => sizeOf(value, (text) => text.length)

const sizeOf = (value: unknown, ofText: (text: string) => number): number => {
  if (typeof value === "string") return ofText(value) + 2
  if (typeof value !== "object" || value === null) return 24
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + sizeOf(item, ofText) + 1, 2)
  let sum = 2
  for (const key in value) sum += key.length + 4 + sizeOf((value as Record<string, unknown>)[key], ofText)
  return sum
}

/** At most `limit` characters, the note about the rest included, and no half of a character. */
const shortened = (text: string, limit: number): string => {
  const whole = text.toWellFormed()
  return whole.length <= limit ? whole : excerpt(whole, limit - 30)
}

/** Details keep their shape; long texts and lists are cut, and what lies too deep is left out. */
const bounded = (value: Schema.Json, depth: number): Schema.Json => {
  if (typeof value === "string") return shortened(value, detailLimit)
  if (typeof value !== "object" || value === null) return value
  if (depth === 0) return "…"
  if (Array.isArray(value)) {
    const kept = value.slice(0, detailCount).map((item: Schema.Json) => bounded(item, depth - 1))
    return value.length > detailCount ? [...kept, `… (${value.length - detailCount} more)`] : kept
  }
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, detailCount)
      .map(([key, item]) => [key, bounded(item, depth - 1)]),
  )
}

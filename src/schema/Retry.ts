/**
 * What a caller may do after a refusal. Every refusal of this folder carries one, and its tag is the code on the wire
 * (contract §3).
 */
import { Schema } from "effect"

export const Retry = Schema.Literals(["never", "change_request", "later", "ask_status", "await_operator"])
export type Retry = typeof Retry.Type

/** Cuts text for a message without splitting a character; what was cut is said. */
export const excerpt = (text: string, limit: number): string => {
  if (text.length <= limit) return text
  const end = isHighSurrogate(text.charCodeAt(limit - 1)) ? limit - 1 : limit
  return `${text.slice(0, end)}… (${text.length - end} more characters)`
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff

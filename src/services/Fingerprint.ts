/** What makes two calls the same call: the decoded arguments, whatever the order of their names. */
import type { Schema } from "effect"
import { toJson } from "./JsonText.ts"

/** The arguments in one canonical text: keys sorted at every level, without what only names, previews or delays the call. */
export const fingerprintText = (input: Schema.JsonObject): string => {
  const { check_only: _checkOnly, lease_wait_ms: _wait, operation_key: _key, work_id: _work, ...own } = input
  return toJson(sorted(own))
}

const sorted = (value: Schema.Json): Schema.Json => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== "object" || value === null) return value
  const object = value as Schema.JsonObject
  return Object.fromEntries(
    Object.keys(object)
      .sort()
      .map((key) => [key, sorted(object[key] as Schema.Json)]),
  )
}

/** Settings as a text that another process of this program reads back. Pure. */
import { Duration, Schema } from "effect"

const JsonText = Schema.fromJsonString(Schema.Json)

/**
 * Settings as text. They are plain data but for maps and lengths of time, so that what a later version adds to them travels
 * without a word here.
 */
export const textOf = (settings: unknown): string => Schema.encodeSync(JsonText)(toJson(settings))

/** Settings from what `textOf` made of them: this program on the other side, which is believed. */
export const settingsFrom = <A>(text: string): A => fromJson(Schema.decodeUnknownSync(JsonText)(text)) as A

const toJson = (value: unknown): Schema.Json => {
  if (Duration.isDuration(value)) return { $millis: Duration.toMillis(value) }
  if (value instanceof Map) return { $entries: toJson([...value]) }
  if (Array.isArray(value)) return value.map(toJson)
  if (typeof value !== "object" || value === null) return value as Schema.Json
  return Object.fromEntries(Object.entries(value).flatMap(([key, inner]) => (inner === undefined ? [] : [[key, toJson(inner)]])))
}

const fromJson = (json: Schema.Json): unknown => {
  if (Array.isArray(json)) return json.map(fromJson)
  if (typeof json !== "object" || json === null) return json
  const object = json as Schema.JsonObject
  if (typeof object["$millis"] === "number") return Duration.millis(object["$millis"])
  if (object["$entries"] !== undefined) return new Map(fromJson(object["$entries"]) as ReadonlyArray<[unknown, unknown]>)
  return Object.fromEntries(Object.entries(object).map(([key, inner]) => [key, fromJson(inner)]))
}

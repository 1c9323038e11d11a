/** Any value as one line of JSON; what is stored, hashed or shown goes through here. */
import { Schema } from "effect"

export const toJson = Schema.encodeUnknownSync(Schema.fromJsonString(Schema.Unknown))

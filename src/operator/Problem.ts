/** What the operator's API answers when it cannot do what was asked: a refusal's own words, under an HTTP status. */
import { Schema } from "effect"

const fields = {
  code: Schema.String.annotate({ description: "As in docs/refusals.md" }),
  message: Schema.String,
  details: Schema.Record(Schema.String, Schema.Json),
}

/** Nothing has that id. */
export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", fields, { httpApiStatus: 404 }) {}
/** What it is about has gone on since, so it cannot be done any more. */
export class Conflict extends Schema.TaggedError<Conflict>()("Conflict", fields, { httpApiStatus: 409 }) {}
/** It was understood, and cannot be done as asked. */
export class Rejected extends Schema.TaggedError<Rejected>()("Rejected", fields, { httpApiStatus: 422 }) {}
/** A part of the server is down or full; the same request may do later. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", fields, { httpApiStatus: 503 }) {}

/** What any request may be answered with. */
export const Problem = [NotFound, Conflict, Rejected, Unavailable] as const
export type Problem = NotFound | Conflict | Rejected | Unavailable

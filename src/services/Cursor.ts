/** A place in a sorted answer, as text a caller hands back unread. */
import { Effect, Result } from "effect"
import * as Base64Url from "effect/encoding/Base64Url"
import { InvalidArguments } from "../schema/Operation.ts"

export const writeCursor = (place: string): string => Base64Url.encode(place)

/** The place a cursor was made from. */
export const readCursor = (cursor: string): Effect.Effect<string, InvalidArguments> =>
  Result.match(Base64Url.decodeString(cursor), {
    onSuccess: (place) => Effect.succeed(place),
    onFailure: () =>
      Effect.fail(new InvalidArguments({ problems: ["cursor: not one that an earlier call gave; leave it out to begin anew"] })),
  })

/** Times as people and loops read them. */
import { DateTime } from "effect"

/** `millis` since the epoch. */
export const isoTime = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))

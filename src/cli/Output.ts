/** What a command tells: results on stdout, the rest on stderr. */
import { Effect } from "effect"

/** A line for the log or the person at the terminal; stdout stays for results. */
export const log = (line: string): void => void process.stderr.write(`${line}\n`)

/** Prints a result. Ends when it has been taken, so that what follows it, and the exit, cannot cut it short. */
export const print = (text: string): Effect.Effect<void> =>
  Effect.callback((resume) => void process.stdout.write(text, () => resume(Effect.void)))

/** A text that others wrote, for a terminal: without what would move the cursor or colour it. */
export const plain = (text: string): string => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/gu, "\ufffd")

/** Prints a result the way it was asked for: as one JSON document, or as text. */
export const printAs = (json: true | undefined, value: unknown, text: string): Effect.Effect<void> =>
  print(json ? `${JSON.stringify(value, null, 2)}\n` : text)

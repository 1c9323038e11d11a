/** Which words a grant may remember: those a held command itself begins with, since anything else would be a mistake. */
import type { ShownCall } from "../schema/Approval.ts"

/** Why later commands that begin with these words cannot be allowed along with this call; undefined when they can. */
export const whyNotRemembered = ({ changes, command, script }: ShownCall, words: ReadonlyArray<string>): string | undefined => {
  if (changes !== undefined || (command === undefined && script === undefined)) return "only commands can be allowed for good"
  const begins = command === undefined || words.every((word, at) => command[at] === word)
  return words.length > 0 && begins ? undefined : `the held command is ${command?.join(" ") ?? script}; give its first words`
}

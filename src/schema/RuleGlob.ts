/**
 * The globs of file rules, as text. One that can match nothing, or that would be taken for less than it says, is refused
 * with the spelling that was meant: a rule that denies must not miss a file because of a slip.
 */
import { Schema } from "effect"

const whyNoGlob = (glob: string): string | undefined => {
  if (glob === "") return "a glob must not be empty; ** is every path"
  if (/^[/!]/u.test(glob)) return `${glob} can match nothing: globs are relative to the workspace root and cannot be negated`
  if (/(?:^|\/)\.{1,2}(?:\/|$)/u.test(glob)) return `${glob} can match nothing: no path in a workspace has "." or ".." in it`
  if (/[/\\]$/u.test(glob)) return `${glob} can match nothing: end it with /** for all that is in a folder`
  return whyMisread(glob)
}

/** The matcher takes what it does not know for plain text; nobody names files so. */
const whyMisread = (glob: string): string | undefined => {
  const bare = glob.replaceAll(/\\./gu, "_").replaceAll(/\[[!^]?\]?[^\]/]*\]/gu, "_")
  if (bare.replaceAll(spanning, "_").includes("**"))
    return `${glob}: ** spans folders only where it stands alone between slashes; what ends in .env at any depth is **/*.env`
  if (/[@+!?*]\(/u.test(bare)) return `${glob}: patterns in parentheses are not known here; write alternatives as {a,b}`
  if (bare.includes("[")) return `${glob}: a "[" is not closed; write \\[ for the character itself`
  return /[{}]/u.test(withoutBraces(bare))
    ? `${glob}: braces hold alternatives, such as {a,b}; write \\{ for the character itself`
    : undefined
}

const spanning = /(?<=^|[/{,])\*\*(?=$|[/},])/gu

/** Every group of alternatives replaced, from the inside. */
const withoutBraces = (text: string): string => {
  const next = text.replaceAll(/\{[^{}]*,[^{}]*\}/gu, "_")
  return next === text ? text : withoutBraces(next)
}

/** A glob of a file rule, relative to the workspace root. */
export const RuleGlob = Schema.String.check(Schema.makeFilter(whyNoGlob))

/** A path in an example of a file rule: relative to the workspace root, in normal form. */
export const ExamplePath = Schema.String.check(
  Schema.makeFilter((path: string) =>
    /(?:^|\/)\.{0,2}(?:\/|$)|\0/u.test(path) ? "must be a path in the workspace, such as src/a.ts" : undefined,
  ),
)

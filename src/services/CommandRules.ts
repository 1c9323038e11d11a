/**
 * What a profile's command rules say about commands. Words are compared with words, never text with text. A rule can be
 * certain to apply, or possible: where a word is only known when the command runs, where it cannot be told which words
 * belong to an option, or where something runs that nobody can see. What is possible counts as a rule that asks. Pure.
 */
import type { CommandRule, CommandWord, Decision, SimpleCommand, UnknownWords } from "../schema/Policy.ts"
import { excerpt } from "../schema/Retry.ts"

export type Verdict = "yes" | "maybe" | "no"

/** Any number of words of which nothing is known. */
export const ANY: UnknownWords = { prefix: "", suffix: "", one: false }

/** Deny over ask over allow; then what is not fully understood asks, and the rest is allowed. */
export const decideCommands = (rules: ReadonlyArray<CommandRule>, commands: ReadonlyArray<SimpleCommand>): Decision => {
  const restricting = [...rules.filter(({ decision }) => decision === "deny"), ...rules.filter(({ decision }) => decision === "ask")]
  const verdicts = restricting.flatMap((rule) => commands.map((command) => ({ rule, command, verdict: verdictOf(rule, command) })))
  const certain = verdicts.find(({ verdict }) => verdict === "yes")
  if (certain !== undefined)
    return { _tag: certain.rule.decision === "deny" ? "deny" : "ask", rule: ruleText(certain.rule), subject: running(certain.command) }
  const possible = verdicts.find(({ verdict }) => verdict === "maybe")
  if (possible !== undefined) {
    const rule = `${ruleText(possible.rule)}; it may apply, since ${doubt(possible.command)}`
    return { _tag: "ask", rule, subject: running(possible.command) }
  }
  const covering = commands.map((command) => rules.find((rule) => rule.decision === "allow" && covers(rule, command)))
  const hidden = commands.find((command, at) => command.unseen !== undefined && covering[at] === undefined)
  if (hidden !== undefined && restricting.length > 0) {
    const names = [...new Set(restricting.map(({ argv }) => argv.join(" ")))].join(", ")
    return { _tag: "ask", rule: `commands: rules about ${excerpt(names, 120)} may apply to ${hidden.unseen}`, subject: running(hidden) }
  }
  const isCovered = commands.every(({ carries, guessed }, at) => carries === true || guessed === true || covering[at] !== undefined)
  const first = covering.find((rule) => rule !== undefined)
  return isCovered && first !== undefined ? { _tag: "allow", rule: ruleText(first) } : { _tag: "allow" }
}

/** How a refusal names a rule. */
const ruleText = ({ argv, decision, reason }: CommandRule): string =>
  `commands: ${decision} ${excerpt(argv.join(" "), 120)}${reason === undefined ? "" : ` (${excerpt(reason, 120)})`}`

/** Why an example of a rule contradicts it; undefined where it fits. */
export const exampleProblem = (rule: CommandRule, argv: ReadonlyArray<string>, kind: "match" | "not_match"): string | undefined => {
  const command: SimpleCommand = { words: argv }
  const verdict = rule.decision === "allow" ? (covers(rule, command) ? "yes" : "no") : verdictOf(rule, command)
  if (kind === "match") return verdict === "yes" ? undefined : `${shown(argv)} is to match, but the rule ${said[verdict]}`
  return verdict === "no" ? undefined : `${shown(argv)} is not to match, but the rule ${said[verdict]}`
}

const said = { yes: "matches it", maybe: "may or may not match it", no: "does not match it" } as const

/** Whether a rule that denies or asks is about this command. */
export const verdictOf = ({ argv: [program = "", ...tokens] }: CommandRule, { guessed, words }: SimpleCommand): Verdict => {
  const [first, ...rest] = words
  if (first === undefined) return "no"
  const named = programVerdict(program, first)
  // Where the first word may be no word at all, what follows may be the program.
  if (named === "maybe" && typeof first !== "string" && !first.one) return "maybe"
  if (named === "no") return "no"
  const options = tokens.filter(isOption).map((token) => optionVerdict(token, rest))
  const operands = operandVerdict(
    tokens.filter((token) => !isOption(token)),
    rest,
  )
  const all = [named, operands, ...options]
  if (all.includes("no")) return "no"
  return guessed === true || all.includes("maybe") ? "maybe" : "yes"
}

/** Whether an allow covers this command: word for word, and with nothing around it that changes what it does. */
const covers = ({ argv }: Pick<CommandRule, "argv">, { altered, guessed, words }: SimpleCommand): boolean =>
  altered !== true && guessed !== true && argv.every((token, at) => words[at] === token)

/**
 * Whether every one of these commands begins with words that were allowed for good, word for word, so that `npm testx` is
 * not `npm test`, and what stands behind `&&` needs words of its own. What is set for a command, or hidden in it, is not
 * covered; what a covered command runs by itself is its own affair.
 */
export const coveredBy = (allowed: ReadonlyArray<Pick<CommandRule, "argv">>, commands: ReadonlyArray<SimpleCommand>): boolean => {
  const own = commands.filter(({ carries, guessed }) => carries !== true && guessed !== true)
  return own.length > 0 && own.every((command) => allowed.some((rule) => covers(rule, command)))
}

/** A program is known by its name, wherever it lies; on some disks in any case of letters. */
const programVerdict = (program: string, word: CommandWord): Verdict => {
  const known = typeof word === "string" ? word : word.one && word.suffix.includes("/") ? word.suffix : undefined
  if (known === undefined) return "maybe"
  return known.slice(known.lastIndexOf("/") + 1).toLowerCase() === program.toLowerCase() ? "yes" : "no"
}

const isOption = (word: string): boolean => word.length > 1 && word.startsWith("-") && word !== "--"

/** An option counts wherever it stands, also with a value behind `=`, shortened, or among other letters. */
const optionVerdict = (token: string, words: ReadonlyArray<CommandWord>): Verdict => {
  const known = words.filter((word) => typeof word === "string").filter(isOption)
  if (known.some((word) => sameOption(token, word))) return "yes"
  const letters = cluster(token)
  const given = new Set(known.flatMap((word) => (word.startsWith("--") ? [] : [...word.slice(1)])))
  if (letters?.every((letter) => given.has(letter))) return "yes"
  return words.some((word) => typeof word !== "string" && couldBeOption(word)) ? "maybe" : "no"
}

const sameOption = (token: string, word: string): boolean => {
  const name = word.split("=", 1)[0] ?? word
  return word === token || name === token || (name.startsWith("--") && name.length > 2 && token.startsWith(name))
}

/** The letters of an option such as `-rf`; longer ones are names. */
const cluster = (token: string): ReadonlyArray<string> | undefined => (/^-[A-Za-z0-9]{1,3}$/u.test(token) ? [...token.slice(1)] : undefined)

/**
 * Whether the operands begin with `tokens`. Options are passed over. The word after an option may be its value: with the
 * value passed over as well, a match is only possible.
 */
const operandVerdict = (tokens: ReadonlyArray<string>, words: ReadonlyArray<CommandWord>): Verdict => {
  /** How many tokens are matched, if no word is a value of an option; undefined when that fails. */
  let certain: number | undefined = 0
  /** How many may be matched on some reading. */
  let possible = new Set([0])
  let afterOption = false
  for (const word of words) {
    if (certain === tokens.length) return "yes"
    const next = new Set<number>()
    if (typeof word !== "string") {
      certain = undefined
      const isPassed = !word.one || afterOption || couldBeOption(word)
      for (const matched of possible) {
        if (isPassed || matched === tokens.length) next.add(matched)
        for (let at = matched; at < tokens.length && couldBe(word, tokens[at] ?? ""); at++) {
          next.add(at + 1)
          if (word.one) break
        }
      }
      afterOption = couldBeOption(word) || (afterOption && !word.one)
    } else if (isOption(word) || word === "--") {
      for (const matched of possible) next.add(matched)
      afterOption = word !== "--"
    } else {
      for (const matched of possible) {
        if (matched === tokens.length || afterOption) next.add(matched)
        if (tokens[matched] === word) next.add(matched + 1)
      }
      certain = certain !== undefined && tokens[certain] === word ? certain + 1 : undefined
      afterOption = false
    }
    possible = next
    if (possible.size === 0) return "no"
  }
  if (certain === tokens.length) return "yes"
  return possible.has(tokens.length) ? "maybe" : "no"
}

const couldBeOption = ({ prefix }: UnknownWords): boolean => prefix === "" || prefix.startsWith("-")

const couldBe = ({ prefix, suffix }: UnknownWords, token: string): boolean =>
  token.length >= prefix.length + suffix.length && token.startsWith(prefix) && token.endsWith(suffix)

const running = ({ words }: SimpleCommand): string => (words.length === 0 ? "a command" : `running ${shown(words)}`)

const shown = (words: ReadonlyArray<CommandWord>): string =>
  `"${excerpt(words.map((word) => (typeof word === "string" ? word : `${word.prefix}…${word.suffix}`)).join(" "), 100)}"`

const doubt = ({ guessed, unseen, words }: SimpleCommand): string => {
  if (unseen !== undefined) return `there is ${unseen}`
  if (guessed === true) return "it cannot be told where the command begins"
  return words.some((word) => typeof word !== "string")
    ? "not all of its words are known before it runs"
    : "it cannot be told which words belong to an option"
}

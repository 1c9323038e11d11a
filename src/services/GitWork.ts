/**
 * Tells a command that is git's own work on the configuration of a repository, and nothing else, from every other: all it
 * runs is git, known by its words, and beside it what only prints, looks or makes folders. Only such a command may find
 * the configuration as a file that git can replace; whatever cannot be followed is no such command. Pure.
 */
import type { CommandWord, Execution, SimpleCommand } from "../schema/Policy.ts"
import { type KnownGit, knownGit, wantsConfiguration } from "./GitCommands.ts"
import type { ShellText } from "./ShellParser.ts"

export type GitWork =
  /** Nothing in it makes git write a configuration. */
  | { readonly _tag: "none" }
  /** All of it is known. `runsHooks`: git would run hooks of the repository on the way; `isCertain`: it will write. */
  | { readonly _tag: "known"; readonly runsHooks: boolean; readonly isCertain: boolean }
  /** It makes git write a configuration, and something else is not known. */
  | { readonly _tag: "unknown"; readonly why: string }

const NONE: GitWork = { _tag: "none" }

/** Characters of a text that is looked at; git's own work is short, and to read takes time. */
const LONGEST = 20_000

/** Whether it is worth looking at. */
export const mentionsGit = (line: Execution["line"]): boolean => {
  const texts = "script" in line ? [line.script] : line.argv
  return texts.some((text) => /\bgit\b/u.test(text)) && texts.reduce((sum, { length }) => sum + length, 0) <= LONGEST
}

/** `variables` are the names that the call sets; `parse` reads a shell's text. */
export const gitWorkOf = (line: Execution["line"], variables: ReadonlyArray<string>, parse: (text: string) => ShellText): GitWork => {
  const text = "script" in line ? line.script : textOf(line.argv)
  const { commands, isPlain, problem }: ShellText =
    text === undefined ? { commands: [{ words: "argv" in line ? line.argv : [] }], isPlain: true } : parse(text)
  const judged = commands.map(judge)
  const writes = judged.some((one) => typeof one !== "string" && one.writes !== "no")
  const isWanted = commands.some(({ words: [program, ...rest] }) => program === "git" && wantsConfiguration(rest.filter(isText)))
  if (!writes && !isWanted) return NONE
  const variable = variables.find((name) => !VARIABLES.test(name))
  const why =
    problem ??
    (isPlain ? undefined : "the script does more than run commands one after the other") ??
    (variable === undefined ? undefined : `the variable ${variable} is set`) ??
    judged.find((one) => typeof one === "string")
  if (why !== undefined) return isWanted ? { _tag: "unknown", why } : NONE
  return { _tag: "known", runsHooks: judged.some((one) => typeof one !== "string" && one.runsHooks), isCertain: isWanted }
}

/** Names that tell git who commits and when, or a program how to print. */
const VARIABLES = /^(GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT|LANG|LC_[A-Z]+|TZ|CI|TERM|NO_COLOR)$/u

const textOf = (argv: ReadonlyArray<string>): string | undefined =>
  argv.length === 3 && /^(\/(usr\/)?bin\/)?(ba|da)?sh$/u.test(argv[0] ?? "") && /^-l?c$/u.test(argv[1] ?? "") ? argv[2] : undefined

const isText = (word: CommandWord): word is string => typeof word === "string"

const judge = ({ altered, unseen, variables = [], words: [program, ...rest] }: SimpleCommand) => {
  const variable = variables.find((name) => !VARIABLES.test(name))
  if (variable !== undefined) return `the variable ${variable} is set`
  if (altered === true && variables.length === 0) return "a file is written or read by redirection"
  if (unseen !== undefined) return unseen
  if (program === undefined) return HARMLESS
  if (typeof program !== "string") return "a program that is not known before it runs"
  if (program === "export") {
    const other = rest.find((word) => !VARIABLES.test((isText(word) ? word : word.prefix).split("=", 1)[0] ?? ""))
    return other === undefined ? HARMLESS : "export"
  }
  if (program === "git") return rest.every(isText) ? knownGit(rest) : "words of git that are not known before it runs"
  return PLAIN.has(program) && !(EVALUATES.get(program)?.test(rest.map((word) => (isText(word) ? word : "$")).join("\n")) ?? false)
    ? HARMLESS
    : program
}

const HARMLESS: KnownGit = { writes: "no", runsHooks: false }

/** They print, look, or make a folder; and their arguments are nothing but words, except where the next list says so. */
const PLAIN = new Set([
  ...["cd", "echo", "printf", "pwd", "true", "false", ":", "test", "[", "set", "exit"],
  ...["ls", "cat", "head", "tail", "wc", "grep", "mkdir", "sleep"],
])

/** What of their arguments does more: names with an index in which a command may stand, positional parameters, other modes. */
const EVALUATES: ReadonlyMap<string, RegExp> = new Map([
  ["printf", /^-/u],
  ["test", /^-[vRo]$/mu],
  ["[", /^-[vRo]$/mu],
  ["set", /^(?!([-+][euxo]+|pipefail)$)/mu],
])

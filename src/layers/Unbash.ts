/**
 * ShellParser over the package unbash, which reads what bash reads. Scripts may run in a plainer shell: where the two
 * would read a text differently, both readings are given, or the text is not understood. Loaded with the first script.
 */
import { Effect, Layer } from "effect"
import type { Assignment, Command, DoubleQuotedChild, ParsedScript, ParseError, Redirection, SyntaxNode, Word, WordPart } from "unbash"
import type { CommandWord, SimpleCommand } from "../schema/Policy.ts"
import { ShellParser, type ShellText } from "../services/ShellParser.ts"

export const layer = Layer.effect(
  ShellParser,
  Effect.map(
    Effect.cached(Effect.promise(() => import("unbash")).pipe(Effect.map((unbash) => (text: string) => understand(unbash, text)))),
    (load) => ShellParser.of({ load }),
  ),
)

type Unbash = Pick<typeof import("unbash"), "parse" | "forEachChild">

const understand = (unbash: Unbash, text: string): ShellText => {
  const commands: Array<SimpleCommand> = []
  const problems: Array<string> = []
  const guesses = new Set<string>()
  const kinds = new Set<string>()
  let left = MOST_READ
  const reads = (characters: number): void => {
    left -= characters
    if (left < 0) throw new TooMuch()
  }
  try {
    reads(text.length)
    visit(unbash, unbash.parse(text), text, false, { commands, problems, guesses, kinds, reads, guessed: false })
    // The set grows meanwhile. What no shell could run is no problem here.
    for (const guess of guesses) {
      reads(guess.length)
      visit(unbash, unbash.parse(guess), guess, false, { commands, problems: [], guesses, kinds, reads, guessed: true })
    }
  } catch {
    // Of these or of the parser's own depth there is nothing else to say.
    problems.push("it is nested too deep")
  }
  const [problem] = problems
  const isPlain = [...kinds].every((kind) => PLAIN.has(kind))
  return problem === undefined ? { commands, isPlain } : { commands, problem: `a script that is not fully understood: ${problem}` }
}

/** What a text may be made of that only runs commands. */
const PLAIN = new Set([
  ...["Script", "Statement", "Command", "CompoundList", "AndOr", "Pipeline", "Negation", "BraceGroup", "Subshell", "If", "Elif"],
  ...[
    "Assignment",
    "Redirected",
    "Redirect",
    "FileDescriptor",
    "Word",
    "Literal",
    "SingleQuoted",
    "DoubleQuoted",
    "CommandExpansion",
    "SimpleExpansion",
  ],
])

/** Characters that are read for one text. What is nested is read again for each level, so that depth costs time. */
const MOST_READ = 1_000_000

class TooMuch extends Error {}

interface Findings {
  readonly commands: Array<SimpleCommand>
  readonly problems: Array<string>
  /** Texts in which bash computes, and a plainer shell would run commands. */
  readonly guesses: Set<string>
  /** Which kinds of parts there are. */
  readonly kinds: Set<string>
  /** Counts what is read; throws when it is too much. */
  readonly reads: (characters: number) => void
  readonly guessed: boolean
}

const visit = (unbash: Unbash, node: SyntaxNode, source: string, altered: boolean, findings: Findings): void => {
  const { commands, guessed, guesses, kinds, problems, reads } = findings
  kinds.add(node.type)
  let text = source
  let changes = altered
  switch (node.type) {
    case "Script":
      for (const { message } of errorsOf(node)) problems.push(message)
      text = node.source ?? source
      break
    case "Command":
      commands.push({ ...simpleCommand(node, altered), ...(guessed ? { guessed } : {}) })
      break
    case "Redirected":
      changes ||= node.redirects.some(writes)
      break
    // A plainer shell takes these for commands.
    case "ArithmeticCommand":
      guesses.add(node.body)
      break
    case "TestCommand":
      guesses.add(text.slice(node.pos + 2, node.end - 2))
      break
    case "Word":
      reads(node.text.length)
      break
    case "ArithmeticExpansion":
      reads(node.text.length)
      if (node.text.startsWith("$[")) guesses.add(node.text.slice(2, -1))
      break
    case "AnsiCQuoted":
      if (node.text.includes("\\'")) problems.push("shells differ about where $'…\\'…' ends")
      break
    case "CommandExpansion":
    case "ProcessSubstitution":
      if (node.script === undefined) problems.push("a substitution could not be read")
      break
    case "Assignment":
      if (node.index !== undefined) kinds.add("index")
      if (/\$\(|`/u.test(node.index?.text ?? "")) problems.push("a command inside an index")
      if (/\$\(|`/u.test(literalOf(node))) problems.push("a command inside a text that a variable gets")
      break
  }
  unbash.forEachChild(node, (child) => visit(unbash, child, text, changes, findings))
}

const errorsOf = (script: ParsedScript | Extract<SyntaxNode, { readonly type: "Script" }>): ReadonlyArray<ParseError> =>
  "errors" in script ? (script.errors ?? []) : []

const simpleCommand = ({ name, prefix, suffix }: Command, altered: boolean): SimpleCommand => {
  const words = [...(name === undefined ? [] : [name]), ...suffix].flatMap((part) =>
    part.type === "Word" ? [wordOf(part)] : part.type === "Assignment" ? [argumentOf(part)] : [],
  )
  const writesFile = altered || [...prefix, ...suffix].some((part) => part.type !== "Assignment" && part.type !== "Word" && writes(part))
  const variables = prefix.flatMap((part) => (part.type === "Assignment" ? [part.name] : []))
  if (!writesFile && variables.length === 0) return { words }
  return { words, altered: true, ...(writesFile ? {} : { variables }) }
}

/** Anything but copying a stream, throwing output away, or a text as input. */
const writes = (redirection: Redirection): boolean => {
  if (redirection.type !== "Redirect") return false
  const target = redirection.target?.value ?? ""
  const isCopy = (redirection.operator === ">&" || redirection.operator === "<&") && /^(\d+|-)$/u.test(target)
  return !isCopy && target !== "/dev/null"
}

/** `NAME=VALUE` as an argument, as `export` and `alias` take it. */
const argumentOf = ({ append, name, value }: Assignment): CommandWord => {
  const start = `${name}${append === true ? "+" : ""}=`
  if (value.type !== "Word") return { prefix: start, suffix: "", one: false }
  const word = wordOf(value)
  return typeof word === "string" ? start + word : { ...word, prefix: start + word.prefix }
}

/** The text of a value as far as it is written down, quotes taken off. */
const literalOf = ({ value }: Assignment): string =>
  value.type === "Word"
    ? (value.parts ?? [])
        .map((part) =>
          part.type === "SingleQuoted" || part.type === "AnsiCQuoted" || part.type === "Literal"
            ? part.value
            : part.type === "DoubleQuoted"
              ? part.parts.map((inner) => (inner.type === "Literal" ? inner.value : "")).join("")
              : "",
        )
        .join("")
    : ""

/** Parts of a word: a text, a pattern (`split` false) or an expansion that may become several words (`split` true). */
type Piece = string | { readonly split: boolean; readonly many: boolean }

const wordOf = (word: Word): CommandWord => {
  if (word.parts === undefined) return word.value
  const pieces = word.parts.flatMap(piecesOf)
  const open = pieces.filter((piece) => typeof piece !== "string")
  if (open.length === 0) return pieces.join("")
  if (open.some(({ split }) => split)) return { prefix: "", suffix: "", one: false }
  const known = (some: ReadonlyArray<Piece>): string => {
    const end = some.findIndex((piece) => typeof piece !== "string")
    return some.slice(0, end).join("")
  }
  const suffix = known([...pieces].reverse().map((piece) => (typeof piece === "string" ? [...piece].reverse().join("") : piece)))
  return { prefix: known(pieces), suffix: [...suffix].reverse().join(""), one: !open.some(({ many }) => many) }
}

const piecesOf = (part: WordPart): ReadonlyArray<Piece> => {
  switch (part.type) {
    case "Literal":
    case "SingleQuoted":
    case "AnsiCQuoted":
      return [part.value]
    case "DoubleQuoted":
    case "LocaleString":
      return part.parts.map(quotedPiece)
    case "Glob":
    case "ExtendedGlob":
    case "BraceExpansion":
      return [{ split: false, many: true }]
    case "ProcessSubstitution":
      return [{ split: false, many: false }]
    default:
      return [{ split: true, many: true }]
  }
}

/** Inside quotes an expansion is part of one word, but for those that stand for all arguments. */
const quotedPiece = (part: DoubleQuotedChild): Piece => {
  if (part.type === "Literal") return part.value
  const isAll = part.type !== "CommandExpansion" && part.type !== "ArithmeticExpansion" && part.text.includes("@")
  return { split: isAll, many: isAll }
}

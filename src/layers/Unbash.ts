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
  try {
    read(unbash, text, { commands, problems, guessed: false, depth: 0 })
  } catch {
    problems.push("it is nested too deep")
  }
  const [problem] = problems
  return problem === undefined ? { commands } : { commands, problem: `a script that is not fully understood: ${problem}` }
}

interface Findings {
  readonly commands: Array<SimpleCommand>
  readonly problems: Array<string>
  readonly guessed: boolean
  readonly depth: number
}

const read = (unbash: Unbash, text: string, findings: Findings): void => {
  const script = unbash.parse(text)
  visit(unbash, script, text, false, findings)
}

const visit = (unbash: Unbash, node: SyntaxNode, source: string, altered: boolean, findings: Findings): void => {
  const { commands, guessed, problems } = findings
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
      guess(unbash, node.body, findings)
      break
    case "TestCommand":
      guess(unbash, text.slice(node.pos + 2, node.end - 2), findings)
      break
    case "ArithmeticExpansion":
      if (node.text.startsWith("$[")) guess(unbash, node.text.slice(2, -1), findings)
      break
    case "AnsiCQuoted":
      if (node.text.includes("\\'")) problems.push("shells differ about where $'…\\'…' ends")
      break
    case "CommandExpansion":
    case "ProcessSubstitution":
      if (node.script === undefined) problems.push("a substitution could not be read")
      break
    case "Assignment":
      if (/\$\(|`/u.test(literalOf(node))) problems.push("a command inside a text that a variable gets")
      break
  }
  unbash.forEachChild(node, (child) => visit(unbash, child, text, changes, findings))
}

const errorsOf = (script: ParsedScript | Extract<SyntaxNode, { readonly type: "Script" }>): ReadonlyArray<ParseError> =>
  "errors" in script ? (script.errors ?? []) : []

/** What another shell may run where bash computes. A text that no shell could run adds nothing. */
const guess = (unbash: Unbash, text: string, { commands, depth, problems }: Findings): void => {
  const found: Array<SimpleCommand> = []
  const unclear: Array<string> = []
  if (depth > 3) problems.push("arithmetic is nested too deep")
  else read(unbash, text, { commands: found, problems: unclear, guessed: true, depth: depth + 1 })
  commands.push(...found)
}

const simpleCommand = ({ name, prefix, suffix }: Command, altered: boolean): SimpleCommand => {
  const words = [...(name === undefined ? [] : [name]), ...suffix].flatMap((part) =>
    part.type === "Word" ? [wordOf(part)] : part.type === "Assignment" ? [argumentOf(part)] : [],
  )
  const changes =
    altered ||
    [...prefix, ...suffix].some((part) => (part.type === "Assignment" ? prefix.includes(part) : part.type !== "Word" && writes(part)))
  return { words, ...(changes ? { altered: true } : {}) }
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

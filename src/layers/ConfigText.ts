/** The text of a configuration file: JSON with comments and trailing commas, to the value it stands for. */
import { Result } from "effect"
import { getNodeValue, type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser"
import type { ConfigProblem } from "../schema/ConfigProblem.ts"

/** Parses the text. Problems name line and column; a name that stands twice in one object is a problem too. */
export const parseConfig = (text: string): Result.Result<unknown, ReadonlyArray<ConfigProblem>> => {
  const errors: Array<ParseError> = []
  const plain = text.replace(/^\uFEFF/u, "")
  const tree = parseTree(plain, errors, { allowTrailingComma: true })
  const [first] = errors
  // After the first error the parser guesses, so what it finds later confuses.
  if (first !== undefined) return Result.fail([{ at: placeOf(plain, first.offset), problem: words(printParseErrorCode(first.error)) }])
  if (tree === undefined) return Result.fail([{ at: placeOf(plain, 0), problem: "the file is empty" }])
  const repeated = repeatedNames(tree).map((key) => ({
    at: placeOf(plain, key.offset),
    problem: `"${key.value}" stands twice in one object`,
  }))
  return repeated.length > 0 ? Result.fail(repeated) : Result.succeed(getNodeValue(tree))
}

const placeOf = (text: string, offset: number): string => {
  const lines = text.slice(0, offset).split(/\r\n|\n|\r/u)
  return `line ${lines.length}, column ${(lines.at(-1) ?? "").length + 1}`
}

/** `CommaExpected` as `comma expected`. */
const words = (code: string): string => code.replace(/(?<=[a-z])(?=[A-Z])/gu, " ").toLowerCase()

const repeatedNames = (node: Node): ReadonlyArray<Node> => {
  const children = node.children ?? []
  const below = children.flatMap(repeatedNames)
  if (node.type !== "object") return below
  const names = children.flatMap(({ children: [name] = [] }) => name ?? [])
  return [...names.filter((name, place) => names.findIndex(({ value }) => value === name.value) < place), ...below]
}

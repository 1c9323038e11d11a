/**
 * Takes what a call would run apart into simple commands: those of a script, and those that a command runs by its
 * arguments, at any depth. What it cannot follow it says; it runs nothing, and looks at nothing but the words.
 */
import { Context, Effect, Layer } from "effect"
import type { Execution, SimpleCommand } from "../schema/Policy.ts"
import { ANY } from "./CommandRules.ts"
import { launchedBy } from "./Launchers.ts"
import { ShellParser, type ShellText } from "./ShellParser.ts"

/** Commands and words looked at in one call, and how deep commands run each other; what is beyond is not understood. */
const MOST_COMMANDS = 5000
const MOST_WORDS = 200_000
const DEEPEST = 12

export class CommandReader extends Context.Service<
  CommandReader,
  {
    /** The same execution with the commands in it. */
    readonly read: (execution: Execution) => Effect.Effect<Execution>
  }
>()("codespace/services/CommandReader") {
  static readonly layer = Layer.effect(
    CommandReader,
    Effect.gen(function* () {
      const parser = yield* ShellParser
      return CommandReader.of({
        read: Effect.fn("CommandReader.read")(function* ({ line }: Execution) {
          const parse = yield* parser.load
          const commands = "argv" in line ? fromWords({ words: line.argv }, parse) : fromText(line.script, parse)
          return { line, commands }
        }),
      })
    }),
  )
}

type Parse = (text: string) => ShellText

const fromWords = (command: SimpleCommand, parse: Parse) => collect(parse, (found) => addCommand(command, found, 0))

const fromText = (text: string, parse: Parse) => collect(parse, (found) => addText(text, found, {}, 0))

/** What was found, and what still may be. */
interface Collection {
  readonly parse: Parse
  readonly add: (command: SimpleCommand) => void
  readonly isFull: () => boolean
}

const collect = (parse: Parse, fill: (found: Collection) => void): ReadonlyArray<SimpleCommand> => {
  const commands: Array<SimpleCommand> = []
  let words = 0
  const isFull = (): boolean => commands.length >= MOST_COMMANDS || words > MOST_WORDS
  const add = (command: SimpleCommand): void => {
    words += command.words.length
    commands.push(command)
  }
  fill({ parse, add, isFull })
  return isFull() ? [...commands, opaque("more commands than are looked at")] : commands
}

/** Anything at all. */
const opaque = (unseen: string): SimpleCommand => ({ words: [ANY], unseen })

/** What holds for all commands of a text. */
type Around = Pick<SimpleCommand, "altered" | "guessed">

const addText = (text: string, found: Collection, outer: Around, depth: number): void => {
  if (found.isFull()) return
  const { commands, problem } = found.parse(text)
  for (const command of commands) addCommand({ ...command, ...outer }, found, depth)
  if (problem !== undefined) found.add(opaque(problem))
}

const addCommand = (command: SimpleCommand, found: Collection, depth: number): void => {
  if (found.isFull()) return
  const launched = launchedBy(command.words)
  if (depth > DEEPEST && launched.length > 0) {
    found.add(opaque("commands that run each other too deep"))
    return
  }
  const unseen = launched.find((one) => one._tag === "unseen")
  const carries = command.altered !== true && launched.length === 1 && launched.every((one) => one._tag === "text" && one.alone)
  found.add({ ...command, ...(unseen === undefined ? {} : { unseen: unseen.what }), ...(carries ? { carries } : {}) })
  for (const one of launched) {
    if (one._tag === "command") addCommand({ words: one.words, ...around(command, one.guessed) }, found, depth + 1)
    if (one._tag === "text") addText(one.text, found, around(command, false), depth + 1)
  }
}

/** What holds for a command holds for those it runs. */
const around = ({ altered, guessed }: SimpleCommand, isGuessed: boolean): Around => ({
  ...(altered === true ? { altered } : {}),
  ...(guessed === true || isGuessed ? { guessed: true } : {}),
})

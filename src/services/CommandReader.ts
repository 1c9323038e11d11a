/**
 * Takes what a call would run apart into simple commands: those of a script, and those that a command runs by its
 * arguments, at any depth. What it cannot follow it says; it runs nothing, and looks at nothing but the words.
 */
import { Context, Effect, Layer } from "effect"
import type { Execution, SimpleCommand } from "../schema/Policy.ts"
import { ANY } from "./CommandRules.ts"
import { launchedBy } from "./Launchers.ts"
import { ShellParser, type ShellText } from "./ShellParser.ts"

/** Commands looked at in one call, and how deep commands run each other; what is beyond is not understood. */
const MOST_COMMANDS = 5000
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

const fromWords = (command: SimpleCommand, parse: Parse) => collect((add) => addCommand(command, parse, add, 0))

const fromText = (text: string, parse: Parse) => collect((add) => addText(text, parse, add, 0))

/** Takes a command in; says whether there was room for it. */
type Add = (command: SimpleCommand) => boolean

const collect = (fill: (add: Add) => void): ReadonlyArray<SimpleCommand> => {
  const commands: Array<SimpleCommand> = []
  fill((command) => {
    if (commands.length >= MOST_COMMANDS) return false
    commands.push(commands.length === MOST_COMMANDS - 1 ? opaque("more commands than are looked at") : command)
    return true
  })
  return commands
}

/** Anything at all. */
const opaque = (unseen: string): SimpleCommand => ({ words: [ANY], unseen })

const addText = (text: string, parse: Parse, add: Add, depth: number): boolean => {
  const { commands, problem } = parse(text)
  for (const command of commands) addCommand(command, parse, add, depth)
  if (problem !== undefined) add(opaque(problem))
  return problem === undefined
}

const addCommand = (command: SimpleCommand, parse: Parse, add: Add, depth: number): void => {
  const launched = launchedBy(command.words)
  if (depth > DEEPEST && launched.length > 0) {
    add(opaque("commands that run each other too deep"))
    return
  }
  const unseen = launched.find((one) => one._tag === "unseen")
  const carries = command.altered !== true && launched.length === 1 && launched.every((one) => one._tag === "text" && one.alone)
  if (!add({ ...command, ...(unseen === undefined ? {} : { unseen: unseen.what }), ...(carries ? { carries } : {}) })) return
  for (const one of launched) {
    if (one._tag === "command") addCommand({ words: one.words, ...around(command, one.guessed) }, parse, add, depth + 1)
    if (one._tag === "text") addText(one.text, parse, (inner) => add({ ...inner, ...around(command, inner.guessed === true) }), depth + 1)
  }
}

/** What holds for a command holds for those it runs. */
const around = ({ altered, guessed }: SimpleCommand, isGuessed: boolean) => ({
  ...(altered === true ? { altered } : {}),
  ...(guessed === true || isGuessed ? { guessed: true } : {}),
})

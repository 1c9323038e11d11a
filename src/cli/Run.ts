/** From the words of the command line to the command that was meant, and from how it ended to an exit code. */
import { Effect, type Scope } from "effect"
import { version } from "./Built.ts"
import { type Command, type Commands, type Entry, type Failure, parseFor, UsageError } from "./Command.ts"
import { log, print } from "./Output.ts"

/** What somebody asked for: a command with the words after its name, or only a list of commands. */
type Found =
  | { readonly path: string; readonly summary: string; readonly command: Command; readonly rest: ReadonlyArray<string> }
  | { readonly path: string; readonly summary: string; readonly list: Commands; readonly rest: ReadonlyArray<string> }

/**
 * Runs a command line. Its exit code is the command's, 2 with the reason on stderr for a wrong command line, and 1 with
 * the message for any other failure.
 */
export const run = (commands: Commands, argv: ReadonlyArray<string>): Effect.Effect<number, never, Scope.Scope> =>
  Effect.suspend(() => {
    const reached = { path: "codespace" }
    return Effect.catch(dispatch(commands, argv, reached), (failure) =>
      Effect.sync(() => {
        log(`codespace: ${failure.message}`)
        if (failure._tag !== "UsageError") return 1
        log(`Run "${reached.path} --help" for what there is.`)
        return 2
      }),
    )
  })

const asksVersion = new Set(["--version", "-v", "-V", "version"])
const asksForHelp = (word: string): boolean => word === "--help" || word === "-h"

/** `reached` is told how far the names of commands led. */
const dispatch = Effect.fnUntraced(function* (commands: Commands, argv: ReadonlyArray<string>, reached: { path: string }) {
  if (asksVersion.has(argv[0] ?? "")) return yield* Effect.as(print(`${version}\n`), 0)
  const rest = argv[0] === "help" ? [...argv.slice(1), "--help"] : argv
  const found = yield* find({ path: "codespace", summary: "", list: commands, rest }, reached)
  const asksHelp = wordsBeforeDashes(found.rest).some(asksForHelp)
  if ("list" in found || asksHelp)
    return yield* Effect.as(
      Effect.flatMap(
        Effect.promise(() => helpText(found)),
        print,
      ),
      0,
    )
  return yield* Effect.flatMap(
    Effect.fromResult(parseFor(found.command, found.rest)),
    (asked): Effect.Effect<number, Failure, Scope.Scope> => found.command.run(asked),
  )
})

/** Follows the names of commands as far as they go. */
const find = Effect.fnUntraced(function* (
  from: Found & { readonly list: Commands },
  reached: { path: string },
): Effect.fn.Return<Found, UsageError> {
  let at = from
  for (;;) {
    const [name, ...rest] = at.rest
    if (name === undefined || asksForHelp(name)) return at
    const entry: Entry | undefined = Object.hasOwn(at.list.commands, name) ? at.list.commands[name] : undefined
    if (entry === undefined) return yield* new UsageError({ message: whyUnknown(name, at.list) })
    const loaded = yield* Effect.promise(async () => entry.load())
    const path = `${at.path} ${name}`
    reached.path = path
    if (!("commands" in loaded)) return { path, summary: entry.summary, command: loaded, rest }
    at = { path, summary: entry.summary, list: loaded, rest }
  }
})

const whyUnknown = (name: string, { commands }: Commands): string =>
  name.startsWith("-")
    ? `option ${name} stands before the command; options go after it`
    : `unknown command "${name}"; known are ${Object.keys(commands).join(", ")}`

const wordsBeforeDashes = (words: ReadonlyArray<string>) => words.slice(0, words.includes("--") ? words.indexOf("--") : words.length)

const helpText = async (found: Found): Promise<string> => {
  const { helpOf, helpOfList } = await import("./Help.ts")
  if ("command" in found) return helpOf(found.path, found.summary, found.command)
  return helpOfList(
    found.path,
    found.summary === "" ? `codespace ${version}: the execution layer for agent loops` : `${found.path}: ${found.summary}`,
    found.list,
  )
}

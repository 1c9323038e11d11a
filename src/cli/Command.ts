/**
 * What a command is, and how its arguments are read. A command says once what it takes: its help, the refusal of what it
 * does not take, and shell completions are made from that.
 */
import { parseArgs } from "node:util"
import { Data, type Effect, Result, type Scope } from "effect"

/** An option with `value` takes one, shown in help under that name (`FILE` and `DIR` complete to paths); one without is a switch. */
export interface Option {
  readonly summary: string
  readonly value?: string
  /** May be given several times. */
  readonly many?: true
}
export type Options = Readonly<Record<string, Option>>

type Value<O extends Option> = O extends { readonly value: string }
  ? O extends { readonly many: true }
    ? ReadonlyArray<string>
    : string
  : true

export interface Asked<O extends Options = Options> {
  readonly args: ReadonlyArray<string>
  readonly options: { readonly [K in keyof O]?: Value<O[K]> }
}

/** Anything a command fails with: the message is printed, and the exit code is 1, or 2 where the command line was wrong. */
export interface Failure {
  readonly _tag: string
  readonly message: string
}

export interface Command<O extends Options = Options> {
  /** The arguments by name: `DIR` must be there, `[DIR]` may, `[DIR...]` may be there several times. */
  readonly args?: string
  /** What a person should know besides, for `--help`. */
  readonly details?: string
  readonly options: O
  /** Does it, in a scope that closes afterwards, and gives the exit code. */
  readonly run: (asked: Asked<O>) => Effect.Effect<number, Failure, Scope.Scope>
}

/** A name in a list of commands: a line about it, and the command, or commands under this name (`codespace token create`). */
export interface Entry {
  readonly summary: string
  readonly load: () => Command | Commands | Promise<Command | Commands>
}
export interface Commands {
  readonly commands: Readonly<Record<string, Entry>>
}

/** Checks a command's options against what it reads of them. */
export const command = <const O extends Options>(given: Command<O>): Command => given as unknown as Command

export class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

/** Options that several commands take, under the same name and meaning. */
export const configOption = {
  config: { value: "FILE", summary: "configuration file (default: $CODESPACE_CONFIG, then $XDG_CONFIG_HOME/codespace/config.json)" },
} as const
/** With it a command prints one JSON document on stdout, and nothing else there. */
export const jsonOption = { json: { summary: "print one JSON document instead of text" } } as const

/** Reads the arguments after a command's name. What it does not take is refused by name. */
export const parseFor = (given: Command, argv: ReadonlyArray<string>): Result.Result<Asked, UsageError> =>
  Result.try({
    try: () => {
      const { positionals, values } = parseArgs({ args: [...argv], options: nodeOptions(given.options), allowPositionals: true })
      const { most, least } = countOf(given.args)
      if (positionals.length > most) throw new Error(`unexpected argument "${positionals[most]}"`)
      if (positionals.length < least) throw new Error(`missing: ${given.args}`)
      return { args: positionals, options: values as Asked["options"] }
    },
    catch: (cause) => new UsageError({ message: reasonOf(cause, given.options) }),
  })

const nodeOptions = (options: Options) =>
  Object.fromEntries(
    Object.entries(options).map(([name, { many, value }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: many ?? false },
    ]),
  )

const countOf = (args = ""): { readonly least: number; readonly most: number } => {
  const names = args.split(" ").filter((name) => name !== "")
  const least = names.filter((name) => !name.startsWith("[")).length
  return { least, most: names.some((name) => name.includes("...")) ? Number.POSITIVE_INFINITY : names.length }
}

/** Node's message; of an option that does not exist only its name, and those there are. */
const reasonOf = (cause: unknown, options: Options): string => {
  if (!(cause instanceof Error)) return String(cause)
  const unknown = /^Unknown option '([^']*)'/u.exec(cause.message)
  const known = [...Object.keys(options), "help"].map((name) => `--${name}`).join(", ")
  return unknown === null ? cause.message : `unknown option ${unknown[1]}; known are ${known}`
}

/** The texts of `--help`, made from what commands say of themselves. */
import type { Command, Commands, Options } from "./Command.ts"

/** The help of a list of commands; `path` is how one gets there, such as `codespace token`. */
export const helpOfList = (path: string, intro: string, { commands }: Commands): string =>
  [
    intro,
    "",
    ...columns(Object.entries(commands).map(([name, { summary }]) => [`${path} ${name}`, summary])),
    "",
    `Run "${path} COMMAND --help" for what a command takes.`,
    "",
  ].join("\n")

export const helpOf = (path: string, summary: string, { args, details, options }: Command): string =>
  [
    `${path}: ${summary}`,
    "",
    `  ${[path, args ?? "", "[options]"].filter((part) => part !== "").join(" ")}`,
    ...(details === undefined ? [] : ["", details]),
    "",
    ...columns(optionRows({ ...options, help: { summary: "this text" } })),
    "",
  ].join("\n")

const optionRows = (options: Options): ReadonlyArray<readonly [string, string]> =>
  Object.entries(options).map(([name, { summary, value }]) => [value === undefined ? `--${name}` : `--${name} ${value}`, summary])

const columns = (rows: ReadonlyArray<readonly [string, string]>): ReadonlyArray<string> => {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}

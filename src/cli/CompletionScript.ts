/** Scripts that complete command lines in a shell, made from what commands say of themselves. */
import type { Command, Commands } from "./Command.ts"

/** Something that can be typed so far, and what may follow. */
interface Place {
  /** `codespace`, `codespace token`, `codespace token create`. */
  readonly path: string
  readonly next: ReadonlyArray<readonly [word: string, summary: string]>
  readonly takesPaths: boolean
}

interface Grammar {
  readonly places: ReadonlyArray<Place>
  /** Options that take a path, and those that take another value. */
  readonly withPath: ReadonlyArray<string>
  readonly withValue: ReadonlyArray<string>
}

const isPath = (name = ""): boolean => /\b(FILE|DIR)\b/u.test(name)

/** Loads every command to see what it takes. */
const grammarOf = async (root: Commands): Promise<Grammar> => {
  const places: Array<Place> = []
  const withPath = new Set<string>()
  const withValue = new Set<string>()
  const add = async (path: string, found: Command | Commands): Promise<void> => {
    if (!("commands" in found)) {
      for (const [name, { value }] of Object.entries(found.options))
        if (value !== undefined) (isPath(value) ? withPath : withValue).add(`--${name}`)
      const options = Object.entries(found.options).map(([name, { summary }]) => [`--${name}`, summary] as const)
      places.push({ path, next: [...options, helpWord], takesPaths: isPath(found.args) })
      return
    }
    const entries = Object.entries(found.commands)
    places.push({ path, next: [...entries.map(([name, { summary }]) => [name, summary] as const), helpWord], takesPaths: false })
    for (const [name, { load }] of entries) await add(`${path} ${name}`, await load())
  }
  await add("codespace", root)
  return { places, withPath: [...withPath], withValue: [...withValue] }
}

const helpWord = ["--help", "explain this"] as const

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
const oneOf = (words: ReadonlyArray<string>): string => (words.length === 0 ? "''" : words.map(quoted).join("|"))

/** Follows the words before the cursor as far as they are commands; bash and zsh say it alike. */
const walk = ({ places }: Grammar, words: string, from: number): ReadonlyArray<string> => [
  "  local place=codespace i",
  `  for ((i = ${from}; i < ${words === "words" ? "CURRENT" : "COMP_CWORD"}; i++)); do`,
  `    case "$place \${${words}[i]}" in`,
  `      ${oneOf(places.slice(1).map(({ path }) => path))}) place="$place \${${words}[i]}" ;;`,
  "    esac",
  "  done",
]

const bash = (grammar: Grammar): ReadonlyArray<string> => [
  "_codespace() {",
  `  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" next= paths=`,
  ...walk(grammar, "COMP_WORDS", 1),
  '  case "$before" in',
  `    ${oneOf(grammar.withPath)}) COMPREPLY=($(compgen -f -- "$current")); return ;;`,
  `    ${oneOf(grammar.withValue)}) COMPREPLY=(); return ;;`,
  "  esac",
  '  case "$place" in',
  ...grammar.places.map(
    ({ next, path, takesPaths }) =>
      `    ${quoted(path)}) next=${quoted(next.map(([word]) => word).join(" "))}${takesPaths ? " paths=-d" : ""} ;;`,
  ),
  "  esac",
  '  COMPREPLY=($(compgen $paths -W "$next" -- "$current"))',
  "}",
  "complete -o filenames -F _codespace codespace",
]

const zsh = (grammar: Grammar): ReadonlyArray<string> => [
  "#compdef codespace",
  "_codespace() {",
  ...walk(grammar, "words", 2),
  `  case "\${words[CURRENT - 1]}" in`,
  `    ${oneOf(grammar.withPath)}) _files; return ;;`,
  `    ${oneOf(grammar.withValue)}) return ;;`,
  "  esac",
  "  local -a next",
  '  case "$place" in',
  ...grammar.places.map(({ next, path, takesPaths }) => {
    const items = next.map(([word, summary]) => quoted(`${word}:${summary}`)).join(" ")
    return `    ${quoted(path)}) next=(${items})${takesPaths ? "; _files -/" : ""} ;;`
  }),
  "  esac",
  "  _describe codespace next",
  "}",
  // Loaded by compinit from a file, or read with source.
  'if [ "$funcstack[1]" = "_codespace" ]; then _codespace "$@"; else compdef _codespace codespace; fi',
]

const fish = ({ places, withPath, withValue }: Grammar): ReadonlyArray<string> => [
  "function __codespace_at",
  "  set -l place codespace",
  "  for word in (commandline -opc)[2..]",
  `    if contains -- "$place $word" ${places
    .slice(1)
    .map(({ path }) => quoted(path))
    .join(" ")}`,
  '      set place "$place $word"',
  "    end",
  "  end",
  '  test "$place" = "$argv"',
  "end",
  "complete -c codespace -f",
  ...places.flatMap(({ next, path, takesPaths }) => [
    ...next.map(([word, summary]) => {
      const at = `complete -c codespace -n ${quoted(`__codespace_at ${path}`)}`
      if (!word.startsWith("--")) return `${at} -a ${quoted(word)} -d ${quoted(summary)}`
      const value = withPath.includes(word) ? " -rF" : withValue.includes(word) ? " -x" : ""
      return `${at} -l ${quoted(word.slice(2))} -d ${quoted(summary)}${value}`
    }),
    ...(takesPaths ? [`complete -c codespace -n ${quoted(`__codespace_at ${path}`)} -a '(__fish_complete_directories)'`] : []),
  ]),
]

export const shells = { bash, zsh, fish } as const
export type Shell = keyof typeof shells

export const completionScript = async (shell: Shell, commands: Commands): Promise<string> =>
  `${shells[shell](await grammarOf(commands)).join("\n")}\n`

/**
 * Programs that run what their arguments say: another command, a text for a shell, code in a language of its own. For a
 * command it gives what that would run, as far as its words tell. What no line here knows is a program like any other.
 * Pure.
 */
import type { CommandWord, UnknownWords } from "../schema/Policy.ts"
import { ANY } from "./CommandRules.ts"

export type Launched =
  /** Another command; `guessed` where it cannot be told whether it begins there. */
  | { readonly _tag: "command"; readonly words: ReadonlyArray<CommandWord>; readonly guessed: boolean }
  /** A text that a shell reads; `alone` where nothing else happens. */
  | { readonly _tag: "text"; readonly text: string; readonly alone: boolean }
  /** Something that cannot be seen from here. */
  | { readonly _tag: "unseen"; readonly what: string }

type Words = ReadonlyArray<CommandWord>

/** What the command made of these words runs beside itself. */
export const launchedBy = (words: Words): ReadonlyArray<Launched> => {
  const [program, ...rest] = words
  if (typeof program !== "string") return []
  const name = baseName(program)
  return [...(readers.find(({ names }) => names.test(name))?.read(rest, name) ?? []), ...evaluated(name, rest)]
}

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1).toLowerCase()

interface Reader {
  readonly names: RegExp
  readonly read: (rest: Words, name: string) => ReadonlyArray<Launched>
}

/** How a program takes the words in front of what it runs. */
interface Front {
  /** Letters of options without a value, as one text, and long options without one. */
  readonly flags?: string
  readonly long?: ReadonlyArray<string>
  /** Letters of options whose value is the next word, unless it hangs on them. */
  readonly valued?: string
  /** Operands before the command. */
  readonly operands?: number
  /** NAME=VALUE words may stand before it. */
  readonly assigns?: boolean
  /** How it takes its words is not written down here: the command may begin at any of them. */
  readonly anywhere?: boolean
}

interface Opening {
  readonly options: ReadonlyArray<string>
  /** Place of the first word that is no option. */
  readonly next: number
  /** Whether every word before it was understood. */
  readonly isSure: boolean
}

/** Reads options up to the first word that is none. */
const opening = (words: Words, { flags = "", long = [], valued = "" }: Front): Opening => {
  const options: Array<string> = []
  let isSure = true
  let at = 0
  for (; at < words.length; at++) {
    const word = words[at]
    if (typeof word !== "string") {
      if (word === undefined || !couldBeOption(word)) break
      // An option, or already what follows.
      return { options, next: at, isSure: false }
    }
    if (word === "--") return { options, next: at + 1, isSure }
    if (!/^[-+]./u.test(word)) break
    options.push(word)
    if (word.startsWith("--")) isSure &&= word.includes("=") || long.includes(word)
    else {
      const letters = [...word.slice(1)]
      const place = letters.findIndex((letter) => valued.includes(letter))
      if (place === letters.length - 1) at++
      isSure &&= (place === -1 ? letters : letters.slice(0, place)).every((letter) => flags.includes(letter))
    }
  }
  return { options, next: at, isSure }
}

const couldBeOption = ({ one, prefix }: UnknownWords): boolean => !one || prefix === "" || prefix.startsWith("-")

const isAssignment = (word: CommandWord | undefined): boolean =>
  /^[A-Za-z_][A-Za-z0-9_]*\+?=/u.test(typeof word === "object" && word.one ? word.prefix : typeof word === "string" ? word : "")

/** The command behind options and operands; and every later place it may begin at, where options are not known. */
const wrapped = (words: Words, front: Front, change: (words: Words) => Words = (same) => same): ReadonlyArray<Launched> => {
  const { isSure, next } = opening(words, front)
  let start = next
  while (front.assigns === true && isAssignment(words[start])) start++
  start += front.operands ?? 0
  const before = words.slice(0, start)
  const isCertain = isSure && front.anywhere !== true && before.every((word) => typeof word === "string" || word.one)
  const commands = (from: number, guessed: boolean): ReadonlyArray<Launched> =>
    from < words.length ? [{ _tag: "command", words: change(words.slice(from)), guessed }] : []
  if (isCertain) return commands(start, false)
  const places = words.flatMap((word, at) => (typeof word === "string" && isDash(word) ? [] : [at])).slice(0, LONGEST_GUESS)
  const missed = words.length > LONGEST_GUESS ? [unseen("a command behind many arguments")] : []
  return [...places.flatMap((at) => commands(at, true)), ...missed]
}

/** Places that are tried in one command; nobody writes more before a command. */
const LONGEST_GUESS = 40

const isDash = (word: string): boolean => word.startsWith("-")

const unseen = (what: string): Launched => ({ _tag: "unseen", what })

const text = (word: CommandWord | undefined, what: string, alone: boolean): Launched =>
  typeof word === "string" ? { _tag: "text", text: word, alone } : unseen(what)

/** Words that a program joins to one text before a shell reads it. */
const joined = (words: Words, what: string): Launched =>
  words.every((word) => typeof word === "string") ? { _tag: "text", text: words.join(" "), alone: false } : unseen(what)

const wrap = (names: RegExp, front: Front): Reader => ({ names, read: (rest) => wrapped(rest, front) })
const hidden = (names: RegExp): Reader => ({ names, read: (_rest, name) => [unseen(`what ${name} runs`)] })

/** `sh`, `sh FILE` and `sh -c TEXT`. A file is a program like others; what comes over its input is not seen. */
const shell: Reader["read"] = (rest, name) => {
  const { isSure, next, options } = opening(rest, { flags: "abcefhiklmnpqrstuvxBCDEHPT", valued: "oO", long: shellFlags })
  const takesText = options.some((option) => /^-[A-Za-z]*c/u.test(option))
  const operand = rest[next]
  const isOther = /^(fish|t?csh|pwsh|powershell)$/u.test(name)
  const doubt = isSure && !isOther && name !== "zsh" ? [] : [unseen(`what ${name} makes of its arguments`)]
  if (takesText) return [...doubt, text(operand, `a text for ${name} that is not known before it runs`, doubt.length === 0)]
  const isFile = typeof operand === "string" && operand !== "-" && !operand.startsWith("/dev/")
  const isSilent = operand === undefined && options.some((option) => /^--(version|help)$/u.test(option))
  if (isSilent || (isFile && !options.some((option) => /^-[A-Za-z]*s/u.test(option)))) return doubt
  return [...doubt, unseen(`commands that ${name} reads from its input`)]
}

const shellFlags = ["--login", "--norc", "--noprofile", "--posix", "--restricted", "--verbose", "--version", "--help", "--noediting"]

/** `su -c TEXT` and others with the text behind an option; without it they read one, or run a command. */
const textOption =
  (otherwise: (rest: Words, name: string) => ReadonlyArray<Launched>): Reader["read"] =>
  (rest, name) => {
    const place = rest.findIndex((word) => typeof word === "string" && /^(-[A-Za-z]*c|--command|--session-command)$/u.test(word))
    const attached = rest.find((word) => typeof word === "string" && /^--(session-)?command=/u.test(word))
    if (place === -1 && attached === undefined) return otherwise(rest, name)
    const given = typeof attached === "string" ? attached.slice(attached.indexOf("=") + 1) : rest[place + 1]
    // It may as well be an option of a command that begins before it.
    const commands = otherwise(rest, name).filter(({ _tag }) => _tag === "command")
    return [text(given, `a text for ${name} that is not known before it runs`, false), ...commands]
  }

/** An interpreter: code in an argument, or on its input, cannot be seen; a file is a program like others. */
const interpreter = (names: RegExp, code: RegExp, front: Front = {}): Reader => ({
  names,
  read: (rest, name) => {
    const { isSure, next, options } = opening(rest, front)
    const looked = isSure ? options : rest.filter((word) => typeof word === "string")
    const operand = rest[next]
    if (looked.some((option) => code.test(option)) || operand === "eval") return [unseen(`code in an argument of ${name}`)]
    if (typeof operand === "object" && couldBeOption(operand)) return [unseen(`an argument of ${name} that may be code`)]
    const isInput = operand === undefined ? !options.some((option) => quiet.test(option)) : operand === "-" || operand === "/dev/stdin"
    return isInput ? [unseen(`code that ${name} reads from its input`)] : []
  },
})

/** Options with which an interpreter without a file reads no code: it tells about itself, or runs a module or tests. */
const quiet = /^(-V|-v|-h|-m|--version|--help|--test)$/u

/** `find … -exec COMMAND ;` and its relatives. */
const find: Reader["read"] = (rest) => {
  const starts = rest.flatMap((word, at) =>
    typeof word === "string" && /^(-(exec|execdir|ok|okdir)|-x|-X|--exec(-batch)?)$/u.test(word) ? [at + 1] : [],
  )
  const isOpen = rest.some((word) => typeof word !== "string" && !word.one) || rest.includes(";") || rest.includes("+")
  const loose = isOpen && rest.some((word) => typeof word !== "string" && couldBeOption(word))
  return [
    ...starts.map((start): Launched => {
      const end = rest.findIndex((word, at) => at >= start && (word === ";" || word === "+"))
      return { _tag: "command", words: filled(rest.slice(start, end === -1 ? undefined : end), "{}"), guessed: false }
    }),
    ...(loose ? [{ _tag: "command", words: [ANY], guessed: true } satisfies Launched] : []),
  ]
}

/** Words in which a place is filled when the command runs. */
const filled = (words: Words, place: string): Words =>
  words.map((word) => {
    if (typeof word !== "string" || !word.includes(place)) return word
    const [prefix = ""] = word.split(place, 1)
    return { prefix, suffix: word.slice(word.lastIndexOf(place) + place.length), one: true }
  })

const xargs: Reader["read"] = (rest) => {
  const { options } = opening(rest, xargsFront)
  if (options.some((option) => /^(-[IiJ]|--replace)/u.test(option)) && !rest.includes("{}") && !options.includes("-I{}"))
    return [...wrapped(rest, xargsFront, (words) => [...words, ANY]), unseen("words that xargs puts into a command")]
  return wrapped(rest, xargsFront, (words) => [...filled(words, "{}"), ANY])
}

const xargsFront: Front = { flags: "0oprtx", valued: "EIJLPRSadns", long: ["--null", "--no-run-if-empty", "--verbose", "--exit"] }

/** A tool that runs programs under one of its own words, as `npm exec` does. */
const under =
  (subcommands: RegExp, read: Reader["read"]): Reader["read"] =>
  (rest, name) => {
    const place = rest.findIndex((word) => typeof word === "string" && subcommands.test(word))
    return place === -1 ? [] : read(rest.slice(place + 1), name)
  }

/** Settings in front of what git does, and some of what it does, name programs to run. */
const git: Reader["read"] = (rest) => {
  const { options } = opening(rest, { flags: "hpPv", valued: "Cc" })
  if (options.some((option) => /^(-c|--config-env|--exec-path=)/u.test(option))) return [unseen("settings of git that can name programs")]
  const runs = rest.some((word) => typeof word === "string" && /^(foreach|run|filter-branch|-x|--exec(=.*)?)$/u.test(word))
  return runs ? [unseen("a command that git runs")] : []
}

/** In awk a program may run commands by `system`, by pipes, and through `getline`. */
const awk: Reader["read"] = (rest) => {
  const { next, options } = opening(rest, { valued: "Fvilb" })
  const program = rest[next]
  const isPlain = typeof program === "string" && !/system|\||@/u.test(program) && !options.some((option) => /^-[fE]|^--/u.test(option))
  return isPlain ? [] : [unseen("a program of awk that can run commands")]
}

const env: Reader["read"] = (rest) =>
  rest.some((word) => typeof word === "string" && /^(-[A-Za-z]*S|--split-string)/u.test(word))
    ? [unseen("a text that env splits into a command")]
    : wrapped(rest, { flags: "i0v", valued: "uCP", long: ["--ignore-environment", "--null", "--debug"], assigns: true })

/** `command -v` only tells where a program is. */
const command: Reader["read"] = (rest) =>
  opening(rest, { flags: "pvV" }).options.some((option) => /[vV]/u.test(option)) ? [] : wrapped(rest, { flags: "pvV" })

const source: Reader["read"] = ([file]) =>
  file === undefined || (typeof file === "string" && !file.startsWith("/dev/"))
    ? []
    : [unseen("a file whose name is not known before it is read")]

const alias: Reader["read"] = (rest) =>
  rest.some((word) => typeof word !== "string" || word.includes("=")) ? [unseen("an alias, which stands for another command")] : []

const anywhere: Front = { anywhere: true }

const readers: ReadonlyArray<Reader> = [
  { names: /^((r|d|b)?ash|sh|bash|zsh|[mpo]?ksh|ksh93|yash|fish|t?csh|pwsh|powershell)$/u, read: shell },
  { names: /^env$/u, read: env },
  wrap(/^sudo$/u, {
    flags: "AbBEeHiKklNnPSsVv",
    valued: "CDghpRrTtuU",
    assigns: true,
    long: ["--non-interactive", "--preserve-env", "--login"],
  }),
  wrap(/^doas$/u, { flags: "Lns", valued: "Cu" }),
  wrap(/^nice$/u, { valued: "n" }),
  wrap(/^ionice$/u, { flags: "t", valued: "cnPpu" }),
  wrap(/^timeout$/u, { flags: "vfp", valued: "ks", operands: 1, long: ["--foreground", "--preserve-status", "--verbose"] }),
  wrap(/^(nohup|setsid|unbuffer|builtin|noglob|nocorrect|coproc|busybox|toybox|bunx|uvx)$/u, { flags: "cfwp" }),
  wrap(/^time$/u, { flags: "apqv", valued: "fo", long: ["--portability", "--verbose"] }),
  wrap(/^stdbuf$/u, { valued: "ioe" }),
  wrap(/^exec$/u, { flags: "cl", valued: "a" }),
  wrap(
    new RegExp(
      `^(${[
        "chroot|chrt|taskset|setarch|linux32|linux64|i386|x86_64|setpriv|unshare|nsenter|strace|ltrace|valgrind|faketime|catchsegv",
        "firejail|bwrap|proot|torsocks|proxychains4?|rlwrap|systemd-run|daemonize|numactl|cpulimit|runcon|start-stop-daemon|perf",
        "hyperfine|entr|xvfb-run|dbus-run-session|fakeroot|eatmydata|choom|prlimit|pkexec|gosu|su-exec|setuidgid|chpst|tini|dumb-init",
        "caffeinate|arch|gdb|lldb|gtimeout|doit|dotenv|cross-env|nodemon|concurrently|reflex|watchexec",
      ].join("|")})$`,
      "u",
    ),
    anywhere,
  ),
  { names: /^command$/u, read: command },
  { names: /^xargs$/u, read: xargs },
  { names: /^(find|gfind|fd|fdfind)$/u, read: find },
  { names: /^eval$/u, read: (rest) => [joined(rest, "a text that is not known before it runs")] },
  { names: /^trap$/u, read: ([action]) => (action === undefined ? [] : [text(action, "a text that a trap runs", false)]) },
  { names: /^(source|\.)$/u, read: source },
  { names: /^alias$/u, read: alias },
  { names: /^su$/u, read: textOption(() => [unseen("commands that su reads from its input")]) },
  { names: /^flock$/u, read: textOption((rest) => wrapped(rest, { flags: "Fenosux", valued: "Ew", operands: 1 })) },
  { names: /^(npx|pnpx)$/u, read: textOption((rest) => wrapped(rest, { flags: "y", valued: "p", long: ["--yes", "--no-install"] })) },
  { names: /^(script|runuser|sg)$/u, read: textOption((rest) => wrapped(rest, anywhere)) },
  {
    names: /^watch$/u,
    read: (rest) => [joined(rest.slice(opening(rest, { flags: "bcdegptx", valued: "nq" }).next), "a text that watch runs")],
  },
  hidden(/^(ssh|parallel|rush|at|batch|tmux|screen|expect|socat|ncat)$/u),
  {
    names: /^(npm|pnpm|yarn)$/u,
    read: under(
      /^(exec|x|dlx)$/u,
      textOption((rest) => wrapped(rest, { flags: "y" })),
    ),
  },
  { names: /^(bundle|bundler|uv|poetry|pipenv|pdm)$/u, read: under(/^(exec|run)$/u, (rest) => wrapped(rest, {})) },
  { names: /^(rye|hatch|conda|mamba|nix|mise|asdf|direnv)$/u, read: under(/^(exec|run|shell)$/u, (rest) => wrapped(rest, anywhere)) },
  { names: /^git$/u, read: git },
  { names: /^[gmn]?awk$/u, read: awk },
  interpreter(/^(python|pypy)[\d.]*$/u, /^-[A-Za-z]*c/u, { flags: "bBdEhiIOPqsSuvVx?", valued: "WXm" }),
  interpreter(/^(perl|ruby)[\d.]*$/u, /^-[A-Za-z0-9]*[eE]/u, { valued: "I" }),
  interpreter(/^(node|nodejs|bun|deno)$/u, /^(-[A-Za-z]*[ep]|--eval|--print)/u, { valued: "rC", long: ["--test", "--watch"] }),
  interpreter(/^php[\d.]*$/u, /^-[A-Za-z]*[rBRE]/u, { valued: "cdz" }),
  interpreter(
    /^(lua(jit)?|osascript|rscript|groovy|tclsh|julia|elixir|ghci?|scala|clojure|racket|guile)[\d.]*$/u,
    /^(-[A-Za-z]*e|--eval)/u,
  ),
]

/** Builtins whose arguments are arithmetic or names with an index: either can hold a command that runs. */
const evaluated = (name: string, rest: Words): ReadonlyArray<Launched> =>
  /^(let|test|\[|declare|typeset|local|export|readonly|printf|read|unset|mapfile|readarray|wait|getopts)$/u.test(name) &&
  rest.some((word) => typeof word === "string" && hidesCommand(word))
    ? [unseen("a command inside an index")]
    : []

const hidesCommand = (word: string): boolean => {
  const index = word.indexOf("[")
  return index !== -1 && (word.includes("$(", index) || word.includes("`", index))
}

/**
 * The first process of a command's namespace, a small shell: it makes sure that the server lives before the program may
 * begin, says how the program ended, and stays until it is let go, so that what was left behind can still be seen. Pure.
 *
 * On descriptor 3 with the server it says `R` where it waits for an order; `S` when the program's process is there, which
 * becomes the program if somebody could hear it; when that has ended its exit status, with `A` when the keeper is alone
 * now and goes at once, with `E` when others are left, and then a line from the server. Where counters are wanted they
 * come before, each line behind an `N`. A line that does not come because the server is gone ends it. Its own words on
 * signals (`Killed`) go the same way. An interrupt from a terminal is for the program; the keeper only must not die of it.
 *
 * Bubblewrap binds itself and the keeper to the server's life before the keeper begins; but a server that was gone by
 * then would never be missed. So nothing may begin before the keeper knows that the server lived after that: a dying
 * server loses its end of the line before its children are told, so a word that could be written is the proof.
 */
import type { Variables } from "../services/ChildEnvironment.ts"

/**
 * Where the program's output goes: to what is the keeper's own, or to two pipes on descriptors from `at` on. Those are not
 * bubblewrap's output, since it would have them until after the keeper has gone; and then nothing that leads to the spool
 * itself stays in the namespace.
 */
interface Output {
  /** Redirections that put the keeper's own output in order, give the program its own, and close what is the program's. */
  readonly keep: string
  readonly give: string
  readonly close: string
}

const outputAt = (at: number | undefined): Output =>
  at === undefined
    ? { keep: "8>&2 2>&3", give: "2>&8", close: "8>&-" }
    : { keep: "1>&3 2>&3", give: `1>&${at} 2>&${at + 1}`, close: `${at}>&- ${at + 1}>&-` }

const beginOf = ({ keep }: Output): string => `trap : INT
exec ${keep}
`

/** The first two lines of the counters are those of the Internet protocol: their names and their numbers. */
const COUNT = `{ read -r names; read -r values; } </proc/net/snmp; echo "N $names" >&3; echo "N $values" >&3; `

const runOf = (counts: boolean, { close, give }: Output): string => `(echo S >&3 || exit 99; exec "$@" ${give} 3>&- ${close})
status=$?; exec ${close}; ${counts ? COUNT : ""}left=; read -r left </proc/1/task/1/children
if [ -z "$left" ]; then echo "A $status" >&3; exit $status; fi
echo "E $status" >&3; read -r line <&3; exit $status`

/** Runs what its arguments say. `before` is shell text; `pipesAt` the first of two descriptors that are pipes for output. */
export const keeperOf = (counts: boolean, pipesAt: number | undefined, before = ""): string => {
  const output = outputAt(pipesAt)
  return before + beginOf(output) + runOf(counts, output)
}

/**
 * Waits for a line, then does what the file on descriptor `at` says, and runs what that made its arguments. A file, since
 * a shell reads a line from a socket byte by byte.
 */
export const waitingKeeperOf = (counts: boolean, pipesAt: number | undefined, at: number): string => {
  const output = outputAt(pipesAt)
  return `${beginOf(output)}echo R >&3; read -r line <&3 || exit 99; unset line
. /proc/self/fd/${at} || exit 99; exec ${at}<&-
${runOf(counts, output)}`
}

/**
 * The order to run a program in a folder with variables, as shell text; undefined where a shell cannot be told so: it
 * has no variables but those with plain names, and some that are its own.
 */
export const orderOf = (argv: ReadonlyArray<string>, folder: string, env: Variables): string | undefined => {
  const names = Object.keys(env)
  if (!names.every((name) => PLAIN_NAME.test(name) && !OF_THE_SHELL.has(name))) return undefined
  const variables = names.map((name) => `${name}=${quoted(env[name] ?? "")}`)
  return `cd ${quoted(folder)} || exit 99
unset OLDPWD
export ${variables.join(" ")}
set -- ${argv.map(quoted).join(" ")}
`
}

const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/u

/** Those a shell acts on, or sets itself. */
const OF_THE_SHELL = new Set(
  ["IFS", "ENV", "CDPATH", "OPTIND", "OPTARG", "PPID", "UID", "EUID", "PWD", "OLDPWD", "LINENO", "RANDOM", "SECONDS", "_"].concat([
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "POSIXLY_CORRECT",
    "PS1",
    "PS4",
    "FUNCNAME",
    "GROUPS",
    "DIRSTACK",
  ]),
)

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * The text of a profile for macOS' `sandbox-exec` that says what a plan of mounts says on Linux: same paths, same order, of
 * which the last that matches counts. What the language cannot say is an answer of its own, never left out. Pure.
 *
 * Written from the documentation of the language, and not run on a Mac.
 */
import { Result } from "effect"
import { isBelow, type Placed } from "../services/MountPlan.ts"

export interface SeatbeltPlan {
  /** The workspace's real folder. */
  readonly root: string
  readonly mounts: ReadonlyArray<Placed>
  /** Globs from the root that are denied, for files that come to be later. */
  readonly denied: ReadonlyArray<string>
  /** A folder that commands of the workspace have for temporary files. */
  readonly temporary: string
  /** `on`: all; a port: that of this machine's loopback alone, where a proxy listens; else none. */
  readonly network: "off" | "on" | { readonly port: number }
}

/** The profile, or what of the plan it cannot say. */
export const seatbeltProfile = ({ denied, mounts, network, root, temporary }: SeatbeltPlan): Result.Result<string, string> => {
  const strange = [root, temporary, ...mounts.map(({ path }) => path)].find((path) => !isPlain(path))
  if (strange !== undefined) return Result.fail(`the path ${JSON.stringify(strange)} cannot be written in it`)
  const moved = mounts.find(
    (mount) => "source" in mount && mount.kind !== "replace" && mount.source !== undefined && mount.source !== mount.path,
  )
  if (moved !== undefined) return Result.fail(`${moved.path} cannot be shown as another file`)
  const globs = denied.map((glob) => [glob, regexOf(glob)] as const)
  const unsaid = globs.find(([, regex]) => regex === undefined)
  if (unsaid !== undefined) return Result.fail(`the rule for ${JSON.stringify(unsaid[0])} cannot be written in it`)
  const lines = [
    "(version 1)",
    "(deny default)",
    ...EVERYDAY,
    ...networkLines(network),
    '(allow file-read* process-exec (subpath "/"))',
    ...mounts.flatMap(mountLines),
    ...above(temporary).map((path) => `(allow file-read-metadata ${literal(path)})`),
    `(allow file-read* file-write* process-exec ${subpath(temporary)})`,
    ...pinned(root, mounts).map((path) => `(deny file-write-unlink ${literal(path)})`),
    ...mounts.filter(({ kind }) => kind === "deny").map(hiding),
    ...globs.map(([, regex = ""]) => `(deny ${ALL} (regex #"^${regexText(root)}/${regex}(/.*)?$"))`),
  ]
  return Result.succeed(`${lines.join("\n")}\n`)
}

const ALL = "file-read* file-write* process-exec network-outbound"

/** What programs do all day besides files and network. */
const EVERYDAY: ReadonlyArray<string> = [
  "(allow process-fork)",
  "(allow signal (target same-sandbox))",
  "(allow process-info* (target same-sandbox))",
  "(allow sysctl-read)",
  "(allow pseudo-tty)",
  "(allow ipc-posix-sem)",
  "(allow ipc-posix-shm*)",
  '(allow file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx"))',
  '(allow file-write-data file-ioctl (regex #"^/dev/(fd/[0-9]+|stdin|stdout|stderr|ttys[0-9]+)$"))',
  '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.notification_center") (global-name "com.apple.system.logger"))',
]

/** A socket file is none of it: what listens on files is a daemon of the host. */
const networkLines = (network: SeatbeltPlan["network"]): ReadonlyArray<string> => {
  if (network === "off") return ["(deny network*)"]
  if (network !== "on")
    return ["(deny network*)", "(allow system-socket)", `(allow network-outbound (remote ip "localhost:${network.port}"))`]
  return [
    "(allow system-socket)",
    '(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))',
    '(allow network-inbound (local ip "*:*"))',
    '(allow network-bind (local ip "*:*"))',
    '(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.trustd.agent"))',
  ]
}

const mountLines = (mount: Placed): ReadonlyArray<string> => {
  switch (mount.kind) {
    case "read":
      return [`(allow file-read* process-exec ${subpath(mount.path)})`, `(deny file-write* ${subpath(mount.path)})`]
    case "write":
      return [`(allow file-read* file-write* process-exec ${subpath(mount.path)})`]
    // Nothing can be put in its place here: what others keep there is hidden, and the environment names the other folder.
    case "replace":
    case "hide":
    case "deny":
      return [hiding(mount)]
  }
}

const hiding = ({ path }: Placed): string => `(deny ${ALL} ${subpath(path)})`

/** On Linux no mount can be renamed or removed, and what lies around it takes it along; here the folders around it stay too. */
const pinned = (root: string, mounts: ReadonlyArray<Placed>): ReadonlyArray<string> => {
  const inside = mounts.filter(({ path }) => path !== root && isBelow(root, path))
  return [
    ...new Set([
      root,
      ...inside.flatMap(({ path }) => [path, ...above(path).filter((folder) => folder !== root && isBelow(root, folder))]),
    ]),
  ].sort()
}

/** The folders above a path, the root of the disk included. */
const above = (path: string): ReadonlyArray<string> =>
  path === "/" ? [] : [...above(path.slice(0, path.lastIndexOf("/")) || "/"), path.slice(0, path.lastIndexOf("/")) || "/"]

const isPlain = (path: string): boolean => path.startsWith("/") && !/[\0-\x1f\x7f]/u.test(path) && !/(^|\/)\.{1,2}(\/|$)/u.test(path)

const quoted = (path: string): string => `"${path.replace(/["\\]/gu, "\\$&")}"`
const literal = (path: string): string => `(literal ${quoted(path)})`
/** Also the path itself. */
const subpath = (path: string): string => `(subpath ${quoted(path)})`

/**
 * A text in a regular expression between `#"` and `"`. A quote cannot stand there, and letters with accents have several
 * spellings: any character in their place denies more, never less.
 */
const regexText = (text: string): string =>
  [...text]
    .map((letter) => (letter === '"' ? "." : letter.codePointAt(0)! > 126 ? "[^/]+" : letter.replace(/[\\^$.|?*+()[\]{}]/u, "\\$&")))
    .join("")

/** The same in small letters and capitals: the disk may not tell them apart. */
const anyCase = (letter: string): string =>
  /[A-Za-z]/u.test(letter) ? `[${letter.toLowerCase()}${letter.toUpperCase()}]` : regexText(letter)

/** A glob as a regular expression; undefined where it cannot be said in one. */
const regexOf = (glob: string): string | undefined => {
  let regex = ""
  let depth = 0
  for (let at = 0; at < glob.length; ) {
    const rest = glob.slice(at)
    const letter = String.fromCodePoint(glob.codePointAt(at) ?? 0)
    const isStart = at === 0 || glob[at - 1] === "/"
    if (/[\0-\x1f]/u.test(letter)) return undefined
    if (isStart && rest.startsWith("**/")) [regex, at] = [`${regex}(.*/)?`, at + 3]
    else if (rest.startsWith("**")) [regex, at] = [`${regex}.*`, at + 2]
    else if (letter === "*") [regex, at] = [`${regex}[^/]*`, at + 1]
    else if (letter === "?") [regex, at] = [`${regex}[^/]`, at + 1]
    else if (letter === "{") [regex, at, depth] = [`${regex}(`, at + 1, depth + 1]
    else if (letter === "}" && depth > 0) [regex, at, depth] = [`${regex})`, at + 1, depth - 1]
    else if (letter === "," && depth > 0) [regex, at] = [`${regex}|`, at + 1]
    else if (letter === "[") {
      const [all = "", not = "", letters = ""] = /^\[([!^]?)([A-Za-z0-9_-]+)\]/u.exec(rest) ?? []
      if (all === "") return undefined
      const own = `${letters.toLowerCase()}${letters.toUpperCase()}`
      // It is also the name of a folder.
      regex += `(${not === "" ? `[${own}]` : `[^/${own}]`}|${[...all].map(anyCase).join("")})`
      at += all.length
    } else if (letter === "\\") {
      const next = glob[at + 1]
      if (next === undefined) return undefined
      ;[regex, at] = [regex + anyCase(next), at + 2]
    } else [regex, at] = [regex + anyCase(letter), at + letter.length]
  }
  return depth === 0 ? regex : undefined
}

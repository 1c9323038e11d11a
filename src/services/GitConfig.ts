/**
 * The text of a git configuration as settings, and which of them name programs or lead git elsewhere. Reads the plain form
 * in which git itself writes; a text in any other form is not understood, so that nothing in it is taken for harmless. Pure.
 */

/** A setting: `section.part.name`, section and name in small letters; no value where only its name stands there. */
export interface Setting {
  readonly key: string
  readonly value: string | undefined
}

/** The settings in their order; undefined when the text is not understood. */
export const settingsOf = (text: string): ReadonlyArray<Setting> | undefined => {
  const settings: Array<Setting> = []
  let section: string | undefined
  for (const line of text.split("\n")) {
    if (/^[ \t]*([#;].*)?$/u.test(line)) continue
    const header = /^\[([A-Za-z0-9-]+)(?: "((?:[^"\\\0]|\\["\\])*)")?\][ \t]*([#;].*)?$/u.exec(line)
    if (header !== null) {
      const [, name = "", part] = header
      section = name.toLowerCase() + (part === undefined ? "" : `.${part.replace(/\\(.)/gu, "$1")}`)
      continue
    }
    const setting = /^[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?$/u.exec(line)
    if (setting === null || section === undefined) return undefined
    const [, name = "", written] = setting
    const value = written === undefined ? undefined : unquoted(written)
    if (written !== undefined && value === undefined) return undefined
    settings.push({ key: `${section}.${name.toLowerCase()}`, value })
  }
  return settings
}

/** Quotes and escapes taken off, and a comment; undefined when the line goes on, or is in a form git does not write. */
const unquoted = (written: string): string | undefined => {
  let value = ""
  let isQuoted = false
  /** How much of it stays when the rest is blank. */
  let kept = 0
  for (let at = 0; at < written.length; at++) {
    const letter = written[at] ?? ""
    if (letter === "\r" || letter === "\0") return undefined
    if (letter === '"') {
      isQuoted = !isQuoted
      kept = value.length
    } else if (letter === "\\") {
      const escaped = ESCAPES.get(written[++at] ?? "")
      if (escaped === undefined) return undefined
      value += escaped
      kept = value.length
    } else if (!isQuoted && (letter === "#" || letter === ";")) break
    else if (letter === "\t" && !isQuoted && !/^\s*([#;].*)?$/u.test(written.slice(at))) {
      // Versions of git differ about what it becomes.
      return undefined
    } else {
      value += letter
      if (isQuoted || (letter !== " " && letter !== "\t")) kept = value.length
    }
  }
  return isQuoted ? undefined : value.slice(0, kept)
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["t", "\t"],
  ["b", "\b"],
  ['"', '"'],
  ["\\", "\\"],
])

/** The text that says these settings. */
export const configText = (settings: ReadonlyArray<Setting>): string =>
  settings
    .map(({ key, value }) => {
      const [section, part, name] = partsOf(key)
      const header = part === undefined ? `[${section}]` : `[${section} "${part.replace(/["\\]/gu, "\\$&")}"]`
      return `${header}\n\t${name}${value === undefined ? "" : ` = "${value.replace(/["\\\n\t]/gu, (letter) => escapes[letter] ?? letter)}"`}\n`
    })
    .join("")

const escapes: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t" }

const partsOf = (key: string): readonly [section: string, part: string | undefined, name: string] => {
  const [first, last] = [key.indexOf("."), key.lastIndexOf(".")]
  return [key.slice(0, first), first === last ? undefined : key.slice(first + 1, last), key.slice(last + 1)]
}

/** Where a configuration stands. */
export interface ConfigPlace {
  /** Of a repository that came to be meanwhile. */
  readonly isNew: boolean
  /** Whether it may say that its files are there. */
  readonly holdsWorktree: (path: string) => boolean
}

/**
 * The first setting that differs and is not one that git's own work on submodules, remotes and branches changes; undefined
 * when there is none.
 */
export const strangeChange = (before: ReadonlyArray<Setting>, after: ReadonlyArray<Setting>, place: ConfigPlace): string | undefined => {
  const [was, is] = [byKey(before), byKey(after)]
  for (const key of new Set([...was.keys(), ...is.keys()])) {
    const values = is.get(key) ?? []
    if (JSON.stringify(values) === JSON.stringify(was.get(key) ?? [])) continue
    if (!isOfWork({ key, value: undefined }, place, true) || !values.every((value) => isOfWork({ key, value: value ?? "" }, place)))
      return key
  }
  return undefined
}

const byKey = (settings: ReadonlyArray<Setting>): ReadonlyMap<string, ReadonlyArray<string | undefined>> => {
  const all = new Map<string, Array<string | undefined>>()
  for (const { key, value } of settings) all.set(key, [...(all.get(key) ?? []), value])
  return all
}

/** Those of a new configuration that may stay. */
export const ofWork = (settings: ReadonlyArray<Setting>, place: ConfigPlace): ReadonlyArray<Setting> =>
  settings.filter(({ key, value }) => isOfWork({ key, value: value ?? "" }, place))

type Judge = (value: string, place: ConfigPlace) => boolean

const always: Judge = () => true
const isFlag: Judge = (value) => /^(|true|false|yes|no|on|off|0|1)$/iu.test(value)
const isName: Judge = (value) => /^[A-Za-z0-9+@._/-]*$/u.test(value) && !value.startsWith("-")
const isReference: Judge = (value) => /^[+^]?[A-Za-z0-9@._/*-]*(:[A-Za-z0-9@._/*-]*)?$/u.test(value) && !value.startsWith("-")

/** A place to fetch from that names no program: an address of a known kind, or a path. */
export const isPlainUrl: Judge = (value) =>
  !value.startsWith("-") &&
  !/[\0-\x1f]/u.test(value) &&
  !/^[A-Za-z0-9+.-]*::/u.test(value) &&
  (!/^[A-Za-z0-9+.-]*:\/\//u.test(value) || /^(https?|git|ssh|file|git\+ssh):\/\/(?!-)/iu.test(value))

/** By section and name; a part between them is always wanted where it says so. */
const WORK: ReadonlyArray<readonly [pattern: RegExp, judge: Judge]> = [
  [/^submodule\..+\.url$/su, isPlainUrl],
  [/^submodule\..+\.update$/su, (value) => /^(checkout|merge|rebase|none)$/u.test(value)],
  [/^submodule\..+\.branch$/su, isName],
  [/^submodule\..+\.(active|shallow)$/su, isFlag],
  [/^submodule\.active$/u, isReference],
  [/^remote\..+\.(url|pushurl)$/su, isPlainUrl],
  [/^remote\..+\.(fetch|push)$/su, isReference],
  [/^remote\..+\.(mirror|prune|promisor)$/su, isFlag],
  [/^remote\..+\.(tagopt|partialclonefilter)$/su, (value) => /^(--tags|--no-tags|[a-z]+(:[a-z0-9=]+)?)$/u.test(value)],
  [/^branch\..+\.(remote|pushremote)$/su, isPlainUrl],
  [/^branch\..+\.merge$/su, isReference],
  [/^branch\..+\.rebase$/su, (value) => /^(true|false|merges|interactive|)$/u.test(value)],
  [/^branch\..+\.description$/su, always],
  [/^lfs\.repositoryformatversion$/u, isFlag],
  [/^core\.worktree$/u, (value, { holdsWorktree }) => holdsWorktree(value)],
]

/** What git writes into the configuration of a new repository. */
const NEW: ReadonlyArray<readonly [pattern: RegExp, judge: Judge]> = [
  [/^core\.repositoryformatversion$/u, isFlag],
  [/^core\.(filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)$/u, isFlag],
  [/^extensions\.(objectformat|compatobjectformat|refstorage|partialclone)$/u, isName],
]

const isOfWork = ({ key, value }: Setting, place: ConfigPlace, anyValue = false): boolean =>
  [...WORK, ...(place.isNew ? NEW : [])].some(([pattern, judge]) => pattern.test(key) && (anyValue || judge(value ?? "", place)))

/**
 * The first setting that may make git run something that lies in a workspace: a program that is not found by a plain name
 * of git's own family, another configuration, or a transport that is a program. Hooks apart.
 */
export const programIn = (settings: ReadonlyArray<Setting>): string | undefined =>
  settings.find(({ key, value = "" }) => {
    if (/^submodule\..+\.update$/su.test(key)) return value.startsWith("!")
    if (/^remote\..+\.(url|pushurl)$/su.test(key)) return !isPlainUrl(value, { isNew: false, holdsWorktree: () => false })
    if (key === "core.fsmonitor") return !isFlag(value, { isNew: false, holdsWorktree: () => false })
    const part = partsOf(key)[1] ?? ""
    if (/^url\..+\.(push)?insteadof$/su.test(key)) return !isPlainUrl(part, { isNew: false, holdsWorktree: () => false })
    if (/^credential(\..+)?\.helper$/su.test(key)) return !/^[a-z-]*$/u.test(value)
    return PROGRAMS.test(key) && !/^(|cat|true|git-[a-z-]+( [A-Za-z0-9%-]+)*)$/u.test(value)
  })?.key

const PROGRAMS =
  /^(include(if\..+)?\.path|core\.(sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand)|filter\..+\.(clean|smudge|process)|diff\.external|diff\..+\.(command|textconv)|merge\..+\.driver|trailer\..+\.(command|cmd)|gpg\.(.+\.)?(program|defaultkeycommand)|remote\..+\.(vcs|uploadpack|receivepack)|hook\..*|lfs\.(customtransfer|extension)\..+|lfs\.(.+\.)?standalonetransferagent)$/su

/** Where the configuration says that hooks lie. */
export const hooksPathIn = (settings: ReadonlyArray<Setting>): string | undefined =>
  settings.findLast(({ key }) => key === "core.hookspath")?.value

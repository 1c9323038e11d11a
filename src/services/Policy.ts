/**
 * What a profile allows: a profile and the things a call touches go in, a decision with the rule that made it comes out.
 * Pure; it looks at names only. That a name is what it seems (links, races) is checked where the file is used.
 */
import { Context, Glob, Layer } from "effect"
import { type Decision, type FileAccess, type FileRule, PolicyDenied, type Profile, type Touches } from "../schema/Policy.ts"
import { type ConfinedPath, PathProtected } from "../schema/Workspace.ts"
import { ANY, decideCommands } from "./CommandRules.ts"

export class Policy extends Context.Service<
  Policy,
  {
    /** Whether everything the call touches is allowed; the answer names the rule. */
    readonly decide: (profile: Profile, touches: Touches) => Decision
  }
>()("codespace/services/Policy") {
  static readonly layer = Layer.sync(Policy, () => Policy.of({ decide }))
}

/**
 * What the profile lets a call do with a file, and the rule that says so. The last rule that matches wins, but a `deny`
 * that matches beats all others; without a match the file can be read. The empty path is the root.
 *
 * A `deny` also covers everything below what it matches, and matches in any letter case: on a disk that ignores case,
 * another spelling is the same file.
 */
export const fileAccess = (profile: Profile, path: ConfinedPath): { readonly access: FileAccess; readonly rule: string } => {
  const { denials, others } = compiled(profile)
  const winner = denials.find((rule) => rule.matches(path)) ?? others.findLast((rule) => rule.matches(path))
  return winner ?? { access: "read", rule: "files: read ** (default)" }
}

/** Whether the rule is about this path; one that denies is also about all that lies below what it matches. */
export const isAbout = (rule: FileRule, path: string): boolean => compileRule(rule).matches(path)

/** Why no profile lets a call write this path; undefined when a profile may. Reading is not concerned. */
export const protectedBy = (path: ConfinedPath): string | undefined => {
  const spelled = fold(path)
  return protections.find(({ globs }) => globs.some((glob) => Glob.match(glob, spelled)))?.rule
}

/**
 * Whether everything the call touches is allowed: deny over ask over allow. Of several things the first decides, reads
 * before writes before commands.
 */
export const decide = (profile: Profile, touches: Touches): Decision => {
  let asks: Decision | undefined
  for (const path of touches.read ?? []) {
    const { access, rule } = fileAccess(profile, path)
    if (access === "deny") return { _tag: "deny", rule, subject: `reading "${path}"` }
  }
  for (const path of touches.write ?? []) {
    const { access, rule } = fileAccess(profile, path)
    const subject = `writing "${path}"`
    if (access === "ask") asks ??= { _tag: "ask", rule, subject }
    else if (access !== "write") return { _tag: "deny", rule, subject }
    const protection = protectedBy(path)
    if (protection !== undefined) return { _tag: "protected", rule: protection, subject: path }
  }
  if (touches.exec === undefined) return asks ?? { _tag: "allow" }
  if (profile.exec === "off") return { _tag: "deny", rule: "exec: off", subject: "running commands" }
  const commands = decideCommands(profile.commands, touches.exec.commands ?? [{ words: [ANY] }])
  return commands._tag === "deny" ? commands : (asks ?? commands)
}

/** The refusal a decision stands for; undefined for one that lets the call go on, or hold for a person. */
export const refusalOf = (profile: Profile, decision: Decision): PolicyDenied | PathProtected | undefined => {
  switch (decision._tag) {
    case "deny":
      return new PolicyDenied({ profile: profile.name, rule: decision.rule, subject: decision.subject })
    case "protected":
      return new PathProtected({ path: decision.subject, rule: decision.rule })
    default:
      return undefined
  }
}

interface CompiledRule {
  readonly access: FileAccess
  readonly rule: string
  readonly matches: (path: string) => boolean
}

interface CompiledRules {
  readonly denials: ReadonlyArray<CompiledRule>
  readonly others: ReadonlyArray<CompiledRule>
}

const compile = (pattern: string): Glob.Glob => Glob.make(pattern, { dot: true })

/** Folders are named `[id]` too: brackets also stand for themselves, as in what `find` is given. */
const readings = (pattern: string): ReadonlyArray<Glob.Glob> =>
  (pattern.includes("[") ? [pattern, pattern.replaceAll(/(?<!\\)\[/gu, "\\[")] : [pattern]).map(compile)

/** One spelling for all that a disk which ignores case, or a Mac which also ignores invisible characters and how accents are made, takes for the same name. */
const fold = (text: string): string =>
  ascii.test(text) ? text.toLowerCase() : text.replace(invisible, "").toUpperCase().toLowerCase().normalize("NFC")

const ascii = /^[\x20-\x7e]*$/u

const invisible = /\p{Default_Ignorable_Code_Point}/gu

const compileRule = ({ glob, access, reason }: FileRule): CompiledRule => {
  const rule = `files: ${access} ${glob}${reason === undefined ? "" : ` (${reason})`}`
  const matches = access === "deny" ? matchesBelow(glob) : matchesExactly(glob)
  // The root is the empty path, which no glob matches; what is said of all paths is said of it too.
  return { access, rule, matches: (path) => (path === "" ? glob === "**" : matches(path)) }
}

const matchesExactly = (pattern: string): ((path: string) => boolean) => {
  if (pattern === "**") return () => true
  const globs = readings(pattern)
  return (path) => globs.some((glob) => Glob.match(glob, path))
}

const matchesBelow = (pattern: string): ((path: string) => boolean) => {
  const folded = covering(fold(pattern))
  // Only a class can tell letters apart by their case; a pattern without one matches in every spelling or in none.
  if (!pattern.includes("[")) return (path) => folded(fold(path))
  const exact = covering(pattern)
  return (path) => exact(path) || folded(fold(path))
}

/** Whether a path or a folder above it matches. The usual shapes are told without the matcher: a tree may have many files. */
const covering = (pattern: string): ((path: string) => boolean) => {
  if (pattern === "**") return () => true
  if (plain.test(pattern)) return (path) => path === pattern || path.startsWith(`${pattern}/`)
  const [, wild, end = ""] = /^\*\*\/(\*?)([^/]+)$/u.exec(pattern) ?? []
  if (plain.test(end)) return wild === "*" ? (path) => `${path}/`.includes(`${end}/`) : (path) => `/${path}/`.includes(`/${end}/`)
  const globs = readings(`${pattern}/**`)
  return (path) => globs.some((glob) => Glob.match(glob, path))
}

const plain = /^[^*?[\]{}\\]+$/u

/** Compiles each profile once: it is asked for every file of a search. */
const compiled = (() => {
  const known = new WeakMap<Profile, CompiledRules>()
  return (profile: Profile): CompiledRules => {
    const before = known.get(profile)
    if (before !== undefined) return before
    const rules = profile.files.map(compileRule)
    const split = {
      denials: rules.filter((rule) => rule.access === "deny"),
      others: rules.filter((rule) => rule.access !== "deny"),
    }
    known.set(profile, split)
    return split
  }
})()

/**
 * What makes git run programs of somebody's choice, in the repository of the workspace and in those nested in it:
 * whoever works there next, outside of any sandbox, would run them. Globs are in folded spelling.
 */
const protections = [
  {
    rule: "git hooks run as programs",
    globs: ["**/.git/hooks/**", "**/.git/modules/**/hooks/**", "**/.git/worktrees/*/hooks/**"],
  },
  {
    rule: "git configuration can name programs to run",
    globs: ["**/.git", "**/.git/modules/**", "**/.git/worktrees/*"].map((folder) => `${folder}/{config,config.worktree}`),
  },
  {
    rule: "it decides which git folder is used, and so which hooks and configuration",
    globs: ["**/.git", "**/.git/{,modules/**/,worktrees/*/}commondir"],
  },
].map(({ rule, globs }) => ({ rule, globs: globs.map(compile) }))

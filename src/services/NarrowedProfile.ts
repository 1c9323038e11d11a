/**
 * What two profiles both allow, as a profile: a workspace's own, held to the highest one of its caller. On every axis the
 * stricter of the two counts, so neither ever widens the other. Pure.
 *
 * - A file may be written where both let it be written, and read where both let it be read.
 * - Commands run when both say so. A command is denied when one of them denies it, and asked about when one of them asks.
 * - A host may be reached, and a variable set, when both name it. Of each limit the smaller counts.
 */
import { Glob } from "effect"
import type { CommandRule, FileAccess, FileRule, Limits, NetworkAccess, Profile } from "../schema/Policy.ts"
import { commonHosts } from "./HostRules.ts"

export const narrowed = (profile: Profile, highest: Profile): Profile =>
  profile === highest
    ? profile
    : {
        name: profile.name === highest.name ? profile.name : `${profile.name} within ${highest.name}`,
        files: commonFiles(profile.files, highest.files),
        exec: profile.exec === "on" && highest.exec === "on" ? "on" : "off",
        network: commonNetwork(profile.network, highest.network),
        commands: commonCommands(profile.commands, highest.commands),
        env: profile.env.filter((name) => highest.env.includes(name)),
        limits: smaller(profile.limits, highest.limits),
      }

/**
 * The last rule that matches wins, so the winner of a path in both lists is the last pair of rules that both match, in the
 * order of the first list and then of the second. Every pair becomes a rule, for the paths both globs match. Where those
 * cannot be told, the rule says `read` of too many paths, or `write` of none.
 */
const commonFiles = (own: ReadonlyArray<FileRule>, other: ReadonlyArray<FileRule>): ReadonlyArray<FileRule> => {
  const denials = [...own, ...other].filter(({ access }) => access === "deny")
  const pairs = restOf(own).flatMap((one) => restOf(other).flatMap((two) => commonRule(one, two) ?? []))
  return [...pairs, ...denials]
}

/** The rules that let something be done, after the one that holds where no rule matches. */
const restOf = (rules: ReadonlyArray<FileRule>): ReadonlyArray<FileRule> => {
  const rest = rules.filter(({ access }) => access !== "deny")
  return rest[0]?.glob === "**" ? rest : [{ glob: "**", access: "read" }, ...rest]
}

const commonRule = (one: FileRule, two: FileRule): FileRule | undefined => {
  const glob = commonGlob(one.glob, two.glob)
  const strictest = stricter(one.access, two.access)
  if (glob === "nothing" || (glob === "unknown" && strictest === "write")) return undefined
  // Asking is stricter than one rule and laxer than another, so said of too many paths it could widen.
  const access = glob === "unknown" ? "read" : strictest
  const { reason } = one.access === access ? one : two
  return { glob: glob === "unknown" ? two.glob : glob.both, access, ...(reason === undefined ? {} : { reason }) }
}

/** From nothing to everything. */
const byStrictness: ReadonlyArray<FileAccess> = ["deny", "read", "ask", "write"]

const stricter = (one: FileAccess, two: FileAccess): FileAccess => (byStrictness.indexOf(one) < byStrictness.indexOf(two) ? one : two)

/** The glob of what both match; unknown where that is not plain to see. */
const commonGlob = (one: string, two: string): { readonly both: string } | "nothing" | "unknown" => {
  if (one === two || two === "**") return { both: one }
  if (one === "**") return { both: two }
  if (isPlain(two)) return matches(one, two) ? { both: two } : "nothing"
  if (isPlain(one)) return matches(two, one) ? { both: one } : "nothing"
  const [start, other] = [plainStart(one), plainStart(two)]
  if (start.some((name, at) => at < other.length && name !== other[at])) return "nothing"
  if (isFolder(one, start) && other.length >= start.length) return { both: two }
  if (isFolder(two, other) && start.length >= other.length) return { both: one }
  return "unknown"
}

const isPlain = (glob: string): boolean => !/[*?[\]{}()!\\]/u.test(glob)

const matches = (glob: string, path: string): boolean => Glob.match(Glob.make(glob, { dot: true }), path)

/** The names a glob begins with before anything in it can vary. */
const plainStart = (glob: string): ReadonlyArray<string> => {
  const names = glob.split("/")
  const varies = names.findIndex((name) => !isPlain(name))
  return varies === -1 ? names : names.slice(0, varies)
}

/** Whether the glob is everything in the folder that it begins with. */
const isFolder = (glob: string, start: ReadonlyArray<string>): boolean => start.length > 0 && glob === `${start.join("/")}/**`

const commonNetwork = (one: NetworkAccess, two: NetworkAccess): NetworkAccess => {
  if (one === "off" || two === "off") return "off"
  if (one === "on") return two
  if (two === "on") return one
  // A list has the workspace's own loopback too; this machine's, if it names it, is another.
  if (one === "loopback" || two === "loopback") return "loopback"
  const allow = commonHosts(one.allow, two.allow)
  return allow.length === 0 ? "off" : { allow }
}

/**
 * Rules that deny or ask count from both lists. Rules that allow only let through what nobody can see into, and only
 * where both lists have one for it.
 */
const commonCommands = (one: ReadonlyArray<CommandRule>, two: ReadonlyArray<CommandRule>): ReadonlyArray<CommandRule> => {
  if (!one.some(restricts)) return two
  if (!two.some(restricts)) return one
  const allowing = one.flatMap((rule) =>
    restricts(rule) ? [] : two.flatMap((other) => (restricts(other) ? [] : (longerOf(rule, other) ?? []))),
  )
  return [...one.filter(restricts), ...two.filter(restricts), ...allowing]
}

const restricts = ({ decision }: CommandRule): boolean => decision !== "allow"

/** A rule is about every command that begins with its words; about those of both, the longer one when it begins with the other. */
const longerOf = (one: CommandRule, two: CommandRule): CommandRule | undefined => {
  const [short, long] = one.argv.length <= two.argv.length ? [one, two] : [two, one]
  return short.argv.every((word, at) => long.argv[at] === word) ? long : undefined
}

const smaller = (one: Limits, two: Limits): Limits => ({
  processes: Math.min(one.processes, two.processes),
  spool_bytes: Math.min(one.spool_bytes, two.spool_bytes),
  timeout_ms: Math.min(one.timeout_ms, two.timeout_ms),
})

/**
 * The environment of a child is built, not inherited: only listed names come over from the host, so the server's own
 * secrets never reach a child. Pure.
 */
import { Result } from "effect"
import { PolicyDenied, type Profile } from "../schema/Policy.ts"

export type Variables = Readonly<Record<string, string>>

/** Names every child gets from the host: who and where it is, its language, and where certificates and locales lie. */
const INHERITED = new Set([
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "TMP", "TEMP"],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "LOCALE_ARCHIVE", "__CF_USER_TEXT_ENCODING"],
])

/** Nobody sits at the terminal: no pager, no editor, no question for a password, no colours. */
const NON_INTERACTIVE: Variables = {
  TERM: "dumb",
  NO_COLOR: "1",
  PAGER: "cat",
  GIT_PAGER: "cat",
  GH_PAGER: "cat",
  MANPAGER: "cat",
  EDITOR: "true",
  VISUAL: "true",
  GIT_EDITOR: "true",
  GIT_TERMINAL_PROMPT: "0",
  DEBIAN_FRONTEND: "noninteractive",
  // Bash takes an input that is a socket for a login from afar and reads ~/.bashrc, but not where it is not the first shell.
  SHLVL: "1",
}

/** Beside those: a program in a terminal may draw and move in it. */
export const terminalEnvironment: Variables = { TERM: "xterm-256color" }

/** What every child has, before profile and call add to it. */
export const baseEnvironment = (host: Variables): Variables => ({
  ...Object.fromEntries(Object.entries(host).filter(([name]) => INHERITED.has(name) || name.startsWith("LC_"))),
  ...NON_INTERACTIVE,
})

/**
 * What profile and call add: the names the profile allows, with the host's values, then the call's. A name in `given`
 * that the profile does not allow is refused.
 */
export const allowedEnvironment = (
  host: Variables,
  profile: Pick<Profile, "name" | "env">,
  given: Variables,
): Result.Result<Variables, PolicyDenied> => {
  const allowed = new Set(profile.env)
  const denied = Object.keys(given).find((name) => !allowed.has(name))
  if (denied !== undefined) {
    const rule = `env allows ${profile.env.join(", ") || "no names"}`
    return Result.fail(new PolicyDenied({ subject: `the environment variable "${denied}"`, rule, profile: profile.name }))
  }
  return Result.succeed({ ...Object.fromEntries(Object.entries(host).filter(([name]) => allowed.has(name))), ...given })
}

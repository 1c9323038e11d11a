/**
 * The network rules of a profile: which names, addresses and ports they let a command reach. Names are compared in one
 * normal form; an address is never reached by a name's rule alone when it is no public one. Pure.
 */
import type { AllowedHost, HostRule } from "../schema/Policy.ts"
import { excerpt } from "../schema/Retry.ts"
import { canonicalAddress, specialPurpose } from "./SpecialAddresses.ts"

/** Where a connection is to go: a name or an address in normal form, and a port. */
export interface Target {
  readonly host: string
  readonly port: number
  readonly isAddress: boolean
}

/** A rule in parts; `below` for `*.host`, which is every name below it and not itself. */
interface HostParts {
  readonly text: string
  readonly host: string
  readonly below: boolean
  readonly port: number | undefined
  readonly reason: string | undefined
}

export interface HostRules {
  /** The rule that lets the target be asked for by this name or address, with its reason; undefined when none does. */
  readonly allowing: (target: Target) => string | undefined
  /** Why no rule lets it; names a rule for another port of the same host. */
  readonly whyNone: (target: Target) => string
  /** Why an address is not connected to; undefined when it may be. Not public is only what a rule names as an address. */
  readonly refusing: (address: string, port: number) => string | undefined
}

export const compileHosts = (allow: ReadonlyArray<AllowedHost>): HostRules => {
  const rules = allow.flatMap((entry) => partsOf(entry) ?? [])
  const isAbout = (rule: HostParts, { host, isAddress }: Target) =>
    rule.below ? !isAddress && host.endsWith(`.${rule.host}`) : host === rule.host
  const allowing = (target: Target) =>
    shown(rules.find((rule) => (rule.port === undefined || rule.port === target.port) && isAbout(rule, target)))
  return {
    allowing,
    whyNone: (target) => {
      const other = shown(rules.find((rule) => isAbout(rule, target)))
      return other === undefined ? "no rule allows it" : `no rule allows this port; there is a rule ${other}`
    },
    refusing: (address, port) => {
      const host = canonicalAddress(address)
      if (host === undefined) return `${address} is no address`
      const purpose = specialPurpose(host)
      if (purpose === undefined || allowing({ host, port, isAddress: true }) !== undefined) return undefined
      return `${host} is not public (${purpose}), and no rule names that address`
    },
  }
}

/** How a decision names a rule. */
const shown = (rule: HostParts | undefined): string | undefined =>
  rule === undefined ? undefined : `${rule.text}${rule.reason === undefined ? "" : ` (${excerpt(rule.reason, 120)})`}`

/** A line of a list of hosts in its long form. */
const ruleOf = (entry: AllowedHost): HostRule => (typeof entry === "string" ? { host: entry } : entry)

/** The host of a line. */
export const hostIn = (entry: AllowedHost): string => ruleOf(entry).host

/** Why an example of a line contradicts it; undefined where it fits. */
export const hostExampleProblem = (entry: AllowedHost, example: string, kind: "match" | "not_match"): string | undefined => {
  const target = parseAuthority(example, HTTPS)
  if (target === undefined) return `${excerpt(example, 60)} is no host with an optional port`
  const does = compileHosts([entry]).allowing(target) !== undefined
  if (does === (kind === "match")) return undefined
  return kind === "match"
    ? `${example} is to match, but ${hostIn(entry)} does not match it`
    : `${example} is not to match, but ${hostIn(entry)} matches it`
}

const HTTPS = 443

/** The hosts that both lists let a command reach, as a list. */
export const commonHosts = (one: ReadonlyArray<AllowedHost>, other: ReadonlyArray<AllowedHost>): ReadonlyArray<AllowedHost> => {
  const rules = other.flatMap((entry) => partsOf(entry) ?? [])
  const common = one.flatMap((entry) => partsOf(entry) ?? []).flatMap((rule) => rules.flatMap((also) => commonHost(rule, also) ?? []))
  return [...new Map(common.map((entry) => [hostIn(entry), entry])).values()]
}

const commonHost = (one: HostParts, other: HostParts): AllowedHost | undefined => {
  const narrow = covers(one, other) ? other : covers(other, one) ? one : undefined
  const port = one.port ?? other.port
  if (narrow === undefined || (one.port !== undefined && other.port !== undefined && one.port !== other.port)) return undefined
  const host = port === undefined || narrow.port !== undefined ? narrow.text : `${narrow.text}:${port}`
  const reason = narrow.reason ?? one.reason ?? other.reason
  return reason === undefined ? host : { host, reason }
}

/** Whether every name the second rule is about is one of the first, ports aside. */
const covers = (wide: HostParts, narrow: HostParts): boolean =>
  wide.below
    ? narrow.host.endsWith(`.${wide.host}`) || (narrow.below && narrow.host === wide.host)
    : !narrow.below && narrow.host === wide.host

/** Why a rule of a configuration can match nothing; undefined for one that can. */
export const hostProblem = (entry: AllowedHost): string | undefined =>
  partsOf(entry) === undefined
    ? `${hostIn(entry)} can match nothing: it is no host name, no address, or its port is not from 1 to 65535`
    : undefined

/** A target from a name or an address as a client wrote it, an IPv6 address with or without brackets. */
export const targetOf = (written: string, port: number): Target | undefined => {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return undefined
  const host = normalHost(written)
  return host === undefined ? undefined : { ...host, port }
}

/** `host:port`, as in a CONNECT request or a Host header. */
export const parseAuthority = (text: string, defaultPort?: number): Target | undefined => {
  const [, host = "", port] = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/u.exec(text) ?? []
  return targetOf(host, port === undefined ? (defaultPort ?? 0) : Number(port))
}

/** A name in lower case without its final dot, or an address in its one spelling. */
export const normalHost = (written: string): { readonly host: string; readonly isAddress: boolean } | undefined => {
  const bare = /^\[.*\]$/u.test(written) ? written.slice(1, -1) : written
  const address = canonicalAddress(bare)
  if (address !== undefined) return { host: address, isAddress: true }
  const name = written.toLowerCase().replace(/\.$/u, "")
  return isName(name) ? { host: name, isAddress: false } : undefined
}

/** What ends in a number is an address to many programs, whatever it looks like: no name may. */
const isName = (name: string): boolean =>
  name.length <= 253 &&
  name.split(".").every((label) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/u.test(label)) &&
  !/(^|\.)(\d+|0x[0-9a-f]*)$/u.test(name)

const partsOf = (entry: AllowedHost): HostParts | undefined => {
  const { host: text, reason } = ruleOf(entry)
  const [, host = "", port] = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/u.exec(text) ?? []
  const below = host.startsWith("*.")
  const target = targetOf(below ? host.slice(2) : host, port === undefined ? 1 : Number(port))
  if (target === undefined || (below && target.isAddress)) return undefined
  return { text, host: target.host, below, port: port === undefined ? undefined : target.port, reason }
}

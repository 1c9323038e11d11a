/**
 * The network rules of a profile: which names, addresses and ports they let a command reach. Names are compared in one
 * normal form; an address is never reached by a name's rule alone when it is no public one. Pure.
 */
import { canonicalAddress, specialPurpose } from "./SpecialAddresses.ts"

/** Where a connection is to go: a name or an address in normal form, and a port. */
export interface Target {
  readonly host: string
  readonly port: number
  readonly isAddress: boolean
}

/** A rule in parts; `below` for `*.host`, which is every name below it and not itself. */
interface HostRule {
  readonly text: string
  readonly host: string
  readonly below: boolean
  readonly port: number | undefined
}

export interface HostRules {
  /** The rule that lets the target be asked for by this name or address; undefined when none does. */
  readonly allowing: (target: Target) => string | undefined
  /** Why an address is not connected to; undefined when it may be. Not public is only what a rule names as an address. */
  readonly refusing: (address: string, port: number) => string | undefined
}

export const compileHosts = (allow: ReadonlyArray<string>): HostRules => {
  const rules = allow.flatMap((text) => ruleOf(text) ?? [])
  const allowing = ({ host, isAddress, port }: Target) =>
    rules.find((rule) => {
      if (rule.port !== undefined && rule.port !== port) return false
      return rule.below ? !isAddress && host.endsWith(`.${rule.host}`) : host === rule.host
    })?.text
  return {
    allowing,
    refusing: (address, port) => {
      const host = canonicalAddress(address)
      if (host === undefined) return `${address} is no address`
      const purpose = specialPurpose(host)
      if (purpose === undefined || allowing({ host, port, isAddress: true }) !== undefined) return undefined
      return `${host} is not public (${purpose}), and no rule names that address`
    },
  }
}

/** The hosts that both lists let a command reach, as a list. */
export const commonHosts = (one: ReadonlyArray<string>, other: ReadonlyArray<string>): ReadonlyArray<string> => {
  const rules = other.flatMap((text) => ruleOf(text) ?? [])
  return [...new Set(one.flatMap((text) => ruleOf(text) ?? []).flatMap((rule) => rules.flatMap((also) => commonHost(rule, also) ?? [])))]
}

const commonHost = (one: HostRule, other: HostRule): string | undefined => {
  const narrow = covers(one, other) ? other : covers(other, one) ? one : undefined
  const port = one.port ?? other.port
  if (narrow === undefined || (one.port !== undefined && other.port !== undefined && one.port !== other.port)) return undefined
  return port === undefined || narrow.port !== undefined ? narrow.text : `${narrow.text}:${port}`
}

/** Whether every name the second rule is about is one of the first, ports aside. */
const covers = (wide: HostRule, narrow: HostRule): boolean =>
  wide.below
    ? narrow.host.endsWith(`.${wide.host}`) || (narrow.below && narrow.host === wide.host)
    : !narrow.below && narrow.host === wide.host

/** Why a rule of a configuration can match nothing; undefined for one that can. */
export const hostProblem = (text: string): string | undefined =>
  ruleOf(text) === undefined ? `${text} can match nothing: it is no host name, no address, or its port is not from 1 to 65535` : undefined

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

const ruleOf = (text: string): HostRule | undefined => {
  const [, host = "", port] = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/u.exec(text) ?? []
  const below = host.startsWith("*.")
  const target = targetOf(below ? host.slice(2) : host, port === undefined ? 1 : Number(port))
  if (target === undefined || (below && target.isAddress)) return undefined
  return { text, host: target.host, below, port: port === undefined ? undefined : target.port }
}

/** What a SOCKS5 client says until its connection is made (RFC 1928), and the answers. Pure. */
import { type Target, targetOf } from "./HostRules.ts"
import { addressText } from "./SpecialAddresses.ts"

/** A message read from the front of `bytes`, with its length; undefined as long as it is not whole. */
export type Read<A> = { readonly length: number; readonly value: A } | undefined

/** Whether the client takes a connection without authentication. */
export const readGreeting = (bytes: Uint8Array): Read<boolean> => {
  const count = bytes[1]
  if (count === undefined || bytes.length < 2 + count) return undefined
  return { length: 2 + count, value: bytes[0] === 5 && bytes.subarray(2, 2 + count).includes(0) }
}

export type SocksRequest = { readonly _tag: "connect"; readonly target: Target | undefined } | { readonly _tag: "unsupported" }

export const readRequest = (bytes: Uint8Array): Read<SocksRequest> => {
  const [version, command, , kind, first] = bytes
  if (kind === undefined || first === undefined) return undefined
  if (version !== 5 || command !== 1 || ![1, 3, 4].includes(kind)) return { length: bytes.length, value: { _tag: "unsupported" } }
  const size = kind === 1 ? 4 : kind === 4 ? 16 : first
  const start = kind === 3 ? 5 : 4
  const length = start + size + 2
  if (bytes.length < length) return undefined
  const host = bytes.subarray(start, start + size)
  const port = ((bytes[length - 2] ?? 0) << 8) | (bytes[length - 1] ?? 0)
  return { length, value: { _tag: "connect", target: targetOf(kind === 3 ? String.fromCharCode(...host) : addressText([...host]), port) } }
}

export const greetingAnswer = (accepted: boolean): Uint8Array => Uint8Array.of(5, accepted ? 0 : 0xff)

const codes = { connected: 0, denied: 2, failed: 4, unsupported: 7 } as const

export const requestAnswer = (outcome: keyof typeof codes): Uint8Array => Uint8Array.of(5, codes[outcome], 0, 1, 0, 0, 0, 0, 0, 0)

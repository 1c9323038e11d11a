/**
 * What a client says first inside a tunnel: whether it names the server it wants, and whether that is the one the tunnel
 * was allowed for. Otherwise one allowed name would open every other server that answers at the same address. Pure.
 */
import { readClientHello } from "./ClientHello.ts"
import { normalHost, type Target } from "./HostRules.ts"

export type Start =
  /** Too little to tell. */
  | { readonly _tag: "more" }
  /** Nothing in it is against the tunnel. */
  | { readonly _tag: "fits" }
  /** HTTP without TLS: every request of it has to be looked at. */
  | { readonly _tag: "http" }
  | { readonly _tag: "foreign"; readonly why: string }

export const tunnelStart = (bytes: Uint8Array, target: Target): Start => {
  const first = bytes[0]
  if (first === undefined) return { _tag: "more" }
  return first === 22 ? tlsStart(bytes, target) : textStart(bytes)
}

const tlsStart = (bytes: Uint8Array, { host, isAddress }: Target): Start => {
  const hello = readClientHello(bytes)
  if (hello._tag === "partial") return { _tag: "more" }
  if (hello._tag === "broken") return { _tag: "foreign", why: "its TLS greeting cannot be read" }
  if (hello.name === undefined) return isAddress ? { _tag: "fits" } : { _tag: "foreign", why: "its TLS greeting names no server" }
  return normalHost(hello.name)?.host === host
    ? { _tag: "fits" }
    : { _tag: "foreign", why: `its TLS greeting asks for ${JSON.stringify(hello.name.slice(0, 100))}` }
}

/** A first line decides; protocols with other bytes in front are none that share an address by name. */
const textStart = (bytes: Uint8Array): Start => {
  const text = String.fromCharCode(...bytes.subarray(0, LONGEST_LINE)).replace(/^[\r\n]+/u, "")
  const end = text.indexOf("\n")
  const line = end === -1 ? text : text.slice(0, end)
  if (/^PRI \* HTTP\/2/u.test(line)) return { _tag: "foreign", why: "HTTP/2 without TLS cannot be looked at" }
  if (/[^\t\r\u0020-\u007e]/u.test(line)) return { _tag: "fits" }
  if (end === -1) return bytes.length > LONGEST_LINE ? { _tag: "foreign", why: "its first line is too long" } : { _tag: "more" }
  return /\sHTTP\/\d/iu.test(line) ? { _tag: "http" } : { _tag: "fits" }
}

const LONGEST_LINE = 8192

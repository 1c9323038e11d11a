/** The first message of a TLS client, as far as it names the server it wants. Pure. */

export type Hello =
  /** Not all of it is here yet. */
  | { readonly _tag: "partial" }
  /** With the name in it, if it names one. */
  | { readonly _tag: "hello"; readonly name: string | undefined }
  /** It is no such message. */
  | { readonly _tag: "broken" }

const broken: Hello = { _tag: "broken" }

/** Reads a ClientHello, also one that is spread over several records. */
export const readClientHello = (bytes: Uint8Array): Hello => {
  const message: Array<number> = []
  for (let at = 0; ; ) {
    const wanted = message.length < 4 ? 4 : 4 + three(message, 1)
    if (message.length >= 4 && (message[0] !== CLIENT_HELLO || wanted > LONGEST)) return broken
    if (message.length >= wanted && message.length >= 4) return nameIn(message.slice(4, wanted))
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return broken
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return broken
    if (bytes.length < at + 5) return { _tag: "partial" }
    const length = two(bytes, at + 3)
    if (length === 0 || length > 16_384) return broken
    const end = Math.min(at + 5 + length, bytes.length)
    for (let place = at + 5; place < end; place++) message.push(bytes[place] ?? 0)
    // A message may be told before its record is whole: the record is all that is missing.
    if (end < at + 5 + length) return message.length >= 4 && message[0] !== CLIENT_HELLO ? broken : { _tag: "partial" }
    at = end
  }
}

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const SERVER_NAME = 0
const LONGEST = 65_536

type Bytes = Uint8Array | ReadonlyArray<number>

const two = (bytes: Bytes, at: number): number => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
const three = (bytes: Bytes, at: number): number => ((bytes[at] ?? 0) << 16) | two(bytes, at + 1)

const nameIn = (body: ReadonlyArray<number>): Hello => {
  // Version and random, then three lists with their lengths in front.
  let at = 34
  at += 1 + (body[at] ?? 0)
  at += 2 + two(body, at)
  at += 1 + (body[at] ?? 0)
  if (at > body.length) return broken
  if (at === body.length) return { _tag: "hello", name: undefined }
  const end = at + 2 + two(body, at)
  if (end !== body.length) return broken
  const names: Array<string> = []
  for (at += 2; at < end; ) {
    const type = two(body, at)
    const next = at + 4 + two(body, at + 2)
    if (next > end) return broken
    if (type === SERVER_NAME) {
      const name = hostName(body.slice(at + 4, next))
      if (name === undefined) return broken
      names.push(name)
    }
    at = next
  }
  return names.length > 1 ? broken : { _tag: "hello", name: names[0] }
}

/** The list has one entry: a host name. */
const hostName = (list: ReadonlyArray<number>): string | undefined => {
  const length = two(list, 3)
  if (two(list, 0) !== list.length - 2 || list[2] !== 0 || list.length !== 5 + length || length === 0) return undefined
  return String.fromCharCode(...list.slice(5))
}

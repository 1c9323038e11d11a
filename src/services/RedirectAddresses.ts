/**
 * Where a browser may be sent with a code: which addresses a client may register, and which of them a request names. An
 * address counts letter by letter, but for the port of a program on the person's own machine (RFC 8252). Pure.
 */

/** Why a client may not have this address; undefined when it may. */
export const redirectProblem = (address: string): string | undefined => {
  if (!URL.canParse(address)) return "is no absolute URI"
  const { hash, hostname, password, protocol, username } = new URL(address)
  if (hash !== "" || address.includes("#")) return "has a fragment"
  if (username !== "" || password !== "") return "has a user name in it"
  if (protocol === "https:") return undefined
  if (protocol === "http:") return isOwnMachine(hostname) ? undefined : "is not https, and leads to another machine"
  return dangerous.has(protocol) ? `has the scheme ${protocol}` : undefined
}

/** The address to send the browser to; undefined when the client has not registered it. */
export const matchingRedirect = (registered: ReadonlyArray<string>, asked: string): string | undefined => {
  if (redirectProblem(asked) !== undefined) return undefined
  return registered.some((address) => address === asked || isSameButPort(address, asked)) ? asked : undefined
}

/** What a person has to know of an address: the host, or the program's scheme. */
export const redirectHost = (address: string): string => {
  const { host, protocol } = new URL(address)
  return protocol === "https:" || protocol === "http:" ? host : `the program that opens ${protocol}//`
}

const isOwnMachine = (hostname: string): boolean => ["localhost", "127.0.0.1", "[::1]"].includes(hostname)

const isSameButPort = (registered: string, asked: string): boolean => {
  const [one, other] = [new URL(registered), new URL(asked)]
  if (one.protocol !== "http:" || !isOwnMachine(one.hostname)) return false
  one.port = other.port
  return one.href === other.href
}

/** Schemes that make a browser run or show something instead of leaving. */
const dangerous = new Set(["javascript:", "data:", "vbscript:", "file:", "blob:", "about:", "view-source:", "ws:", "wss:", "ftp:"])

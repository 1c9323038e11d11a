/**
 * IP addresses as text, and which of them are not of the public Internet: the special-purpose registries of IANA, with
 * the forms in which an IPv6 address carries an IPv4 one. Pure.
 */

/** IPv4 as 4, IPv6 as 16 bytes. */
export type AddressBytes = ReadonlyArray<number>

/** Only the plain forms: four decimal numbers, or the text forms of RFC 4291. No zones, no octal or short numbers. */
const parseAddress = (text: string): AddressBytes | undefined => (text.includes(":") ? parseIpv6(text) : parseIpv4(text))

/** One spelling for each address (RFC 5952); undefined for what is none. */
export const canonicalAddress = (text: string): string | undefined => {
  const bytes = parseAddress(text)
  return bytes === undefined ? undefined : addressText(bytes)
}

export const addressText = (bytes: AddressBytes): string => {
  if (bytes.length === 4) return bytes.join(".")
  const groups = Array.from({ length: 8 }, (_, at) => (((bytes[2 * at] ?? 0) << 8) | (bytes[2 * at + 1] ?? 0)).toString(16))
  const text = groups.join(":")
  const [longest] = [...text.matchAll(/(?:^|:)0(?::0)+(?:$|(?=:))/gu)].sort((a, b) => zeros(b[0]) - zeros(a[0]))
  if (longest === undefined) return text
  const before = text.slice(0, longest.index)
  const after = text.slice(longest.index + longest[0].length)
  return `${before}::${after.replace(/^:/u, "")}`
}

const zeros = (run: string): number => run.replaceAll(":", "").length

/** What an address is for, when it is not one of the public Internet's; undefined for one that is. */
export const specialPurpose = (text: string): string | undefined => {
  const bytes = parseAddress(text)
  if (bytes === undefined) return "no address"
  if (bytes.length === 4) return purposeIn(ipv4Ranges, bytes)
  const carrier = carriers.find(({ range }) => contains(range, bytes))
  if (carrier !== undefined) {
    const carried = bytes.slice(12)
    const purpose = purposeIn(ipv4Ranges, carried)
    return purpose === undefined ? undefined : `${purpose}, as ${carrier.purpose}`
  }
  return purposeIn(ipv6Ranges, bytes) ?? (contains(globalUnicast, bytes) ? undefined : "not assigned")
}

const parseIpv4 = (text: string): AddressBytes | undefined => {
  const parts = text.split(".")
  const bytes = parts.map((part) => (/^(0|[1-9]\d{0,2})$/u.test(part) ? Number(part) : 256))
  return parts.length === 4 && bytes.every((byte) => byte < 256) ? bytes : undefined
}

const parseIpv6 = (text: string): AddressBytes | undefined => {
  const halves = text.split("::")
  if (halves.length > 2) return undefined
  const [start, end] = halves.map((half, at) => groupsOf(half, at === halves.length - 1))
  if (start === undefined || (halves.length === 2 && end === undefined)) return undefined
  const missing = 16 - start.length - (end?.length ?? 0)
  if (halves.length === 1) return missing === 0 ? start : undefined
  return missing < 2 ? undefined : [...start, ...Array.from({ length: missing }, () => 0), ...(end ?? [])]
}

/** Bytes of the groups between colons; the last ones may be written as IPv4. */
const groupsOf = (text: string, isLast: boolean): ReadonlyArray<number> | undefined => {
  if (text === "") return []
  const groups = text.split(":")
  const bytes: Array<number> = []
  for (const [at, group] of groups.entries()) {
    const ipv4 = isLast && at === groups.length - 1 && group.includes(".") ? parseIpv4(group) : undefined
    if (ipv4 !== undefined) bytes.push(...ipv4)
    else if (/^[0-9a-f]{1,4}$/iu.test(group)) bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255)
    else return undefined
  }
  return bytes
}

interface Range {
  readonly bytes: AddressBytes
  readonly bits: number
}

const contains = ({ bits, bytes }: Range, address: AddressBytes): boolean => {
  const whole = bits >> 3
  for (let at = 0; at < whole; at++) if (bytes[at] !== address[at]) return false
  const mask = (0xff00 >> (bits & 7)) & 0xff
  return ((bytes[whole] ?? 0) & mask) === ((address[whole] ?? 0) & mask)
}

interface Purpose {
  readonly range: Range
  readonly purpose: string
}

const purposeIn = (table: ReadonlyArray<Purpose>, address: AddressBytes): string | undefined =>
  table.find(({ range }) => contains(range, address))?.purpose

const rangeOf = (written: string): Range => {
  const [address = "", bits = ""] = written.split("/")
  return { bytes: parseAddress(address) ?? [], bits: Number(bits) }
}

const tableOf = (lines: ReadonlyArray<readonly [range: string, purpose: string]>): ReadonlyArray<Purpose> =>
  lines.map(([range, purpose]) => ({ range: rangeOf(range), purpose }))

const ipv4Ranges = tableOf([
  ["0.0.0.0/8", "this network"],
  ["10.0.0.0/8", "private use"],
  ["100.64.0.0/10", "shared address space"],
  ["127.0.0.0/8", "loopback"],
  ["169.254.0.0/16", "link local"],
  ["172.16.0.0/12", "private use"],
  ["192.0.0.0/24", "protocol assignments"],
  ["192.0.2.0/24", "documentation"],
  ["192.31.196.0/24", "AS112"],
  ["192.52.193.0/24", "AMT"],
  ["192.88.99.0/24", "6to4 relay"],
  ["192.168.0.0/16", "private use"],
  ["192.175.48.0/24", "AS112"],
  ["198.18.0.0/15", "benchmarking"],
  ["198.51.100.0/24", "documentation"],
  ["203.0.113.0/24", "documentation"],
  ["224.0.0.0/4", "multicast"],
  ["240.0.0.0/4", "reserved"],
])

/** IPv6 addresses that stand for the IPv4 address in their last four bytes. */
const carriers = tableOf([
  ["::ffff:0:0/96", "IPv4-mapped"],
  ["64:ff9b::/96", "NAT64"],
])

const globalUnicast = rangeOf("2000::/3")

const ipv6Ranges = tableOf([
  ["::1/128", "loopback"],
  ["::/128", "unspecified"],
  ["::/96", "IPv4-compatible"],
  ["64:ff9b:1::/48", "local NAT64"],
  ["100::/64", "discard only"],
  ["100:0:0:1::/64", "dummy prefix"],
  ["2001::/32", "Teredo"],
  ["2001::/23", "protocol assignments"],
  ["2001:db8::/32", "documentation"],
  ["2002::/16", "6to4"],
  ["2620:4f:8000::/48", "AS112"],
  ["3fff::/20", "documentation"],
  ["5f00::/16", "segment routing"],
  ["fc00::/7", "private use"],
  ["fe80::/10", "link local"],
  ["fec0::/10", "site local"],
  ["ff00::/8", "multicast"],
])

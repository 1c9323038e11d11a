/** What the network rules of a profile mean: names, addresses, and what a client may say inside a tunnel. */
import { assert, describe, it } from "@effect/vitest"
import { commonHosts, compileHosts, hostProblem, parseAuthority, targetOf } from "../../src/services/HostRules.ts"
import { networkNotes } from "../../src/services/NetworkNotes.ts"
import { readGreeting, readRequest } from "../../src/services/Socks.ts"
import { canonicalAddress, specialPurpose } from "../../src/services/SpecialAddresses.ts"
import { tunnelStart } from "../../src/services/TunnelStart.ts"
import { clientHello } from "../support/ClientHello.ts"

describe("addresses", () => {
  const canonical: ReadonlyArray<readonly [string, string | undefined]> = [
    ["1.2.3.4", "1.2.3.4"],
    ["::", "::"],
    ["::1", "::1"],
    ["0:0:0:0:0:0:0:1", "::1"],
    ["2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["::ffff:1.2.3.4", "::ffff:102:304"],
    ["64:ff9b::1.2.3.4", "64:ff9b::102:304"],
    ["1::", "1::"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
    ["1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"],
    ...["1.2.3", "1.2.3.4.5", "01.2.3.4", "0x7f.0.0.1", "256.1.1.1", "1.2.3.4 ", "", "127.1", "2130706433"].map(
      (text) => [text, undefined] as const,
    ),
    ...[":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::g", "fe80::1%eth0", "::1.2.3", "1.2.3.4::", "[::1]", "12345::"].map(
      (text) => [text, undefined] as const,
    ),
  ]
  for (const [text, expected] of canonical)
    it(`${JSON.stringify(text)} is ${expected ?? "none"}`, () => {
      assert.strictEqual(canonicalAddress(text), expected)
    })

  const special = [
    ...["0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"],
    ...["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.1.1"],
    ...["198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"],
    ...[
      "::",
      "::1",
      "::7f00:1",
      "::ffff:127.0.0.1",
      "::ffff:10.0.0.1",
      "::ffff:169.254.169.254",
      "64:ff9b::127.0.0.1",
      "64:ff9b::10.1.2.3",
    ],
    ...["64:ff9b:1::1", "100::1", "100:0:0:1::1", "2001::1", "2001:0:4136:e378::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1"],
    ...["2002:7f00:1::1", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "febf::1", "fec0::1", "ff02::1"],
    ...["4000::1", "::2", "1::1", "2620:4f:8000::1", "192.31.196.1", "192.52.193.1", "192.175.48.1", "nonsense"],
  ]
  for (const address of special)
    it(`${address} is special`, () => {
      assert.isString(specialPurpose(address))
    })

  const open = [
    ...["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "169.253.0.1"],
    ...["172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255"],
    ...["2606:4700::1111", "2a00:1450::1", "2001:200::1", "2001:4860::1", "2003::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"],
  ]
  for (const address of open)
    it(`${address} is public`, () => {
      assert.isUndefined(specialPurpose(address))
    })

  it("tell what they are for, also inside another", () => {
    assert.strictEqual(specialPurpose("::ffff:10.0.0.1"), "private use, as IPv4-mapped")
    assert.strictEqual(specialPurpose("64:ff9b::169.254.169.254"), "link local, as NAT64")
  })

  it("read back as they are written, 20,000 of them", () => {
    let state = 3
    const byte = () => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
      return (state >>> 12) & 255
    }
    for (let round = 0; round < 20_000; round++) {
      const groups = Array.from({ length: 8 }, () => (byte() < 128 ? 0 : (byte() << 8) | byte()))
      const long = groups.map((group) => group.toString(16).padStart(4, "0")).join(":")
      const short = canonicalAddress(long)
      // The URL parser of the platform writes the same form.
      assert.strictEqual(`[${short}]`, new URL(`http://[${long}]`).hostname)
      assert.strictEqual(canonicalAddress(short ?? ""), short)
    }
  })
})

describe("rules about hosts", () => {
  const rules = compileHosts(["api.example.org:443", "*.internal.example", "plain.example", "10.0.0.5:8080", "[2001:db8::5]", "[::1]:99"])
  const asked = (authority: string) => {
    const target = parseAuthority(authority)
    return target === undefined ? "unreadable" : rules.allowing(target)
  }
  const cases: ReadonlyArray<readonly [string, string | undefined]> = [
    ["api.example.org:443", "api.example.org:443"],
    ["API.Example.ORG.:443", "api.example.org:443"],
    ["api.example.org:80", undefined],
    ["x.api.example.org:443", undefined],
    ["a.internal.example:1", "*.internal.example"],
    ["a.b.internal.example:1", "*.internal.example"],
    ["internal.example:1", undefined],
    ["ainternal.example:1", undefined],
    ["plain.example:65535", "plain.example"],
    ["notplain.example:1", undefined],
    ["plain.example.evil:1", undefined],
    ["10.0.0.5:8080", "10.0.0.5:8080"],
    ["10.0.0.5:80", undefined],
    ["[2001:DB8:0::5]:7", "[2001:db8::5]"],
    ["[::1]:99", "[::1]:99"],
    ...[
      "127.1:80",
      "2130706433:80",
      "0x7f000001:80",
      "a.0x1:80",
      "010.0.0.5:8080",
      "x:0",
      "x:65536",
      "x",
      "a..b:1",
      "a b:1",
      "ä.example:1",
      "@x:1",
    ].map((text) => [text, "unreadable"] as const),
  ]
  for (const [authority, rule] of cases)
    it(`${authority}: ${rule ?? "none"}`, () => {
      assert.strictEqual(asked(authority), rule)
    })

  it("connect to an address that is not public only where a rule names it", () => {
    assert.isUndefined(rules.refusing("8.8.8.8", 443))
    assert.isUndefined(rules.refusing("10.0.0.5", 8080))
    assert.strictEqual(rules.refusing("10.0.0.5", 80), "10.0.0.5 is not public (private use), and no rule names that address")
    assert.isString(rules.refusing("::ffff:10.0.0.5", 8080))
    assert.isString(rules.refusing("fe80::1%lo", 80))
    assert.isUndefined(rules.refusing("::1", 99))
  })

  it("that can match nothing are told", () => {
    for (const text of ["a.example:0", "*.10.0.0.1", "1.2.3", "[::1", "*", "a_.-"]) assert.isString(hostProblem(text), text)
    for (const text of ["a", "*.a", "1.2.3.4", "[::1]:1", "_x.example"]) assert.isUndefined(hostProblem(text), text)
  })
})

describe("the start of a tunnel", () => {
  const target = targetOf("api.example.org", 443)
  const address = targetOf("10.0.0.5", 443)
  assert.isDefined(target)
  assert.isDefined(address)
  const start = (bytes: Uint8Array | string, to = target) =>
    tunnelStart(Buffer.from(bytes as string, "latin1"), to as NonNullable<typeof to>)

  it("takes a TLS greeting for its own name, however it is cut and spread", async () => {
    const hello = await clientHello("api.example.org")
    assert.strictEqual(start(hello)._tag, "fits")
    for (let length = 1; length < hello.length; length++)
      assert.strictEqual(start(hello.subarray(0, length))._tag, "more", `${length} bytes`)
    // The same message in records of 50 bytes.
    const body = hello.subarray(5)
    const records = Array.from({ length: Math.ceil(body.length / 50) }, (_, at) => body.subarray(50 * at, 50 * at + 50))
    const spread = Buffer.concat(records.flatMap((part) => [Buffer.from([22, 3, 1, 0, part.length]), part]))
    assert.strictEqual(start(spread)._tag, "fits")
    assert.strictEqual(start(Buffer.concat([hello, hello]))._tag, "fits")
  })

  it("refuses a TLS greeting for another name, for none, and one that is broken", async () => {
    const other = await clientHello("other.example")
    assert.deepStrictEqual(start(other), { _tag: "foreign", why: 'its TLS greeting asks for "other.example"' })
    assert.strictEqual(start(await clientHello(undefined))._tag, "foreign")
    assert.strictEqual(start(await clientHello(undefined), address)._tag, "fits")
    assert.strictEqual(start(other, address)._tag, "foreign")
    const broken = [Buffer.from([22, 9, 1, 0, 5]), Buffer.from([22, 3, 1, 0, 0]), Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0])]
    for (const bytes of broken) assert.strictEqual(start(bytes)._tag, "foreign", bytes.toString("hex"))
  })

  it("never takes a damaged greeting for another than it was: 5,000 of them", async () => {
    const hello = Buffer.from(await clientHello("api.example.org"))
    let state = 5
    const below = (limit: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
      return (state >>> 8) % limit
    }
    const seen = new Set<string>()
    for (let round = 0; round < 5000; round++) {
      const damaged = Buffer.from(hello)
      for (let hit = 0; hit <= below(3); hit++) damaged[below(damaged.length)] = below(256)
      const found = start(damaged)
      seen.add(found._tag)
      if (found._tag === "fits" && damaged[0] === 22) assert.isTrue(damaged.toString("latin1").toLowerCase().includes("api.example.org"))
    }
    assert.deepStrictEqual(
      [...seen].sort().filter((tag) => tag !== "http"),
      ["fits", "foreign", "more"],
    )
  })

  it("knows HTTP by its first line, and lets other protocols be", () => {
    for (const text of ["GET / HTTP/1.1\r\n", "\r\nGET / HTTP/1.1\n", "get / http/1.0\r\n", "FOO  http://x/ HTTP/1.1 \n"])
      assert.strictEqual(start(text)._tag, "http", text)
    for (const text of ["", "G", "GET / HTTP/1.1", "\r\n\r\n", "SSH-2.0-x"]) assert.strictEqual(start(text)._tag, "more", text)
    for (const text of ["SSH-2.0-OpenSSH_9\r\n", "EHLO x\r\n", "\0\0\0\u0008", "*1\r\n$4\r\n", "\u0005"])
      assert.strictEqual(start(text)._tag, "fits", text)
    for (const text of ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "x".repeat(9000)])
      assert.strictEqual(start(text)._tag, "foreign", text.slice(0, 10))
  })
})

describe("SOCKS5", () => {
  it("is read message by message, whole or not at all", () => {
    assert.isUndefined(readGreeting(Uint8Array.of(5, 2, 0)))
    assert.deepStrictEqual(readGreeting(Uint8Array.of(5, 2, 2, 0, 9)), { length: 4, value: true })
    assert.deepStrictEqual(readGreeting(Uint8Array.of(5, 1, 2)), { length: 3, value: false })
    const named = Uint8Array.of(5, 1, 0, 3, 3, 97, 46, 98, 1, 187)
    for (let length = 0; length < named.length; length++) assert.isUndefined(readRequest(named.subarray(0, length)))
    assert.deepStrictEqual(readRequest(named), {
      length: 10,
      value: { _tag: "connect", target: { host: "a.b", port: 443, isAddress: false } },
    })
    const four = readRequest(Uint8Array.of(5, 1, 0, 1, 10, 0, 0, 1, 0, 80))
    assert.deepStrictEqual(four?.value, { _tag: "connect", target: { host: "10.0.0.1", port: 80, isAddress: true } })
    const six = readRequest(Uint8Array.of(5, 1, 0, 4, ...Array.from({ length: 15 }, () => 0), 1, 0, 80))
    assert.deepStrictEqual(six?.value, { _tag: "connect", target: { host: "::1", port: 80, isAddress: true } })
    assert.deepStrictEqual(readRequest(Uint8Array.of(5, 2, 0, 1, 1))?.value, { _tag: "unsupported" })
    assert.deepStrictEqual(readRequest(Uint8Array.of(5, 1, 0, 3, 1, 47, 0, 80))?.value, { _tag: "connect", target: undefined })
  })
})

describe("rules about hosts with reasons", () => {
  const rules = compileHosts([{ host: "api.example:443", reason: "the build's packages" }, "plain.example", { host: "*.a.example" }])
  const target = (authority: string) => parseAuthority(authority) ?? assert.fail(authority)

  it("name the reason where they decide, and where they are for another port", () => {
    assert.strictEqual(rules.allowing(target("api.example:443")), "api.example:443 (the build's packages)")
    assert.strictEqual(rules.allowing(target("b.a.example:1")), "*.a.example")
    assert.strictEqual(
      rules.whyNone(target("api.example:80")),
      "no rule allows this port; there is a rule api.example:443 (the build's packages)",
    )
    assert.strictEqual(rules.whyNone(target("other.example:80")), "no rule allows it")
  })

  it("keep it when two lists are held together", () => {
    assert.deepStrictEqual(commonHosts([{ host: "*.example", reason: "ours" }], ["a.example", "b.other"]), [
      { host: "a.example", reason: "ours" },
    ])
    assert.deepStrictEqual(commonHosts(["a.example"], ["*.example:443"]), ["a.example:443"])
  })
})

describe("notes", () => {
  it("tell each place once with how often, and no more places than fit", () => {
    const { denials, onDecision } = networkNotes("guarded")
    for (let turn = 0; turn < 3; turn++) onDecision({ outcome: "denied", host: "a.example", port: 443, reason: "no rule allows it" })
    onDecision({ outcome: "allowed", host: "b.example", port: 443, reason: "rule b.example" })
    onDecision({ outcome: "failed", host: "::1", port: 80, reason: "ECONNREFUSED" })
    assert.deepStrictEqual(denials().network, [{ host: "a.example", port: 443, reason: "no rule allows it", count: 3 }])
    assert.deepStrictEqual(denials().decided, {
      verdicts: [
        { verdict: "denied", host: "a.example", port: 443, reason: "no rule allows it", count: 3 },
        { verdict: "allowed", host: "b.example", port: 443, reason: "rule b.example", count: 1 },
        { verdict: "failed", host: "::1", port: 80, reason: "ECONNREFUSED", count: 1 },
      ],
      untold: 0,
    })
    assert.deepStrictEqual(denials().notes, [
      'network: profile "guarded" does not allow a.example:443: no rule allows it (3 times)',
      "network: [::1]:80 was not reached: ECONNREFUSED",
    ])
    for (let port = 1; port <= 100; port++) onDecision({ outcome: "denied", host: "x", port, reason: "no rule allows it" })
    assert.strictEqual(denials().notes.length, 21)
    assert.strictEqual(denials().notes.at(-1), "network: 82 more connections were not made")
    assert.strictEqual(denials().decided?.verdicts.length, 30)
    assert.strictEqual(denials().decided?.untold, 73)
  })
})

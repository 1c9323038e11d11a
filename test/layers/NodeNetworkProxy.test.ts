import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { createServer as createHttp, type IncomingMessage } from "node:http"
import { createServer as createTcp } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { connect as connectTls, createServer as createTls } from "node:tls"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { afterEach } from "vitest"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import * as NodeNetworkProxy from "../../src/layers/NodeNetworkProxy.ts"
import * as NodeResolver from "../../src/layers/NodeResolver.ts"
import { NameResolver, NetworkProxy } from "../../src/services/NetworkProxy.ts"
import { clientHello } from "../support/ClientHello.ts"
import { listenOn, type Names, type OpenedProxy, openProxy, originOf, socksRequest, type Talk, talkTo } from "../support/Proxying.ts"
import { until } from "../support/Until.ts"

const cleanups: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})
const proxyOf = async (
  allow: ReadonlyArray<string>,
  names?: Names,
  limits?: Partial<NodeNetworkProxy.ProxyLimits>,
): Promise<OpenedProxy> => {
  const proxy = await openProxy(allow, names, limits)
  cleanups.push(proxy.close)
  return proxy
}
const origin = async (host?: string) => {
  const made = await originOf(host)
  cleanups.push(made.close)
  return made
}

const local = { "api.test": [["127.0.0.1"]], "a.wild.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]] }

/** A server that tells what it was asked, on loopback. */
const httpOrigin = async () => {
  const requests: Array<IncomingMessage & { readonly body?: string }> = []
  const server = createHttp((request, response) => {
    let body = ""
    request.setEncoding("utf8").on("data", (text) => {
      body += text
    })
    request.on("end", () => {
      requests.push(Object.assign(request, { body }))
      response
        .writeHead(200, { "x-origin": "yes", "set-cookie": ["a=1", "b=2"] })
        .end(`${request.method} ${request.url} ${request.headers.host} ${body}`)
    })
  })
  server.on("upgrade", (request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n")
    socket.write(`hello ${request.headers.host}\n`)
    socket.on("data", (chunk) => socket.write(chunk))
    socket.on("error", () => {}).on("end", () => socket.end())
  })
  const { close, port } = await listenOn(server)
  cleanups.push(close)
  return { port, requests }
}

const get = (url: string, host: string, more = "") => `GET ${url} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`

/** Says one thing to a proxy and gives all that comes back. */
const ask = async (proxy: OpenedProxy, bytes: string | Uint8Array): Promise<string> => {
  const talk = await talkTo(proxy.path)
  talk.send(bytes)
  const heard = await talk.ended
  talk.socket.destroy()
  return heard
}

/** A tunnel that was granted. */
const tunnelTo = async (proxy: OpenedProxy, host: string, port: number, way: "CONNECT" | "SOCKS" = "CONNECT"): Promise<Talk> => {
  const talk = await talkTo(proxy.path)
  talk.send(way === "CONNECT" ? `CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n` : socksRequest(host, port))
  await talk.hears(way === "CONNECT" ? "Established\r\n\r\n" : "\u0005\0\u0005\0\0\u0001\0\0\0\0\0\0")
  return talk
}

const outcomes = (proxy: OpenedProxy) => proxy.decisions.map(({ host, outcome, port }) => `${outcome} ${host}:${port}`)

describe("HTTP in absolute form", () => {
  it("reaches an allowed host, and passes requests and answers on as they are", async () => {
    const { port, requests } = await httpOrigin()
    const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
    const heard = await ask(
      proxy,
      get(`http://api.test:${port}/x?y=1`, `api.test:${port}`, "X-Mine: 1\r\nProxy-Connection: keep-alive\r\nConnection: close\r\n"),
    )
    assert.match(heard, /^HTTP\/1\.1 200 OK\r\n/u)
    assert.include(heard, "x-origin: yes")
    assert.include(heard, "set-cookie: a=1\r\nset-cookie: b=2")
    assert.include(heard, `GET /x?y=1 api.test:${port} `)
    assert.strictEqual(requests[0]?.headers["x-mine"], "1")
    assert.isUndefined(requests[0]?.headers["proxy-connection"])
    assert.deepStrictEqual(proxy.decisions, [{ outcome: "allowed", host: "api.test", port, reason: "rule api.test" }])
  })

  it("passes bodies on, of known length and in chunks", async () => {
    const { port, requests } = await httpOrigin()
    const proxy = await proxyOf([`127.0.0.1:${port}`])
    const start = `POST http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n`
    await ask(proxy, `${start}Content-Length: 5\r\n\r\nhello`)
    await ask(proxy, `${start}Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n`)
    assert.deepStrictEqual(
      requests.map(({ body }) => body),
      ["hello", "hello"],
    )
  })

  it("decides about each request of a connection", async () => {
    const { port, requests } = await httpOrigin()
    const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
    const talk = await talkTo(proxy.path)
    talk.send(get(`http://api.test:${port}/1`, `api.test:${port}`))
    await talk.hears("GET /1")
    talk.send(get(`http://denied.test:${port}/2`, `denied.test:${port}`))
    assert.include(await talk.ended, "HTTP/1.1 403 Forbidden")
    assert.include(talk.heard(), `denied.test:${port} cannot be reached by this command: no rule allows it`)
    talk.socket.destroy()
    assert.strictEqual(requests.length, 1)
    assert.deepStrictEqual(outcomes(proxy), [`allowed api.test:${port}`, `denied denied.test:${port}`])
  })

  it("refuses a Host that is not the server's, none, and two", async () => {
    const { port, requests } = await httpOrigin()
    const proxy = await proxyOf(["*.test", "127.0.0.1"], local)
    const url = `http://api.test:${port}/`
    for (const host of ["other.test", "api.test", `other.test:${port}`, `api.test:${port}\r\nHost: api.test:${port}`])
      assert.match(await ask(proxy, get(url, host)), /^HTTP\/1\.1 40[03] /u, host)
    assert.match(await ask(proxy, `GET ${url} HTTP/1.1\r\n\r\n`), /^HTTP\/1\.1 400 /u)
    assert.strictEqual(requests.length, 0)
    assert.include(proxy.decisions.map(({ reason }) => reason).join("\n"), 'a request asks for Host "other.test"')
    assert.isFalse(proxy.decisions.some(({ outcome }) => outcome === "allowed"))
  })

  it("is no server itself, and takes no other scheme", async () => {
    const proxy = await proxyOf(["api.test"], local)
    for (const url of ["/", "https://api.test/", "ftp://api.test/", "http://user:word@api.test/", "http://", "*"])
      assert.match(await ask(proxy, get(url, "api.test")), /^HTTP\/1\.1 400 /u, url)
    assert.isFalse(proxy.decisions.some(({ outcome }) => outcome !== "denied"))
  })

  it("hands an upgraded connection over", async () => {
    const { port } = await httpOrigin()
    const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
    const talk = await talkTo(proxy.path)
    talk.send(get(`http://api.test:${port}/`, `api.test:${port}`, "Connection: upgrade\r\nUpgrade: echo\r\n"))
    await talk.hears(`hello api.test:${port}\n`)
    assert.match(talk.heard(), /^HTTP\/1\.1 101 /u)
    talk.send("ping")
    await talk.hears("ping")
    talk.socket.destroy()
  })

  it("says when the server cannot be reached", async () => {
    const dead = await origin()
    await dead.close()
    cleanups.pop()
    const proxy = await proxyOf(["api.test", "gone.test", "127.0.0.1"], local)
    const heard = await ask(proxy, get(`http://api.test:${dead.port}/`, `api.test:${dead.port}`))
    assert.match(heard, /^HTTP\/1\.1 502 [\s\S]*ECONNREFUSED/u)
    assert.match(await ask(proxy, get("http://gone.test/", "gone.test")), /^HTTP\/1\.1 502 [\s\S]*not resolved: ENOTFOUND/u)
    assert.deepStrictEqual(outcomes(proxy), [`failed api.test:${dead.port}`, "failed gone.test:80"])
  })
})

for (const way of ["CONNECT", "SOCKS"] as const)
  describe(`a tunnel by ${way}`, () => {
    const refused = async (proxy: OpenedProxy, host: string, port: number) => {
      const heard = await ask(proxy, way === "CONNECT" ? `CONNECT ${host}:${port} HTTP/1.1\r\nHost: x\r\n\r\n` : socksRequest(host, port))
      assert.match(heard, way === "CONNECT" ? /^HTTP\/1\.1 40[03] / : /^\u0005\0\u0005\u0002/)
    }

    it("carries TLS to the name it was allowed for", async () => {
      const key = Buffer.alloc(16, 7)
      const server = createTls({ pskCallback: () => key, ciphers: "PSK", maxVersion: "TLSv1.2" }, (socket) => {
        socket.on("data", (chunk) => socket.write(`${socket.servername === false ? "" : socket.servername}: ${chunk}`))
      })
      const { close, port } = await listenOn(server)
      cleanups.push(close)
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const talk = await tunnelTo(proxy, "api.test", port, way)
      talk.socket.removeAllListeners("data")
      const tls = connectTls({
        socket: talk.socket,
        servername: "api.test",
        ciphers: "PSK",
        maxVersion: "TLSv1.2",
        checkServerIdentity: () => undefined,
        pskCallback: () => ({ psk: key, identity: "x" }),
      })
      const answer = await new Promise<string>((resolve, reject) => {
        tls.once("data", (chunk) => resolve(String(chunk))).once("error", reject)
        tls.write("hi")
      })
      assert.include(answer, "hi")
      tls.destroy()
    })

    it("ends when the TLS greeting names another server, which never hears of it", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      for (const name of ["other.test", undefined]) {
        const talk = await tunnelTo(proxy, "api.test", server.port, way)
        talk.send(await clientHello(name))
        await talk.gone()
        assert.strictEqual(proxy.decisions.at(-1)?.outcome, "denied")
        assert.include(proxy.decisions.at(-1)?.reason ?? "", name === undefined ? "names no server" : '"other.test"')
      }
      for (const { ended } of server.connections) assert.strictEqual(await ended, "")
      assert.strictEqual(server.connections.length, 2)
    })

    it("looks at every request of HTTP without TLS", async () => {
      const { port, requests } = await httpOrigin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const talk = await tunnelTo(proxy, "api.test", port, way)
      talk.send(get("/1", `api.test:${port}`))
      await talk.hears("GET /1")
      talk.send(get("/2", `api.test:${port}`))
      await talk.hears("GET /2")
      talk.send(get("/3", `other.test:${port}`))
      assert.include(await talk.ended, "403 Forbidden")
      talk.socket.destroy()
      assert.deepStrictEqual(
        requests.map(({ url }) => url),
        ["/1", "/2"],
      )
      assert.strictEqual(proxy.decisions.at(-1)?.outcome, "denied")
      // One name was resolved once, however many requests went there.
      assert.deepStrictEqual(proxy.lookups, ["api.test"])
    })

    it("hands an upgraded connection over", async () => {
      const { port } = await httpOrigin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const talk = await tunnelTo(proxy, "api.test", port, way)
      talk.send(get("/", `api.test:${port}`, "Connection: upgrade\r\nUpgrade: echo\r\n"))
      await talk.hears(`hello api.test:${port}\n`)
      talk.send("ping")
      await talk.hears("ping")
      talk.socket.destroy()
    })

    it("lets a server speak first, and other protocols be", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const talk = await tunnelTo(proxy, "api.test", server.port, way)
      const there = await server.connection(0)
      there.send("220 ready\r\n")
      await talk.hears("220 ready")
      talk.send("EHLO me\r\n")
      await there.hears("EHLO me\r\n")
      talk.socket.destroy()
      await there.gone()
    })

    it("hears on when one end has stopped speaking, whichever it is", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const first = await tunnelTo(proxy, "api.test", server.port, way)
      const there = await server.connection(0)
      first.send("\0last words")
      first.socket.end()
      assert.strictEqual(await there.ended, "\0last words")
      there.send("x".repeat(1_000_000))
      there.socket.end()
      assert.isAtLeast((await first.ended).length, 1_000_000)
      const second = await tunnelTo(proxy, "api.test", server.port, way)
      const other = await server.connection(1)
      other.socket.end()
      await second.ended
      second.send("\0still here")
      await other.hears("still here")
      second.socket.destroy()
      await other.gone()
    })

    it("carries large data both ways unchanged", async () => {
      const server = createTcp({ allowHalfOpen: true }, (socket) => socket.pipe(socket))
      const { close, port } = await listenOn(server)
      cleanups.push(close)
      const proxy = await proxyOf([`127.0.0.1:${port}`])
      const talk = await tunnelTo(proxy, "127.0.0.1", port, way)
      const sent = Buffer.alloc(4_000_000)
      for (let at = 0; at < sent.length; at++) sent[at] = (at * 31 + (at >> 8)) & 255
      sent[0] = 0
      const start = talk.heard().length
      talk.send(sent)
      talk.socket.end()
      const heard = (await talk.ended).slice(start)
      assert.isTrue(Buffer.from(heard, "latin1").equals(sent))
      talk.socket.destroy()
    })

    it("is refused for other names, other ports, and what only looks like a name", async () => {
      const server = await origin()
      const proxy = await proxyOf([`api.test:${server.port}`, "*.wild.test", "127.0.0.1"], local)
      const port = server.port
      await refused(proxy, "other.test", port)
      await refused(proxy, "api.test", port + 1 > 65_535 ? port - 1 : port + 1)
      await refused(proxy, "wild.test", port)
      await refused(proxy, "api.test.evil", port)
      await refused(proxy, "127.1", port)
      await refused(proxy, "2130706433", port)
      await refused(proxy, "0x7f000001", port)
      await refused(proxy, "127.0.0.2", port)
      await refused(proxy, "a..b", port)
      assert.deepStrictEqual(new Set(proxy.decisions.map(({ outcome }) => outcome)), new Set(["denied"]))
      assert.strictEqual(proxy.decisions.length, 9)
      assert.strictEqual(server.connections.length, 0)
      assert.deepStrictEqual(proxy.lookups, [])
      const talk = await tunnelTo(proxy, "A.Wild.Test.", port, way)
      assert.deepStrictEqual(proxy.decisions.at(-1), { outcome: "allowed", host: "a.wild.test", port, reason: "rule *.wild.test" })
      talk.socket.destroy()
    })

    it("never follows an allowed name to an address that is not public", async () => {
      const server = await origin()
      const addresses = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "fd00::1",
      ]
      const names = Object.fromEntries(addresses.map((address, at) => [`n${at}.test`, [[address]]]))
      const proxy = await proxyOf(["*.test"], names)
      for (const name of Object.keys(names)) await refused(proxy, name, server.port)
      assert.deepStrictEqual(new Set(proxy.decisions.map(({ outcome }) => outcome)), new Set(["denied"]))
      for (const { reason } of proxy.decisions) assert.include(reason, "is not public")
      assert.strictEqual(server.connections.length, 0)
    })

    it("asks for a name once and connects to what was checked: a name that changes its mind gets nowhere", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], { "api.test": [["127.0.0.1"], ["127.0.0.2"]] })
      const talk = await tunnelTo(proxy, "api.test", server.port, way)
      assert.deepStrictEqual(proxy.lookups, ["api.test"])
      await refused(proxy, "api.test", server.port)
      assert.deepStrictEqual(proxy.lookups, ["api.test", "api.test"])
      assert.include(proxy.decisions.at(-1)?.reason ?? "", "127.0.0.2 is not public (loopback)")
      assert.strictEqual(server.connections.length, 1)
      talk.socket.destroy()
    })

    it("takes the addresses of a name that it may, and leaves the others", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], { "api.test": [["10.0.0.1", "127.0.0.1"]] })
      const talk = await tunnelTo(proxy, "api.test", server.port, way)
      assert.strictEqual(server.connections.length, 1)
      talk.socket.destroy()
    })

    it("ends what does not say in time what it wants", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local, { headMs: 150 })
      const greeting = await clientHello("api.test")
      for (const start of [greeting.subarray(0, 100), "GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost: api"]) {
        const talk = await tunnelTo(proxy, "api.test", server.port, way)
        talk.send(start as string)
        await talk.gone()
      }
      for (const { ended } of server.connections) assert.strictEqual(await ended, "")
    })

    it("ends a greeting that never ends, and one in too many pieces", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const long = await tunnelTo(proxy, "api.test", server.port, way)
      long.send("x".repeat(100_000))
      await long.gone()
      const pieces = await tunnelTo(proxy, "api.test", server.port, way)
      pieces.socket.setNoDelay(true)
      const timer = setInterval(() => pieces.send("x"), 1)
      await pieces.gone()
      clearInterval(timer)
      for (const { ended } of server.connections) assert.strictEqual(await ended, "")
      assert.strictEqual(proxy.decisions.filter(({ outcome }) => outcome === "denied").length, 2)
    })

    it("is not blocked by another that stands still", async () => {
      const server = await origin()
      const proxy = await proxyOf(["api.test", "127.0.0.1"], local)
      const still = await tunnelTo(proxy, "api.test", server.port, way)
      const flood = await server.connection(0)
      still.socket.pause()
      flood.send(Buffer.alloc(8_000_000))
      const other = await tunnelTo(proxy, "api.test", server.port, way)
      const there = await server.connection(1)
      other.send("\0hello")
      await there.hears("hello")
      still.socket.destroy()
      other.socket.destroy()
      await flood.gone()
    })
  })

describe("IPv6", () => {
  it("is reached by its address, in any spelling, where a rule names it", async ({ skip }) => {
    const server = await origin("::1").catch(() => undefined)
    if (server === undefined) return skip("this machine has no IPv6")
    const proxy = await proxyOf([`[::1]:${server.port}`, "six.test"], { "six.test": [["::1"]] })
    for (const host of ["[::1]", "[0:0:0:0:0:0:0:1]", "six.test"]) {
      const talk = await tunnelTo(proxy, host, server.port)
      talk.socket.destroy()
    }
    assert.match(await ask(proxy, `CONNECT [::ffff:127.0.0.1]:${server.port} HTTP/1.1\r\nHost: x\r\n\r\n`), /^HTTP\/1\.1 403 /u)
    assert.match(await ask(proxy, `CONNECT [::1%25lo]:${server.port} HTTP/1.1\r\nHost: x\r\n\r\n`), /^HTTP\/1\.1 400 /u)
    assert.strictEqual(server.connections.length, 3)
  })
})

describe("limits", () => {
  it("close a client that says nothing, too little, or too slowly", async () => {
    const proxy = await proxyOf(["api.test"], local, { headMs: 150 })
    for (const start of [
      "",
      "G",
      "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nX: ",
      "\u0005",
      "\u0005\u0001\0",
      "\u0005\u0001\0\u0005\u0001\0\u0003",
    ]) {
      const talk = await talkTo(proxy.path)
      if (start !== "") talk.send(start)
      await talk.gone()
    }
    const dripping = await talkTo(proxy.path)
    dripping.send("GET http://api.test/ HTTP/1.1\r\nX: ")
    const timer = setInterval(() => dripping.send("x"), 10)
    await dripping.gone()
    clearInterval(timer)
    assert.deepStrictEqual(proxy.decisions, [])
  })

  it("refuse a head that is too big", async () => {
    const proxy = await proxyOf(["api.test"], local)
    for (const url of ["http://api.test/", `http://api.test/${"y".repeat(20_000)}`])
      assert.match(await ask(proxy, get(url, "api.test", `X: ${"x".repeat(20_000)}\r\n`)), /^HTTP\/1\.1 431 /u)
  })

  it("close a connection on which nothing moves, and no other", async () => {
    const server = await origin()
    const proxy = await proxyOf(["api.test", "127.0.0.1"], local, { idleMs: 300 })
    const idle = await tunnelTo(proxy, "api.test", server.port)
    const busy = await tunnelTo(proxy, "api.test", server.port)
    const there = await server.connection(1)
    const timer = setInterval(() => there.send("."), 20)
    await idle.gone()
    assert.isFalse(busy.socket.destroyed)
    clearInterval(timer)
    await busy.gone()
    await there.gone()
  })

  it("hold for the number of clients, and a place is free again when one has gone", async () => {
    const server = await origin()
    const proxy = await proxyOf(["api.test", "127.0.0.1"], local, { connections: 20 })
    const talks = []
    for (let turn = 0; turn < 20; turn++) talks.push(await tunnelTo(proxy, "api.test", server.port))
    const more = await Promise.all(Array.from({ length: 5 }, () => talkTo(proxy.path)))
    for (const { gone } of more) await gone()
    assert.strictEqual(proxy.decisions.filter(({ outcome }) => outcome === "denied").length, 5)
    assert.include(proxy.decisions.at(-1)?.reason ?? "", "20 connections")
    talks[0]?.socket.destroy()
    await (await server.connection(0)).gone()
    const again = await until(() => tunnelTo(proxy, "api.test", server.port).catch(() => undefined))
    for (const { socket } of [...talks, again]) socket.destroy()
  })

  it("let hundreds of requests at a time through", async () => {
    const { port, requests } = await httpOrigin()
    const proxy = await proxyOf([`127.0.0.1:${port}`])
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, at) =>
        ask(proxy, get(`http://127.0.0.1:${port}/${at}`, `127.0.0.1:${port}`, "Connection: close\r\n")),
      ),
    )
    for (const [at, text] of answers.entries()) assert.include(text, `GET /${at} `)
    assert.strictEqual(requests.length, 200)
  })
})

describe("closing", () => {
  it("revokes: what runs ends, what waits ends, and nothing gets in any more", async () => {
    const server = await origin()
    const opened = await openProxy(["*.test", "127.0.0.1"], local)
    const talk = await tunnelTo(opened, "api.test", server.port)
    const there = await server.connection(0)
    const waiting = await talkTo(opened.path)
    waiting.send("GET http://")
    assert.strictEqual(statSync(opened.path).mode & 0o777, 0o600)
    assert.strictEqual(statSync(dirname(opened.path)).mode & 0o777, 0o700)
    await opened.close()
    await Promise.all([talk.gone(), there.gone(), waiting.gone()])
    assert.isFalse(existsSync(opened.path))
    assert.isTrue(
      await talkTo(opened.path).then(
        () => false,
        () => true,
      ),
    )
  })

  it("does not wait for a name service that does not answer", async () => {
    const opened = await openProxy(["slow.test"], { "slow.test": [] })
    const talk = await talkTo(opened.path)
    talk.send(socksRequest("slow.test", 80))
    await until(() => opened.lookups.length === 1)
    await opened.close()
    await talk.gone()
    assert.deepStrictEqual(opened.decisions, [])
  })

  it("ends one proxy and leaves another with other rules as it is", async () => {
    const { port } = await httpOrigin()
    const one = await openProxy(["api.test", "127.0.0.1"], local)
    const two = await proxyOf(["other.test", "127.0.0.1"], local)
    assert.match(await ask(two, get(`http://api.test:${port}/`, `api.test:${port}`)), /^HTTP\/1\.1 403 /u)
    await one.close()
    assert.match(await ask(two, get(`http://other.test:${port}/`, `other.test:${port}`, "Connection: close\r\n")), /^HTTP\/1\.1 200 /u)
  })
})

it("takes any bytes calmly: 400 clients with nonsense, and no connection anywhere", async () => {
  const server = await origin()
  const proxy = await proxyOf([`127.0.0.1:${server.port}`], {}, { headMs: 300 })
  let state = 11
  const below = (limit: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % limit
  }
  const starts = [
    "",
    "\u0005",
    "\u0005\u0001\0",
    "GET ",
    "CONNECT ",
    "CONNECT 127.0.0.1:x HTTP/1.1\r\n",
    "POST http://",
    "\u0016\u0003\u0001",
    "PRI * HTTP/2.0\r\n\r\n",
  ]
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (let turn = 0; turn < 20; turn++) {
        const talk = await talkTo(proxy.path)
        talk.send(
          Buffer.concat([
            Buffer.from(starts[below(starts.length)] ?? "", "latin1"),
            Buffer.from(Array.from({ length: below(300) }, () => below(256))),
          ]),
        )
        talk.socket.end()
        await talk.gone()
      }
    }),
  )
  assert.strictEqual(server.connections.length, 0)
  assert.isFalse(proxy.decisions.some(({ outcome }) => outcome !== "denied"))
  const talk = await tunnelTo(proxy, "127.0.0.1", server.port)
  talk.socket.destroy()
}, 60_000)

it("lies on a short path where its own would be too long, and cannot be opened where there is none", async () => {
  const base = mkdtempSync(join(tmpdir(), "cs-"))
  const folder = join(base, "x".repeat(100))
  const runtime = process.env["XDG_RUNTIME_DIR"]
  const layer = Layer.suspend(() => NodeNetworkProxy.layer(folder)).pipe(
    Layer.provide(Layer.mergeAll(NodeIdentity.layer, NodeResolver.layer)),
  )
  const open = Effect.scoped(NetworkProxy.use((proxy) => proxy.open({ allow: [], onDecision: () => {} })))
  try {
    process.env["XDG_RUNTIME_DIR"] = base
    const { socket } = await Effect.runPromise(Effect.provide(open, layer))
    assert.isTrue(socket.startsWith(join(base, "codespace/proxies/")))
    assert.strictEqual(statSync(join(base, "codespace")).mode & 0o777, 0o700)
    process.env["XDG_RUNTIME_DIR"] = join(base, "y".repeat(100))
    assert.include((await Effect.runPromise(Effect.provide(Effect.flip(open), layer))).message, "a socket's may have")
  } finally {
    if (runtime === undefined) delete process.env["XDG_RUNTIME_DIR"]
    else process.env["XDG_RUNTIME_DIR"] = runtime
    rmSync(base, { recursive: true, force: true })
  }
  assert.include((await Effect.runPromise(Effect.provide(Effect.flip(open), NetworkProxy.layerNone))).message, "there is none")
})

it("resolves names as this machine does", async () => {
  const resolve = (name: string) => NameResolver.use((resolver) => resolver.resolve(name)).pipe(Effect.provide(NodeResolver.layer))
  const found = await Effect.runPromise(resolve("localhost"))
  assert.isTrue(found.some((address) => address === "127.0.0.1" || address === "::1"))
  assert.strictEqual((await Effect.runPromise(Effect.flip(resolve("no-such-name.invalid"))))._tag, "NameUnresolved")
})

import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { endpointOf, layer } from "../../src/mcp/Http.ts"
import { operatorRoutes } from "../../src/mcp/OperatorDoor.ts"
import { loginRoutes } from "../../src/mcp/OperatorLogin.ts"
import { initialize } from "../support/HttpEdge.ts"
import { makeTestTable } from "../support/McpTable.ts"
import { credentialIn, openOperator } from "../support/Operating.ts"
import { temporaryFolder } from "../support/Tree.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)

/** A server with one route for the operator, which both reads and changes something. */
const openHouse = Effect.gen(function* () {
  const folder = yield* temporaryFolder
  const operator = yield* openOperator(folder)
  const table = makeTestTable()
  const secret = Layer.provide(HttpRouter.add("*", "/secret", HttpServerResponse.text("secret")), operatorRoutes(operator).layer)
  const server = yield* Layer.build(
    layer(
      {
        host: "127.0.0.1",
        port: 0,
        hosts: ["code.example"],
        table: table.table,
        authenticate: (token) => Effect.succeed(token === "token-alice" ? { name: "alice", workspaces: undefined } : undefined),
        operator,
        log: () => undefined,
      },
      Layer.mergeAll(secret, loginRoutes(operator)),
    ),
  )
  const base = endpointOf(server).replace("/mcp", "")
  const ask = (path: string, init: RequestInit = {}) => fetch(`${base}${path}`, { redirect: "manual", ...init })
  const logIn = (credential: string, next = "/secret", headers: Record<string, string> = { origin: base }) =>
    ask("/login", { method: "POST", headers, body: new URLSearchParams({ credential, next }) })
  return { base, ask, logIn, credential: credentialIn(folder) }
})

const cookieOf = (response: Response): string => response.headers.get("set-cookie")?.split(";")[0] ?? ""

describe("the operator's door", () => {
  it.live("opens for the credential and for nothing that a caller has", () =>
    Effect.gen(function* () {
      const { ask, base, credential } = yield* openHouse
      yield* promise(async () => {
        const status = async (headers: Record<string, string>) => (await ask("/secret", { headers })).status
        assert.strictEqual(await status({ authorization: `Bearer ${credential}` }), 200)
        assert.strictEqual(await status({}), 401)
        assert.strictEqual(await status({ authorization: "Bearer token-alice" }), 401)
        assert.strictEqual(await status({ authorization: `Basic ${credential}` }), 401)
        assert.strictEqual((await ask(`/secret?access_token=${credential}`)).status, 401)
        const refused = await ask("/secret")
        assert.strictEqual(refused.headers.get("www-authenticate"), 'Bearer realm="codespace operator"')
        // And the credential is no caller's token.
        const called = await fetch(`${base}/mcp`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${credential}`,
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
          },
          body: JSON.stringify(initialize()),
        })
        assert.strictEqual(called.status, 401)
      })
    }),
  )

  it.live("leads a browser to the login and from there to where it wanted to go, on this server only", () =>
    Effect.gen(function* () {
      const { ask, credential, logIn } = yield* openHouse
      yield* promise(async () => {
        const away = await ask("/secret?a=1", { headers: { accept: "text/html" } })
        assert.strictEqual(away.status, 303)
        const login = away.headers.get("location") ?? ""
        assert.strictEqual(login, "/login?next=%2Fsecret%3Fa%3D1")
        const form = await (await ask(login)).text()
        assert.include(form, 'name="next" value="/secret?a=1"')
        const inside = await logIn(credential, "/secret?a=1")
        assert.strictEqual(inside.status, 303)
        assert.strictEqual(inside.headers.get("location"), "/secret?a=1")
        assert.match(
          inside.headers.get("set-cookie") ?? "",
          /^codespace_operator=csl_[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=43200$/,
        )
        assert.strictEqual(await (await ask("/secret", { headers: { cookie: cookieOf(inside) } })).text(), "secret")
        for (const next of ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a\r\nset-cookie: x=y"])
          assert.strictEqual((await logIn(credential, next)).headers.get("location"), "/", next)
        const quoted = await (await ask(`/login?next=${encodeURIComponent('/"><script>alert(1)</script>')}`)).text()
        assert.notInclude(quoted, "<script>")
      })
    }),
  )

  it.live("says what is wrong, slows down who guesses, and lets nobody frame or keep the page", () =>
    Effect.gen(function* () {
      const { ask, logIn } = yield* openHouse
      yield* promise(async () => {
        const form = await ask("/login")
        assert.include(form.headers.get("content-security-policy") ?? "", "frame-ancestors 'none'")
        assert.strictEqual(form.headers.get("cache-control"), "no-store")
        const statuses: Array<number> = []
        for (let attempt = 0; attempt < 7; attempt++) statuses.push((await logIn(`guess ${attempt}`)).status)
        assert.deepStrictEqual(statuses, [401, 401, 401, 401, 401, 429, 429])
      })
    }),
  )

  it.live("takes no request of another page for the operator's, not even of one on another port", () =>
    Effect.gen(function* () {
      const { ask, base, credential, logIn } = yield* openHouse
      yield* promise(async () => {
        const cookie = cookieOf(await logIn(credential))
        const status = async (origin?: string) =>
          (await ask("/secret", { method: "POST", headers: { cookie, ...(origin === undefined ? {} : { origin }) } })).status
        assert.strictEqual(await status(base), 200)
        assert.strictEqual(await status("http://127.0.0.1:1"), 401)
        assert.strictEqual(await status(), 401)
        assert.strictEqual(await status("http://evil.example"), 403)
        assert.strictEqual((await logIn(credential, "/", { origin: "http://127.0.0.1:1" })).status, 403)
        await ask("/logout", { method: "POST", headers: { cookie, origin: "http://127.0.0.1:1" } })
        assert.strictEqual(await status(base), 200)
        await ask("/logout", { method: "POST", headers: { cookie, origin: base } })
        assert.strictEqual(await status(base), 401)
      })
    }),
  )
})

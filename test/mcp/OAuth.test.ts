/** The embedded login: from a client that knows the address alone to tokens that work, and every way that must not work. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as NodeClientDocuments from "../../src/layers/NodeClientDocuments.ts"
import { ClientDocuments } from "../../src/services/ClientDocuments.ts"
import { matchingRedirect, redirectProblem } from "../../src/services/RedirectAddresses.ts"
import { answerOf, modernCall, rawRequest } from "../support/HttpEdge.ts"
import { authorizeUrl, callback, type LoginHouse, logInClient, openLoginHouse, pkce, tokensOf } from "../support/LoginHouse.ts"
import { temporaryFolder } from "../support/Tree.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)
const house = Effect.flatMap(temporaryFolder, (folder) => openLoginHouse(folder))

/** Who the server takes the holder of a token for; the status when it takes nobody. */
const who = async ({ endpoint }: Pick<LoginHouse, "endpoint">, token: string) => {
  const { body, headers } = modernCall("who")
  const response = await fetch(endpoint, {
    method: "POST",
    headers: {
      ...headers,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      authorization: `Bearer ${token}`,
    },
    body: JSON.stringify(body),
  })
  return response.status === 200 ? (await answerOf(response)).result?.structuredContent : response.status
}

const refreshed = (one: LoginHouse, client_id: string, refresh_token: string, more: Record<string, string> = {}) =>
  one.post("/token", { grant_type: "refresh_token", client_id, refresh_token, ...more }).then(tokensOf)

describe("a client that knows nothing but the address", () => {
  it.live("finds the login, registers, is let in by the operator, and calls a tool", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const kept = new Map<string, unknown>()
        const provider = {
          redirectUrl: callback,
          clientMetadata: { client_name: "Test app", redirect_uris: [callback] },
          state: () => "state 1",
          clientInformation: () => kept.get("client") as never,
          saveClientInformation: (client: object) => void kept.set("client", client),
          tokens: () => kept.get("tokens") as never,
          saveTokens: (tokens: object) => void kept.set("tokens", tokens),
          redirectToAuthorization: (url: URL) => void kept.set("url", url),
          saveCodeVerifier: (verifier: string) => void kept.set("verifier", verifier),
          codeVerifier: () => String(kept.get("verifier")),
        }
        const transport = () => new StreamableHTTPClientTransport(new URL(one.endpoint), { authProvider: provider })
        const first = transport()
        const refused = await new Client({ name: "test", version: "1" }).connect(first as never).catch((error: unknown) => error)
        assert.instanceOf(refused, UnauthorizedError)
        const cookie = await one.logIn()
        const page = await (await one.go(String(kept.get("url")), { headers: { cookie } })).text()
        assert.include(page, "<strong>app.example</strong>")
        assert.include(page, "<strong>Test app</strong>")
        const answered = await one.decide(page, cookie, [
          ["workspace", "lib"],
          ["profile", "read-only"],
          ["decision", "allow"],
        ])
        const location = new URL(answered.headers.get("location") ?? "")
        assert.strictEqual(location.searchParams.get("state"), "state 1")
        assert.strictEqual(location.searchParams.get("iss"), one.base)
        await first.finishAuth(location.searchParams.get("code") ?? "")
        const client = new Client({ name: "test", version: "1" })
        await client.connect(transport() as never)
        const told = await client.callTool({ name: "who", arguments: {} })
        assert.deepInclude(told.structuredContent, { name: "test-app", workspaces: ["lib"] })
        await client.close()
      })
      const [caller] = yield* one.callers.list
      assert.deepInclude(caller, { name: "test-app", known_by: "login", workspaces: ["lib"], highest: "read-only", trust_prompts: false })
    }),
  )

  it.live("reads at the name it used who gives tokens for what", () =>
    Effect.gen(function* () {
      const { base, endpoint, go } = yield* house
      yield* promise(async () => {
        const refused = await go("/mcp", { method: "POST", body: "{}" })
        const place = /resource_metadata="([^"]+)"/.exec(refused.headers.get("www-authenticate") ?? "")?.[1] ?? ""
        assert.strictEqual(place, `${base}/.well-known/oauth-protected-resource/mcp`)
        for (const path of [place, "/.well-known/oauth-protected-resource"])
          assert.deepStrictEqual(await (await go(path)).json(), {
            resource: endpoint,
            authorization_servers: [base],
            bearer_methods_supported: ["header"],
            resource_name: "CodeSpace",
            scopes_supported: ["mcp"],
          })
        const metadata = (await (await go("/.well-known/oauth-authorization-server")).json()) as Record<string, unknown>
        assert.deepInclude(metadata, {
          issuer: base,
          code_challenge_methods_supported: ["S256"],
          token_endpoint_auth_methods_supported: ["none"],
          client_id_metadata_document_supported: true,
          authorization_response_iss_parameter_supported: true,
        })
        // Behind a tunnel everything is told under the public name.
        const tunnelled = await rawRequest(endpoint, { host: "code.example" }, "{}")
        assert.strictEqual(tunnelled.status, 401)
        const { port } = new URL(base)
        const elsewhere = await rawGet(`${base}/.well-known/oauth-protected-resource/mcp`, "code.example")
        assert.deepInclude(JSON.parse(elsewhere), { resource: "https://code.example/mcp", authorization_servers: ["https://code.example"] })
        assert.strictEqual((await rawRequest(`${base}/register`, { host: `evil.example:${port}` }, "{}")).status, 403)
      })
    }),
  )
})

const rawGet = async (url: string, host: string): Promise<string> => {
  const { request } = await import("node:http")
  return await new Promise((resolve, reject) => {
    request(url, { headers: { host } }, (response) => {
      let text = ""
      response.on("data", (part) => (text += String(part)))
      response.on("end", () => resolve(text))
    })
      .on("error", reject)
      .end()
  })
}

describe("the consent page", () => {
  const asked = (client_id: string, more: Record<string, string> = {}) =>
    authorizeUrl({
      client_id,
      redirect_uri: callback,
      response_type: "code",
      code_challenge: pkce().challenge,
      code_challenge_method: "S256",
      state: "x",
      ...more,
    })

  it.live("is the operator's alone, and a decision comes from it and from nowhere else", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const { client_id } = (await one.register({ redirect_uris: [callback] })).body
        const away = await one.go(asked(client_id), { headers: { accept: "text/html" } })
        assert.strictEqual(away.status, 303)
        assert.match(away.headers.get("location") ?? "", /^\/login\?next=%2Fauthorize/)
        assert.strictEqual((await one.go(asked(client_id), { headers: { authorization: "Bearer x" } })).status, 401)
        const cookie = await one.logIn()
        const page = await one.go(asked(client_id), { headers: { cookie } })
        assert.include(page.headers.get("content-security-policy") ?? "", "form-action 'self' https://app.example")
        assert.include(page.headers.get("content-security-policy") ?? "", "frame-ancestors 'none'")
        const fields = [
          ["asked.client_id", client_id],
          ["workspace", "app"],
          ["decision", "allow"],
        ] as const
        for (const headers of [{ cookie, origin: "http://127.0.0.1:1" }, { cookie }, { origin: one.base }])
          assert.strictEqual((await one.post("/authorize", fields, headers as Record<string, string>)).status, 401)
      })
    }),
  )

  it.live("denies, wants at least one workspace, and gives no more than there is", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const { client_id } = (await one.register({ redirect_uris: [callback] })).body
        const cookie = await one.logIn()
        const page = await (await one.go(asked(client_id), { headers: { cookie } })).text()
        const denied = new URL((await one.decide(page, cookie, [["decision", "deny"]])).headers.get("location") ?? "")
        assert.strictEqual(denied.searchParams.get("error"), "access_denied")
        assert.strictEqual(denied.searchParams.get("state"), "x")
        assert.strictEqual(denied.searchParams.get("iss"), one.base)
        assert.isNull(denied.searchParams.get("code"))
        for (const choices of [
          [],
          [["workspace", "nope"]],
          [
            ["workspace", "app"],
            ["profile", "nope"],
          ],
        ] as const) {
          const again = await one.decide(page, cookie, [...choices, ["decision", "allow"]])
          assert.strictEqual(again.status, 400)
          assert.include(await again.text(), 'role="alert"')
        }
      })
      assert.deepStrictEqual(yield* one.callers.list, [])
    }),
  )

  it.live("shows what a client says as text, and a person's own program by its scheme", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const cookie = await one.logIn()
        const client = (await one.register({ client_name: "<script>alert(1)</script>\u202e", redirect_uris: ["cursor://tools/cb"] })).body
        const page = await one.go(asked(client.client_id, { redirect_uri: "cursor://tools/cb", state: '"><img src=x>' }), {
          headers: { cookie },
        })
        const text = await page.text()
        assert.notInclude(text, "<script>")
        assert.notInclude(text, "<img")
        assert.notInclude(text, "\u202e")
        assert.include(text, "the program that opens cursor:")
        assert.include(page.headers.get("content-security-policy") ?? "", "form-action 'self' cursor:")
      })
    }),
  )

  it.live("sends nobody anywhere for a client or an address it does not know", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const { client_id } = (await one.register({ redirect_uris: [callback, "http://localhost:1/cb"] })).body
        const cookie = await one.logIn()
        const open = (path: string) => one.go(path, { headers: { cookie } })
        for (const path of [
          asked("csi_unknown"),
          asked(""),
          asked(client_id, { redirect_uri: "https://evil.example/callback" }),
          asked(client_id, { redirect_uri: `${callback}?x=1` }),
          asked(client_id, { redirect_uri: `${callback}/../callback` }),
          asked(client_id, { redirect_uri: "http://localhost:1/other" }),
          asked(client_id, { redirect_uri: "javascript:alert(1)" }),
          asked(client_id).replace(/redirect_uri=[^&]*&/, ""),
          `${asked(client_id)}&state=y`,
          `${asked(client_id)}&redirect_uri=${encodeURIComponent("https://evil.example/")}`,
        ]) {
          const response = await open(path)
          assert.strictEqual(response.status, 400, path)
          assert.isNull(response.headers.get("location"), path)
        }
        const told = async (more: Record<string, string>) => {
          const response = await open(asked(client_id, more))
          assert.strictEqual(response.status, 303)
          return new URL(response.headers.get("location") ?? "").searchParams.get("error")
        }
        assert.strictEqual(await told({ response_type: "token" }), "unsupported_response_type")
        assert.strictEqual(await told({ code_challenge: "" }), "invalid_request")
        assert.strictEqual(await told({ code_challenge_method: "plain" }), "invalid_request")
        assert.strictEqual(await told({ resource: "https://other.example/mcp" }), "invalid_target")
        assert.strictEqual((await open(asked(client_id, { redirect_uri: "http://localhost:54321/cb" }))).status, 200)
        for (const resource of [one.endpoint, `${one.endpoint}/`, one.base, `${one.base}/`])
          assert.strictEqual((await open(asked(client_id, { resource }))).status, 200, resource)
      })
    }),
  )
})

describe("codes and tokens", () => {
  it.effect("last an hour, and a refresh token thirty days; they are for the name under which they were given", () =>
    Effect.gen(function* () {
      const one = yield* house
      const { client_id, tokens } = yield* promise(() => logInClient(one))
      assert.strictEqual(tokens.expires_in, 3600)
      yield* TestClock.adjust("59 minutes")
      assert.deepInclude((yield* promise(() => who(one, tokens.access_token))) as object, { name: "app" })
      assert.strictEqual(yield* promise(() => who(one, tokens.refresh_token)), 401)
      const { body, headers } = modernCall("who")
      const elsewhere = yield* promise(() =>
        rawRequest(
          one.endpoint,
          {
            ...headers,
            host: "code.example",
            accept: "application/json, text/event-stream",
            authorization: `Bearer ${tokens.access_token}`,
          },
          JSON.stringify(body),
        ),
      )
      assert.strictEqual(elsewhere.status, 401)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* promise(() => who(one, tokens.access_token)), 401)
      const next = yield* promise(() => refreshed(one, client_id, tokens.refresh_token))
      assert.deepInclude((yield* promise(() => who(one, next.access_token))) as object, { name: "app" })
      yield* TestClock.adjust("30 days")
      assert.strictEqual((yield* promise(() => refreshed(one, client_id, next.refresh_token))).error, "invalid_grant")
    }),
  )

  it.live("turn everybody out when a code or a refresh token comes twice", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const first = await logInClient(one)
        assert.strictEqual(first.tokens.status, 200)
        assert.strictEqual((await tokensOf(await one.post("/token", first.exchange))).error, "invalid_grant")
        assert.strictEqual(await who(one, first.tokens.access_token), 401)
        assert.strictEqual((await refreshed(one, first.client_id, first.tokens.refresh_token)).error, "invalid_grant")

        const { client_id, tokens } = await logInClient(one)
        const second = await refreshed(one, client_id, tokens.refresh_token)
        const third = await refreshed(one, client_id, second.refresh_token)
        assert.deepInclude((await who(one, third.access_token)) as object, { name: "app" })
        assert.strictEqual((await refreshed(one, client_id, second.refresh_token)).error, "invalid_grant")
        for (const token of [tokens, second, third]) assert.strictEqual(await who(one, token.access_token), 401)
        assert.strictEqual((await refreshed(one, client_id, third.refresh_token)).error, "invalid_grant")
      })
      assert.deepStrictEqual(yield* one.callers.list, [])
    }),
  )

  it.effect("are given for the right code of the right client with the right verifier, within a minute", () =>
    Effect.gen(function* () {
      const one = yield* house
      const other = (yield* promise(() => one.register({ redirect_uris: [callback] }))).body.client_id
      const attempt = (change: Record<string, string>, after = "0 millis" as const) =>
        Effect.gen(function* () {
          // A code that was not exchanged: the helper's exchange fails for the wrong verifier.
          const { client_id } = (yield* promise(() => one.register({ redirect_uris: [callback] }))).body
          const cookie = yield* promise(() => one.logIn())
          const { challenge, verifier } = pkce()
          const asked = {
            client_id,
            redirect_uri: callback,
            response_type: "code",
            code_challenge: challenge,
            code_challenge_method: "S256",
          }
          const page = yield* promise(async () => (await one.go(authorizeUrl(asked), { headers: { cookie } })).text())
          const answered = yield* promise(() =>
            one.decide(page, cookie, [
              ["workspace", "app"],
              ["decision", "allow"],
            ]),
          )
          const code = new URL(answered.headers.get("location") ?? "").searchParams.get("code") ?? ""
          yield* TestClock.adjust(after)
          const fields = { grant_type: "authorization_code", client_id, code, code_verifier: verifier, redirect_uri: callback, ...change }
          return yield* promise(async () => tokensOf(await one.post("/token", fields)))
        })
      assert.strictEqual((yield* attempt({})).status, 200)
      for (const [change, error] of [
        [{ code_verifier: pkce().verifier }, "invalid_grant"],
        [{ code_verifier: "" }, "invalid_request"],
        [{ code: "csc_unknown" }, "invalid_grant"],
        [{ client_id: other }, "invalid_grant"],
        [{ redirect_uri: "https://app.example/other" }, "invalid_grant"],
        [{ resource: "https://other.example/mcp" }, "invalid_target"],
        [{ grant_type: "password" }, "unsupported_grant_type"],
        [{ client_id: "csi_unknown" }, "invalid_client"],
      ] as ReadonlyArray<[Record<string, string>, string]>) {
        const refused = yield* attempt(change)
        assert.strictEqual(refused.error, error, JSON.stringify(change))
        assert.strictEqual(refused.status, error === "invalid_client" ? 401 : 400)
      }
      assert.strictEqual((yield* attempt({}, "1 minute" as never)).error, "invalid_grant")
    }),
  )

  it.live("survive a restart, are kept as hashes, and end when the operator or the client revokes them (R118)", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const before = yield* Effect.scoped(
        Effect.flatMap(openLoginHouse(folder), (one) =>
          promise(() => logInClient(one).then((made) => ({ ...made, port: new URL(one.base).port }))),
        ),
      )
      const one = yield* openLoginHouse(folder)
      yield* promise(async () => {
        // Another port is another address, which the access token is not for; the login itself is found again.
        assert.strictEqual((await refreshed(one, before.client_id, before.tokens.refresh_token)).error, "invalid_target")
        const { body, headers } = modernCall("who")
        const there = await rawRequest(
          one.endpoint,
          {
            ...headers,
            host: `127.0.0.1:${before.port}`,
            accept: "application/json, text/event-stream",
            authorization: `Bearer ${before.tokens.access_token}`,
          },
          JSON.stringify(body),
        )
        assert.strictEqual(there.status, 200)
        const again = await logInClient(one)
        for (const file of readdirSync(folder).filter((name) => name.startsWith("codespace.sqlite"))) {
          const text = readFileSync(join(folder, file), "latin1")
          for (const secret of [before.tokens.access_token, again.tokens.refresh_token, again.code]) assert.notInclude(text, secret, file)
        }
        assert.strictEqual((await one.post("/revoke", { token: again.tokens.refresh_token })).status, 200)
        assert.strictEqual(await who(one, again.tokens.access_token), 401)
        assert.strictEqual((await one.post("/revoke", { token: "unknown" })).status, 200)
      })
      const last = yield* promise(() => logInClient(one))
      const names = (yield* one.callers.list).map(({ name }) => name)
      for (const name of names) yield* one.callers.revoke(name)
      assert.strictEqual(yield* promise(() => who(one, last.tokens.access_token)), 401)
      assert.strictEqual((yield* promise(() => refreshed(one, last.client_id, last.tokens.refresh_token))).error, "invalid_grant")
    }),
  )

  it.live("replace what the same client had, under the same name", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const first = await logInClient(one)
        const second = await logInClient(one, [["workspace", "lib"]], first.client_id)
        assert.strictEqual(await who(one, first.tokens.access_token), 401)
        assert.deepInclude((await who(one, second.tokens.access_token)) as object, { name: "app", workspaces: ["lib"] })
      })
      assert.strictEqual((yield* one.callers.list).length, 1)
    }),
  )
})

describe("registration", () => {
  it.live("takes addresses that a browser can be sent to, and no others", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const made = await one.register({
          client_name: "App",
          redirect_uris: ["http://127.0.0.1/cb"],
          token_endpoint_auth_method: "client_secret_post",
        })
        assert.strictEqual(made.status, 201)
        assert.deepInclude(made.body, { token_endpoint_auth_method: "none", grant_types: ["authorization_code", "refresh_token"] })
        assert.notProperty(made.body, "client_secret")
        for (const redirect_uris of [
          ["http://evil.example/cb"],
          ["javascript:alert(1)"],
          ["data:text/html,x"],
          ["https://a.example/#x"],
          ["https://u:p@a.example/"],
          ["/cb"],
        ]) {
          const refused = await one.register({ redirect_uris })
          assert.strictEqual(refused.status, 400)
          assert.strictEqual(refused.body["error"], "invalid_redirect_uri")
        }
        for (const bad of [
          {},
          { redirect_uris: [] },
          { redirect_uris: [1] },
          { redirect_uris: Array.from({ length: 21 }, () => callback) },
          { redirect_uris: [`${callback}?${"x".repeat(2000)}`] },
          { redirect_uris: [callback], client_name: "x".repeat(70_000) },
        ])
          assert.strictEqual((await one.register(bad)).body["error"], "invalid_client_metadata")
      })
    }),
  )

  it.live("remembers a bounded number of clients that nobody let in, and all that were", () =>
    Effect.gen(function* () {
      const one = yield* house
      yield* promise(async () => {
        const used = await logInClient(one)
        const first = (await one.register({ redirect_uris: [callback] })).body.client_id
        await Promise.all(Array.from({ length: 200 }, () => one.register({ redirect_uris: [callback] })))
        const errorFor = async (client_id: string) =>
          (await tokensOf(await one.post("/token", { grant_type: "refresh_token", client_id, refresh_token: "x" }))).error
        assert.strictEqual(await errorFor(first), "invalid_client")
        assert.strictEqual(await errorFor(used.client_id), "invalid_grant")
      })
    }),
  )

  it("compares addresses letter by letter, but for the port of the person's own machine", () => {
    const registered = ["https://a.example/cb", "http://127.0.0.1:1/cb", "app://x"]
    for (const same of ["https://a.example/cb", "http://127.0.0.1/cb", "http://127.0.0.1:65000/cb", "app://x"])
      assert.strictEqual(matchingRedirect(registered, same), same)
    for (const other of [
      "https://a.example/cb/",
      "https://a.example:444/cb",
      "https://A.example/cb",
      "http://localhost:1/cb",
      "http://127.0.0.1:1/cb?x",
      "app://y",
      "http://127.0.0.1.evil.example/cb",
      "http://127.0.0.1@evil.example/cb",
    ])
      assert.isUndefined(matchingRedirect(registered, other), other)
    assert.isUndefined(redirectProblem("http://[::1]:9/cb"))
  })
})

describe("a client whose id is the address of its document", () => {
  const id = "https://app.example/client.json"
  const document = (over: object = {}) => JSON.stringify({ client_id: id, client_name: "App", redirect_uris: [callback], ...over })
  const open = (documents: Record<string, string>) => Effect.flatMap(temporaryFolder, (folder) => openLoginHouse(folder, { documents }))
  const page = async (one: LoginHouse, client_id = id) => {
    const fields = {
      client_id,
      redirect_uri: callback,
      response_type: "code",
      code_challenge: pkce().challenge,
      code_challenge_method: "S256",
    }
    return one.go(authorizeUrl(fields), { headers: { cookie: await one.logIn() } })
  }

  it.live("is let in without registering, and shown with that address", () =>
    Effect.gen(function* () {
      const one = yield* open({ [id]: document() })
      yield* promise(async () => {
        assert.include(await (await page(one)).text(), `<code>${id}</code>`)
        const { tokens } = await logInClient(one, [["workspace", "app"]], id)
        assert.deepInclude((await who(one, tokens.access_token)) as object, { name: "app" })
        // Many share such an id, so a second login does not end the first.
        const second = await logInClient(one, [["workspace", "app"]], id)
        assert.deepInclude((await who(one, tokens.access_token)) as object, { name: "app" })
        assert.deepInclude((await who(one, second.tokens.access_token)) as object, { name: "app-2" })
        assert.strictEqual((await refreshed(one, id, tokens.refresh_token)).status, 200)
      })
    }),
  )

  it.live("must be described there, and by a document about itself", () =>
    Effect.gen(function* () {
      const documents = {
        "https://app.example/other": document(),
        "https://app.example/broken": "no JSON",
        "https://app.example/evil": document({ client_id: "https://app.example/evil", redirect_uris: ["javascript:x"] }),
      }
      const one = yield* open(documents)
      yield* promise(async () => {
        for (const client_id of [id, ...Object.keys(documents), "https://app.example/", "http://app.example/client.json"])
          assert.strictEqual((await page(one, client_id)).status, 400, client_id)
      })
    }),
  )

  it.live("is looked for on public machines only", () =>
    Effect.gen(function* () {
      const documents = yield* ClientDocuments
      for (const address of [
        "http://app.example/x",
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://0x7f000001/x",
        "https://169.254.169.254/latest",
        "https://localhost/x",
        "https://localhost:1/x",
        "https://u@app.example/x",
        "file:///etc/passwd",
      ]) {
        const refused = yield* Effect.flip(documents.fetch(address))
        assert.match(refused.description, /no https address|without a name|not public|cannot be had/, address)
        assert.notMatch(refused.description, /ECONNREFUSED|status/, address)
      }
    }).pipe(Effect.provide(NodeClientDocuments.layer)),
  )
})

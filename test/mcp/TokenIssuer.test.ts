/** The endpoint as the resource server of another OAuth server: real keys, real tokens, an issuer that comes and goes. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose"
import { answerOf, modernCall } from "../support/HttpEdge.ts"
import { openLoginHouse } from "../support/LoginHouse.ts"
import { temporaryFolder } from "../support/Tree.ts"

const promise = <A>(make: () => Promise<A>) => Effect.promise(make)

/** An issuer with one key, which can be away. */
const openIssuer = Effect.gen(function* () {
  const { privateKey, publicKey } = yield* promise(() => generateKeyPair("ES256"))
  const jwk = yield* promise(() => exportJWK(publicKey))
  const state = { away: false, issuer: "" }
  const server = createServer((request, response) => {
    const found = {
      "/.well-known/openid-configuration": { issuer: state.issuer, jwks_uri: `${state.issuer}/keys` },
      "/keys": { keys: [{ ...jwk, kid: "1", alg: "ES256" }] },
    }
    const body = state.away ? undefined : found[request.url as keyof typeof found]
    response
      .writeHead(state.away ? 503 : body === undefined ? 404 : 200, { "content-type": "application/json" })
      .end(JSON.stringify(body ?? {}))
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      }),
  )
  state.issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sign = (claims: { aud?: string; sub?: string; iss?: string; exp?: string | number }, key = privateKey, alg = "ES256") => {
    const token = new SignJWT({}).setProtectedHeader({ alg, kid: "1" }).setIssuer(claims.iss ?? state.issuer)
    if (claims.aud !== undefined) token.setAudience(claims.aud)
    if (claims.sub !== undefined) token.setSubject(claims.sub)
    if (claims.exp !== undefined) token.setExpirationTime(claims.exp)
    return token.sign(key)
  }
  return { state, sign, publicJwk: jwk, otherKey: (yield* promise(() => generateKeyPair("ES256"))).privateKey }
})

describe("tokens of the configured issuer", () => {
  it.live("count when their signature, issuer, audience and time are right, with the rights the operator gave their subject", () =>
    Effect.gen(function* () {
      const { otherKey, publicJwk, sign, state } = yield* openIssuer
      const house = yield* openLoginHouse(yield* temporaryFolder, { http: { issuer: state.issuer } })
      const { base, endpoint, go } = house
      const ask = async (token: string) => {
        const { body, headers } = modernCall("who")
        return await fetch(endpoint, {
          method: "POST",
          headers: {
            ...headers,
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            authorization: `Bearer ${token}`,
          },
          body: JSON.stringify(body),
        })
      }
      yield* house.callers.admit({ name: "ann", subject: "auth|1", workspaces: ["app"], trust_prompts: false })
      const token = (yield* house.callers.admit({ name: "bob", trust_prompts: false })) ?? ""
      yield* promise(async () => {
        const good = { aud: endpoint, sub: "auth|1", exp: "1 minute" }
        const told = async (jwt: string) => (await answerOf(await ask(jwt))).result?.structuredContent
        assert.deepInclude(await told(await sign(good)), { name: "ann", workspaces: ["app"] })
        assert.deepInclude(await told(await sign({ ...good, sub: "auth|2" })), { name: "issuer:auth|2", workspaces: [] })
        assert.deepInclude(await told(token), { name: "bob" })
        const now = Math.floor(Date.now() / 1000)
        const bad: Record<string, string> = {
          "run out": await sign({ ...good, exp: now - 60 }),
          "without an end": await sign({ aud: endpoint, sub: "auth|1" }),
          "for another server": await sign({ ...good, aud: "https://other.example/mcp" }),
          "for the origin only": await sign({ ...good, aud: base }),
          "for nobody": await sign({ sub: "auth|1", exp: "1 minute" }),
          "of nobody": await sign({ aud: endpoint, exp: "1 minute" }),
          "of another issuer": await sign({ ...good, iss: "https://evil.example" }),
          "with another key": await sign(good, otherKey),
          "without a signature": new UnsecuredJWT({})
            .setIssuer(state.issuer)
            .setAudience(endpoint)
            .setSubject("auth|1")
            .setExpirationTime("1 minute")
            .encode(),
          "signed with the public key": await new SignJWT({})
            .setProtectedHeader({ alg: "HS256", kid: "1" })
            .setIssuer(state.issuer)
            .setAudience(endpoint)
            .setSubject("auth|1")
            .setExpirationTime("1 minute")
            .sign(new TextEncoder().encode(JSON.stringify(publicJwk))),
          "no token at all": "a.b.c",
        }
        for (const [what, jwt] of Object.entries(bad)) {
          const response = await ask(jwt)
          assert.strictEqual(response.status, 401, what)
          assert.match(response.headers.get("www-authenticate") ?? "", /^Bearer error="invalid_token", .*resource_metadata="/)
        }
        const metadata = await (await go("/.well-known/oauth-protected-resource/mcp")).json()
        assert.deepInclude(metadata, { resource: endpoint, authorization_servers: [state.issuer] })
        // There is one place to log in, and it is not here.
        for (const path of ["/.well-known/oauth-authorization-server", "/authorize"]) assert.strictEqual((await go(path)).status, 404)
      })
    }),
  )

  it.live("are not called wrong when the issuer cannot be asked, and count once it is back", () =>
    Effect.gen(function* () {
      const { sign, state } = yield* openIssuer
      const { endpoint } = yield* openLoginHouse(yield* temporaryFolder, { http: { issuer: state.issuer } })
      yield* promise(async () => {
        const jwt = await sign({ aud: endpoint, sub: "auth|1", exp: "1 minute" })
        const ask = () => fetch(endpoint, { method: "POST", headers: { authorization: `Bearer ${jwt}` }, body: "{}" })
        state.away = true
        const away = await ask()
        assert.strictEqual(away.status, 503)
        assert.isNotNull(away.headers.get("retry-after"))
        state.away = false
        assert.strictEqual((await ask()).status, 415)
      })
    }),
  )
})

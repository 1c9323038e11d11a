/** A server on loopback where clients log in, with its real records, and what a browser and a client do there. */
import { createHash, randomBytes } from "node:crypto"
import { Context, Effect, Layer } from "effect"
import { layerOperator, layerRecordsIn } from "../../src/layers/App.ts"
import { clientLogin } from "../../src/mcp/ClientLogin.ts"
import { endpointOf, layer } from "../../src/mcp/Http.ts"
import { loginRoutes } from "../../src/mcp/OperatorLogin.ts"
import { OAuthError } from "../../src/schema/OAuth.ts"
import { type AppConfig, builtInProfiles } from "../../src/services/AppConfig.ts"
import { Authorizations } from "../../src/services/Authorizations.ts"
import { Callers } from "../../src/services/Callers.ts"
import { ClientDocuments } from "../../src/services/ClientDocuments.ts"
import { Operator } from "../../src/services/Operator.ts"
import { makeTestTable } from "./McpTable.ts"
import { credentialIn } from "./Operating.ts"

const workspace = (id: string) => [id, { id, profile: builtInProfiles.get("workspace-write") }] as const

export interface HouseOptions {
  readonly http?: Partial<AppConfig["Service"]["http"]>
  /** Documents of clients by their addresses. */
  readonly documents?: Readonly<Record<string, string>>
}

/** The server on this folder's records, until the scope ends. */
export const openLoginHouse = (folder: string, { documents = {}, http = {} }: HouseOptions = {}) =>
  Effect.gen(function* () {
    const web = Layer.succeed(ClientDocuments, {
      fetch: (address) => {
        const text = documents[address]
        return text === undefined
          ? Effect.fail(new OAuthError({ error: "invalid_client", description: `nothing at ${address}` }))
          : Effect.succeed(text)
      },
    })
    const own = Layer.mergeAll(layerOperator(folder), Authorizations.layer, web)
    const services = yield* Layer.build(Layer.fresh(own.pipe(Layer.provideMerge(layerRecordsIn(folder)))))
    const operator = Context.get(services, Operator)
    const callers = Context.get(services, Callers)
    const config = {
      workspaces: new Map([workspace("app"), workspace("lib")]),
      profiles: builtInProfiles,
      http: { host: "127.0.0.1", port: 0, hosts: ["code.example"], origins: [], issuer: null, login: "on" as const, ...http },
    } as unknown as AppConfig["Service"]
    const { routes, ...login } = clientLogin(config, {
      callers,
      operator,
      authorizations: Context.get(services, Authorizations),
      documents: Context.get(services, ClientDocuments),
    })
    const table = makeTestTable()
    const options = { ...config.http, ...login, table: table.table, operator, log: () => undefined }
    const server = yield* Layer.build(layer(options, Layer.mergeAll(loginRoutes(operator), routes)))
    const endpoint = endpointOf(server)
    const base = endpoint.replace("/mcp", "")
    return { endpoint, base, callers, events: table.events, credential: credentialIn(folder), ...browserOn(base, credentialIn(folder)) }
  })
export type LoginHouse = Effect.Success<ReturnType<typeof openLoginHouse>>

/** What the operator's browser and a client's server send. */
export const browserOn = (base: string, credential: string) => {
  const go = (path: string, init: RequestInit = {}) =>
    fetch(path.startsWith("http") ? path : `${base}${path}`, { redirect: "manual", ...init })
  const post = (
    path: string,
    fields: Record<string, string> | ReadonlyArray<readonly [string, string]>,
    headers: Record<string, string> = {},
  ) => go(path, { method: "POST", headers, body: new URLSearchParams(fields as Record<string, string>) })
  const logIn = async (): Promise<string> =>
    (await post("/login", { credential }, { origin: base })).headers.get("set-cookie")?.split(";")[0] ?? ""
  const register = async (metadata: object) => {
    const response = await go("/register", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(metadata),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> & { client_id: string } }
  }
  /** The consent page's form, filled in, as a browser would send it. */
  const decide = async (page: string, cookie: string, choices: ReadonlyArray<readonly [string, string]>) => {
    const hidden = [...page.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map(
      ([, name = "", value = ""]) => [plain(name), plain(value)] as const,
    )
    return await post("/authorize", [...hidden, ...choices], { origin: base, cookie })
  }
  return { go, post, logIn, register, decide }
}

const plain = (html: string): string => html.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))

export const callback = "https://app.example/callback"

/** A verifier and the challenge it answers. */
export const pkce = () => {
  const verifier = randomBytes(32).toString("base64url")
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") }
}

export const authorizeUrl = (fields: Record<string, string>): string => `/authorize?${new URLSearchParams(fields)}`

/** Registers, asks, agrees and exchanges: everything up to the tokens. */
export const logInClient = async (
  house: LoginHouse,
  choices: ReadonlyArray<readonly [string, string]> = [["workspace", "app"]],
  clientId?: string,
) => {
  const client_id = clientId ?? (await house.register({ client_name: "App", redirect_uris: [callback] })).body.client_id
  const { challenge, verifier } = pkce()
  const cookie = await house.logIn()
  const asked = {
    client_id,
    redirect_uri: callback,
    response_type: "code",
    code_challenge: challenge,
    code_challenge_method: "S256",
    state: "s 1",
  }
  const page = await (await house.go(authorizeUrl(asked), { headers: { cookie } })).text()
  const answered = await house.decide(page, cookie, [...choices, ["decision", "allow"]])
  const location = new URL(answered.headers.get("location") ?? "")
  const code = location.searchParams.get("code") ?? ""
  const exchange = { grant_type: "authorization_code", client_id, code, code_verifier: verifier, redirect_uri: callback }
  return { client_id, code, exchange, location, tokens: await tokensOf(await house.post("/token", exchange)) }
}

export interface Tokens {
  readonly status: number
  readonly access_token: string
  readonly refresh_token: string
  readonly error?: string
  readonly expires_in?: number
}

export const tokensOf = async (response: Response): Promise<Tokens> => ({
  status: response.status,
  ...((await response.json()) as Omit<Tokens, "status">),
})

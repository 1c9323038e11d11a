/**
 * The embedded OAuth server (OAuth 2.1): for clients that can log in and cannot be given a token. The operator logs in and
 * agrees; PKCE is required, and no client has a secret. `Authorizations` remembers.
 */
import { ByteSize, Effect, Layer } from "effect"
import { HttpIncomingMessage, HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { OAuthError, SCOPE } from "../schema/OAuth.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import type { Operator } from "../services/Operator.ts"
import type { StoreFailure } from "../services/StoreFault.ts"
import {
  type AuthorizationRequest,
  type ClientSources,
  complete,
  isResource,
  type Returning,
  registrationOf,
  returning,
} from "./AuthorizationRequest.ts"
import { callerName, carried, consentPage, decided, refusalPage } from "./Consent.ts"
import { operatorOnly } from "./OperatorDoor.ts"
import { fieldsOf } from "./OperatorLogin.ts"
import { originOf, resourceOf } from "./Origin.ts"
import { json, resourceRoutes } from "./ResourceMetadata.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

export interface OAuthServer extends ClientSources {
  readonly operator: Operator["Service"]
  readonly config: Pick<AppConfig["Service"], "workspaces" | "profiles">
}

export const oauthRoutes = (server: OAuthServer): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  Layer.mergeAll(
    resourceRoutes(),
    HttpRouter.add("GET", "/.well-known/oauth-authorization-server", (request) => Effect.succeed(json(serverMetadata(originOf(request))))),
    HttpRouter.add("POST", "/register", (request) => register(server, request)),
    HttpRouter.add("GET", "/authorize", (request) => ask(server, request)),
    HttpRouter.add("POST", "/authorize", (request) => answer(server, request)),
    HttpRouter.add("POST", "/token", (request) => token(server, request)),
    HttpRouter.add("POST", "/revoke", (request) => revoke(server, request)),
  )

const serverMetadata = (issuer: string) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  registration_endpoint: `${issuer}/register`,
  revocation_endpoint: `${issuer}/revoke`,
  response_types_supported: ["code"],
  response_modes_supported: ["query"],
  grant_types_supported: ["authorization_code", "refresh_token"],
  code_challenge_methods_supported: ["S256"],
  token_endpoint_auth_methods_supported: ["none"],
  revocation_endpoint_auth_methods_supported: ["none"],
  scopes_supported: [SCOPE],
  client_id_metadata_document_supported: true,
  authorization_response_iss_parameter_supported: true,
})

/** Longest registration, in bytes. */
const REGISTRATION = ByteSize.bytes(64 * 1024)

const register = Effect.fnUntraced(
  function* ({ authorizations }: OAuthServer, request: Request) {
    const text = yield* request.text.pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, REGISTRATION),
      Effect.orElseSucceed(() => ""),
    )
    const client = yield* authorizations.register(yield* Effect.fromResult(registrationOf(text)))
    return json(
      {
        ...client,
        token_endpoint_auth_method: "none",
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        scope: SCOPE,
      },
      201,
    )
  },
  (effect) => Effect.catch(effect, told),
)

/** The consent page, for the operator alone: others are led to the login, and nothing is looked up for them. */
const ask = Effect.fnUntraced(
  function* (server: OAuthServer, request: Request) {
    yield* operatorOnly(server.operator)(request)
    const values = new URL(request.url, "http://here").searchParams
    const asked = yield* understood(server, request, values)
    return consentPage(server.config, asked, values)
  },
  (effect) => Effect.catch(effect, Effect.succeed),
)

const answer = Effect.fnUntraced(
  function* (server: OAuthServer, request: Request) {
    yield* operatorOnly(server.operator)(request)
    const form = yield* fieldsOf(request)
    const values = carried(form)
    const asked = yield* understood(server, request, values)
    if (form.get("decision") !== "allow")
      return back(request, asked, { error: "access_denied", error_description: "the operator denied it" })
    const decision = decided(server.config, form)
    if ("wrong" in decision) return consentPage(server.config, asked, values, decision.wrong)
    const { challenge, client, redirectUri } = asked
    const agreement = {
      clientId: client.client_id,
      redirectUri,
      challenge,
      resource: resourceOf(request),
      name: callerName(asked),
      rights: decision.rights,
    }
    const code = yield* server.authorizations.agree(agreement).pipe(Effect.mapError((error) => refusalPage(503, error.message)))
    return back(request, asked, { code })
  },
  (effect) => Effect.catch(effect, Effect.succeed),
)

/** The request as it stands; fails with what the person or the client is told. */
const understood = Effect.fnUntraced(function* (
  server: OAuthServer,
  request: Request,
  values: URLSearchParams,
): Effect.fn.Return<AuthorizationRequest, Response> {
  const known = yield* Effect.mapError(returning(server, values), (error) =>
    error._tag === "OAuthError" ? refusalPage(400, error.description) : refusalPage(503, error.message),
  )
  const asked = complete(known, values, resourceOf(request))
  if (!(asked instanceof OAuthError)) return asked
  return yield* Effect.fail(back(request, known, { error: asked.error, error_description: asked.description }))
})

/** Sends the browser back to the client, with what the client can check: its own state, and who answers (RFC 9207). */
const back = (request: Request, { redirectUri, state }: Returning, values: Record<string, string>): Response => {
  const to = new URL(redirectUri)
  for (const [name, value] of Object.entries({ ...values, ...(state === undefined ? {} : { state }), iss: originOf(request) }))
    to.searchParams.set(name, value)
  return HttpServerResponse.empty({
    status: 303,
    headers: { location: to.href, "cache-control": "no-store", "referrer-policy": "no-referrer" },
  })
}

const token = Effect.fnUntraced(
  function* (server: OAuthServer, request: Request) {
    const fields = yield* fieldsOf(request)
    const { authorizations } = server
    const needed = (name: string) => {
      const [value, ...others] = fields.getAll(name)
      if (value !== undefined && value !== "" && others.length === 0) return Effect.succeed(value)
      return Effect.fail(new OAuthError({ error: "invalid_request", description: `${name} must be there once` }))
    }
    const grant = yield* needed("grant_type")
    const clientId = yield* needed("client_id")
    // The ids that this server gave out begin alike; any other is an address and needs no registration.
    if (!clientId.startsWith("https://") && (yield* authorizations.client(clientId))._tag === "None")
      return yield* new OAuthError({ error: "invalid_client", description: "this server does not know the client; register it anew" })
    const resource = resourceOf(request)
    if (!isResource(fields.get("resource"), resource))
      return yield* new OAuthError({ error: "invalid_target", description: `resource must be ${resource}` })
    switch (grant) {
      case "authorization_code": {
        const redirectUri = fields.get("redirect_uri") ?? undefined
        const [code, verifier] = [yield* needed("code"), yield* needed("code_verifier")]
        return json(yield* authorizations.exchange({ code, clientId, redirectUri, verifier, resource }))
      }
      case "refresh_token":
        return json(yield* authorizations.refresh(yield* needed("refresh_token"), clientId, resource))
      default:
        return yield* new OAuthError({ error: "unsupported_grant_type", description: "there are authorization_code and refresh_token" })
    }
  },
  (effect) => Effect.catch(effect, told),
)

const revoke = Effect.fnUntraced(
  function* ({ authorizations }: OAuthServer, request: Request) {
    yield* authorizations.revoke((yield* fieldsOf(request)).get("token") ?? "")
    return json({})
  },
  (effect) => Effect.catch(effect, told),
)

/** An error as a client reads it. One that is not known is told with 401, whereupon clients register anew. */
const told = (error: OAuthError | StoreFailure): Effect.Effect<Response> =>
  Effect.succeed(
    error._tag === "OAuthError"
      ? json({ error: error.error, error_description: error.description }, error.error === "invalid_client" ? 401 : 400)
      : json({ error: "temporarily_unavailable", error_description: error.message }, 503, { "retry-after": "5" }),
  )

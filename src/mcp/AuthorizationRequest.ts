/**
 * What a client's browser brings to the consent page, checked: first what must be right before anybody is sent anywhere,
 * then what the client is told about at its own address.
 */
import { Effect, Option, Result, Schema } from "effect"
import { type Client, ClientMetadata, OAuthError } from "../schema/OAuth.ts"
import type { Authorizations } from "../services/Authorizations.ts"
import type { ClientDocuments } from "../services/ClientDocuments.ts"
import { matchingRedirect, redirectProblem } from "../services/RedirectAddresses.ts"
import type { StoreFailure } from "../services/StoreFault.ts"

/** A client that is known and an address that is its own. */
export interface Returning {
  readonly client: Client
  readonly redirectUri: string
  readonly state: string | undefined
}

export interface AuthorizationRequest extends Returning {
  readonly challenge: string
}

export interface ClientSources {
  readonly authorizations: Authorizations["Service"]
  readonly documents: ClientDocuments["Service"]
}

const parameters = ["client_id", "redirect_uri", "response_type", "state", "code_challenge", "code_challenge_method", "resource", "scope"]

/** Whether it is known to whom the browser may be sent back. Fails with what only the person can be told. */
export const returning = Effect.fnUntraced(function* (
  { authorizations, documents }: ClientSources,
  values: URLSearchParams,
): Effect.fn.Return<Returning, OAuthError | StoreFailure> {
  const doubled = parameters.find((name) => values.getAll(name).length > 1)
  if (doubled !== undefined) return yield* invalid(`${doubled} is there more than once`)
  const id = values.get("client_id") ?? ""
  const client = isDocument(id)
    ? yield* Effect.flatMap(documents.fetch(id), (text) => Effect.fromResult(clientOf(id, text)))
    : Option.getOrUndefined(yield* authorizations.client(id))
  if (client === undefined)
    return yield* new OAuthError({
      error: "invalid_client",
      description: "this server does not know the client; add the server to it anew",
    })
  const [only, ...others] = client.redirect_uris
  const asked = values.get("redirect_uri") ?? (others.length === 0 ? only : undefined)
  const redirectUri = asked === undefined ? undefined : matchingRedirect(client.redirect_uris, asked)
  if (redirectUri === undefined)
    return yield* new OAuthError({ error: "invalid_redirect_uri", description: "redirect_uri is none of the client's" })
  return { client, redirectUri, state: values.get("state") ?? undefined }
})

/** The rest of the request; what is wrong with it goes to the client. */
export const complete = (known: Returning, values: URLSearchParams, resource: string): AuthorizationRequest | OAuthError => {
  const challenge = values.get("code_challenge") ?? ""
  if (values.get("response_type") !== "code")
    return new OAuthError({ error: "unsupported_response_type", description: 'response_type must be "code"' })
  if (!/^[\w.~-]{43,128}$/.test(challenge) || values.get("code_challenge_method") !== "S256")
    return invalid('a code_challenge with code_challenge_method "S256" is required')
  if (!isResource(values.get("resource"), resource))
    return new OAuthError({ error: "invalid_target", description: `resource must be ${resource}` })
  return { ...known, challenge }
}

/** There is one resource here: who names none means it, and so does who names the server alone. */
export const isResource = (asked: string | null, resource: string): boolean =>
  asked === null || asked === resource || asked === `${resource}/` || asked.replace(/\/$/, "") === new URL(resource).origin

const Registration = Schema.fromJsonString(ClientMetadata)
const Document = Schema.fromJsonString(Schema.Struct({ client_id: Schema.String, ...ClientMetadata.fields }))
const decodeRegistration = Schema.decodeUnknownResult(Registration)
const decodeDocument = Schema.decodeUnknownResult(Document)

/** What a client wants to register; fails with `invalid_client_metadata` or `invalid_redirect_uri`. */
export const registrationOf = (text: string): Result.Result<ClientMetadata, OAuthError> =>
  Result.flatMap(
    Result.mapError(decodeRegistration(text), () => invalidMetadata("the body must be JSON with 1 to 20 redirect_uris")),
    withGoodRedirects,
  )

/** The client that a document at this address describes; it must name that very address. */
const clientOf = (id: string, text: string): Result.Result<Client, OAuthError> =>
  Result.flatMap(
    Result.mapError(decodeDocument(text), () => new OAuthError({ error: "invalid_client", description: `${id} describes no client` })),
    (document) =>
      document.client_id === id
        ? withGoodRedirects(document)
        : Result.fail(new OAuthError({ error: "invalid_client", description: `the document at ${id} is about ${document.client_id}` })),
  )

const withGoodRedirects = <C extends ClientMetadata>(client: C): Result.Result<C, OAuthError> => {
  const bad = client.redirect_uris.map((uri) => [uri, redirectProblem(uri)] as const).find(([, problem]) => problem !== undefined)
  if (bad === undefined) return Result.succeed(client)
  return Result.fail(new OAuthError({ error: "invalid_redirect_uri", description: `${bad[0]} ${bad[1]}` }))
}

/** An id that is the address of a document. A path it must have, so that it is no whole site. */
const isDocument = (id: string): boolean => id.startsWith("https://") && URL.canParse(id) && new URL(id).pathname !== "/"

const invalid = (description: string) => new OAuthError({ error: "invalid_request", description })
const invalidMetadata = (description: string) => new OAuthError({ error: "invalid_client_metadata", description })

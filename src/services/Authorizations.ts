/**
 * The embedded OAuth server's memory (OAuth 2.1): clients that registered themselves, codes the operator agreed to, and
 * the tokens given for them. All secrets are kept as hashes; all of it survives a restart and holds for every server on
 * this state folder.
 *
 * A code works once and for a minute. A refresh token works once: it is replaced by the next. Whoever comes with one that
 * was used before has stolen it, or was stolen from; so the caller is turned out with all its tokens.
 */
import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type CallerRecord, Rights } from "../schema/Caller.ts"
import { type Client, ClientMetadata, type IssuedTokens, OAuthError, SCOPE } from "../schema/OAuth.ts"
import { Callers } from "./Callers.ts"
import { toJson } from "./JsonText.ts"
import { Ledger } from "./Ledger.ts"
import { Secrets } from "./Secrets.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"

/** What the operator agreed to. */
export interface Agreement {
  readonly clientId: string
  readonly redirectUri: string
  /** The PKCE challenge, S256. */
  readonly challenge: string
  /** The MCP endpoint that the tokens are for. */
  readonly resource: string
  /** The name its caller will have, or one that begins like it. */
  readonly name: string
  readonly rights: Rights
}

export interface CodeExchange {
  readonly code: string
  readonly clientId: string
  readonly redirectUri: string | undefined
  readonly verifier: string
  readonly resource: string | undefined
}

export class Authorizations extends Context.Service<
  Authorizations,
  {
    readonly register: (metadata: ClientMetadata) => Effect.Effect<Client, StoreFailure>
    readonly client: (clientId: string) => Effect.Effect<Option.Option<Client>, StoreFailure>
    /** A code for the client to exchange. */
    readonly agree: (agreement: Agreement) => Effect.Effect<string, StoreFailure>
    /** Tokens for a code; only now there is a caller. One that a registered client had before is replaced, and keeps its name. */
    readonly exchange: (request: CodeExchange) => Effect.Effect<IssuedTokens, OAuthError | StoreFailure>
    readonly refresh: (token: string, clientId: string, resource?: string) => Effect.Effect<IssuedTokens, OAuthError | StoreFailure>
    /** Turns the caller of a token out. A token that nobody knows is nothing to do. */
    readonly revoke: (token: string) => Effect.Effect<void, StoreFailure>
    /** The caller of an access token that was given for this resource. */
    readonly byAccessToken: (token: string, resource: string) => Effect.Effect<Option.Option<CallerRecord>, StoreFailure>
  }
>()("codespace/services/Authorizations") {
  static readonly layer = Layer.effect(
    Authorizations,
    Effect.suspend(() => make),
  )
}

/** Milliseconds. */
const CODE_LASTS = 60_000
const ACCESS_LASTS = 60 * 60_000
const REFRESH_LASTS = 30 * 24 * 60 * 60_000
/** How long a used code is remembered, so that its second use is noticed. */
const CODE_KEPT = 24 * 60 * 60_000
/** Clients that registered and never got a code; anybody can register, so the oldest give way. */
const UNUSED_CLIENTS = 200

const ClientRow = Schema.Struct({ client_id: Schema.String, metadata: Schema.fromJsonString(ClientMetadata) })
const CodeRow = Schema.Struct({
  client_id: Schema.String,
  redirect_uri: Schema.String,
  challenge: Schema.String,
  resource: Schema.String,
  name: Schema.String,
  rights: Schema.fromJsonString(Rights),
  expires_at: Schema.Int,
  caller: Schema.NullOr(Schema.String),
})
const TokenRow = Schema.Struct({
  caller: Schema.String,
  kind: Schema.Literals(["access", "refresh"]),
  client_id: Schema.String,
  resource: Schema.String,
  expires_at: Schema.Int,
  spent: Schema.Int,
})

const invalidGrant = (description: string) => new OAuthError({ error: "invalid_grant", description })

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Ledger
  const callers = yield* Callers
  const secrets = yield* Secrets

  const clientRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: ClientRow,
    execute: (id) => sql`SELECT client_id, metadata FROM oauth_clients WHERE client_id = ${id}`,
  })
  const codeRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: CodeRow,
    execute: (hash) => sql`SELECT * FROM oauth_codes WHERE code_hash = ${hash}`,
  })
  const tokenRows = SqlSchema.findAll({
    Request: Schema.String,
    Result: TokenRow,
    execute: (hash) =>
      sql`SELECT t.caller, t.kind, g.client_id, g.resource, t.expires_at, t.spent FROM oauth_tokens t
        JOIN oauth_grants g ON g.caller = t.caller WHERE t.token_hash = ${hash}`,
  })

  const register = Effect.fn("Authorizations.register")(function* (metadata: ClientMetadata) {
    const client_id = secrets.make("csi_")
    const at = yield* Clock.currentTimeMillis
    yield* sql`INSERT INTO oauth_clients (client_id, metadata, created_at, used) VALUES (${client_id}, ${toJson(metadata)}, ${at}, 0)`
    yield* sql`DELETE FROM oauth_clients WHERE used = 0 AND client_id NOT IN
      (SELECT client_id FROM oauth_clients WHERE used = 0 ORDER BY created_at DESC, rowid DESC LIMIT ${UNUSED_CLIENTS})`
    return { client_id, ...metadata }
  }, refused)

  const client = (id: string) =>
    Effect.map(refused(clientRows(id)), ([row]) =>
      Option.map(Option.fromUndefinedOr(row), ({ client_id, metadata }) => ({ client_id, ...metadata })),
    )

  const agree = Effect.fn("Authorizations.agree")(function* (agreement: Agreement) {
    const code = secrets.make("csc_")
    const now = yield* Clock.currentTimeMillis
    const { challenge, clientId, name, redirectUri, resource, rights } = agreement
    yield* sql`DELETE FROM oauth_codes WHERE expires_at < ${now - CODE_KEPT}`
    yield* sql`UPDATE oauth_clients SET used = 1 WHERE client_id = ${clientId}`
    yield* sql`INSERT INTO oauth_codes (code_hash, client_id, redirect_uri, challenge, resource, name, rights, expires_at)
      VALUES (${secrets.hash(code)}, ${clientId}, ${redirectUri}, ${challenge}, ${resource}, ${name}, ${toJson(rights)}, ${now + CODE_LASTS})`
    return code
  }, refused)

  /** A new pair of tokens for a caller; what has run out is forgotten. */
  const issue = Effect.fnUntraced(function* (caller: string) {
    const now = yield* Clock.currentTimeMillis
    const [access_token, refresh_token] = [secrets.make("csa_"), secrets.make("csr_")]
    yield* sql`DELETE FROM oauth_tokens WHERE expires_at <= ${now}`
    yield* sql`INSERT INTO oauth_tokens (token_hash, caller, kind, expires_at, spent) VALUES
      (${secrets.hash(access_token)}, ${caller}, 'access', ${now + ACCESS_LASTS}, 0),
      (${secrets.hash(refresh_token)}, ${caller}, 'refresh', ${now + REFRESH_LASTS}, 0)`
    return { access_token, token_type: "Bearer", expires_in: ACCESS_LASTS / 1000, refresh_token, scope: SCOPE } satisfies IssuedTokens
  })

  /** Why a code is not good for this request; undefined when it is. */
  const codeProblem = (row: typeof CodeRow.Type, request: CodeExchange, now: number): OAuthError | undefined => {
    if (row.client_id !== request.clientId) return invalidGrant("the code was given to another client")
    if (row.expires_at <= now) return invalidGrant("the code has run out")
    if (request.redirectUri !== undefined && row.redirect_uri !== request.redirectUri)
      return invalidGrant("redirect_uri is not the one of the code")
    if (!secrets.same(secrets.challenge(request.verifier), row.challenge))
      return invalidGrant("code_verifier does not answer the challenge")
    if (request.resource !== undefined && request.resource !== row.resource)
      return new OAuthError({ error: "invalid_target", description: `the code is for ${row.resource}` })
    return undefined
  }

  /** Answers instead of failing, so that what it turned out stays turned out. */
  const exchange = Effect.fn("Authorizations.exchange")(function* (request: CodeExchange) {
    const hash = secrets.hash(request.code)
    const answer = yield* ledger.transaction(
      Effect.gen(function* () {
        const [row] = yield* codeRows(hash)
        if (row === undefined) return invalidGrant("the code is not known")
        if (row.caller !== null) {
          yield* callers.revoke(row.caller)
          return invalidGrant("the code was used before")
        }
        const problem = codeProblem(row, request, yield* Clock.currentTimeMillis)
        if (problem !== undefined) return problem
        // Who registered here is one program and comes back as itself; an id that is an address is shared by many.
        const [before] = yield* sql<{ caller: string }>`SELECT caller FROM oauth_grants
          WHERE client_id = ${row.client_id} AND client_id IN (SELECT client_id FROM oauth_clients)`
        const { name } = yield* callers.admitLogin({ name: row.name, ...row.rights }, before?.caller)
        yield* sql`INSERT INTO oauth_grants (caller, client_id, resource) VALUES (${name}, ${row.client_id}, ${row.resource})`
        yield* sql`UPDATE oauth_codes SET caller = ${name} WHERE code_hash = ${hash}`
        return yield* issue(name)
      }),
    )
    return answer instanceof OAuthError ? yield* answer : answer
  })

  const refresh = Effect.fn("Authorizations.refresh")(function* (token: string, clientId: string, resource?: string) {
    const hash = secrets.hash(token)
    const answer = yield* ledger.transaction(
      Effect.gen(function* () {
        const [row] = yield* tokenRows(hash)
        if (row === undefined || row.kind !== "refresh" || row.client_id !== clientId) return invalidGrant("the refresh token is not known")
        if (row.spent !== 0) {
          yield* callers.revoke(row.caller)
          return invalidGrant("the refresh token was used before; log in again")
        }
        if (row.expires_at <= (yield* Clock.currentTimeMillis)) return invalidGrant("the refresh token has run out")
        if (resource !== undefined && resource !== row.resource)
          return new OAuthError({ error: "invalid_target", description: `the token is for ${row.resource}` })
        yield* sql`UPDATE oauth_tokens SET spent = 1 WHERE token_hash = ${hash}`
        return yield* issue(row.caller)
      }),
    )
    return answer instanceof OAuthError ? yield* answer : answer
  })

  const revoke = Effect.fn("Authorizations.revoke")(function* (token: string) {
    const [row] = yield* refused(tokenRows(secrets.hash(token)))
    if (row !== undefined) yield* callers.revoke(row.caller)
  })

  const byAccessToken = Effect.fnUntraced(function* (token: string, resource: string) {
    const [row] = yield* refused(tokenRows(secrets.hash(token)))
    const now = yield* Clock.currentTimeMillis
    if (row === undefined || row.kind !== "access" || row.expires_at <= now || row.resource !== resource) return Option.none<CallerRecord>()
    return yield* callers.byName(row.caller)
  })

  return Authorizations.of({ register, client, agree, exchange, refresh, revoke, byAccessToken })
})

/**
 * Tokens of another OAuth server, the issuer of the configuration: JWTs whose signature its keys verify, that name it, that
 * have not run out, and that were given for this very endpoint. Where its keys lie is asked of the issuer itself.
 */
import type { JWTVerifyGetKey } from "jose"

export interface TokenIssuer {
  /** The subject of a good token; undefined for any other. Rejects when the issuer cannot be asked. */
  readonly subjectOf: (token: string, resource: string) => Promise<string | undefined>
}

/** Milliseconds that a clock may be wrong by, and that the issuer may take to answer. */
const CLOCK_TOLERANCE_SECONDS = 5
const PATIENCE = 5_000
/** Signatures that need the issuer's private key; never one that needs a shared secret, and never none. */
const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]

export const tokenIssuer = (issuer: string): TokenIssuer => {
  const known: { keys?: Promise<JWTVerifyGetKey> } = {}
  const keys = () => {
    known.keys ??= keysOf(issuer)
    // A failure is not kept: the issuer may be back for the next request.
    known.keys.catch(() => delete known.keys)
    return known.keys
  }
  return {
    subjectOf: async (token, resource) => {
      const [jose, key] = [await import("jose"), await keys()]
      try {
        const { payload } = await jose.jwtVerify(token, key, {
          issuer,
          audience: resource,
          algorithms,
          requiredClaims: ["exp", "sub"],
          clockTolerance: CLOCK_TOLERANCE_SECONDS,
        })
        return payload.sub
      } catch (error) {
        if (isVerdict(error)) return undefined
        throw error
      }
    },
  }
}

/** Whether it is about the token. Anything else is about the issuer, whose keys could not be had. */
const isVerdict = (error: unknown): boolean =>
  error instanceof Error &&
  "code" in error &&
  /^ERR_(JWT|JWS|JWKS_NO_MATCHING_KEY|JWKS_MULTIPLE|JOSE_(ALG|NOT_SUPPORTED))/.test(String(error.code))

/** The issuer's keys, by its metadata (RFC 8414, or OpenID Connect Discovery), which must be about itself. */
const keysOf = async (issuer: string): Promise<JWTVerifyGetKey> => {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, "")
  for (const place of [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ]) {
    const response = await fetch(place, { signal: AbortSignal.timeout(PATIENCE), redirect: "error" })
    const metadata = response.ok ? ((await response.json()) as { issuer?: unknown; jwks_uri?: unknown }) : {}
    if (metadata.issuer !== issuer || typeof metadata.jwks_uri !== "string") continue
    const { createRemoteJWKSet } = await import("jose")
    return createRemoteJWKSet(new URL(metadata.jwks_uri), { timeoutDuration: PATIENCE })
  }
  throw new Error(`${issuer} does not say where its keys are`)
}

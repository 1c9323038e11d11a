/** Whose token it is, of all kinds that there are: this server's own, a login's, the issuer's. */
import { Effect, Option } from "effect"
import type { CallerRecord } from "../schema/Caller.ts"
import type { Authorizations } from "../services/Authorizations.ts"
import type { Callers } from "../services/Callers.ts"
import { type Authority, authorityOf } from "./Authority.ts"
import type { Authenticate } from "./Door.ts"
import type { TokenIssuer } from "./TokenIssuer.ts"

export interface TokenSources {
  readonly callers: Callers["Service"]
  /** Absent when nobody can log in here. */
  readonly authorizations?: Authorizations["Service"]
  readonly issuer?: TokenIssuer
}

export const authenticator = ({ authorizations, callers, issuer }: TokenSources): Authenticate => {
  const subjectOf = (from: TokenIssuer, token: string, resource: string) =>
    Effect.tryPromise({ try: () => from.subjectOf(token, resource), catch: (error) => ({ message: String(error) }) })
  return (token, resource) => {
    if (authorizations !== undefined && token.startsWith("csa_")) return known(authorizations.byAccessToken(token, resource))
    if (issuer === undefined || !isJwt(token)) return known(callers.byToken(token))
    return Effect.flatMap(subjectOf(issuer, token, resource), (subject) =>
      subject === undefined
        ? Effect.succeed(undefined)
        : Effect.map(known(callers.bySubject(subject)), (caller) => caller ?? stranger(subject)),
    )
  }
}

const known = <E>(found: Effect.Effect<Option.Option<CallerRecord>, E>): Effect.Effect<Authority | undefined, E> =>
  Effect.map(found, (caller) => Option.getOrUndefined(Option.map(caller, authorityOf)))

const isJwt = (token: string): boolean => /^[\w-]+\.[\w-]+\.[\w-]*$/.test(token)

/** Somebody whom the issuer knows and the operator has given nothing. Refusals tell the name that the operator would need. */
const stranger = (subject: string): Authority => ({ name: `issuer:${subject.slice(0, 200)}`, workspaces: [] })

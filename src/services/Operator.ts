/**
 * The operator's credential. Whoever gives it is the person who owns the configuration: it opens the operator's API, the
 * inbox and the console, and grants what callers ask for. It is no caller's and calls no tool; no caller's token is it.
 *
 * It is made with the first start and lies in a file of the state folder that only the server's user can read, for the
 * programs of that user. An operator who takes the file away keeps the credential: the hash of it stays. Browsers log in
 * with it once and then carry a login of their own, which ends by itself.
 */
import { Clock, Context, Effect, Layer, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { StoreUnavailable } from "../schema/Operation.ts"
import { makeAttempts, type TooManyAttempts } from "./Attempts.ts"
import { Secrets } from "./Secrets.ts"

/** Port: the file with the credential. */
export class CredentialFile extends Context.Service<
  CredentialFile,
  {
    readonly path: string
    /** What is in it; none when there is no file. */
    readonly read: Effect.Effect<Option.Option<string>, StoreUnavailable>
    /** Makes the file, readable by the server's user only; false when somebody was faster. */
    readonly create: (credential: string) => Effect.Effect<boolean, StoreUnavailable>
    /** Puts another credential into it. */
    readonly replace: (credential: string) => Effect.Effect<void, StoreUnavailable>
  }
>()("codespace/services/Operator/CredentialFile") {}

/** How long a browser stays logged in, in milliseconds. */
export const LOGIN_LASTS = 12 * 60 * 60_000
/** Browsers that are logged in at once; the oldest login ends. */
const LOGINS = 20

export class Operator extends Context.Service<
  Operator,
  {
    /** Whether this is the operator's credential. */
    readonly isCredential: (secret: string) => Effect.Effect<boolean, StoreUnavailable>
    /** A login for a browser, to be kept in a cookie; none for a wrong credential. After many wrong ones it does not look. */
    readonly logIn: (secret: string) => Effect.Effect<Option.Option<string>, StoreUnavailable | TooManyAttempts>
    readonly isLoggedIn: (login: string) => Effect.Effect<boolean, StoreUnavailable>
    readonly logOut: (login: string) => Effect.Effect<void, StoreUnavailable>
    /** Makes a new credential and puts it into the file. The old one stops working, and every browser is logged out. */
    readonly renew: Effect.Effect<void, StoreUnavailable>
    /** Where the credential lies. */
    readonly file: string
  }
>()("codespace/services/Operator") {
  /** Makes the credential when there is none yet. */
  static readonly layer = Layer.effect(
    Operator,
    Effect.suspend(() => make),
  )
}

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const secrets = yield* Secrets
  const file = yield* CredentialFile
  const attempts = makeAttempts()
  const refused = <A>(effect: Effect.Effect<A, SqlError.SqlError>) =>
    Effect.mapError(effect, (error) => new StoreUnavailable({ cause: error.reason._tag }))

  const keep = Effect.fnUntraced(function* (credential: string) {
    const hash = secrets.hash(credential)
    const at = yield* Clock.currentTimeMillis
    yield* refused(sql`INSERT INTO operator (id, credential_hash, created_at) VALUES (1, ${hash}, ${at})
      ON CONFLICT (id) DO UPDATE SET credential_hash = excluded.credential_hash, created_at = excluded.created_at
      WHERE credential_hash <> excluded.credential_hash`)
  })

  const known = Effect.map(refused(sql<{ credential_hash: string }>`SELECT credential_hash FROM operator`), ([row]) => row?.credential_hash)

  /** Of servers that start at the same time one makes the file, and the others read it. */
  const begin = Effect.gen(function* () {
    const written = yield* file.read
    if (Option.isSome(written)) return yield* keep(written.value)
    if ((yield* known) !== undefined) return
    yield* file.create(secrets.make("cso_"))
    const made = yield* file.read
    if (Option.isSome(made)) yield* keep(made.value)
  })
  yield* begin

  const isCredential = Effect.fn("Operator.isCredential")(function* (secret: string) {
    const hash = yield* known
    return hash !== undefined && secrets.same(secrets.hash(secret), hash)
  })

  const logIn = Effect.fn("Operator.logIn")(function* (secret: string) {
    if (!(yield* attempts.guard(isCredential(secret), (right) => right))) return Option.none<string>()
    const login = secrets.make("csl_")
    const now = yield* Clock.currentTimeMillis
    yield* refused(sql`INSERT INTO operator_logins (login_hash, expires_at) VALUES (${secrets.hash(login)}, ${now + LOGIN_LASTS})`)
    yield* refused(sql`DELETE FROM operator_logins WHERE expires_at <= ${now} OR login_hash NOT IN
      (SELECT login_hash FROM operator_logins ORDER BY expires_at DESC LIMIT ${LOGINS})`)
    return Option.some(login)
  })

  const isLoggedIn = Effect.fn("Operator.isLoggedIn")(function* (login: string) {
    const now = yield* Clock.currentTimeMillis
    const rows = yield* refused(sql`SELECT 1 FROM operator_logins WHERE login_hash = ${secrets.hash(login)} AND expires_at > ${now}`)
    return rows.length > 0
  })

  return Operator.of({
    isCredential,
    logIn,
    isLoggedIn,
    logOut: (login) => Effect.asVoid(refused(sql`DELETE FROM operator_logins WHERE login_hash = ${secrets.hash(login)}`)),
    renew: Effect.gen(function* () {
      const credential = secrets.make("cso_")
      yield* file.replace(credential)
      yield* keep(credential)
      yield* refused(sql`DELETE FROM operator_logins`)
    }),
    file: file.path,
  })
})

/** Who may call over HTTP. A token is shown when it is made and kept only as a hash. */
import { Clock, Context, Effect, Layer, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { StoreUnavailable } from "../schema/Operation.ts"
import { Digest } from "./Digest.ts"

/** An authenticated caller. */
export interface Known {
  readonly name: string
}

export class Callers extends Context.Service<
  Callers,
  {
    /** Registers a caller under a token, replacing the token it had. */
    readonly register: (name: string, token: string) => Effect.Effect<void, StoreUnavailable>
    readonly exists: (name: string) => Effect.Effect<boolean, StoreUnavailable>
    /** The caller of a token. The look-up is by hash, so its time tells nothing about a token. */
    readonly byToken: (token: string) => Effect.Effect<Option.Option<Known>, StoreUnavailable>
  }
>()("codespace/services/Callers") {
  static readonly layer = Layer.effect(
    Callers,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const digest = yield* Digest
      const refused = <A>(effect: Effect.Effect<A, SqlError.SqlError>) =>
        Effect.mapError(effect, (error) => new StoreUnavailable({ cause: error.reason._tag }))
      return Callers.of({
        register: (name, token) =>
          refused(
            Effect.flatMap(
              Clock.currentTimeMillis,
              (at) => sql`INSERT INTO callers (name, token_hash, created_at) VALUES (${name}, ${digest.sha256(token)}, ${at})
                ON CONFLICT (name) DO UPDATE SET token_hash = excluded.token_hash, created_at = excluded.created_at`,
            ),
          ).pipe(Effect.asVoid),
        exists: (name) => Effect.map(refused(sql`SELECT 1 FROM callers WHERE name = ${name}`), (rows) => rows.length > 0),
        byToken: (token) =>
          Effect.map(refused(sql<Known>`SELECT name FROM callers WHERE token_hash = ${digest.sha256(token)}`), ([row]) =>
            Option.map(Option.fromUndefinedOr(row), ({ name }) => ({ name })),
          ),
      })
    }),
  )
}

/**
 * Who may call over HTTP, and what each of them may use. A token is shown when it is made and kept only as a hash. Every
 * request asks here, so what the operator changes holds for the next one, in every server on this state folder.
 */
import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { CallerExists, type CallerRecord, type KnownBy, type Rights } from "../schema/Caller.ts"
import { CallerAdmitted, CallerRevoked } from "./CallerEvents.ts"
import { toJson } from "./JsonText.ts"
import { Ledger } from "./Ledger.ts"
import { Secrets } from "./Secrets.ts"
import { refused, type StoreFailure } from "./StoreFault.ts"

/** Whom to let in. One with a `subject` is known by its name at the OAuth issuer and gets no token here. */
export interface Admission extends Rights {
  readonly name: string
  readonly subject?: string
}

export class Callers extends Context.Service<
  Callers,
  {
    /** Lets a caller in and answers with its token. With `replace` one of that name loses its token and its rights to it. */
    readonly admit: (
      admission: Admission,
      options?: { readonly replace?: boolean },
    ) => Effect.Effect<string | undefined, CallerExists | StoreFailure>
    /** Lets a caller in that is known by a login, under a name of its own that begins like this one, or under the one it replaces. */
    readonly admitLogin: (admission: Admission, replacing?: string) => Effect.Effect<CallerRecord, StoreFailure>
    /** Turns a caller out: its next request is refused. False when there is none. */
    readonly revoke: (name: string) => Effect.Effect<boolean, StoreFailure>
    readonly list: Effect.Effect<ReadonlyArray<CallerRecord>, StoreFailure>
    readonly byToken: (token: string) => Effect.Effect<Option.Option<CallerRecord>, StoreFailure>
    readonly bySubject: (subject: string) => Effect.Effect<Option.Option<CallerRecord>, StoreFailure>
    readonly byName: (name: string) => Effect.Effect<Option.Option<CallerRecord>, StoreFailure>
  }
>()("codespace/services/Callers") {
  static readonly layer = Layer.effect(
    Callers,
    Effect.suspend(() => make),
  )
}

const Row = Schema.Struct({
  name: Schema.String,
  token_hash: Schema.NullOr(Schema.String),
  subject: Schema.NullOr(Schema.String),
  workspaces: Schema.NullOr(Schema.fromJsonString(Schema.Array(Schema.String))),
  highest: Schema.NullOr(Schema.String),
  trust_prompts: Schema.Int,
  created_at: Schema.Int,
})

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Ledger
  const secrets = yield* Secrets

  const find = (column: "name" | "subject" | "token_hash") => {
    const rows = SqlSchema.findAll({
      Request: Schema.String,
      Result: Row,
      execute: (value) => sql`SELECT * FROM callers WHERE ${sql(column)} = ${value}`,
    })
    return (value: string) => Effect.map(refused(rows(value)), ([row]) => Option.fromUndefinedOr(row))
  }
  const [rowByName, rowBySubject, rowByHash] = [find("name"), find("subject"), find("token_hash")]
  const all = SqlSchema.findAll({ Request: Schema.Void, Result: Row, execute: () => sql`SELECT * FROM callers ORDER BY name` })

  const insert = Effect.fnUntraced(function* (admission: Admission, knownBy: KnownBy, tokenHash: string | null) {
    const { highest, name, subject, trust_prompts, workspaces } = admission
    const rights = { trust_prompts, ...(workspaces === undefined ? {} : { workspaces }), ...(highest === undefined ? {} : { highest }) }
    yield* sql`INSERT INTO callers (name, token_hash, subject, workspaces, highest, trust_prompts, created_at) VALUES (
      ${name}, ${tokenHash}, ${subject ?? null}, ${workspaces === undefined ? null : toJson(workspaces)}, ${highest ?? null},
      ${trust_prompts ? 1 : 0}, ${yield* Clock.currentTimeMillis})`
    yield* ledger.append(CallerAdmitted, subjectOf(name), { name, known_by: knownBy, ...rights })
  })

  const remove = Effect.fnUntraced(function* (name: string) {
    const [row] = yield* sql`DELETE FROM callers WHERE name = ${name} RETURNING name`
    if (row !== undefined) yield* ledger.append(CallerRevoked, subjectOf(name), { name })
    return row !== undefined
  })

  const admit = Effect.fn("Callers.admit")(function* (admission: Admission, { replace }: { readonly replace?: boolean } = {}) {
    const { name, subject } = admission
    const token = subject === undefined ? secrets.make("cs_") : undefined
    yield* ledger.transaction(
      Effect.gen(function* () {
        if (replace === true) yield* remove(name)
        else if (Option.isSome(yield* rowByName(name))) return yield* new CallerExists({ name, what: "under this name" })
        const other = subject === undefined ? Option.none() : yield* rowBySubject(subject)
        if (Option.isSome(other)) return yield* new CallerExists({ name: other.value.name, what: "for this subject" })
        yield* insert(admission, token === undefined ? "issuer" : "token", token === undefined ? null : secrets.hash(token))
      }),
    )
    return token
  })

  const admitLogin = Effect.fn("Callers.admitLogin")(function* (admission: Admission, replacing?: string) {
    return yield* ledger.transaction(
      Effect.gen(function* () {
        if (replacing !== undefined) yield* remove(replacing)
        const taken = new Set((yield* all(undefined)).map(({ name }) => name))
        const names = [
          replacing ?? admission.name,
          admission.name,
          ...[...taken].map((_, at) => `${admission.name}-${at + 2}`),
          `${admission.name}-${taken.size + 2}`,
        ]
        const name = names.find((one) => !taken.has(one)) ?? admission.name
        yield* insert({ ...admission, name }, "login", null)
        return recordOf(Option.getOrThrow(yield* rowByName(name)))
      }),
    )
  })

  const byToken = Effect.fnUntraced(function* (token: string) {
    const hash = secrets.hash(token)
    // The row is found by an index over hashes, whose time tells nothing about the token; what is found is compared as a whole.
    const row = yield* rowByHash(hash)
    return Option.map(
      Option.filter(row, ({ token_hash }) => token_hash !== null && secrets.same(token_hash, hash)),
      recordOf,
    )
  })

  return Callers.of({
    admit,
    admitLogin,
    revoke: (name) => Effect.withSpan(ledger.transaction(remove(name)), "Callers.revoke"),
    list: Effect.map(refused(all(undefined)), (rows) => rows.map(recordOf)),
    byToken,
    bySubject: (subject) => Effect.map(rowBySubject(subject), Option.map(recordOf)),
    byName: (name) => Effect.map(rowByName(name), Option.map(recordOf)),
  })
})

/** What events about a caller are filed under. */
const subjectOf = (name: string): string => `caller ${name}`

const recordOf = ({ created_at, highest, name, subject, token_hash, trust_prompts, workspaces }: typeof Row.Type): CallerRecord => ({
  name,
  known_by: subject !== null ? "issuer" : token_hash !== null ? "token" : "login",
  trust_prompts: trust_prompts !== 0,
  created_at,
  ...(workspaces === null ? {} : { workspaces }),
  ...(highest === null ? {} : { highest }),
  ...(subject === null ? {} : { subject }),
})

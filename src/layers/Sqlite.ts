/**
 * SqlClient over `node:sqlite`: one connection in WAL mode, statements kept, writes begun as immediate transactions so
 * that two servers on one file queue instead of failing half-way. No published driver fits Effect 4.1; when one does,
 * it replaces this file.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { Context, Effect, Layer, Schedule, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"

/** How long a statement waits for another server's write, in milliseconds. */
const BUSY_TIMEOUT = 5000
/** SQLite does not wait, but refuses at once, when two servers make one file at the same instant; then we wait, this many milliseconds. */
const OPEN_AGAIN = 5
/** The log is emptied while we work and cut to the limit after somebody kept it from that. */
const SETTINGS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216"
/** Our SQL texts are few and constant; the bound only guards against a mistake. */
const KEPT_STATEMENTS = 200

/** A database file; created when missing, readable by its owner only (its folder is 0700). */
export const layer = (filename: string): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.suspend(() => make(filename)),
  ).pipe(Layer.provide(Reactivity.layer))

/** A database that lives as long as the layer. */
export const layerMemory = layer(":memory:")

const make = Effect.fnUntraced(function* (filename: string) {
  const database = yield* Effect.acquireRelease(
    Effect.try({ try: () => new DatabaseSync(filename, { timeout: BUSY_TIMEOUT }), catch: faultOf("open") }),
    (database) => Effect.sync(() => database.close()),
  )
  yield* Effect.retry(Effect.try({ try: () => database.exec(SETTINGS), catch: faultOf("open") }), {
    while: ({ reason }) => reason._tag === "LockTimeoutError",
    schedule: Schedule.spaced(OPEN_AGAIN).pipe(Schedule.upTo({ duration: BUSY_TIMEOUT })),
  })
  const connection = connect(database)
  return yield* SqlClient.make({
    ...SqlClient.makeSqliteAcquirers({
      connection: Effect.succeed(connection),
      semaphore: yield* Semaphore.make(1),
      isTransaction: () => database.isTransaction,
    }),
    driver: "node:sqlite",
    compiler: Statement.makeCompilerSqlite(),
    spanAttributes: [["db.system.name", "sqlite"]],
    beginTransaction: "BEGIN IMMEDIATE",
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
  })
})

const connect = (database: DatabaseSync): SqlConnection.Connection => {
  const kept = new Map<string, StatementSync>()
  const prepare = (sql: string, keep: boolean): StatementSync => {
    const known = kept.get(sql)
    if (known) return known
    const statement = database.prepare(sql)
    if (keep && kept.size < KEPT_STATEMENTS) kept.set(sql, statement)
    return statement
  }
  const run = (sql: string, parameters: ReadonlyArray<unknown>, mode: "objects" | "arrays" | "raw", keep = true) =>
    Effect.withFiber<ReadonlyArray<never>, SqlError.SqlError>((fiber) =>
      Effect.try({
        try: () => {
          const statement = prepare(sql, keep)
          statement.setReadBigInts(Context.get(fiber.context, SqlClient.SafeIntegers))
          statement.setReturnArrays(mode === "arrays")
          const values = parameters as ReadonlyArray<SQLInputValue>
          if (statement.columns().length > 0) return statement.all(...values) as unknown as ReadonlyArray<never>
          const summary = statement.run(...values)
          return (mode === "raw" ? summary : []) as unknown as ReadonlyArray<never>
        },
        catch: faultOf("execute"),
      }),
    )
  const rows =
    (keep: boolean): SqlConnection.Connection["execute"] =>
    (sql, parameters, transform) =>
      Effect.map(run(sql, parameters, "objects", keep), (found) => (transform ? transform(found) : found))
  return {
    execute: rows(true),
    executeUnprepared: rows(false),
    executeRaw: (sql, parameters) => run(sql, parameters, "raw"),
    executeValues: (sql, parameters) => run(sql, parameters, "arrays"),
    executeValuesUnprepared: (sql, parameters) => run(sql, parameters, "arrays", false),
    executeStream: (sql, parameters, transform) => Stream.unwrap(Effect.map(rows(true)(sql, parameters, transform), Stream.fromIterable)),
  }
}

/** `node:sqlite` calls SQLite's code `errcode`; Effect's classifier looks for `errno`. */
const faultOf = (operation: string) => (cause: unknown) =>
  new SqlError.SqlError({
    reason: SqlError.classifySqliteError(
      cause instanceof Error && "errcode" in cause ? Object.assign(cause, { errno: cause.errcode }) : cause,
      { message: `sqlite ${operation} failed`, operation },
    ),
  })

/**
 * SqlClient over `node:sqlite`: one connection, statements kept, writes begun as immediate transactions so that servers on
 * one file queue instead of failing half-way. The file is opened by the first statement, and again by the next one after a
 * failure or after it was replaced: a server whose database cannot be used still starts, and recovers by itself. No
 * published driver fits Effect 4.1; when one does, it replaces this file.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite"
import { Context, Effect, Layer, Schedule, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"
import { codeOf, Damaged, type FileOptions, type OpenFile, openFile, saysDamaged } from "./DatabaseFile.ts"

export interface Options extends FileOptions {
  /** Done once whenever the file was opened, before anything else uses it: migrations. */
  readonly prepare?: Effect.Effect<void, { readonly message: string; readonly cause?: unknown }, SqlClient.SqlClient>
}

/** How long a statement waits for another server's write before it fails, in milliseconds, and how often it looks. */
const BUSY_LIMIT = 10_000
const LOOK_AGAIN = 5
/** Our SQL texts are few and constant; the bound only guards against a mistake. */
const KEPT_STATEMENTS = 200

/** A database file; it is closed with the layer. */
export const layer = (filename: string, options: Options = {}): Layer.Layer<SqlClient.SqlClient> =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.suspend(() => make(filename, options)),
  ).pipe(Layer.provide(Reactivity.layer))

/** A database that lives as long as the layer. */
export const layerMemory = layer(":memory:")

interface Opened {
  readonly file: OpenFile
  readonly connection: SqlConnection.Connection
}

const make = Effect.fnUntraced(function* (filename: string, options: Options) {
  const reactivity = yield* Reactivity.Reactivity
  const kept: { opened?: Opened; closed?: true } = {}
  const forget = () => {
    const { opened } = kept
    delete kept.opened
    if (opened?.file.database.isOpen === true) opened.file.database.close()
  }
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      kept.closed = true
      forget()
    }),
  )

  const open = Effect.gen(function* () {
    forget()
    if (kept.closed === true) return yield* Effect.fail(faultOf("open")(new Error("this server is closing it")))
    const file = yield* waiting(() => openFile(filename, options), "open")
    const opened: Opened = { file, connection: connect(file) }
    if (options.prepare !== undefined) {
      const client = yield* Effect.provideService(clientOver(Effect.succeed(opened)), Reactivity.Reactivity, reactivity)
      yield* Effect.provideService(options.prepare, SqlClient.SqlClient, client).pipe(
        Effect.mapError(toSqlError),
        Effect.onError(() => Effect.sync(() => file.database.isOpen && file.database.close())),
      )
    }
    kept.opened = opened
    return opened
  })
  return yield* clientOver(
    Effect.suspend(() => {
      const { opened } = kept
      return opened?.file.database.isOpen === true && opened.file.isThere() ? Effect.succeed(opened) : open
    }),
  )
})

const clientOver = Effect.fnUntraced(function* (opened: Effect.Effect<Opened, SqlError.SqlError>) {
  return yield* SqlClient.make({
    ...SqlClient.makeSqliteAcquirers({
      connection: Effect.map(opened, ({ connection }) => connection),
      semaphore: yield* Semaphore.make(1),
      isTransaction,
    }),
    driver: "node:sqlite",
    compiler: Statement.makeCompilerSqlite(),
    spanAttributes: [["db.system.name", "sqlite"]],
    prepareTransactionControls: true,
    beginTransaction: "BEGIN IMMEDIATE",
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
  })
})

/** A connection of ours, which knows its database. */
interface Connected extends SqlConnection.Connection {
  readonly database: DatabaseSync
}

const isTransaction = (connection: SqlConnection.Connection): boolean => {
  const { database } = connection as Connected
  return database.isOpen && database.isTransaction
}

const connect = (file: OpenFile): Connected => {
  const { database } = file
  const statements = new Map<string, StatementSync>()
  const prepare = (sql: string, keep: boolean): StatementSync => {
    const known = statements.get(sql)
    if (known) return known
    const statement = database.prepare(sql)
    if (keep && statements.size < KEPT_STATEMENTS) statements.set(sql, statement)
    return statement
  }
  const perform = (
    sql: string,
    parameters: ReadonlyArray<unknown>,
    mode: "objects" | "arrays" | "raw",
    keep: boolean,
    bigInts: boolean,
  ) => {
    try {
      const statement = prepare(sql, keep)
      statement.setReadBigInts(bigInts)
      statement.setReturnArrays(mode === "arrays")
      const values = parameters as ReadonlyArray<SQLInputValue>
      return (mode === "raw" ? statement.run(...values) : statement.all(...values)) as unknown as ReadonlyArray<never>
    } catch (fault) {
      throw saysDamaged(fault) ? file.setAside(String((fault as Error).message)) : fault
    }
  }
  const run = (sql: string, parameters: ReadonlyArray<unknown>, mode: "objects" | "arrays" | "raw", keep = true) =>
    Effect.withFiber<ReadonlyArray<never>, SqlError.SqlError>((fiber) =>
      waiting(
        () => perform(sql, parameters, mode, keep, Context.get(fiber.context, SqlClient.SafeIntegers)),
        "execute",
        () => !database.isTransaction,
      ),
    )
  const rows =
    (keep: boolean): SqlConnection.Connection["execute"] =>
    (sql, parameters, transform) =>
      Effect.map(run(sql, parameters, "objects", keep), (found) => (transform ? transform(found) : found))
  return {
    database,
    execute: rows(true),
    executeUnprepared: rows(false),
    executeRaw: (sql, parameters) => run(sql, parameters, "raw"),
    executeValues: (sql, parameters) => run(sql, parameters, "arrays"),
    executeValuesUnprepared: (sql, parameters) => run(sql, parameters, "arrays", false),
    executeStream: (sql, parameters, transform) => Stream.unwrap(Effect.map(rows(true)(sql, parameters, transform), Stream.fromIterable)),
  }
}

const SQLITE_BUSY = 5

/**
 * Does something with the database. While another server writes it tries again, without blocking this one; that is what
 * SQLite's own waiting would do, and it does not wait at all where two servers make one file at the same instant.
 */
const waiting = <A>(action: () => A, operation: string, mayWait = () => true): Effect.Effect<A, SqlError.SqlError> => {
  const once = Effect.try({ try: action, catch: faultOf(operation) })
  return Effect.catch(once, (error) => {
    const { cause } = error.reason
    if (cause instanceof Damaged && cause.now) return Effect.andThen(Effect.logError(`the record store: ${cause.message}`), error)
    if (codeOf(cause) !== SQLITE_BUSY || !mayWait()) return error
    return Effect.retry(Effect.delay(once, LOOK_AGAIN), {
      while: ({ reason }) => codeOf(reason.cause) === SQLITE_BUSY,
      schedule: Schedule.spaced(LOOK_AGAIN).pipe(Schedule.upTo({ duration: BUSY_LIMIT })),
    })
  })
}

/** `node:sqlite` calls SQLite's code `errcode`; Effect's classifier looks for `errno`. */
const faultOf = (operation: string) => (cause: unknown) =>
  new SqlError.SqlError({
    reason: SqlError.classifySqliteError(
      cause instanceof Error && "errcode" in cause ? Object.assign(cause, { errno: cause.errcode }) : cause,
      { message: `sqlite ${operation} failed`, operation },
    ),
  })

/** A failure of the preparation, as what the database said. */
const toSqlError = (failure: { readonly message: string; readonly cause?: unknown }): SqlError.SqlError =>
  SqlError.isSqlError(failure) ? failure : SqlError.isSqlError(failure.cause) ? failure.cause : faultOf("prepare")(failure)

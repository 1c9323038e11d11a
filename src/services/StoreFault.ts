/** Faults of the database in the words of a refusal, for the services that speak SQL. */
import { Effect, Predicate, Schema } from "effect"
import { SqlError } from "effect/sql"
import { StorageFull, StoreUnavailable } from "../schema/Operation.ts"

export type StoreFailure = StoreUnavailable | StorageFull
export type StoreFault = SqlError.SqlError | Schema.SchemaError

/** SQLite's primary result codes that say what a person can do. */
const causes: Readonly<Record<number, string>> = {
  5: "another server keeps its file locked",
  8: "its file cannot be written; check who owns the state folder",
  10: "the disk of the state folder failed",
  14: "its file cannot be opened; check that the state folder is there and who owns it",
}
const SQLITE_CORRUPT = 11
const SQLITE_FULL = 13
/** The shared memory beside the log cannot grow: the disk is full. */
const SQLITE_IOERR_SHMSIZE = 4874

const refusalOf = (fault: StoreFault): StoreFailure => {
  if (fault._tag === "SchemaError") return new StoreUnavailable({ cause: 'a record cannot be read; "codespace audit verify" names it' })
  const cause: unknown = fault.reason.cause
  const code = Predicate.hasProperty(cause, "errcode") && typeof cause.errcode === "number" ? cause.errcode : undefined
  if (code === SQLITE_FULL || code === SQLITE_IOERR_SHMSIZE) return new StorageFull({ where: "the record store" })
  const said = Predicate.hasProperty(cause, "message") ? String(cause.message) : fault.reason._tag
  if (code === undefined || code === SQLITE_CORRUPT) return new StoreUnavailable({ cause: said })
  return new StoreUnavailable({ cause: causes[code & 0xff] ?? `its database refused: ${said}` })
}

const isFault = (error: unknown): error is StoreFault => SqlError.isSqlError(error) || Schema.isSchemaError(error)

/** Puts the faults of an effect into a refusal's words; its other failures stay as they are. */
export const refused = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, StoreFault> | StoreFailure, R> =>
  Effect.mapError(effect, (error) => (isFault(error) ? refusalOf(error) : (error as Exclude<E, StoreFault>)))

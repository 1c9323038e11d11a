/** Faults of the database in the words of a refusal, for the services that speak SQL. */
import { Effect, Schema } from "effect"
import { SqlError } from "effect/sql"
import { StorageFull, StoreUnavailable } from "../schema/Operation.ts"

export type StoreFailure = StoreUnavailable | StorageFull
export type StoreFault = SqlError.SqlError | Schema.SchemaError

const SQLITE_FULL = 13

const refusalOf = (fault: StoreFault): StoreFailure => {
  if (fault._tag === "SchemaError") return new StoreUnavailable({ cause: "a record cannot be read" })
  const cause: unknown = fault.reason.cause
  const code = typeof cause === "object" && cause !== null && "errcode" in cause ? cause.errcode : undefined
  return code === SQLITE_FULL ? new StorageFull({ where: "the record store" }) : new StoreUnavailable({ cause: fault.reason._tag })
}

const isFault = (error: unknown): error is StoreFault => SqlError.isSqlError(error) || Schema.isSchemaError(error)

/** Puts the faults of an effect into a refusal's words; its other failures stay as they are. */
export const refused = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, StoreFault> | StoreFailure, R> =>
  Effect.mapError(effect, (error) => (isFault(error) ? refusalOf(error) : (error as Exclude<E, StoreFault>)))

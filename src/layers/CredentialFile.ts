/** The operator's credential as a file `operator` of the state folder. */
import { readFileSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Layer, Option, Predicate, Result } from "effect"
import { StoreUnavailable } from "../schema/Operation.ts"
import { CredentialFile } from "../services/Operator.ts"

export const layer = (stateFolder: string): Layer.Layer<CredentialFile> => {
  const path = join(stateFolder, "operator")
  const using = <A>(run: () => A, otherwise: (code: unknown) => A | undefined = () => undefined): Effect.Effect<A, StoreUnavailable> =>
    Effect.suspend(() => {
      const done = Result.try({ try: run, catch: (fault) => (Predicate.hasProperty(fault, "code") ? fault.code : undefined) })
      const value = Result.isSuccess(done) ? done.success : otherwise(done.failure)
      if (value !== undefined) return Effect.succeed(value)
      return Effect.fail(new StoreUnavailable({ cause: `${path}: ${String(Result.isFailure(done) ? done.failure : "")}` }))
    })
  const write = (credential: string, to: string, flag: "w" | "wx") => {
    writeFileSync(to, `${credential}\n`, { mode: 0o600, flag, flush: true })
    return true
  }
  return Layer.succeed(CredentialFile, {
    path,
    read: using(
      () => Option.liftPredicate(readFileSync(path, "utf8").trim(), (text) => text !== ""),
      (code) => (code === "ENOENT" ? Option.none() : undefined),
    ),
    create: (credential) =>
      using(
        () => write(credential, path, "wx"),
        (code) => (code === "EEXIST" ? false : undefined),
      ),
    replace: (credential) =>
      Effect.asVoid(
        using(() => {
          write(credential, `${path}.new`, "w")
          renameSync(`${path}.new`, path)
          return true
        }),
      ),
  })
}

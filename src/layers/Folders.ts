/** Folders the operator names or the server needs: what they really are, or in one sentence why they cannot be used. */
import { dirname, isAbsolute, join, relative } from "node:path"
import { Effect, FileSystem, Option, type PlatformError, Predicate } from "effect"

/** The path with its links resolved. Fails with a sentence about the path when it is missing or no folder. */
export const realFolder = Effect.fnUntraced(function* (path: string): Effect.fn.Return<string, string, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const real = yield* fs.realPath(path).pipe(Effect.mapError(reasonOf))
  const { type } = yield* fs.stat(real).pipe(Effect.mapError(reasonOf))
  return type === "Directory" ? real : yield* Effect.fail("is not a folder")
})

/** Where a path leads that need not exist yet: the links of the part that exists are resolved. */
export const realPlace = (path: string): Effect.Effect<string, never, FileSystem.FileSystem> =>
  FileSystem.FileSystem.use((fs) => fs.realPath(path)).pipe(
    Effect.catch(() =>
      dirname(path) === path
        ? Effect.succeed(path)
        : Effect.map(realPlace(dirname(path)), (above) => join(above, relative(dirname(path), path))),
    ),
  )

/** Whether the path is the folder or lies below it. Both are real paths. */
export const contains = (folder: string, path: string): boolean => {
  const way = relative(folder, path)
  return way === "" || !(way === ".." || way.startsWith("../") || isAbsolute(way))
}

/**
 * Makes a folder that only this user can enter, or takes the rights of others away from one that exists. Answers with
 * its real path; fails with a sentence when it belongs to somebody else or cannot be closed to others.
 */
export const privateFolder = Effect.fnUntraced(function* (path: string): Effect.fn.Return<string, string, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  yield* fs.makeDirectory(path, { recursive: true, mode: 0o700 }).pipe(Effect.mapError((fault) => `cannot be made: ${reasonOf(fault)}`))
  const real = yield* realFolder(path)
  const { mode, uid } = yield* fs.stat(real).pipe(Effect.mapError(reasonOf))
  const self = process.getuid?.()
  if (self !== undefined && Option.getOrElse(uid, () => self) !== self) return yield* Effect.fail("belongs to another user")
  if ((mode & 0o077) !== 0)
    yield* fs.chmod(real, 0o700).pipe(Effect.mapError(() => "can be entered by other users, and that cannot be changed"))
  return real
})

/** Why the system refused, in words that follow a path. */
export const reasonOf = ({ reason }: PlatformError.PlatformError): string => {
  if (reason._tag === "NotFound") return "does not exist"
  if (reason._tag === "PermissionDenied") return "cannot be opened: permission denied"
  return `cannot be opened: ${Predicate.hasProperty(reason.cause, "code") ? reason.cause.code : reason._tag}`
}

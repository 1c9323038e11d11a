/** Folders the operator names or the server needs: what they really are, or in one sentence why they cannot be used. */
import { chmodSync, existsSync, mkdirSync, realpathSync, statSync } from "node:fs"
import { dirname, isAbsolute, join, relative } from "node:path"
import { Predicate, Result } from "effect"

/** The path with its links resolved. Fails with a sentence about the path when it is missing or no folder. */
export const realFolder = (path: string): Result.Result<string, string> =>
  attempt(() => {
    const real = realpathSync.native(path)
    return { real, isFolder: statSync(real).isDirectory() }
  }).pipe(Result.flatMap(({ isFolder, real }) => (isFolder ? Result.succeed(real) : Result.fail("is not a folder"))))

/** Where a path leads that need not exist yet: the links of the part that exists are resolved. */
export const realPlace = (path: string): string =>
  Result.getOrElse(
    attempt(() => realpathSync.native(path)),
    () => (dirname(path) === path ? path : join(realPlace(dirname(path)), relative(dirname(path), path))),
  )

/** As much of a path as there is. */
export const existingPart = (path: string): string => (existsSync(path) || path === "/" ? path : existingPart(dirname(path)))

/** Whether the path is the folder or lies below it. Both are real paths. */
export const contains = (folder: string, path: string): boolean => {
  const way = relative(folder, path)
  return way === "" || !(way === ".." || way.startsWith("../") || isAbsolute(way))
}

/**
 * Makes a folder that only this user can enter, or takes the rights of others away from one that exists. Answers with
 * its real path; fails with a sentence when it belongs to somebody else or cannot be closed to others.
 */
export const privateFolder = (path: string): Result.Result<string, string> =>
  attempt(() => mkdirSync(path, { recursive: true, mode: 0o700 })).pipe(
    Result.mapError((reason) => `cannot be made: ${reason}`),
    Result.flatMap(() => realFolder(path)),
    Result.flatMap(closeToOthers),
  )

const closeToOthers = (real: string): Result.Result<string, string> => {
  const { mode, uid } = statSync(real)
  if (uid !== (process.getuid?.() ?? uid)) return Result.fail("belongs to another user")
  if ((mode & 0o077) === 0) return Result.succeed(real)
  return attempt(() => chmodSync(real, 0o700)).pipe(
    Result.map(() => real),
    Result.mapError(() => "can be entered by other users, and that cannot be changed"),
  )
}

/** Does something with the file system; fails with why the system refused, in words that follow a path. */
export const attempt = <A>(run: () => A): Result.Result<A, string> => Result.try({ try: run, catch: reasonOf })

const reasonOf = (fault: unknown): string => {
  const code = Predicate.hasProperty(fault, "code") ? String(fault.code) : String(fault)
  if (code === "ENOENT") return "does not exist"
  return `cannot be opened: ${code === "EACCES" || code === "EPERM" ? "permission denied" : code}`
}

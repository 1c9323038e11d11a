/** Where sockets lie: the kernel keeps their paths in a small structure, and a state folder may have a long one. */
import { existsSync, lstatSync } from "node:fs"
import { join } from "node:path"
import { Result } from "effect"
import { privateFolder } from "./Folders.ts"
import { variables } from "./HostEnvironment.ts"

/** Bytes that the path of a socket may have: what the kernel's structure holds, without the NUL at its end. */
export const LONGEST_PATH = process.platform === "linux" ? 107 : 103

/** Where this user's sockets lie when the state folder has too long a path. */
export const shortFolder = (): string => {
  const runtime = variables()["XDG_RUNTIME_DIR"]
  return runtime?.startsWith("/") === true ? join(runtime, "codespace") : `/tmp/codespace-${process.getuid?.() ?? 0}`
}

/** Makes a folder that only this user can enter, or says why it is none. No link, since its name may lie where others can write. */
export const ownFolder = (path: string): Result.Result<string, string> =>
  existsSync(path) && lstatSync(path).isSymbolicLink() ? Result.fail("is a link") : privateFolder(path)

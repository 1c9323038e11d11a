/** Which hooks a git folder has. */
import { readdirSync } from "node:fs"
import { join } from "node:path"

/** Names of the hooks that git would run. */
export const hooksIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(join(folder, "hooks")).filter((name) => !name.endsWith(".sample"))
  } catch {
    return []
  }
}

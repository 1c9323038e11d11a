/** What the server's user has set up for git for all repositories. */
import { spawnSync } from "node:child_process"

/** Milliseconds git may take to say it. */
const LIMIT = 2000

/** Whether hooks of the user's own would run; also when git does not say. */
export const ownersHooksPath = (variables: Readonly<Record<string, string>>): boolean => {
  const { PATH = "", HOME = "", XDG_CONFIG_HOME } = variables
  const { status } = spawnSync("git", ["config", "--get", "core.hooksPath"], {
    cwd: "/",
    env: { PATH, HOME, GIT_CEILING_DIRECTORIES: "/", ...(XDG_CONFIG_HOME === undefined ? {} : { XDG_CONFIG_HOME }) },
    stdio: "ignore",
    timeout: LIMIT,
  })
  return status !== 1
}

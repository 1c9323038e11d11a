/**
 * The PATH that the user's own shell ends up with: a server started by a desktop has hardly more than `/usr/bin`. The
 * shell runs the user's start-up files, which may do anything; so it runs in a session of its own without a terminal,
 * with nothing to read, with what every child has and none of the server's secrets, and not longer than a limit.
 */
import { spawn } from "node:child_process"
import { userInfo } from "node:os"
import { Effect } from "effect"
import { baseEnvironment, type Variables } from "../services/ChildEnvironment.ts"
import { send } from "./ProcessTable.ts"

/** Milliseconds the start-up files may take. */
const LIMIT = 2000

/** Start-up files may print; what stands between these is the answer. Any shell can run this, and PATH is exported. */
const MARK = "__codespace_path__"
const ASK = `/bin/sh -c 'printf "${MARK}%s${MARK}" "$PATH"'`

/** The folders of a PATH. */
export const foldersOf = (path: string): ReadonlyArray<string> => path.split(":").filter((folder) => folder !== "")

/** What the shell has, or nothing when it does not say in time. `host` are the variables of this server. */
export const path = (host: Variables): Effect.Effect<ReadonlyArray<string>> =>
  Effect.callback<ReadonlyArray<string>>((resume) => {
    let said = ""
    const answer = () => resume(Effect.succeed(foldersOf(said.split(MARK)[1] ?? "")))
    // Tools for developers are often added where only an interactive shell looks.
    const child = spawn(shellOf(host), ["-l", "-i", "-c", ASK], {
      ...{ cwd: "/", env: baseEnvironment(host), stdio: ["ignore", "pipe", "ignore"], detached: true },
    })
    child.stdout?.on("data", (chunk: Buffer) => {
      said += chunk.toString("utf8")
      if (said.split(MARK).length > 2) answer()
    })
    child.once("error", answer)
    child.once("exit", answer)
    return Effect.sync(() => (child.pid === undefined ? undefined : send(-child.pid, "SIGKILL")))
  }).pipe(Effect.timeoutOrElse({ duration: LIMIT, orElse: () => Effect.as(Effect.logWarning(tooSlow), []) }))

const tooSlow = `the login shell did not say its PATH within ${LIMIT} ms; the server's own is used ("path" in the configuration can name it)`

const shellOf = (host: Variables): string => {
  const named = host["SHELL"] ?? ""
  if (named.startsWith("/")) return named
  try {
    return userInfo().shell ?? "/bin/sh"
  } catch {
    // This user may have no entry of its own.
    return "/bin/sh"
  }
}

/**
 * One small process beside the server that outlives it, also when it is killed: it then ends everything that carries the
 * server's mark. Where namespaces hold commands there is hardly anything left for it, a sandbox that was just being made
 * at most; where they do not, it is what a kill of the server meets. A server that closes in order leaves such a sandbox
 * too: bubblewrap's inner process waits for ever for an outer one that was ended before it was through.
 */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { Effect, type Scope } from "effect"

/**
 * Waits for the end of its input. What was just being started shows its mark a moment later, so it looks until there has been
 * nothing several times.
 */
const WATCH = `trap '' TERM HUP INT QUIT
read -r line
calm=0 round=0
while [ $calm -lt 5 ] && [ $round -lt 100 ]; do
  round=$((round + 1))
  found=$(grep -lsaF "$1" /proc/[0-9]*/environ | cut -d / -f 3)
  if [ -z "$found" ]; then calm=$((calm + 1)); sleep 0.02; else calm=0; kill -KILL $found 2>/dev/null; fi
done`

/** Starts it until the scope ends. `mark` stands in the environment of everything it is to end. */
export const start = (mark: string): Effect.Effect<void, never, Scope.Scope> =>
  existsSync("/proc/self/environ")
    ? Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            const child = spawn("/bin/sh", ["-c", WATCH, "sh", mark], {
              ...{ cwd: "/", env: { PATH: "/usr/bin:/bin" }, stdio: ["pipe", "ignore", "ignore"], detached: true },
            })
            for (const part of [child, child.stdin]) part.on("error", () => {})
            child.unref()
            return child
          }),
          (child) => Effect.sync(() => void child.stdin.end()),
        ),
      )
    : Effect.void

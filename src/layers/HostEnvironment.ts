/** The variables this server was started with, and where it looks for programs. */
import { Effect } from "effect"
import type { SearchPath } from "../schema/Config.ts"
import type { Variables } from "../services/ChildEnvironment.ts"
import * as LoginShell from "./LoginShell.ts"

export const variables = (): Variables => ({ ...process.env }) as Variables

/** The same, with PATH as the operator wants it. Asking a login shell takes as long as its start-up files do, at most two seconds. */
export const variablesWith = (path: SearchPath): Effect.Effect<Variables> => {
  if (path === "server") return Effect.sync(variables)
  if (path !== "login-shell") return Effect.sync(() => ({ ...variables(), PATH: path.join(":") }))
  return Effect.map(LoginShell.path(variables()), (found) => ({
    ...variables(),
    PATH: [...new Set([...found, ...searchPath()])].join(":"),
  }))
}

/** Whether the environment names a collector for traces. */
export const namesCollector = (): boolean =>
  ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"].some((name) => (process.env[name] ?? "") !== "")

/** The folders programs are looked for in. */
export const searchPath = (): ReadonlyArray<string> => LoginShell.foldersOf(process.env["PATH"] ?? "")

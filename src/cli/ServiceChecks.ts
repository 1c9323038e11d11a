/** Whether the configuration can be used, and whether its port is free. */
import { createServer } from "node:net"
import { Effect, Option } from "effect"
import type { ConfigInvalid } from "../schema/ConfigProblem.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import { type Check, type Finding, note, ok, wrong } from "./Finding.ts"

/** What became of reading the configuration. */
export const configuration = (config: AppConfig["Service"] | ConfigInvalid): Finding => {
  if (!("workspaces" in config))
    return wrong("configuration", config.message.replaceAll("\n", " "), `mend the file; "codespace schema" prints what may stand there`)
  const place = config.configFile ?? "no file"
  if (config.workspaces.size === 0)
    return note("configuration", `${place}, without a workspace`, 'run "codespace init" in a project, or name folders: codespace serve DIR')
  return ok(
    "configuration",
    `${place}, workspaces ${[...config.workspaces.values()].map(({ id, profile }) => `${id} (${profile.name})`).join(", ")}`,
  )
}

/** The port is taken for a moment; where that fails, whoever has it is asked who it is. */
export const port = ({ host, port }: AppConfig["Service"]["http"]): Check =>
  Effect.gen(function* () {
    if (port === 0) return ok("port", "any free one")
    const problem = yield* listening(host, port)
    if (Option.isNone(problem)) return ok("port", `${host}:${port} is free`)
    if (problem.value === "EADDRINUSE" && (yield* isOurs(host, port))) return ok("port", `a codespace server listens at ${host}:${port}`)
    return note(
      "port",
      `${host}:${port} cannot be listened at: ${problem.value}`,
      `serve at another: codespace serve --port PORT, or http.port in the configuration`,
    )
  })

const listening = (host: string, port: number): Effect.Effect<Option.Option<string>> =>
  Effect.callback((resume) => {
    const server = createServer()
    server.once("error", (error: NodeJS.ErrnoException) => resume(Effect.succeed(Option.some(error.code ?? error.message))))
    server.listen(port, host, () => server.close(() => resume(Effect.succeed(Option.none()))))
  })

/** Our servers tell a stranger at the health route whose it is. */
const isOurs = (host: string, port: number): Effect.Effect<boolean> =>
  Effect.tryPromise(async (signal) => {
    const { headers } = await fetch(`http://${host.includes(":") ? `[${host}]` : host}:${port}/healthz`, { signal, redirect: "manual" })
    return (headers.get("www-authenticate") ?? "").includes("codespace")
  }).pipe(
    Effect.timeoutOption("3 seconds"),
    Effect.map(Option.getOrElse(() => false)),
    Effect.orElseSucceed(() => false),
  )

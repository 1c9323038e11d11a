/**
 * The command line. `codespace mcp` serves one client over stdio, `codespace serve` serves many over HTTP. Exit code 0
 * after an orderly end, 1 when something is wrong, 2 for a wrong command line.
 *
 * A client waits for what is imported here, so nothing is that a start does not need: what performs calls is
 * `program.ts`, and comes with the first one.
 */
import { parseArgs } from "node:util"
import { Cause, Context, Data, Effect, Exit, Fiber, Layer, type Scope } from "effect"
import * as ConfigFile from "./layers/ConfigFile.ts"
import * as Observability from "./layers/Observability.ts"
import { claimStdout, runStdio, stopSignal } from "./mcp/Stdio.ts"
import { type ListedTool, offered } from "./mcp/ToolList.ts"
import { tableOf } from "./mcp/ToolTable.ts"
import { AppConfig } from "./services/AppConfig.ts"

// Written in by the build; the sources run without it.
declare const CODESPACE_VERSION: string | undefined
declare const CODESPACE_TOOLS: ReadonlyArray<ListedTool> | undefined

const version = typeof CODESPACE_VERSION === "undefined" ? "development" : CODESPACE_VERSION

const usage = `codespace ${version}: the execution layer for agent loops

  codespace mcp [DIR...]     serve one client over stdio
  codespace serve [DIR...]   serve clients over HTTP on this machine

Each DIR is registered as a workspace under its folder name, with profile workspace-write.

  --config FILE   configuration file (default: $CODESPACE_CONFIG, then $XDG_CONFIG_HOME/codespace/config.json)
  --port PORT     serve: port on 127.0.0.1 (default 8787; 0 takes a free one)
  --new-token     serve: make a new token; the old one stops working
  --help          this text
  --version       the version
`

const instructions =
  "Start with workspace_info. Read before you change, pass the versions you read to apply_patch, edit or write, and give changes an operation_key: " +
  "after a lost answer ask operation_status, or repeat the call with the same key. Every refusal says what to do next."

/** An orderly end is promised within 5 s; whatever hangs then is left to the kernel. */
const STOP_LIMIT = 4500

const log = (line: string): void => void process.stderr.write(`${line}\n`)

class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

interface Asked {
  readonly command: string
  readonly folders: ReadonlyArray<string>
  readonly config?: string
  readonly port?: number
  readonly newToken: boolean
}

const options = {
  config: { type: "string" },
  port: { type: "string" },
  "new-token": { type: "boolean" },
  help: { type: "boolean" },
  version: { type: "boolean" },
} as const

const parse = (argv: ReadonlyArray<string>): Effect.Effect<Asked, UsageError> =>
  Effect.try({
    try: () => {
      const { positionals, values } = parseArgs({ args: [...argv], options, allowPositionals: true })
      const [command = "help", ...folders] = positionals
      const port = values.port === undefined ? undefined : Number(values.port)
      if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port <= 65_535))
        throw new Error(`--port: found ${values.port}, wanted a number from 0 to 65535`)
      return {
        command: values.help ? "help" : values.version ? "version" : command,
        folders,
        ...(values.config === undefined ? {} : { config: values.config }),
        ...(port === undefined ? {} : { port }),
        newToken: values["new-token"] ?? false,
      }
    },
    catch: (cause) => new UsageError({ message: cause instanceof Error ? cause.message : String(cause) }),
  })

/** The configuration, the table of the tools it offers, and the program behind them, which is loaded when it is needed. */
const prepare = Effect.fnUntraced(function* (asked: Asked) {
  const configured = ConfigFile.layer({ folders: asked.folders, ...(asked.config === undefined ? {} : { config: asked.config }) })
  const config = Context.get(yield* Layer.build(configured), AppConfig)
  const list = offered(yield* toolList, config)
  const context = yield* Effect.context<Scope.Scope>()
  const load = async () => {
    const { makeProgram } = await import("./program.ts")
    return Effect.runPromise(Effect.provideContext(makeProgram(config, list, log), context))
  }
  const program: { loaded?: ReturnType<typeof load> } = {}
  const loaded = () => (program.loaded ??= load())
  const table = tableOf({ list, instructions, version, call: async (params, call) => (await loaded()).call(params, call) })
  return { loaded, table }
})

/** The build writes the list in; run from the sources, it is made. */
const toolList = Effect.promise(async () =>
  typeof CODESPACE_TOOLS === "undefined" ? (await import("./mcp/Tools.ts")).listTools() : CODESPACE_TOOLS,
)

const mcp = Effect.fnUntraced(function* (asked: Asked) {
  const output = yield* claimStdout
  const { table } = yield* prepare(asked)
  yield* runStdio({ table, input: process.stdin, output, log })
})

const serve = Effect.fnUntraced(function* (asked: Asked) {
  // Listened for before anybody is told that the server runs.
  const stopped = yield* Effect.forkChild(stopSignal, { startImmediately: true })
  const { loaded, table } = yield* prepare(asked)
  const { serveHttp } = yield* Effect.promise(loaded)
  const welcome = yield* serveHttp({ table, newToken: asked.newToken, ...(asked.port === undefined ? {} : { port: asked.port }) })
  process.stdout.write(welcome)
  yield* Fiber.join(stopped)
})

const run = Effect.fnUntraced(function* (argv: ReadonlyArray<string>) {
  const asked = yield* parse(argv)
  switch (asked.command) {
    case "mcp":
      return yield* mcp(asked)
    case "serve":
      return yield* serve(asked)
    case "help":
      return void process.stdout.write(usage)
    case "version":
      return void process.stdout.write(`${version}\n`)
    default:
      return yield* new UsageError({ message: `unknown command "${asked.command}"` })
  }
})

/** Closes what the command built, and never takes longer than promised for it. */
const exitCode = Effect.fnUntraced(function* (argv: ReadonlyArray<string>) {
  const main = run(argv).pipe(
    Effect.ensuring(Effect.sync(() => void setTimeout(() => process.exit(1), STOP_LIMIT).unref())),
    Effect.as(0),
    Effect.catchTag("UsageError", (error) =>
      Effect.as(
        Effect.sync(() => log(`codespace: ${error.message}\n\n${usage}`)),
        2,
      ),
    ),
    Effect.catchTag(["ConfigInvalid", "STORE_UNAVAILABLE", "ListenFailed"], (error) =>
      Effect.as(
        Effect.sync(() => log(`codespace: ${error.message}`)),
        1,
      ),
    ),
  )
  return yield* Effect.scoped(main)
})

// A reader that is gone must not end the process before its layers are closed.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined)
const exit = await Effect.runPromiseExit(Effect.provide(exitCode(process.argv.slice(2)), Observability.layer))
if (Exit.isFailure(exit)) log(`codespace: ${Cause.pretty(exit.cause)}`)
process.exit(Exit.isSuccess(exit) ? exit.value : 1)

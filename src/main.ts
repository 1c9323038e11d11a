/**
 * The command line, and the one place that joins everything. `codespace mcp` serves one client over stdio, `codespace
 * serve` serves many over HTTP. Exit code 0 after an orderly end, 1 when something is wrong, 2 for a wrong command line.
 */
import { randomBytes } from "node:crypto"
import { parseArgs } from "node:util"
import { Cause, Context, Effect, Exit, Layer, Option, Schema, Scope, Semaphore } from "effect"
import * as ConfigFile from "./layers/ConfigFile.ts"
import * as Observability from "./layers/Observability.ts"
import { claimStdout, runStdio } from "./mcp/Stdio.ts"
import { makeTable } from "./mcp/Table.ts"
import { type ListedTool, offered, rowsOf } from "./mcp/ToolList.ts"
import { StoreUnavailable } from "./schema/Operation.ts"
import { AppConfig } from "./services/AppConfig.ts"
import type { Callers } from "./services/Callers.ts"

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

class UsageError extends Schema.TaggedError<UsageError>()("UsageError", { message: Schema.String }) {}

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

/** The configuration, the table of its tools, and the control side on demand. */
const prepare = Effect.fnUntraced(function* (asked: Asked) {
  const configured = ConfigFile.layer({ folders: asked.folders, ...(asked.config === undefined ? {} : { config: asked.config }) })
  const config = Context.get(yield* Layer.build(configured), AppConfig)
  const control = yield* onDemand(buildControl(config))
  const context = yield* Effect.context<never>()
  const table = makeTable({
    rows: rowsOf(offered(yield* toolList, config), (name, args) => Effect.flatMap(control, ({ call }) => call(name, args))),
    run: (call, signal) => Effect.runPromiseExitWith(context)(call, { signal }),
    instructions,
    version,
    log,
  })
  return { config, control, table }
})

const toolList = Effect.promise(async () =>
  typeof CODESPACE_TOOLS === "undefined" ? (await import("./mcp/Tools.ts")).listTools() : CODESPACE_TOOLS,
)

/** Loads and builds all that performs calls. A client that only lists tools never waits for it. */
const buildControl = Effect.fnUntraced(function* (config: AppConfig["Service"]) {
  const [app, tools, { Callers }] = yield* Effect.promise(() =>
    Promise.all([import("./layers/App.ts"), import("./mcp/Tools.ts"), import("./services/Callers.ts")]),
  )
  const services = yield* Layer.build(app.layerControl(tools.workspaceTools, config))
  return { call: tools.callOn(services), callers: Context.get(services, Callers) }
})

/**
 * Builds something when it is first asked for and keeps it until the scope ends. A failure is not kept: a store that was
 * locked or full is tried again by the next call.
 */
const onDemand = Effect.fnUntraced(function* <A, E extends { readonly message: string }>(build: Effect.Effect<A, E, Scope.Scope>) {
  const scope = yield* Effect.scope
  const building = yield* Semaphore.make(1)
  const kept: { value?: A } = {}
  const once = Effect.suspend(() =>
    kept.value !== undefined
      ? Effect.succeed(kept.value)
      : Scope.provide(build, scope).pipe(
          Effect.tap((value) => Effect.sync(() => Object.assign(kept, { value }))),
          Effect.mapError((error) => new StoreUnavailable({ cause: error.message })),
        ),
  )
  return Effect.suspend(() => (kept.value !== undefined ? Effect.succeed(kept.value) : building.withPermits(1)(once)))
})

const mcp = Effect.fnUntraced(function* (asked: Asked) {
  const output = yield* claimStdout
  const { table } = yield* prepare(asked)
  yield* runStdio({ table, input: process.stdin, output, log })
})

const serve = Effect.fnUntraced(function* (asked: Asked) {
  const { config, control, table } = yield* prepare(asked)
  const { callers } = yield* control
  const token = yield* ownersToken(callers, asked.newToken)
  const [http, { welcome }] = yield* Effect.promise(() => Promise.all([import("./mcp/Http.ts"), import("./mcp/ClientSetup.ts")]))
  const server = yield* Layer.build(
    http.layer({
      ...config.http,
      ...(asked.port === undefined ? {} : { port: asked.port }),
      table,
      authenticate: authenticator(callers),
      log,
    }),
  )
  process.stdout.write(welcome(http.endpointOf(server), token, [...config.workspaces.keys()]))
  yield* stopSignal
})

/** The first start makes a token for the person at this machine; later ones only on request. Undefined when it is kept. */
const ownersToken = Effect.fnUntraced(function* (callers: Callers["Service"], newToken: boolean) {
  if (!newToken && (yield* callers.exists(OWNER))) return undefined
  const token = `cs_${randomBytes(32).toString("base64url")}`
  yield* callers.register(OWNER, token)
  return token
})

const OWNER = "owner"

const authenticator = (callers: Callers["Service"]) => (token: string) =>
  Effect.runPromise(
    callers.byToken(token).pipe(
      Effect.map(Option.map(({ name }) => ({ name, workspaces: undefined }))),
      Effect.map(Option.getOrUndefined),
      Effect.orElseSucceed(() => undefined),
    ),
  )

const stopSignal: Effect.Effect<void> = Effect.callback((resume) => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => resume(Effect.void))
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

/**
 * `codespace init`: what a newcomer needs once. A commented configuration, the state folder, the first token, and the
 * settings of each client. It never overwrites anything; run again, it says what is there and prints the settings again.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { argv, execPath } from "node:process"
import { Context, Data, Effect, Layer, Result } from "effect"
import { layerRecordsIn } from "../layers/App.ts"
import { nameFor, placeFor } from "../layers/ConfigFile.ts"
import { attempt } from "../layers/Folders.ts"
import { type ClientSetup, httpClients, setupText, stdioClients, tunnelClients } from "../mcp/ClientSetup.ts"
import { ownersToken } from "../program.ts"
import { configJson } from "../schema/ConfigJson.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import { Callers } from "../services/Callers.ts"
import { command, configOption, jsonOption } from "./Command.ts"
import { configTemplate } from "./ConfigTemplate.ts"
import { printAs } from "./Output.ts"
import { configured } from "./Prepare.ts"

class FileNotWritten extends Data.TaggedError("FileNotWritten")<{ readonly file: string; readonly reason: string }> {
  override get message() {
    return `${this.file} ${this.reason}`
  }
}

export const init = command({
  args: "[DIR...]",
  details: "Each DIR becomes a workspace under its folder name, with profile workspace-write; without one, the current folder does.",
  options: { ...configOption, ...jsonOption },
  run: Effect.fnUntraced(function* ({ args, options }) {
    const { file, isStandard } = placeFor(options.config)
    const folders = args.length > 0 ? args : ["."]
    const isNew = yield* writeNew(file, configTemplate(configJson(), namesOf(folders)))
    const config = yield* configured({ args: [], options: { config: file } }).pipe(
      // A file that cannot be used is not left behind.
      Effect.tapError(() => Effect.sync(() => isNew && rmSync(file))),
    )
    const schemaFile = join(dirname(file), "config.schema.json")
    yield* writeNew(schemaFile, `${JSON.stringify(configJson(), null, 2)}\n`)
    const token = yield* firstToken(config)
    const told = { file, isNew, workspaces: [...config.workspaces.keys()], stateFolder: config.stateFolder, token }
    const clients = clientsOf(config, token, [execPath, resolve(argv[1] ?? ""), "mcp", ...(isStandard ? [] : ["--config", file])])
    yield* printAs(options.json, { ...told, clients }, [...report(told, folders), ...clients.flatMap(section)].join("\n"))
    return 0
  }),
})

/** Folders by the names they get; of equal names the later ones are numbered. */
const namesOf = (folders: ReadonlyArray<string>): Readonly<Record<string, string>> => {
  const named: Record<string, string> = {}
  for (const root of new Set(folders.map((folder) => resolve(folder)))) {
    const name = nameFor(root)
    const names = [name, ...folders.map((_, place) => `${name}-${place + 2}`)]
    named[names.find((one) => !Object.hasOwn(named, one)) ?? name] = root
  }
  return named
}

/** Writes a file that is not there yet; false when it is, and then it stays as it is. */
const writeNew = (file: string, text: string): Effect.Effect<boolean, FileNotWritten> =>
  Effect.fromResult(
    attempt(() => {
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text, { flag: "wx", mode: 0o600 })
      return true
    }).pipe(
      Result.orElse((reason) => (reason.includes("EEXIST") ? Result.succeed(false) : Result.fail(new FileNotWritten({ file, reason })))),
    ),
  )

/** A token for the person at this machine, unless there is one: that is not shown a second time. */
const firstToken = Effect.fnUntraced(function* (config: AppConfig["Service"]) {
  const records = yield* Layer.build(layerRecordsIn(config.stateFolder))
  return yield* ownersToken(Context.get(records, Callers), false)
})

interface Told {
  readonly file: string
  readonly isNew: boolean
  readonly workspaces: ReadonlyArray<string>
  readonly stateFolder: string
  readonly token: string | undefined
}

const report = ({ file, isNew, stateFolder, token, workspaces }: Told, folders: ReadonlyArray<string>): ReadonlyArray<string> => [
  isNew
    ? `Wrote ${file}, with every field and its default`
    : `${file} is there already and stays as it is; nothing of ${folders.join(", ")} was added`,
  `Workspaces: ${workspaces.join(", ")}`,
  `State: ${stateFolder}, which only you can enter`,
  token === undefined
    ? "Token: there is one already; it was shown when it was made"
    : `Token: ${token}\nIt is shown only now; keep it like a password.`,
  "",
  'Run "codespace doctor" to see whether all of it works here.',
  "",
]

interface Section {
  readonly title: string
  readonly setups: ReadonlyArray<ClientSetup>
}

const clientsOf = (
  { http, stateFolder }: AppConfig["Service"],
  token: string | undefined,
  commandLine: ReadonlyArray<string>,
): ReadonlyArray<Section> => [
  { title: "Clients that start the server themselves", setups: stdioClients(commandLine) },
  {
    title: `Clients of a running server: ${commandLine.map((word) => (word === "mcp" ? "serve" : word)).join(" ")}`,
    setups: [...httpClients(`http://${http.host}:${http.port}/mcp`, token), ...tunnelClients(http.port, join(stateFolder, "operator"))],
  },
]

const section = ({ setups, title }: Section): ReadonlyArray<string> => [title, "-".repeat(title.length), ...setupText(setups)]

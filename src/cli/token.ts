/**
 * `codespace token`: who may call over HTTP. It works on the state folder, whether a server runs or not; servers ask
 * there with every request, so what is done here holds at once.
 */
import { Context, Effect, Layer, Schema } from "effect"
import { layerRecordsIn } from "../layers/App.ts"
import { CallerName, type CallerRecord } from "../schema/Caller.ts"
import { Callers } from "../services/Callers.ts"
import { type Asked, type Commands, command, configOption, jsonOption, UsageError } from "./Command.ts"
import { log, printAs } from "./Output.ts"
import { configured } from "./Prepare.ts"

const names = (text: string): ReadonlyArray<string> => text.split(",").map((name) => name.trim())

/** The configuration, and the callers in its state folder. */
const opened = Effect.fnUntraced(function* ({ options }: Asked<typeof configOption>) {
  const config = yield* configured({ args: [], options }, "workspaces optional")
  return { config, callers: Context.get(yield* Layer.build(layerRecordsIn(config.stateFolder)), Callers) }
})

const create = command({
  args: "NAME",
  details:
    "The token is shown once and kept as a hash. A caller works in a workspace under its profile, held to the highest profile\n" +
    "given here: on every axis the stricter of the two counts. Without --workspaces it may use every registered one.",
  options: {
    ...configOption,
    ...jsonOption,
    workspaces: { value: "ID,ID", summary: "workspaces it may use (default: all)" },
    profile: { value: "PROFILE", summary: "highest profile it may use (default: each workspace's own)" },
    "trust-prompts": { summary: "a person answers the prompts of its client, so it may ask there for an approval" },
    subject: { value: "SUBJECT", summary: "no token: it is known by this name at the OAuth issuer of the configuration" },
    replace: { summary: "if there is one of this name, make it new; its token stops working" },
  },
  run: Effect.fnUntraced(function* (asked) {
    const { options } = asked
    const name = yield* Schema.decodeUnknownEffect(CallerName)(asked.args[0]).pipe(
      Effect.mapError(({ message }) => new UsageError({ message: `NAME: ${message}` })),
    )
    const { callers, config } = yield* opened(asked)
    const workspaces = options.workspaces === undefined ? undefined : names(options.workspaces)
    if (options.profile !== undefined && !config.profiles.has(options.profile))
      return yield* new UsageError({
        message: `--profile: there is no profile "${options.profile}"; known are ${[...config.profiles.keys()].join(", ")}`,
      })
    for (const id of workspaces ?? [])
      if (![...config.workspaces.keys()].some((known) => known === id))
        log(`note: the configuration has no workspace "${id}"; it counts once a server has one of that name`)
    const token = yield* callers.admit(
      {
        name,
        trust_prompts: options["trust-prompts"] ?? false,
        ...(workspaces === undefined ? {} : { workspaces }),
        ...(options.profile === undefined ? {} : { highest: options.profile }),
        ...(options.subject === undefined ? {} : { subject: options.subject }),
      },
      { replace: options.replace ?? false },
    )
    if (token === undefined) yield* printAs(options.json, { name }, `${name} is known by its name at the issuer.\n`)
    else {
      yield* printAs(options.json, { name, token }, `${token}\n`)
      log("It is shown only now; keep it like a password.")
    }
    return 0
  }),
})

const list = command({
  options: { ...configOption, ...jsonOption },
  run: Effect.fnUntraced(function* (asked) {
    const { callers } = yield* opened(asked)
    const known = yield* callers.list
    yield* printAs(asked.options.json, { callers: known }, known.length === 0 ? "no callers\n" : known.map(line).join(""))
    return 0
  }),
})

const line = ({ highest, known_by, name, subject, trust_prompts, workspaces }: CallerRecord): string =>
  `${name}: by ${known_by}${subject === undefined ? "" : ` as ${subject}`}; workspaces ${workspaces?.join(", ") ?? "all"}; ` +
  `profile ${highest === undefined ? "each workspace's own" : `at most ${highest}`}${trust_prompts ? "; its prompts are trusted" : ""}\n`

const revoke = command({
  args: "NAME",
  options: configOption,
  run: Effect.fnUntraced(function* (asked) {
    const { callers } = yield* opened(asked)
    const [name = ""] = asked.args
    if (yield* callers.revoke(name)) return 0
    return yield* Effect.fail({ _tag: "CallerUnknown", message: `there is no caller "${name}"` })
  }),
})

export const token: Commands = {
  commands: {
    create: { summary: "let a caller in and print its token", load: () => create },
    list: { summary: "list the callers and what they may use", load: () => list },
    revoke: { summary: "turn a caller out", load: () => revoke },
  },
}

/** `codespace audit`: the ledger proved, exported, and begun anew after a damage. */
import { Context, Data, Effect, Layer, Option, Stream } from "effect"
import { layerDatabaseIn, layerRecordsIn } from "../layers/App.ts"
import { waitsForRenewal } from "../layers/DatabaseFile.ts"
import * as NodeDigest from "../layers/NodeDigest.ts"
import { type Anchor, Audit, type Verdict } from "../services/Audit.ts"
import { Ledger } from "../services/Ledger.ts"
import { LEDGER, LedgerBegan } from "../services/LedgerEvents.ts"
import { type Asked, type Commands, command, configOption, jsonOption, UsageError } from "./Command.ts"
import { log, print, printAs } from "./Output.ts"
import { configured } from "./Prepare.ts"

class NothingToRenew extends Data.TaggedError("NothingToRenew")<{ readonly message: string }> {}

/** The configuration of a command about the state folder; which workspaces there are does not matter to it. */
const configOf = (asked: Asked<typeof configOption>) => configured({ ...asked, args: [] }, "workspaces optional")

const verify = command({
  details:
    "Reads every event: each must be there, continue the one before it, and be readable. Exit code 1 when one is not; the first\n" +
    "one is named. What was cut off the newest end only shows against a place noted before: give it with --anchor.",
  options: {
    ...configOption,
    ...jsonOption,
    anchor: { value: "SEQ:HASH", summary: "the newest event of an earlier verification, which must still be there" },
  },
  run: Effect.fnUntraced(function* (asked) {
    const anchor = yield* anchorOf(asked.options.anchor)
    const config = yield* configOf(asked)
    const layer = Layer.provide(Audit.layer, Layer.mergeAll(layerDatabaseIn(config.stateFolder), NodeDigest.layer))
    const audit = Context.get(yield* Layer.build(layer), Audit)
    const verdict = yield* audit.verify(anchor)
    yield* printAs(asked.options.json, verdict, textOf(verdict))
    return verdict.broken === undefined ? 0 : 1
  }),
})

const anchorOf = Effect.fnUntraced(function* (text: string | undefined) {
  if (text === undefined) return undefined
  const [, seq, hash] = /^(\d+):([0-9a-f]{64})$/u.exec(text) ?? []
  if (seq === undefined || hash === undefined)
    return yield* new UsageError({ message: `--anchor: found ${text}, wanted a number, a colon and a hash of 64 hex digits` })
  return { seq: Number(seq), hash } satisfies Anchor
})

const textOf = ({ broken, events, first, newest }: Verdict): string => {
  const what = `${events} events from ${first} on`
  if (broken === undefined) return `${what}, all in one chain. The newest is ${newest.seq}:${newest.hash}\n`
  const name = broken.event === "" ? "" : ` (${broken.event} of ${broken.subject})`
  return `broken at event ${broken.seq}${name}: ${broken.why}. Before it: ${what}.\n`
}

/** How many events are read at once. */
const PAGE = 500

const exportEvents = command({
  details: "Prints one JSON document a line: seq, at (epoch milliseconds), subject, event, body, hash.",
  options: { ...configOption, after: { value: "SEQ", summary: "only the events behind this one" } },
  run: Effect.fnUntraced(function* (asked) {
    const { after = "0" } = asked.options
    if (!/^\d+$/u.test(after)) return yield* new UsageError({ message: `--after: found ${after}, wanted the number of an event` })
    const ledger = Context.get(yield* Layer.build(layerRecordsIn((yield* configOf(asked)).stateFolder)), Ledger)
    const pages = Stream.paginate(Number(after), (cursor) =>
      Effect.map(ledger.read({ after: cursor, limit: PAGE }), (events) => {
        const last = events.at(-1)
        return [[events], last === undefined ? Option.none<number>() : Option.some(last.seq)] as const
      }),
    )
    yield* Stream.runForEach(pages, (events) => print(events.map((event) => `${JSON.stringify(event)}\n`).join("")))
    return 0
  }),
})

const rebuild = command({
  details: "Empties the tables that follow from the events, and fills them from the events again. Servers may run meanwhile.",
  options: configOption,
  run: Effect.fnUntraced(function* (asked) {
    const ledger = Context.get(yield* Layer.build(layerRecordsIn((yield* configOf(asked)).stateFolder)), Ledger)
    yield* print(`${yield* ledger.rebuild} events read\n`)
    return 0
  }),
})

const renew = command({
  details:
    "For the state folder of which a server says that its database was damaged. The damaged file stays where it is, and the new\n" +
    "ledger begins with its name. Tokens were in it: make new ones.",
  options: configOption,
  run: Effect.fnUntraced(function* (asked) {
    const config = yield* configOf(asked)
    const damaged = waitsForRenewal(`${config.stateFolder}/codespace.sqlite`)
    if (damaged === undefined) return yield* new NothingToRenew({ message: `no damaged database was set aside in ${config.stateFolder}` })
    const ledger = Context.get(yield* Layer.build(layerRecordsIn(config.stateFolder, { renew: true })), Ledger)
    yield* ledger.append(LedgerBegan, LEDGER, { after: damaged })
    yield* print(`A new ledger begins. The damaged one is kept as ${config.stateFolder}/${damaged}\n`)
    log("Tokens and the operator's credential were in the old one; make new ones.")
    return 0
  }),
})

export const audit: Commands = {
  commands: {
    verify: { summary: "prove that the ledger is as it was written", load: () => verify },
    export: { summary: "print the events as JSON lines", load: () => exportEvents },
    rebuild: { summary: "make the tables that follow from the events anew", load: () => rebuild },
    renew: { summary: "begin a new ledger after the old one was damaged", load: () => renew },
  },
}

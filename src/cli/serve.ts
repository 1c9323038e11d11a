/** `codespace serve`: many clients over HTTP, until a signal asks to stop. */
import { Effect, Fiber } from "effect"
import { orphaned, stopSignal } from "../mcp/Stdio.ts"
import { command, configOption, UsageError } from "./Command.ts"
import { print } from "./Output.ts"
import { foldersNote, prepare } from "./Prepare.ts"

export const serve = command({
  args: "[DIR...]",
  details: foldersNote,
  options: {
    ...configOption,
    port: { value: "PORT", summary: "port on 127.0.0.1 (default 8787; 0 takes a free one)" },
    "new-token": { summary: "make a new token; the old one stops working" },
  },
  run: Effect.fnUntraced(function* (asked) {
    const port = yield* portOf(asked.options.port)
    // Listened for before anybody is told that the server runs.
    const stopped = yield* Effect.forkChild(toldToStop, { startImmediately: true })
    const { loaded, table } = yield* prepare(asked)
    const { serveHttp } = yield* Effect.promise(loaded)
    yield* print(yield* serveHttp({ table, newToken: asked.options["new-token"] ?? false, ...port }))
    yield* Fiber.join(stopped)
    return 0
  }),
})

/** A signal; or the end of npm where that started it, since who kills `npm start` means the server. */
const toldToStop = Effect.gen(function* () {
  const { variables } = yield* Effect.promise(() => import("../layers/HostEnvironment.ts"))
  const npm = variables()["npm_lifecycle_event"]
  yield* npm === undefined
    ? stopSignal
    : Effect.raceFirst(
        stopSignal,
        orphaned(() => process.ppid),
      )
})

const portOf = Effect.fnUntraced(function* (text: string | undefined) {
  if (text === undefined) return {}
  const port = Number(text)
  if (/^\d+$/u.test(text) && port <= 65_535) return { port }
  return yield* new UsageError({ message: `--port: found ${text}, wanted a number from 0 to 65535` })
})

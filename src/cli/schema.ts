/** `codespace schema`: what may be written where, for editors and for those who generate code. */
import { Effect } from "effect"
import { configJson } from "../schema/ConfigJson.ts"
import { toolList } from "./Built.ts"
import { command, UsageError } from "./Command.ts"
import { print } from "./Output.ts"

const documents: Readonly<Record<string, Effect.Effect<unknown>>> = {
  config: Effect.sync(configJson),
  openapi: Effect.promise(async () => {
    const [{ fromApi }, { Api }] = await Promise.all([import("effect/http-api/OpenApi"), import("../operator/Api.ts")])
    return fromApi(Api)
  }),
  tools: Effect.map(toolList, (list) =>
    list.map(({ description, hints, input, name, output, title }) => ({
      ...{ name, title, description, annotations: hints },
      ...{ inputSchema: input, outputSchema: output },
    })),
  ),
}

export const schema = command({
  args: "[WHAT]",
  details: `WHAT is one of
  config   the configuration file, as a JSON Schema (the default)
  openapi  the operator's API
  tools    every tool with the JSON Schemas of its arguments and its result`,
  options: {},
  run: Effect.fnUntraced(function* ({ args: [what = "config"] }) {
    const document = Object.hasOwn(documents, what) ? documents[what] : undefined
    if (document === undefined)
      return yield* new UsageError({ message: `there is no schema "${what}"; known are ${Object.keys(documents).join(", ")}` })
    yield* print(`${JSON.stringify(yield* document, null, 2)}\n`)
    return 0
  }),
})

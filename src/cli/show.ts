/** `codespace show`: all that is recorded of one call. */
import { Effect } from "effect"
import { command, jsonOption } from "./Command.ts"
import { operating, operatorOptions } from "./Operating.ts"
import { plain, printAs } from "./Output.ts"

export const show = command({
  args: "OPERATION_ID",
  options: { ...operatorOptions, ...jsonOption },
  run: Effect.fnUntraced(function* (asked) {
    const client = yield* operating(asked)
    const operation = yield* client.operations.show({ params: { operation_id: asked.args[0] ?? "" } })
    const { changes, diff, events, refusal, result, ...facts } = operation
    const parts = [
      Object.entries(facts)
        .map(([name, value]) => `${name}: ${String(value)}`)
        .join("\n"),
      ...(refusal === undefined ? [] : [`${refusal.code}: ${refusal.message}`]),
      ...(changes.length === 0 ? [] : [changes.map(changeLine).join("\n")]),
      ...(result === undefined ? [] : [resultText(result)]),
      events.map(({ at, detail, event }) => `${at}  ${event}${detail === undefined ? "" : `  ${detail}`}`).join("\n"),
      ...(diff === undefined ? [] : [diff]),
    ]
    yield* printAs(asked.options.json, operation, plain(`${parts.join("\n\n")}\n`))
    return 0
  }),
})

interface Change {
  readonly kind: string
  readonly path: string
  readonly from?: string
  readonly added: number
  readonly removed: number
}

const changeLine = ({ added, from, kind, path, removed }: Change): string =>
  `${kind} ${from === undefined ? "" : `${from} -> `}${path}  +${added} -${removed}`

/** What was printed stands by itself; the rest of a result is a line a field. */
const resultText = ({ changes: _changes, diff: _diff, output, ...fields }: Readonly<Record<string, unknown>>): string => {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
  return typeof output === "string" && output !== "" ? `${lines.join("\n")}\n\n${output.trimEnd()}` : lines.join("\n")
}

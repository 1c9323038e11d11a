/**
 * `codespace operator`: where the operator's credential lies, and a new one. It works on the state folder, whether a server
 * runs or not; servers ask there, so a new one holds at once.
 */
import { Context, Effect, Layer } from "effect"
import { layerOperator, layerRecordsIn } from "../layers/App.ts"
import { Operator } from "../services/Operator.ts"
import { command, configOption, jsonOption } from "./Command.ts"
import { printAs } from "./Output.ts"
import { configured } from "./Prepare.ts"

export const operator = command({
  details: "Prints the path of the file that holds the credential, which is made when there is none.",
  options: {
    ...configOption,
    ...jsonOption,
    new: { summary: "make a new credential; the old one stops working, and browsers are logged out" },
  },
  run: Effect.fnUntraced(function* ({ options }) {
    const { stateFolder } = yield* configured({ args: [], options }, "workspaces optional")
    const services = yield* Layer.build(layerOperator(stateFolder).pipe(Layer.provide(layerRecordsIn(stateFolder))))
    const { file, renew } = Context.get(services, Operator)
    if (options.new === true) yield* renew
    yield* printAs(options.json, { file }, `${file}\n`)
    return 0
  }),
})

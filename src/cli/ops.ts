/** `codespace ops`: recorded calls, newest first. */
import { Effect, Schema } from "effect"
import { OperationState, type OperationSummary } from "../schema/Operation.ts"
import { command, jsonOption, UsageError } from "./Command.ts"
import { operating, operatorOptions } from "./Operating.ts"
import { plain, printAs } from "./Output.ts"

export const ops = command({
  details: "One line a call. Go on with --before and the last id; codespace show tells all of one.",
  options: {
    ...operatorOptions,
    ...jsonOption,
    workspace: { value: "ID", summary: "only of this workspace" },
    caller: { value: "NAME", summary: "only of this caller" },
    state: { value: "STATE", summary: `only in this state: ${OperationState.literals.join(", ")}` },
    kind: { value: "TOOL", summary: "only of this tool" },
    before: { value: "OPERATION_ID", summary: "only those before this one" },
    limit: { value: "N", summary: "so many (default 50, at most 200)" },
  },
  run: Effect.fnUntraced(function* (asked) {
    const { options } = asked
    const { state, limit } = options
    const isState = Schema.is(OperationState)
    if (state !== undefined && !isState(state))
      return yield* new UsageError({ message: `--state: found ${state}, wanted one of ${OperationState.literals.join(", ")}` })
    if (limit !== undefined && !/^([1-9]|[1-9]\d|1\d\d|200)$/u.test(limit))
      return yield* new UsageError({ message: `--limit: found ${limit}, wanted a number from 1 to 200` })
    const client = yield* operating(asked)
    const { operations } = yield* client.operations.list({
      query: {
        ...(options.workspace === undefined ? {} : { workspace_id: options.workspace }),
        ...(options.caller === undefined ? {} : { caller: options.caller }),
        ...(state === undefined ? {} : { state }),
        ...(options.kind === undefined ? {} : { kind: options.kind }),
        ...(options.before === undefined ? {} : { before: options.before }),
        ...(limit === undefined ? {} : { limit: Number(limit) }),
      },
    })
    yield* printAs(options.json, { operations }, operations.length === 0 ? "no operations\n" : operations.map(line).join(""))
    return 0
  }),
})

const line = (operation: OperationSummary): string => {
  const { caller, created_at, kind, operation_id, process_id, reason, refusal, server_gone, state, workspace_id } = operation
  const how = [refusal, reason, server_gone === true ? "its server is gone" : undefined, process_id].filter((part) => part !== undefined)
  return `${plain([operation_id, created_at, state.padEnd(11), kind.padEnd(12), workspace_id, caller, ...how].join("  "))}\n`
}

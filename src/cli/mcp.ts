/** `codespace mcp`: one client over stdio, for as long as its pipe is open. */
import { Effect } from "effect"
import { claimStdout, runStdio } from "../mcp/Stdio.ts"
import { command, configOption } from "./Command.ts"
import { log } from "./Output.ts"
import { foldersNote, prepare } from "./Prepare.ts"

export const mcp = command({
  args: "[DIR...]",
  details: foldersNote,
  options: configOption,
  run: Effect.fnUntraced(function* (asked) {
    const output = yield* claimStdout
    const { table } = yield* prepare(asked)
    yield* runStdio({ table, input: process.stdin, output, log })
    return 0
  }),
})

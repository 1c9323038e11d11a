/**
 * A stdio server over the tests' tool table, as a program of its own. What its tools do goes to stderr, one line each;
 * the last line says why it stopped. `NOISE` prints on stdout by every way there is.
 */
import { Effect } from "effect"
import { claimStdout, runStdio } from "../../src/mcp/Stdio.ts"
import { makeTestTable, row, rows } from "./McpTable.ts"

const log = (line: string): void => void process.stderr.write(`${line}\n`)

const noisy = row("noisy", () =>
  Effect.sync(() => {
    console.log("noise from a tool")
    process.stdout.write("noise without a newline")
    return { result: {}, text: "quiet" }
  }),
)
const { table } = makeTestTable({ event: log, rows: [...rows(log), noisy] })

const program = Effect.scoped(
  Effect.gen(function* () {
    const output = yield* claimStdout
    if (process.env["NOISE"] !== undefined) console.log("noise at the start")
    return yield* runStdio({ table, input: process.stdin, output, log })
  }),
)
process.stdout.on("error", () => undefined)
process.stderr.on("error", () => undefined)
const reason = await Effect.runPromise(program)
log(`stopped: ${reason}`)
process.exit(0)

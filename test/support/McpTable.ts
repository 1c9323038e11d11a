/** A small tool table for the tests of the wire, and what its tools report about themselves. */
import { Effect, Schema } from "effect"
import { type CallOptions, makeCall } from "../../src/mcp/CallTool.ts"
import type { Answer, ToolRow } from "../../src/mcp/ToolRow.ts"
import { type ToolTable, tableOf } from "../../src/mcp/ToolTable.ts"
import { PolicyDenied } from "../../src/schema/Policy.ts"
import { PathNotFound } from "../../src/schema/Workspace.ts"
import { Caller } from "../../src/services/Caller.ts"

export interface Table {
  readonly table: ToolTable
  /** What happened, in order: `wait started`, `wait interrupted`, … */
  readonly events: ReadonlyArray<string>
  /** What went to the operator's log. */
  readonly log: ReadonlyArray<string>
}

const reading = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false }

/** A row with the parts that do not matter filled in. */
export const row = (name: string, call: ToolRow["call"], more: Partial<ToolRow> = {}): ToolRow => ({
  name,
  title: name,
  description: `the tool ${name}`,
  input: { type: "object", properties: {} },
  output: { type: "object", properties: {} },
  hints: reading,
  waits: false,
  call,
  ...more,
})

const answer = (result: Schema.JsonObject, more: Partial<Answer> = {}): Answer => ({ result, text: JSON.stringify(result), ...more })

const Args = Schema.Struct({
  text: Schema.optionalKey(Schema.String),
  size: Schema.optionalKey(Schema.Int),
  ms: Schema.optionalKey(Schema.Int),
})
const decoded = (args: unknown) => Schema.decodeUnknownSync(Args)(args)

/** Waits as long as asked, tells about it every 20 ms, and reports when it starts and how it ends. */
const wait =
  (event: (what: string) => void): ToolRow["call"] =>
  (args) =>
    Effect.gen(function* () {
      const { ms = 60_000 } = decoded(args)
      const { progress } = yield* Caller
      event("wait started")
      for (let passed = 0; passed < ms; passed += 20) {
        yield* progress(`${passed} ms`)
        yield* Effect.sleep(20)
      }
      event("wait ended")
      return answer({ waited: ms })
    }).pipe(Effect.onInterrupt(() => Effect.sync(() => event("wait interrupted"))))

export const rows = (event: (what: string) => void): ReadonlyArray<ToolRow> => [
  row("echo", (args) => Effect.sync(() => answer({ text: decoded(args).text ?? "" }))),
  row("who", () => Effect.map(Caller, ({ name, workspaces, client }) => answer({ name, workspaces: [...(workspaces ?? ["*"])], client }))),
  row("wait", wait(event), { waits: true }),
  row("wait_quietly", wait(event)),
  row("missing", () => Effect.fail(new PathNotFound({ path: "no/such", similar: ["no/such1"] }))),
  row("long_refusal", () => Effect.fail(new PolicyDenied({ subject: "😀".repeat(5_000), rule: "r", profile: "p" }))),
  row("defect", () => Effect.die(new Error("secret inside"))),
  row("throws", () => {
    throw new Error("secret inside")
  }),
  row("image", () => Effect.succeed(answer({ mime_type: "image/png" }, { image: { mimeType: "image/png", data: "aGk=" } }))),
  row("big", (args) => Effect.sync(() => answer({ size: decoded(args).size ?? 0 }, { text: "x".repeat(decoded(args).size ?? 0) }))),
  row("big_change", () => Effect.succeed(answer({}, { text: "x".repeat(9_000_000) })), { hints: { ...reading, readOnlyHint: false } }),
  row("halves", () => Effect.succeed(answer({}, { text: "a\ud83d" }))),
]

/** A table whose calls are performed in this process, without being loaded first. */
export const makeTable = ({
  instructions,
  version,
  ...options
}: Omit<CallOptions, "coordination" | "approvals"> & { readonly instructions: string; readonly version: string }): ToolTable =>
  tableOf({
    list: options.rows,
    call: makeCall({ ...options, coordination: () => Effect.succeed(undefined), approvals: Effect.die("no call is held here") }),
    instructions,
    version,
  })

export const makeTestTable = (more: { readonly event?: (what: string) => void; readonly rows?: ReadonlyArray<ToolRow> } = {}): Table => {
  const events: Array<string> = []
  const log: Array<string> = []
  const event = (what: string): void => {
    events.push(what)
    more.event?.(what)
  }
  const run = <A, E>(effect: Effect.Effect<A, E>, signal: AbortSignal) => Effect.runPromiseExit(effect, { signal })
  const table = makeTable({
    rows: more.rows ?? rows(event),
    run,
    instructions: "Start with echo.",
    version: "1.2.3",
    log: (line) => void log.push(line),
  })
  return { table, events, log }
}

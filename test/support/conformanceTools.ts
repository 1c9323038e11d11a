/**
 * The tools that the conformance suite asks every server for, as far as a tool of ours can be like them: text, an image,
 * a refusal, progress, a schema. What the suite asks for beyond that is in the lists of expected failures.
 */
import { Effect } from "effect"
import type { ToolRow } from "../../src/mcp/ToolRow.ts"
import { PathNotFound } from "../../src/schema/Workspace.ts"
import { Caller } from "../../src/services/Caller.ts"
import { row } from "./McpTable.ts"

/** One red pixel. */
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

const said = (text: string) => ({ result: { text }, text })

const reporting = Effect.gen(function* () {
  const { progress } = yield* Caller
  for (const step of ["begun", "half", "done"]) {
    yield* progress(step)
    yield* Effect.sleep(20)
  }
  return said("Reported three times.")
})

/** A schema with every keyword the suite looks for; it must come back unchanged. */
const everyKeyword = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
}

export const conformanceTools: ReadonlyArray<ToolRow> = [
  row("test_simple_text", () => Effect.succeed(said("This is a simple text response for testing."))),
  row("test_image_content", () => Effect.succeed({ ...said("A red pixel."), image: { mimeType: "image/png", data: png } })),
  row("test_error_handling", () => Effect.fail(new PathNotFound({ path: "nowhere" }))),
  row("test_tool_with_progress", () => reporting, { waits: true }),
  row("test_streaming_elicitation", () => reporting, { waits: true }),
  row("test_logging_tool", () => Effect.succeed(said("Nothing is logged to clients."))),
  row("json_schema_2020_12_tool", () => Effect.succeed(said("A tool with a rich schema.")), { input: everyKeyword }),
]

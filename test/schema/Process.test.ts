import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { ExecArguments, ReadProcessArguments, stdinOf, TerminateProcessArguments, WriteStdinArguments } from "../../src/schema/Process.ts"

const decode = Schema.decodeUnknownResult(ExecArguments)

describe("arguments about processes", () => {
  it("have defaults", () => {
    assert.deepStrictEqual(Result.getOrThrow(decode({ command: ["true"] })), {
      command: ["true"],
      stdin: "closed",
      access: "exclusive",
      yield_ms: 10_000,
      max_output_bytes: 30_000,
    })
  })

  it("are bounded, the longest wait below what clients allow (R057)", () => {
    for (const wrong of [
      { command: [] },
      { command: ["a\0b"] },
      { script: "a\0b" },
      { env: { A: "\0" } },
      { yield_ms: 50_001 },
      { max_output_bytes: 200_001 },
      { timeout_ms: 0 },
      { access: "all" },
    ])
      assert.isTrue(Result.isFailure(decode(wrong)), JSON.stringify(wrong))
  })

  it("name only signals that may be sent", () => {
    const write = Schema.decodeUnknownResult(WriteStdinArguments)
    assert.isTrue(Result.isSuccess(write({ process_id: "proc_1", signal: "SIGINT" })))
    assert.isTrue(Result.isFailure(write({ process_id: "proc_1", signal: "INT" })))
  })

  it("are plain objects with a description for every field", () => {
    for (const schema of [ExecArguments, WriteStdinArguments, ReadProcessArguments, TerminateProcessArguments]) {
      const json = Schema.toJsonSchemaDocument(schema).schema
      assert.strictEqual(json["type"], "object")
      assert.notInclude(JSON.stringify(json), "anyOf")
      for (const field of Object.values(json["properties"] as Record<string, Record<string, unknown>>))
        assert.isString(field["description"])
    }
  })

  it("tell words for stdin from text", () => {
    assert.deepStrictEqual([stdinOf("closed"), stdinOf("open"), stdinOf("open\n")], ["closed", "open", { text: "open\n" }])
  })
})

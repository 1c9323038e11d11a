import { readFileSync } from "node:fs"
import { Arbitrary, Effect } from "effect"
import { describe, expect, it } from "vitest"
import { fromRecord, Refusal, toRecord } from "../../src/schema/Refusal.ts"

const page = readFileSync(new URL("../../docs/refusals.md", import.meta.url), "utf8")
const listed = new Map([...page.matchAll(/^\| `([A-Z_]+)` \| (\w+) \|/gm)].map(([, code, retry]) => [code, retry]))

/** One refusal of every kind, made from its schema. */
const samples: ReadonlyArray<Refusal> = Refusal.members.flatMap((member) =>
  Effect.runSync(Arbitrary.sampleEffect(Arbitrary.schema(member as unknown as typeof Refusal), { count: 1 })),
)

describe("the list of refusals", () => {
  it("has each code once, and the page lists exactly these with their retry", () => {
    const codes = samples.map(({ _tag }) => _tag as string)
    expect(new Set(codes).size).toBe(codes.length)
    expect([...listed.keys()].sort()).toEqual([...codes].sort())
    for (const refusal of samples) expect([refusal._tag, listed.get(refusal._tag)]).toEqual([refusal._tag, refusal.retry])
  })

  it("survives the record, whole", () => {
    for (const refusal of samples) {
      const back = fromRecord(JSON.parse(JSON.stringify(toRecord(refusal))))
      expect(back).toBeInstanceOf(Object.getPrototypeOf(refusal).constructor)
      expect([back.message, back.retry]).toEqual([refusal.message, refusal.retry])
    }
  })
})

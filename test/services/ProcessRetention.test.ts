import { assert, describe, it } from "@effect/vitest"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import { KEPT, outdated } from "../../src/services/ProcessRetention.ts"

const ended = (endedAt: number, keptBytes = 1, workspace = "app") => ({
  workspaceId: WorkspaceId.make(workspace),
  endedAt,
  keptBytes,
  roomBytes: 100,
})
const timesOf = (processes: ReadonlyArray<{ readonly endedAt: number }>) => processes.map(({ endedAt }) => endedAt).sort((a, b) => a - b)

describe("ended processes", () => {
  it("are forgotten by time", () => {
    assert.deepStrictEqual(timesOf(outdated([ended(3), ended(1), ended(2)], 2)), [1])
    assert.deepStrictEqual(outdated([ended(3)], 3), [])
  })

  it("are forgotten by number, in each workspace apart, the oldest first", () => {
    const many = Array.from({ length: KEPT + 2 }, (_, index) => ended(index, 0))
    const others = Array.from({ length: KEPT }, (_, index) => ended(index, 0, "other"))
    assert.deepStrictEqual(timesOf(outdated([...many, ...others], 0)), [0, 1])
  })

  it("are forgotten for room, in each workspace apart, and what ended last stays however big it is", () => {
    assert.deepStrictEqual(timesOf(outdated([ended(1, 40), ended(2, 40), ended(3, 40), ended(1, 90, "other")], 0)), [1])
    assert.deepStrictEqual(timesOf(outdated([ended(1, 1), ended(2, 1000)], 0)), [1])
    assert.deepStrictEqual(outdated([ended(1, 50), ended(2, 50)], 0), [])
  })
})

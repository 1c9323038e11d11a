import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { beforeEach, vi } from "vitest"
import * as Ripgrep from "../../src/layers/Ripgrep.ts"
import { openFiles } from "../support/Looking.ts"

const program = vi.hoisted(() => ({ path: "" }))
vi.mock("@vscode/ripgrep", () => ({
  get rgPath() {
    if (program.path === "") throw new Error("no program for this machine")
    return program.path
  },
}))

beforeEach(() => {
  program.path = ""
})

const searching = Effect.gen(function* () {
  const { files } = yield* openFiles({ f: "a needle\n" }, { search: Ripgrep.layer })
  return (yield* files.search({ pattern: "needle" })).matches.length
})

it.live("searches without ripgrep where the package has none", () => Effect.map(searching, (matches) => assert.strictEqual(matches, 1)))

it.live("searches without ripgrep where the program is gone", () =>
  Effect.gen(function* () {
    program.path = "/nowhere/rg"
    assert.strictEqual(yield* searching, 1)
  }),
)

it.live("says so when it cannot be started", () =>
  Effect.gen(function* () {
    program.path = fileURLToPath(new URL("../../package.json", import.meta.url))
    assert.isTrue(existsSync(program.path))
    const refusal = yield* Effect.flip(searching)
    assert.strictEqual(refusal._tag, "RUNNER_UNAVAILABLE")
    assert.include(refusal.message, "EACCES")
  }),
)

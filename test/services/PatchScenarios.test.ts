/**
 * Patches as folders: this folder, this patch, that folder. A scenario with a file `refused` names the code of the refusal,
 * and the folder is as before. The scenarios of Codex are run too, where their copy lies beside the repository.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { openTransaction } from "../support/Patching.ts"
import { readTree, temporaryFolder } from "../support/Tree.ts"

const own = path.join(import.meta.dirname, "../fixtures/apply-patch/scenarios")
const foreign = path.join(import.meta.dirname, "../../../shared/fixtures/apply-patch/scenarios")

const scenariosIn = (folder: string): ReadonlyArray<string> =>
  fs
    .readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .toSorted()

/** Of the modes only whether a file can be run: the rest depends on who checked this repository out. */
const treeOf = (folder: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(fs.existsSync(folder) ? readTree(folder) : {}).map(([name, found]) => {
      const [, mode, content] = /^([0-7]+) (.*)$/su.exec(found) ?? []
      return [name, mode === undefined ? found : `${Number.parseInt(mode, 8) & 0o100 ? "executable" : "file"} ${content}`]
    }),
  )

/** Applies the scenario's patch to a copy of its input; gives the outcome and the folder after it. */
const run = Effect.fnUntraced(function* (scenario: string) {
  const root = yield* temporaryFolder
  const input = path.join(scenario, "input")
  if (fs.existsSync(input)) fs.cpSync(input, root, { recursive: true })
  const transaction = yield* openTransaction(root)
  const patch = fs.readFileSync(path.join(scenario, "patch.txt"), "utf8")
  const checked = yield* Effect.result(transaction.apply({ kind: "patch", patch }, { check_only: true }))
  assert.deepStrictEqual(treeOf(root), treeOf(input), "check_only writes nothing")
  const result = yield* Effect.result(transaction.apply({ kind: "patch", patch }))
  assert.strictEqual(checked._tag, result._tag, "check_only and the real call agree")
  return { result, after: treeOf(root), before: treeOf(input) }
})

describe("our scenarios", () => {
  for (const name of scenariosIn(own))
    it.live(name, () =>
      Effect.gen(function* () {
        const scenario = path.join(own, name)
        const { after, before, result } = yield* run(scenario)
        const refused = path.join(scenario, "refused")
        if (fs.existsSync(refused)) {
          assert.strictEqual(Result.isFailure(result) ? result.failure._tag : "applied", fs.readFileSync(refused, "utf8").trim())
          assert.deepStrictEqual(after, before)
        } else {
          assert.strictEqual(Result.isFailure(result) ? result.failure.message : "applied", "applied")
          assert.deepStrictEqual(after, treeOf(path.join(scenario, "expected")))
        }
      }),
    )
})

const Outcomes = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Struct({ codex: Schema.String, transactional: Schema.String })))

describe("the scenarios of Codex", () => {
  if (!fs.existsSync(foreign)) {
    it.skip("skipped: their copy is not beside the repository", () => {})
    return
  }
  const outcomes = Schema.decodeUnknownSync(Outcomes)(fs.readFileSync(path.join(foreign, "outcomes.json"), "utf8"))
  for (const name of scenariosIn(foreign))
    it.live(name, () =>
      Effect.gen(function* () {
        const scenario = path.join(foreign, name)
        const { after, before, result } = yield* run(scenario)
        const wanted = outcomes[name]?.transactional
        assert.strictEqual(Result.isFailure(result) ? "refused" : "applied", wanted)
        assert.deepStrictEqual(after, wanted === "refused" ? before : treeOf(path.join(scenario, "expected")))
      }),
    )
})

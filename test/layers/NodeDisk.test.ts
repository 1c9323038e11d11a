import { spawn } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as NodeDisk from "../../src/layers/NodeDisk.ts"
import { ConfinedPath } from "../../src/schema/Workspace.ts"
import { Disk } from "../../src/services/Disk.ts"
import { diskContract } from "../contract/disk.ts"
import { temporaryFolder, writeTree } from "../support/Tree.ts"
import { until } from "../support/Until.ts"

diskContract("by descriptors", NodeDisk.layerDescriptors)
diskContract("by names", NodeDisk.layerPortable)
diskContract("as chosen for this machine", NodeDisk.layer)

/** Exchanges the folder `d` and a link to `outside` as fast as it can. */
const exchange = `
  const fs = require("node:fs")
  process.chdir(process.argv[1])
  console.log("ready")
  for (;;) {
    fs.renameSync("d", "kept")
    fs.symlinkSync("outside", "d")
    fs.unlinkSync("d")
    fs.renameSync("kept", "d")
  }`

describe("a folder that a process exchanges for a link", () => {
  it.live("is never written through", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      writeTree(folder, { "work/d/sub/start": "", "work/stage": "", "work/outside/sub/mine": "" })
      const work = join(folder, "work")
      const root = yield* (yield* Disk).open(work)
      const child = yield* Effect.acquireRelease(
        Effect.sync(() => spawn(process.execPath, ["-e", exchange, work], { stdio: ["ignore", "pipe", "inherit"] })),
        (running) =>
          Effect.callback<void>((resume) => {
            running.once("close", () => resume(Effect.void))
            running.kill("SIGKILL")
          }),
      )
      yield* Effect.callback<void>((resume) => void child.stdout.once("data", () => resume(Effect.void)))
      const counts: Record<string, number> = {}
      const count = (result: string) => {
        counts[result] = (counts[result] ?? 0) + 1
      }
      const attempt = (effect: Effect.Effect<void, { readonly _tag: string }>) =>
        Effect.match(effect, { onSuccess: () => count("done"), onFailure: ({ _tag }) => count(_tag) })
      const content = Buffer.from("x")
      const round = Effect.gen(function* () {
        for (let index = 0; index < 2000; index++) {
          const path = ConfinedPath.make(`d/sub/f${index % 7}`)
          yield* attempt(root.createFile(path, content, 0o644))
          yield* attempt(root.makeDirectory(ConfinedPath.make("d/sub/folder")))
          yield* attempt(root.rename(ConfinedPath.make("stage"), ConfinedPath.make("d/sub/staged")))
          yield* attempt(root.rename(ConfinedPath.make("d/sub/staged"), ConfinedPath.make("stage")))
          yield* attempt(root.unlink(path))
        }
      })
      // Until both sides of the exchange have been met.
      yield* Effect.promise(() =>
        until(async () => {
          await Effect.runPromise(round)
          return (counts.done ?? 0) > 100 && (counts["SYMLINK_REJECTED"] ?? 0) > 10
        }, 20_000),
      )
      assert.deepStrictEqual(fs.readdirSync(join(work, "outside/sub")), ["mine"])
      assert.deepStrictEqual(fs.readdirSync(join(work, "outside")), ["sub"])
    }).pipe(Effect.provide(NodeDisk.layerDescriptors)),
  )
})

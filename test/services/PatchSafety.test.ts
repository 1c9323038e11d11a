/** Patches where the ground is against them: links, pipes, other names of a file, full disks, other file systems, races. */
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, References, type Result, Scope } from "effect"
import type { Root } from "../../src/services/Disk.ts"
import type { PatchRefusal } from "../../src/services/PatchTransaction.ts"
import type { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { patchOf } from "../support/ChangePatch.ts"
import { type Fault, faultyRoots } from "../support/FaultyRoot.ts"
import { openFiles } from "../support/Looking.ts"
import { openPatching, openTransaction } from "../support/Patching.ts"
import { readTree, temporaryFolder, writeTree } from "../support/Tree.ts"

const tagOf = <A>(result: Result.Result<A, PatchRefusal>): string => (result._tag === "Failure" ? result.failure._tag : "applied")
const quiet = Effect.provideService(References.MinimumLogLevel, "None")

describe("other names and other things", () => {
  it.live("takes two sections for one file by two spellings as one change", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "d/f": "1\n2\n3\n" })
      const transaction = yield* openTransaction(root)
      const { changes } = yield* transaction.apply(
        patchOf("*** Update File: d/f\n@@\n-1\n+one", "*** Update File: d/../d/./f\n@@\n-3\n+three"),
      )
      assert.deepStrictEqual(readTree(root), { d: "dir", "d/f": "644 one\n2\nthree\n" })
      assert.deepStrictEqual(
        changes.map(({ kind, path: name }) => `${kind} ${name}`),
        ["update d/f"],
      )
    }),
  )

  it.live("takes a move onto itself by another spelling as an update", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "d/f": "1\n" })
      const transaction = yield* openTransaction(root)
      const { changes } = yield* transaction.apply(patchOf("*** Update File: d/f\n*** Move to: ./d//f\n@@\n-1\n+2"))
      assert.deepStrictEqual(readTree(root), { d: "dir", "d/f": "644 2\n" })
      assert.strictEqual(changes[0]?.kind, "update")
    }),
  )

  it.live("refuses a dangling link, and answers at once for a pipe", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      fs.symlinkSync("nowhere", path.join(root, "dangling"))
      execFileSync("mkfifo", [path.join(root, "pipe")])
      const transaction = yield* openTransaction(root)
      const links = [patchOf("*** Add File: dangling\n+x"), { kind: "write", path: "dangling", content: "x" } as const]
      for (const intent of links) assert.strictEqual(tagOf(yield* Effect.result(transaction.apply(intent))), "SYMLINK_REJECTED")
      const pipes = [patchOf("*** Update File: pipe\n@@\n-x\n+y"), { kind: "write", path: "pipe", content: "x" } as const]
      for (const intent of pipes) assert.strictEqual(tagOf(yield* Effect.result(transaction.apply(intent))), "SPECIAL_FILE_REJECTED")
      assert.deepStrictEqual(fs.readdirSync(root).sort(), ["dangling", "pipe"])
    }).pipe(Effect.timeout("5 seconds")),
  )
})

describe("field reports", () => {
  it.live("R023: a patch that fails in the middle leaves nothing of it", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { a: "1\n", b: "2\n" })
      const before = readTree(root)
      const { stateFolder, transaction } = yield* openPatching(root)
      const failed = yield* Effect.flip(transaction.apply(patchOf("*** Delete File: a", "*** Update File: b\n@@\n-stale\n+x")))
      assert.deepInclude(failed, { _tag: "CONTEXT_NOT_FOUND", path: "b", hunk: 1 })
      assert.deepStrictEqual(readTree(root), before)
      assert.deepStrictEqual(
        Object.values(readTree(stateFolder)).filter((content) => content !== "dir"),
        [],
      )
    }),
  )

  it.live("R027: an edit keeps the executable bit", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      writeTree(root, { "run.sh": { text: "#!/bin/sh\necho 1\n", mode: 0o755 } })
      execFileSync("sh", ["-c", "git init -q . && git add . && git -c user.name=a -c user.email=b commit -qm x"], { cwd: root })
      const transaction = yield* openTransaction(root)
      yield* transaction.apply(patchOf("*** Update File: run.sh\n@@\n-echo 1\n+echo 2"))
      const diff = execFileSync("git", ["diff"], { cwd: root, encoding: "utf8" })
      assert.include(diff, "+echo 2")
      assert.notInclude(diff, "mode")
      assert.strictEqual(fs.statSync(path.join(root, "run.sh")).mode & 0o777, 0o755)
    }),
  )

  it.live(
    "R029, R030: no file of a patch is more readable than its target, visible in the workspace, or written through a planted name",
    () =>
      Effect.gen(function* () {
        const root = yield* temporaryFolder
        const stateFolder = yield* temporaryFolder
        writeTree(root, { key: { text: "k\n", mode: 0o600 }, victim: "v\n" })
        for (const name of [".key.tmp", "key.tmp", "key~", ".codespace.tmp", "key.n0"]) fs.symlinkSync("victim", path.join(root, name))
        const before = readTree(root)
        const seen: Array<string> = []
        const watch = Effect.sync(() => {
          for (const name of Object.keys(readTree(root))) if (!(name in before)) seen.push(name)
          for (const [name, content] of Object.entries(readTree(stateFolder)))
            if (content !== "dir" && !content.startsWith("600 ")) seen.push(`${name} ${content.slice(0, 3)}`)
        })
        const through = (real: Root): Root => ({
          ...real,
          createFile: (...args) => Effect.tap(real.createFile(...args), () => watch),
          link: (...args) => Effect.tap(real.link(...args), () => watch),
          rename: (...args) => Effect.tap(Effect.andThen(watch, real.rename(...args)), () => watch),
          unlink: (...args) => Effect.andThen(watch, real.unlink(...args)),
        })
        const transaction = yield* openTransaction(root, { stateFolder, through })
        yield* transaction.apply(patchOf("*** Update File: key\n@@\n-k\n+K"))
        assert.deepStrictEqual(seen, [])
        assert.deepStrictEqual(readTree(root), { ...before, key: "600 K\n" })
      }),
  )
})

// --- other file systems ---------------------------------------------------------------------------------------------

const deviceOf = (folder: string): number | undefined => fs.statSync(folder, { throwIfNoEntry: false })?.dev

/** A folder on another file system than the temporary ones; nothing where this machine has none to write to. */
const elsewhere = Effect.acquireRelease(
  Effect.sync(() => {
    const shared = "/dev/shm"
    const temporary = fs.mkdtempSync(path.join(fs.realpathSync("/tmp"), "codespace-test-"))
    const isOther = deviceOf(shared) !== undefined && deviceOf(shared) !== deviceOf(temporary)
    fs.rmdirSync(temporary)
    return isOther ? fs.mkdtempSync(path.join(shared, "codespace-test-")) : undefined
  }),
  (folder) => Effect.sync(() => folder !== undefined && fs.rmSync(folder, { recursive: true, force: true })),
)

const mixed = patchOf(
  "*** Update File: f\n@@\n-1\n+2",
  "*** Delete File: gone",
  "*** Add File: new/deep/n\n+n",
  "*** Update File: a\n*** Move to: b",
)
const mixedGiven = { f: "1\n", gone: "g\n", a: "a\n" }
const mixedWanted = { f: "644 2\n", new: "dir", "new/deep": "dir", "new/deep/n": "644 n\n", b: "644 a\n" }
const sortedText = (tree: object): string => JSON.stringify(Object.entries(tree).toSorted())

const named = (self: string, dead: string): ServerIdentity["Service"] => ({
  self,
  isAlive: (identity) => identity !== dead && identity.startsWith("s"),
})

describe("a workspace on another file system than the state folder", () => {
  it.live(
    "is patched whole or not at all, wherever the server dies, and git sees nothing of it meanwhile",
    () =>
      Effect.gen(function* () {
        if ((yield* elsewhere) === undefined) return console.log("skipped: no other file system to write to")
        const attempt = Effect.fnUntraced(function* (position: number, fault: Fault) {
          const folder = yield* elsewhere
          const stateFolder = yield* temporaryFolder
          const root = folder ?? stateFolder
          writeTree(root, mixedGiven)
          execFileSync("git", ["init", "-q", root])
          const tree = () => Object.fromEntries(Object.entries(readTree(root)).filter(([name]) => !/^\.git(\/|$)/u.test(name)))
          const before = tree()
          const faulty = faultyRoots(position, fault)
          const scope = yield* Scope.make()
          const { transaction } = yield* openPatching(root, { stateFolder, server: named("s1", ""), through: faulty.through }).pipe(
            Scope.provide(scope),
          )
          faulty.arm()
          const fiber = yield* Effect.forkDetach(transaction.apply(mixed, { operationId: "op_1" }), { startImmediately: true })
          const isDead = () => position >= 0 && faulty.operations.length > position
          yield* Effect.raceFirst(Fiber.await(fiber), Effect.repeat(Effect.yieldNow, { until: () => Effect.succeed(isDead()) }))
          const shown = execFileSync("git", ["status", "--porcelain", "--untracked-files=all"], { cwd: root, encoding: "utf8" })
          yield* Effect.forkDetach(Scope.close(scope, Exit.void))
          const outcome = yield* Effect.scoped(
            Effect.flatMap(openPatching(root, { stateFolder, server: named("s2", "s1") }), ({ journal }) => journal.outcomes(["op_1"])),
          )
          const last = sortedText(tree())
          assert.include([sortedText(before), sortedText(mixedWanted)], last, faulty.operations[position])
          assert.strictEqual(
            outcome.get("op_1")?.kind,
            last === sortedText(before) ? "rolled_back" : "committed",
            faulty.operations[position],
          )
          assert.notInclude(shown, "codespace", faulty.operations[position])
          return [...faulty.operations]
        }, Effect.scoped)
        const operations = yield* attempt(-1, { kind: "freeze" })
        assert.isTrue(operations.some((operation) => /make folder \.codespace-[0-9a-f]{16}$/u.test(operation)))
        for (const position of operations.keys()) yield* attempt(position, { kind: "freeze" })
      }).pipe(Effect.scoped, quiet),
    60_000,
  )
})

describe("a private folder of a patch in the workspace", () => {
  it.live("is shown by no tool and taken by none", () =>
    Effect.gen(function* () {
      const own = ".codespace-0123456789abcdef"
      const { files, folder } = yield* openFiles({
        [`${own}/op_1.o0`]: "secret\n",
        [`d/${own}/op_1.n0`]: "secret\n",
        f: "secret\n",
        ".codespace-mine": "secret\n",
      })
      const found = yield* files.find({ glob: "**", include_ignored: true })
      assert.deepStrictEqual([found.paths, found.left_out], [[".codespace-mine", "f"], { "folders of the server": 2 }])
      const matches = (yield* files.search({ pattern: "secret", include_ignored: true })).matches
      assert.deepStrictEqual(
        matches.map(({ path: name }) => name),
        [".codespace-mine", "f"],
      )
      for (const name of [own, own.toUpperCase()])
        assert.strictEqual((yield* Effect.flip(files.read({ path: `${name}/op_1.o0` })))._tag, "PATH_PROTECTED")
      const transaction = yield* openTransaction(folder)
      const refused = yield* Effect.result(transaction.apply({ kind: "write", path: `${own}/x`, content: "" }))
      assert.strictEqual(tagOf(refused), "PATH_PROTECTED")
    }),
  )
})

/** Mounts something on a folder until the scope ends; undefined where that is not permitted. */
const mounted = (...how: ReadonlyArray<string>) =>
  Effect.flatMap(temporaryFolder, (folder) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        try {
          execFileSync("mount", [...how, folder], { stdio: "ignore" })
          return folder
        } catch {
          return undefined
        }
      }),
      (place) => Effect.sync(() => place !== undefined && execFileSync("umount", ["-l", place])),
    ),
  )
const smallDisk = mounted("-t", "tmpfs", "-o", "size=1m", "none")
const notPermitted = "skipped: mounting is not permitted here"

describe("mounts", () => {
  it.live("a full disk under the workspace: refused, nothing changed, and small patches still work", () =>
    Effect.gen(function* () {
      const root = yield* smallDisk
      if (root === undefined) return console.log(notPermitted)
      writeTree(root, { f: "1\n", gone: "g\n" })
      const before = readTree(root)
      const transaction = yield* openTransaction(root)
      const large = `*** Add File: large\n${`+${"x".repeat(99)}\n`.repeat(20_000).trimEnd()}`
      for (const sections of [[large], ["*** Update File: f\n@@\n-1\n+2", "*** Delete File: gone", large]]) {
        assert.strictEqual(tagOf(yield* Effect.result(transaction.apply(patchOf(...sections)))), "STORAGE_FULL")
        assert.deepStrictEqual(readTree(root), before)
      }
      yield* transaction.apply(patchOf("*** Update File: f\n@@\n-1\n+2"))
      assert.deepStrictEqual(readTree(root), { ...before, f: "644 2\n" })
    }),
  )

  it.live("a full disk under the state folder: refused, nothing changed, reading goes on, and patches work again after", () =>
    Effect.gen(function* () {
      const stateFolder = yield* smallDisk
      if (stateFolder === undefined) return console.log(notPermitted)
      const root = yield* temporaryFolder
      writeTree(root, mixedGiven)
      const before = readTree(root)
      const ballast = path.join(stateFolder, "ballast")
      const fill = () => {
        try {
          fs.writeFileSync(ballast, Buffer.alloc(2_000_000))
        } catch {
          // Full is what it is meant to be.
        }
      }
      fill()
      assert.strictEqual(
        tagOf(yield* Effect.result(Effect.flatMap(Effect.orDie(openTransaction(root, { stateFolder })), ({ apply }) => apply(mixed)))),
        "STORAGE_FULL",
      )
      const transaction = yield* openTransaction(root, { stateFolder })
      assert.strictEqual(tagOf(yield* Effect.result(transaction.apply(mixed))), "STORAGE_FULL")
      assert.deepStrictEqual(readTree(root), before)
      fs.rmSync(ballast)
      yield* transaction.apply(patchOf("*** Update File: f\n@@\n-1\n+2"))
      fill()
      assert.strictEqual(tagOf(yield* Effect.result(transaction.apply(patchOf("*** Update File: f\n@@\n-2\n+3")))), "STORAGE_FULL")
      assert.deepStrictEqual(readTree(root), { ...before, f: "644 2\n" })
    }).pipe(quiet),
  )

  it.live("a folder mounted from the same disk, where devices do not tell that files cannot be moved there", () =>
    Effect.gen(function* () {
      const source = yield* temporaryFolder
      const root = yield* mounted("--bind", source)
      if (root === undefined) return console.log(notPermitted)
      writeTree(root, mixedGiven)
      const stateFolder = yield* temporaryFolder
      assert.strictEqual(deviceOf(root), deviceOf(stateFolder))
      const transaction = yield* openTransaction(root, { stateFolder })
      yield* transaction.apply(mixed)
      assert.deepStrictEqual(readTree(root), mixedWanted)
      const added = yield* transaction.apply(patchOf("*** Add File: m\n+m"))
      assert.strictEqual(added.status, "applied")
      assert.deepStrictEqual(readTree(root), { ...mixedWanted, m: "644 m\n" })
    }),
  )
})

// --- races ----------------------------------------------------------------------------------------------------------

/** Exchanges the folder `d` and a link to `outside` as fast as it can. */
const exchange = `
  const fs = require("node:fs")
  process.chdir(process.argv[1])
  console.log("ready")
  for (;;) {
    try {
      fs.renameSync("d", "kept")
      fs.symlinkSync("../outside", "d")
      fs.unlinkSync("d")
      fs.renameSync("kept", "d")
    } catch {
      // A patch has made a folder in the gap.
      try {
        for (const name of ["d", "kept"]) fs.rmSync(name, { recursive: true, force: true })
        fs.mkdirSync("d/sub", { recursive: true })
      } catch {
        // Another one since; the next round tries again.
      }
    }
  }`

describe("a folder that a process exchanges for a link during 20,000 patch writes", () => {
  it.live(
    "is never written through",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporaryFolder
        writeTree(folder, { "work/d/sub/f0": "0", "outside/sub/mine": "mine" })
        const transaction = yield* openTransaction(path.join(folder, "work"))
        const child = yield* Effect.acquireRelease(
          Effect.sync(() => spawn(process.execPath, ["-e", exchange, path.join(folder, "work")], { stdio: ["ignore", "pipe", "inherit"] })),
          (running) =>
            Effect.callback<void>((resume) => {
              assert.isNull(running.exitCode, "the exchange went on to the end")
              running.once("close", () => resume(Effect.void))
              running.kill("SIGKILL")
            }),
        )
        yield* Effect.callback<void>((resume) => void child.stdout.once("data", () => resume(Effect.void)))
        const counts: Record<string, number> = {}
        // How the two take turns is up to the machine: it goes on until both outcomes were met often enough.
        const isMet = (tag: string) => (counts[tag] ?? 0) > 100
        for (let write = 0; write < 20_000 || !isMet("applied") || !isMet("SYMLINK_REJECTED"); write++) {
          const result = yield* Effect.result(transaction.apply({ kind: "write", path: `d/sub/f${write % 3}`, content: `${write}` }))
          const tag = tagOf(result)
          counts[tag] = (counts[tag] ?? 0) + 1
        }
        assert.deepStrictEqual(readTree(path.join(folder, "outside")), { sub: "dir", "sub/mine": "644 mine" })
      }).pipe(quiet),
    120_000,
  )
})

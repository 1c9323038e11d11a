/** What a transaction does to a real folder, and what it leaves of it when something goes wrong at any step. */
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, References, Result } from "effect"
import { PatchFailed } from "../../src/schema/Patch.ts"
import { DiskFault, type Root } from "../../src/services/Disk.ts"
import type { PatchIntent, PatchRefusal } from "../../src/services/PatchTransaction.ts"
import { beforeEveryKind, everyKind, patchOf } from "../support/ChangePatch.ts"
import { type Fault, faultyRoots } from "../support/FaultyRoot.ts"
import { openPatching, openTransaction } from "../support/Patching.ts"
import { type Content, readTree, temporaryFolder, writeTree } from "../support/Tree.ts"

const folderWith = Effect.fnUntraced(function* (files: Readonly<Record<string, Content>>) {
  const root = yield* temporaryFolder
  writeTree(root, files)
  return root
})

const refusal = <A>(result: Result.Result<A, PatchRefusal>): PatchRefusal => {
  if (Result.isSuccess(result)) assert.fail("expected a refusal")
  return result.failure
}

describe("a change", () => {
  it.live("applies all kinds of sections and reports them", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({
        "run.sh": { text: "a\nb\n", mode: 0o755 },
        "private/key": { text: "k\n", mode: 0o600 },
        gone: "x\n",
        here: "m\n",
      })
      const transaction = yield* openTransaction(root)
      const delta = yield* transaction.apply(
        patchOf(
          "*** Update File: run.sh\n@@\n-b\n+B",
          "*** Update File: private/key\n*** Move to: private/deep/er/key\n@@\n-k\n+K",
          "*** Delete File: gone",
          "*** Add File: new/folder/file\n+n",
          "*** Update File: here\n*** Move to: there",
        ),
      )
      assert.deepStrictEqual(readTree(root), {
        "run.sh": "755 a\nB\n",
        private: "dir",
        "private/deep": "dir",
        "private/deep/er": "dir",
        "private/deep/er/key": "600 K\n",
        new: "dir",
        "new/folder": "dir",
        "new/folder/file": "644 n\n",
        there: "644 m\n",
      })
      assert.strictEqual(delta.status, "applied")
      assert.deepStrictEqual(
        delta.changes.map(({ added, from, kind, path, removed }) => `${kind} ${from ?? ""}>${path} +${added} -${removed}`),
        [
          "update >run.sh +1 -1",
          "move private/key>private/deep/er/key +1 -1",
          "delete >gone +0 -1",
          "add >new/folder/file +1 -0",
          "move here>there +0 -0",
        ],
      )
      assert.isUndefined(delta.notes)
    }),
  )

  it.live("adds, updates and deletes one file in three calls, also in a folder", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({})
      const transaction = yield* openTransaction(root)
      for (const name of ["f", "a/b/f"]) {
        yield* transaction.apply(patchOf(`*** Add File: ${name}\n+1`))
        yield* transaction.apply(patchOf(`*** Update File: ${name}\n@@\n-1\n+2`))
        yield* transaction.apply(patchOf(`*** Delete File: ${name}`))
      }
      assert.deepStrictEqual(readTree(root), { a: "dir", "a/b": "dir" })
    }),
  )

  it.live("edits and writes", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ f: "one two\n" })
      const transaction = yield* openTransaction(root)
      yield* transaction.apply({ kind: "edit", path: "f", edits: [{ old: "two", new: "$&" }] })
      const written = yield* transaction.apply({ kind: "write", path: "n/new", content: "x" })
      assert.deepInclude(written.changes[0], { kind: "add", path: "n/new", before: "absent" })
      assert.deepStrictEqual(readTree(root), { f: "644 one $&\n", n: "dir", "n/new": "644 x" })
      const same = yield* transaction.apply({ kind: "write", path: "f", content: "one $&\n" })
      assert.deepInclude(same.changes[0], { kind: "update", added: 0, removed: 0 })
      assert.strictEqual(same.changes[0]?.before, same.changes[0]?.after)
    }),
  )

  it.live("takes a large new file", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({})
      const transaction = yield* openTransaction(root)
      const line = "x".repeat(99)
      const delta = yield* transaction.apply(patchOf(`*** Add File: big\n${`+${line}\n`.repeat(20_000).trimEnd()}`))
      assert.strictEqual(delta.changes[0]?.added, 20_000)
      assert.strictEqual(fs.statSync(path.join(root, "big")).size, 2_000_000)
    }),
  )

  it.live("only previews with check_only", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ f: "1\n", big: "" })
      const before = readTree(root)
      const transaction = yield* openTransaction(root)
      const checked = yield* transaction.apply(patchOf("*** Update File: f\n@@\n-1\n+2", "*** Add File: n/m\n+x"), { check_only: true })
      assert.strictEqual(checked.status, "checked")
      assert.include(checked.diff ?? "", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n")
      const cut = yield* transaction.apply({ kind: "write", path: "big", content: "some line\n".repeat(10_000) }, { check_only: true })
      assert.isAtMost((cut.diff ?? "").length, 30_000)
      assert.match(cut.notes?.join() ?? "", /The diff is cut: \d+ more bytes are left out/u)
      assert.deepStrictEqual(readTree(root), before)
    }),
  )

  it.live("replaces a hard link and says so", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ "outside/f": "old\n" })
      fs.mkdirSync(path.join(root, "ws"))
      fs.linkSync(path.join(root, "outside/f"), path.join(root, "ws/h"))
      const transaction = yield* openTransaction(path.join(root, "ws"))
      const delta = yield* transaction.apply(patchOf("*** Update File: h\n@@\n-old\n+new"))
      assert.match(delta.notes?.join() ?? "", /"h" had 2 hard links/u)
      assert.deepStrictEqual(readTree(root), { outside: "dir", "outside/f": "644 old\n", ws: "dir", "ws/h": "644 new\n" })
    }),
  )

  it.live("does not take its own names for somebody's hard links", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ "ws/a": "old\n" })
      fs.linkSync(path.join(root, "ws/a"), path.join(root, "ws/b"))
      const transaction = yield* openTransaction(path.join(root, "ws"))
      yield* transaction.apply({ kind: "write", path: "new", content: "1\n" })
      yield* transaction.apply({ kind: "write", path: "a", content: "mine\n" })
      for (const name of ["new", "a", "b"]) {
        assert.strictEqual(fs.statSync(path.join(root, "ws", name)).nlink, 1, name)
        const delta = yield* transaction.apply({ kind: "write", path: name, content: "2\n" })
        assert.notProperty(delta, "notes")
      }
    }),
  )
})

describe("a refusal leaves everything as it was", () => {
  const cases: ReadonlyArray<readonly [string, string, PatchIntent]> = [
    ["a link at the end", "SYMLINK_REJECTED", patchOf("*** Update File: link\n@@\n-s\n+t")],
    ["a link above", "SYMLINK_REJECTED", patchOf("*** Add File: linked/f\n+t")],
    ["adding onto a link", "SYMLINK_REJECTED", patchOf("*** Add File: link\n+t")],
    ["a way out", "PATH_ESCAPE", { kind: "write", path: "../f", content: "x" }],
    ["a folder", "NOT_A_FILE", patchOf("*** Delete File: d")],
    ["a file in the place of a folder", "NOT_A_FILE", { kind: "write", path: "f/g", content: "x" }],
    ["a new file in the place of a new folder", "NOT_A_FILE", patchOf("*** Add File: n\n+1", "*** Add File: n/m\n+2")],
    ["git's hooks", "PATH_PROTECTED", { kind: "write", path: ".git/hooks/pre-commit", content: "x" }],
    ["what the profile denies", "POLICY_DENIED", { kind: "write", path: "locked/f", content: "x" }],
    ["a missing file", "PATH_NOT_FOUND", { kind: "edit", path: "nope", edits: [{ old: "a", new: "b" }] }],
    ["a stale hunk after a deletion", "CONTEXT_NOT_FOUND", patchOf("*** Delete File: f", "*** Update File: d/g\n@@\n-stale\n+x")],
    ["a move onto a file", "MOVE_DESTINATION_EXISTS", patchOf("*** Update File: f\n*** Move to: d/g")],
    ["adding onto a file", "ADD_FILE_EXISTS", patchOf("*** Add File: d/g\n+1")],
    ["no change", "INVALID_PATCH", patchOf("*** Update File: f\n@@\n 1")],
  ]
  for (const [name, tag, intent] of cases)
    it.live(name, () =>
      Effect.gen(function* () {
        const root = yield* folderWith({ secret: "s\n", "ws/f": "1\n", "ws/d/g": "2\n", "ws/locked/f": "3\n" })
        const ws = path.join(root, "ws")
        fs.symlinkSync("../secret", path.join(ws, "link"))
        fs.symlinkSync("d", path.join(ws, "linked"))
        const before = readTree(root)
        const transaction = yield* openTransaction(ws, {
          files: [
            { glob: "**", access: "write" },
            { glob: "locked/**", access: "read" },
          ],
        })
        for (const check_only of [true, false])
          assert.strictEqual(refusal(yield* Effect.result(transaction.apply(intent, { check_only })))._tag, tag)
        assert.deepStrictEqual(readTree(root), before)
      }),
    )

  it.live("expected versions hold, of any path", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ f: "1\n", other: "o\n" })
      const transaction = yield* openTransaction(root)
      const patch = patchOf("*** Update File: f\n@@\n-1\n+2")
      const { changes } = yield* transaction.apply(patch, { check_only: true })
      const version = changes[0]?.before ?? ""
      for (const expected_versions of [
        { f: "0000000000000000" },
        { other: version },
        { other: "absent" },
        { "not/there": version },
        { "./f": "absent" },
      ]) {
        const refused = refusal(yield* Effect.result(transaction.apply(patch, { expected_versions })))
        assert.deepInclude(refused, { _tag: "VERSION_CONFLICT", expected: Object.values(expected_versions).join() })
      }
      assert.strictEqual(fs.readFileSync(path.join(root, "f"), "utf8"), "1\n")
      const delta = yield* transaction.apply(patch, { expected_versions: { "./f": version, "not/there": "absent", new: "absent" } })
      assert.strictEqual(delta.status, "applied")
    }),
  )
})

// --- faults ---------------------------------------------------------------------------------------------------------

/** The patch on a fresh folder with a fault at one position. */
const runWith = Effect.fnUntraced(function* (position: number, fault?: Fault) {
  const root = yield* folderWith(beforeEveryKind)
  const before = readTree(root)
  const faulty = faultyRoots(position, fault)
  const { stateFolder, transaction } = yield* openPatching(root, { through: faulty.through })
  faulty.arm()
  // The warnings about steps that fail are meant to be there.
  const quiet = Effect.provideService(transaction.apply(everyKind), References.MinimumLogLevel, "None")
  const fiber = yield* Effect.forkChild(quiet)
  const exit = yield* Fiber.await(fiber)
  faulty.disarm()
  return { exit, before, after: readTree(root), operations: faulty.operations, kept: readTree(stateFolder) }
})

const written = (tree: Record<string, string>): string => Object.entries(tree).toSorted().join()

describe("a fault at every step of a patch with all kinds of changes", () => {
  const faults: ReadonlyArray<Fault> = [
    { kind: "refuse", code: "EIO" },
    { kind: "refuse", code: "ENOSPC" },
    { kind: "refuse", code: "EPERM" },
    { kind: "do and refuse", code: "EIO" },
    { kind: "die" },
    { kind: "interrupt" },
  ]
  for (const fault of faults)
    it.live(`all or nothing: ${Object.values(fault).join(" ")}`, () =>
      Effect.gen(function* () {
        const whole = yield* Effect.scoped(runWith(-1))
        assert.isTrue(Exit.isSuccess(whole.exit))
        const seen = new Set<string>()
        for (let position = 0; position < whole.operations.length; position++) {
          const { after, before, exit } = yield* Effect.scoped(runWith(position, fault))
          const where = `at ${position}: ${whole.operations[position]}`
          if (Exit.isSuccess(exit)) assert.deepStrictEqual(after, whole.after, where)
          else if (Exit.hasInterrupts(exit)) assert.include([before, whole.after].map(written), written(after), where)
          else assert.deepStrictEqual(after, before, where)
          seen.add(written(after) === written(before) ? "before" : "after")
          if (fault.kind === "die" && Exit.isFailure(exit)) assert.isTrue(Exit.hasDies(exit), where)
        }
        assert.isTrue(seen.has("before"), "some faults must have hit the transaction")
      }),
    )

  it.live("answers with the code that fits the fault", () =>
    Effect.gen(function* () {
      const { operations } = yield* Effect.scoped(runWith(-1))
      const position = operations.findIndex((operation) => operation.startsWith("create "))
      const tags: Array<string> = []
      for (const code of ["ENOSPC", "EDQUOT", "EACCES", "EIO"]) {
        const { exit } = yield* Effect.scoped(runWith(position, { kind: "refuse", code }))
        const failed = refusal(yield* Effect.result(exit))
        tags.push(failed instanceof PatchFailed ? `${failed._tag} ${failed.status}` : failed._tag)
      }
      assert.deepStrictEqual(tags, ["STORAGE_FULL", "STORAGE_FULL", "PATH_PROTECTED", "PATCH_FAILED failed_rolled_back"])
    }),
  )

  it.live("reports exactly what it could not put back, and keeps the old contents", () =>
    Effect.gen(function* () {
      const { operations } = yield* Effect.scoped(runWith(-1))
      const commits = operations.flatMap((operation, index) => (/^rename (?!.*\.done)/u.test(operation) ? [index] : []))
      assert.isAbove(commits.length, 1)
      for (const position of commits) {
        const { after, before, exit, kept } = yield* Effect.scoped(runWith(position, { kind: "refuse from then on", code: "EIO" }))
        const failed = refusal(yield* Effect.result(exit))
        assert.deepInclude(failed, { _tag: "PATCH_FAILED", status: "failed_partial" })
        const paths = failed instanceof PatchFailed ? failed.paths : []
        const wrong = Object.keys({ ...before, ...after }).filter((name) => before[name] !== after[name] && after[name] !== "dir")
        for (const name of wrong) assert.include(paths, name, `at ${position}`)
        const contents = [...Object.values(after), ...Object.values(kept)]
        for (const [name, content] of Object.entries(before)) assert.include(contents, content, `${name} is kept somewhere`)
      }
    }),
  )

  it.live("works where a file can have no second name", () =>
    Effect.gen(function* () {
      const root = yield* folderWith(beforeEveryKind)
      const withoutLinks = (real: Root): Root => ({
        ...real,
        link: (_, to) => Effect.fail(new DiskFault({ operation: "link", path: to, code: "EPERM" })),
      })
      const transaction = yield* openTransaction(root, { through: withoutLinks })
      yield* transaction.apply(everyKind)
      const whole = yield* Effect.scoped(runWith(-1))
      assert.deepStrictEqual(readTree(root), whole.after)
    }),
  )
})

describe("others at work in the same folder", () => {
  /** Runs `meddle` once, before the first operation of a kind. */
  const meddling = (operation: "createFile" | "link", meddle: (root: string) => void, root: string) => {
    const state = { done: false }
    const once = Effect.sync(() => {
      if (!state.done) meddle(root)
      state.done = true
    })
    return (real: Root): Root => ({
      ...real,
      createFile: (...args) => Effect.andThen(operation === "createFile" ? once : Effect.void, real.createFile(...args)),
      link: (...args) => Effect.andThen(operation === "link" ? once : Effect.void, real.link(...args)),
    })
  }

  const cases: ReadonlyArray<readonly [string, "createFile" | "link", PatchIntent, (root: string) => void]> = [
    [
      "a file changes while the patch is staged",
      "createFile",
      patchOf("*** Update File: f\n@@\n-1\n+2"),
      (root) => fs.writeFileSync(path.join(root, "f"), "theirs\n"),
    ],
    ["a file goes away", "createFile", patchOf("*** Update File: f\n@@\n-1\n+2"), (root) => fs.unlinkSync(path.join(root, "f"))],
    [
      "a file appears where one is added",
      "createFile",
      patchOf("*** Add File: n\n+2"),
      (root) => fs.writeFileSync(path.join(root, "n"), "theirs\n"),
    ],
    ["it appears at the last moment", "link", patchOf("*** Add File: n\n+2"), (root) => fs.writeFileSync(path.join(root, "n"), "theirs\n")],
  ]
  for (const [name, operation, intent, meddle] of cases)
    it.live(`refuses when ${name}`, () =>
      Effect.gen(function* () {
        const root = yield* folderWith({ f: "1\n" })
        const control = yield* folderWith({ f: "1\n" })
        meddle(control)
        const transaction = yield* openTransaction(root, { through: meddling(operation, meddle, root) })
        assert.strictEqual(refusal(yield* Effect.result(transaction.apply(intent)))._tag, "VERSION_CONFLICT")
        assert.deepStrictEqual(readTree(root), readTree(control))
      }),
    )

  it.live("notices that what was written is not there, and rolls back", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ f: "1\n", g: "1\n" })
      const before = readTree(root)
      const scribble = (real: Root): Root => ({
        ...real,
        rename: (from, to, into) => Effect.tap(real.rename(from, to, into), () => Effect.sync(() => to === "f" && truncate(root))),
      })
      const truncate = (folder: string) => {
        if (fs.readFileSync(path.join(folder, "f"), "utf8") === "2\n") fs.writeFileSync(path.join(folder, "f"), "torn")
      }
      const transaction = yield* openTransaction(root, { through: scribble })
      const failed = refusal(
        yield* Effect.result(transaction.apply(patchOf("*** Update File: g\n@@\n-1\n+2", "*** Update File: f\n@@\n-1\n+2"))),
      )
      assert.deepInclude(failed, { _tag: "PATCH_FAILED", status: "failed_rolled_back", paths: ["f"] })
      assert.deepStrictEqual(readTree(root), before)
    }),
  )

  it.live("never lets a private file be more readable, and takes no name that is in use", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({ key: { text: "k\n", mode: 0o600 }, "key.tmp": "t\n", ".key.swp": "s\n", ".codespace.tmp": "c\n" })
      const modes: Array<string> = []
      const stateFolder = yield* temporaryFolder
      const watch = Effect.sync(() => {
        for (const [name, content] of Object.entries({ ...readTree(root), ...readTree(stateFolder) }))
          if (name !== "key" && content.endsWith(" K\n")) modes.push(content.slice(0, 3))
      })
      const through = (real: Root): Root => ({
        ...real,
        createFile: (...args) => Effect.tap(real.createFile(...args), () => watch),
        rename: (...args) => Effect.andThen(watch, real.rename(...args)),
      })
      const transaction = yield* openTransaction(root, { through, stateFolder })
      yield* transaction.apply(patchOf("*** Update File: key\n@@\n-k\n+K"))
      assert.deepStrictEqual([...new Set(modes)], ["600"])
      assert.deepStrictEqual(readTree(root), { key: "600 K\n", "key.tmp": "644 t\n", ".key.swp": "644 s\n", ".codespace.tmp": "644 c\n" })
    }),
  )

  it.live("makes the same new folder from two transactions at once", () =>
    Effect.gen(function* () {
      const root = yield* folderWith({})
      const transaction = yield* openTransaction(root)
      const names = Array.from({ length: 20 }, (_, index) => `new/folder/f${index}`)
      yield* Effect.forEach(names, (name) => transaction.apply({ kind: "write", path: name, content: name }), { concurrency: "unbounded" })
      assert.sameMembers(
        fs.readdirSync(path.join(root, "new/folder")),
        names.map((name) => path.basename(name)),
      )
    }),
  )
})

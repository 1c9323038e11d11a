/** The operator's commands around a patch: what they see, what they may change, and what becomes of the patch when they fail. */
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, References, Result, type Scope } from "effect"
import type { Hook, HookSettings } from "../../src/schema/Config.ts"
import { PatchFailed, VerifyFailed } from "../../src/schema/Patch.ts"
import { makeHooks } from "../../src/services/PatchHooks.ts"
import type { PatchIntent, PatchRefusal } from "../../src/services/PatchTransaction.ts"
import { makeVerification } from "../../src/services/PatchVerification.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { patchOf } from "../support/ChangePatch.ts"
import { faultyRoots } from "../support/FaultyRoot.ts"
import { openPatching, type PatchingOptions } from "../support/Patching.ts"
import { layerSupervisor, until } from "../support/Processes.ts"
import { type Content, readTree, temporaryFolder, writeTree } from "../support/Tree.ts"

const hook = (command: ReadonlyArray<string>, more: Partial<Hook> = {}): Hook => ({
  command,
  on_failure: "reject",
  timeout: Duration.minutes(1),
  ...more,
})
/** A hook that runs a shell script on the files. */
const script = (text: string, more: Partial<Hook> = {}): Hook => hook(["sh", "-c", text, "sh", "{files}"], more)
const failing = (text: string, more: Partial<Hook> = {}): Hook => script(`${text}; echo the reason; exit 3`, more)

const oneToTwo = patchOf("*** Update File: f\n@@\n-1\n+2")

/** A workspace with these hooks. Its profile gives callers no process and no time, which is nothing to a hook. */
const opened = Effect.fnUntraced(function* (
  files: Readonly<Record<string, Content>>,
  hooks: Partial<HookSettings>,
  options: PatchingOptions = {},
) {
  const root = yield* temporaryFolder
  writeTree(root, files)
  const supervisor = yield* ProcessSupervisor
  const limits = { processes: 0, spool_bytes: 1_000_000, timeout_ms: 1 }
  const { stateFolder, transaction, workspace } = yield* openPatching(root, { hooks, limits, ...options })
  const around = makeHooks(workspace, supervisor)
  return {
    root,
    before: readTree(root),
    stateFolder,
    now: () => readTree(root),
    read: (name: string) => fs.readFileSync(path.join(root, name), "utf8"),
    verify: makeVerification(
      { ...workspace, profile: { ...workspace.profile, limits: { ...limits, processes: 9, timeout_ms: 60_000 } } },
      supervisor,
    ),
    apply: (intent: PatchIntent, more: Parameters<typeof transaction.apply>[1] = {}) =>
      transaction.apply(intent, { hooks: around, ...more }),
  }
})

const refusal = <A>(result: Result.Result<A, PatchRefusal>): PatchRefusal => {
  if (Result.isSuccess(result)) assert.fail("expected a refusal")
  return result.failure
}
const rejection = <A>(result: Result.Result<A, PatchRefusal>): VerifyFailed => {
  const refused = refusal(result)
  return refused instanceof VerifyFailed ? refused : assert.fail(`expected VERIFY_FAILED, got ${refused._tag}: ${refused.message}`)
}

const test = (name: string, body: () => Effect.Effect<void, unknown, ProcessSupervisor | Scope.Scope>) =>
  it.live(name, () => Effect.scoped(body()).pipe(Effect.provide(layerSupervisor(), { local: true })))

describe("an after_patch hook", () => {
  test("joins the patch: versions, counts and modes are those after it, and notes name what it changed", () =>
    Effect.gen(function* () {
      const formatter = script('for f; do sed -i s/two/TWO/ "$f"; echo last >> "$f"; done; chmod 755 new/n')
      const { apply, now } = yield* opened({ f: "one\n", same: "s\n" }, { after_patch: [formatter] })
      const delta = yield* apply(patchOf("*** Update File: f\n@@\n-one\n+two", "*** Add File: new/n\n+n"))
      const plain = yield* opened({ f: "one\n", same: "s\n" }, {})
      const wanted = yield* plain.apply(patchOf("*** Update File: f\n@@\n-one\n+TWO\n+last", "*** Add File: new/n\n+n\n+last"))
      assert.deepStrictEqual(now(), { ...plain.now(), "new/n": "755 n\nlast\n" })
      assert.deepStrictEqual(delta.changes, wanted.changes)
      assert.match(delta.notes?.[0] ?? "", /^hooks ran: after_patch hook "sh -c .*\{files\}"$/u)
      assert.deepStrictEqual(delta.notes?.slice(1), ['hooks changed "f", "new/n": versions and line counts are those after them'])
    }))

  test("runs behind the one before it, and sees what that one left", () =>
    Effect.gen(function* () {
      const { apply, read } = yield* opened({ f: "1\n" }, { after_patch: [script('sed -i s/2/3/ "$1"'), script('sed -i s/3/4/ "$1"')] })
      const delta = yield* apply(oneToTwo)
      assert.strictEqual(read("f"), "4\n")
      assert.deepInclude(delta.changes[0], { added: 1, removed: 1 })
      assert.notInclude(JSON.stringify(delta.notes), "warns")
    }))

  test("that changes nothing changes nothing in the result but a note", () =>
    Effect.gen(function* () {
      const { apply, read } = yield* opened({ f: "1\n" }, { after_patch: [hook(["true"])] })
      const plain = yield* opened({ f: "1\n" }, {})
      const delta = yield* apply(oneToTwo)
      assert.deepStrictEqual({ ...delta, notes: undefined }, { ...(yield* plain.apply(oneToTwo)), notes: undefined })
      assert.deepStrictEqual(delta.notes, ['hooks ran: after_patch hook "true"'])
      const same = yield* apply({ kind: "write", path: "f", content: "2\n" })
      assert.deepInclude(same.changes[0], { path: "f", kind: "update", added: 0, removed: 0 })
      assert.strictEqual(read("f"), "2\n")
    }))

  test("may take files of the patch away and bring deleted ones back, and is told as it is", () =>
    Effect.gen(function* () {
      const { apply, now } = yield* opened(
        { gone: "g\n", back: "b\n", moved: "m\n", f: "1\n" },
        { after_patch: [script("rm new f; echo B > back; echo M >> there")] },
      )
      const delta = yield* apply(
        patchOf(
          "*** Delete File: gone",
          "*** Delete File: back",
          "*** Update File: moved\n*** Move to: there",
          "*** Update File: f\n@@\n-1\n+2",
          "*** Add File: new\n+n",
        ),
      )
      assert.deepStrictEqual(now(), { back: "644 B\n", there: "644 m\nM\n" })
      assert.deepStrictEqual(
        delta.changes.map(({ added, from, kind, path, removed }) => `${kind} ${from ?? ""}>${path} +${added} -${removed}`),
        ["delete >gone +0 -1", "update >back +1 -1", "move moved>there +1 -0", "delete >f +0 -1"],
      )
      assert.include(JSON.stringify(delta.notes), 'hooks changed \\"back\\", \\"there\\", \\"f\\", \\"new\\"')
    }))

  const places: ReadonlyArray<readonly [string, string]> = [
    ["a link", 'ln -sf elsewhere "$1"'],
    ["a pipe", 'rm "$1"; mkfifo "$1"'],
    ["a link for a folder", "mv d e; ln -s e d"],
  ]
  for (const [name, text] of places)
    test(`that leaves ${name} in a file's place fails the patch`, () =>
      Effect.gen(function* () {
        const { apply, read } = yield* opened({ "d/f": "1\n" }, { after_patch: [script(text)] })
        const failed = refusal(yield* Effect.result(apply(patchOf("*** Update File: d/f\n@@\n-1\n+2"))))
        if (!(failed instanceof PatchFailed)) return assert.fail(failed.message)
        assert.strictEqual(failed.cause, 'a hook left something else than a file at "d/f"')
        // A file behind a folder that became a link is nobody's to write any more, so the patch says that it could not be undone.
        assert.strictEqual(failed.status, name === "a link for a folder" ? "failed_partial" : "failed_rolled_back")
        if (failed.status === "failed_rolled_back") assert.strictEqual(read("d/f"), "1\n")
      }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  test("is synced with the patch where an answered patch outlives a power cut", () =>
    Effect.gen(function* () {
      const faulty = faultyRoots(-1)
      const { apply } = yield* opened(
        { f: "1\n" },
        { after_patch: [script('echo 3 > "$1"')] },
        { durability: "power", through: faulty.through },
      )
      faulty.arm()
      yield* apply(oneToTwo)
      const done = faulty.operations.findIndex((operation) => operation.endsWith(".done"))
      const synced = faulty.operations.indexOf("sync f")
      assert.isAbove(synced, faulty.operations.indexOf("rename f"))
      assert.isBelow(synced, done)
    }))
})

describe("{files}", () => {
  test("are the files that are there when the hook runs, by names that are no options", () =>
    Effect.gen(function* () {
      const list = (name: string) => hook(["sh", "-c", `for f; do echo "$f"; done > ${name}`, "sh", "{files}"])
      const { apply, read } = yield* opened(
        { "-x": "1\n", "a b": "1\n", gone: "g\n", from: "m\n", "@at": "1\n" },
        { before_patch: [list("seen-before")], after_patch: [list("seen-after")] },
      )
      yield* apply(
        patchOf(
          "*** Update File: -x\n@@\n-1\n+2",
          "*** Update File: a b\n@@\n-1\n+2",
          "*** Update File: @at\n@@\n-1\n+2",
          "*** Delete File: gone",
          "*** Update File: from\n*** Move to: d/to",
          "*** Add File: .new\n+n",
        ),
      )
      const lines = (name: string) => read(name).trimEnd().split("\n").toSorted()
      assert.deepStrictEqual(lines("seen-before"), ["./-x", "./@at", "a b", "from", "gone"])
      assert.deepStrictEqual(lines("seen-after"), ["./-x", "./@at", ".new", "a b", "d/to"])
    }))

  test("without any, the hook does not run; one that takes none does", () =>
    Effect.gen(function* () {
      const { apply, now } = yield* opened(
        { gone: "g\n" },
        {
          before_patch: [hook(["false", "{files}"]), hook(["touch", "before"])],
          after_patch: [hook(["false", "{files}"]), hook(["touch", "after"])],
        },
      )
      const added = refusal(yield* Effect.result(apply(patchOf("*** Add File: n\n+n"))))
      assert.deepInclude(added, { hook: 'after_patch hook "false {files}"' })
      assert.deepStrictEqual(now(), { gone: "644 g\n", before: "644 " })
      const deleted = refusal(yield* Effect.result(apply(patchOf("*** Delete File: gone"))))
      assert.deepInclude(deleted, { hook: 'before_patch hook "false {files}"' })
    }))

  test("without any after a deletion, only the other hooks run", () =>
    Effect.gen(function* () {
      const { apply, now } = yield* opened({ gone: "g\n" }, { after_patch: [hook(["false", "{files}"]), hook(["touch", "after"])] })
      const delta = yield* apply(patchOf("*** Delete File: gone"))
      assert.deepStrictEqual(now(), { after: "644 " })
      assert.deepStrictEqual(delta.notes, ['hooks ran: after_patch hook "touch after"'])
    }))
})

describe("a hook that fails", () => {
  test("before_patch: refuses the call, and nothing was written", () =>
    Effect.gen(function* () {
      const { apply, before, now } = yield* opened(
        { f: "1\n" },
        { before_patch: [failing('cat "$1"')], after_patch: [hook(["touch", "ran"])] },
      )
      const failed = rejection(yield* Effect.result(apply(oneToTwo)))
      assert.deepInclude(failed, { status: "rejected", exit_code: 3, output: "1\nthe reason\n", retry: "change_request" })
      assert.match(failed.message, /^the before_patch hook "sh -c .*" ended with exit code 3\. Nothing was written\./u)
      assert.deepStrictEqual(now(), before)
    }))

  test("after_patch: undoes the patch and what hooks did to its files, not to others", () =>
    Effect.gen(function* () {
      const { apply, now } = yield* opened(
        { f: { text: "1\n", mode: 0o640 }, gone: "g\n", other: "o\n" },
        { after_patch: [script("echo 9 > f; chmod 600 f"), failing("rm f; echo back > gone; echo changed > other; touch new/mine")] },
      )
      const patch = patchOf("*** Update File: f\n@@\n-1\n+2", "*** Delete File: gone", "*** Add File: new/n\n+n")
      const failed = rejection(yield* Effect.result(apply(patch)))
      assert.deepInclude(failed, { status: "failed_rolled_back", exit_code: 3, output: "the reason\n" })
      assert.match(failed.message, /^the after_patch hook .* The patch was rolled back/u)
      assert.deepStrictEqual(now(), { f: "640 1\n", gone: "644 g\n", other: "644 changed\n", new: "dir", "new/mine": "644 " })
    }))

  test("and only warns: the patch stays, with what the hook had changed, and notes say so", () =>
    Effect.gen(function* () {
      const { apply, read } = yield* opened(
        { f: "1\n" },
        {
          before_patch: [hook(["no-such-program"], { on_failure: "warn" })],
          after_patch: [failing("echo 3 > f", { on_failure: "warn" }), script("echo 4 >> f")],
        },
      )
      const delta = yield* apply(oneToTwo)
      assert.strictEqual(read("f"), "3\n4\n")
      assert.deepInclude(delta.changes[0], { added: 2, removed: 1 })
      const [missing, ran, warned, changed] = delta.notes ?? []
      assert.match(missing ?? "", /^the before_patch hook "no-such-program" could not be started: .*; it only warns/u)
      assert.match(ran ?? "", /^hooks ran/u)
      assert.match(warned ?? "", /^the after_patch hook .* ended with exit code 3; it only warns.* It wrote: the reason\n$/u)
      assert.match(changed ?? "", /^hooks changed "f"/u)
    }))

  const ends: ReadonlyArray<readonly [string, Hook, RegExp]> = [
    ["takes too long", script("sleep 60", { timeout: Duration.millis(200) }), /did not end in time \(ended because it ran for 200 ms/u],
    ["cannot start", hook(["no-such-program"]), /could not be started: .*no-such-program/u],
    ["is killed", script("kill -9 $$"), /was ended by SIGKILL/u],
  ]
  for (const [name, after, cause] of ends)
    test(`because it ${name} undoes the patch`, () =>
      Effect.gen(function* () {
        const { apply, before, now } = yield* opened({ f: "1\n" }, { after_patch: [after] })
        const failed = rejection(yield* Effect.result(apply(oneToTwo)))
        assert.match(failed.cause, cause)
        assert.deepStrictEqual(now(), before)
      }))
})

describe("hooks", () => {
  test("that change a file before the patch have it refused, and the change is theirs", () =>
    Effect.gen(function* () {
      const { apply, now } = yield* opened(
        { f: "1\n" },
        { before_patch: [script("echo theirs > f")], after_patch: [hook(["touch", "ran"])] },
      )
      assert.strictEqual(refusal(yield* Effect.result(apply(oneToTwo)))._tag, "VERSION_CONFLICT")
      assert.deepStrictEqual(now(), { f: "644 theirs\n" })
    }))

  test("do not run for a patch that does not fit", () =>
    Effect.gen(function* () {
      const { apply, before, now } = yield* opened({ f: "other\n" }, { before_patch: [hook(["touch", "ran"])] })
      assert.strictEqual(refusal(yield* Effect.result(apply(oneToTwo)))._tag, "CONTEXT_NOT_FOUND")
      assert.deepStrictEqual(now(), before)
    }))

  test("are only named with check_only", () =>
    Effect.gen(function* () {
      const { apply, before, now } = yield* opened(
        { f: "1\n" },
        { before_patch: [hook(["touch", "ran"])], after_patch: [hook(["touch", "ran", "{files}"])] },
      )
      const checked = yield* apply(oneToTwo, { check_only: true })
      assert.strictEqual(checked.status, "checked")
      assert.deepStrictEqual(checked.notes, ['hooks would run: before_patch hook "touch ran", after_patch hook "touch ran {files}"'])
      const deletion = yield* apply(patchOf("*** Delete File: f"), { check_only: true })
      assert.deepStrictEqual(deletion.notes, ['hooks would run: before_patch hook "touch ran"'])
      assert.deepStrictEqual(now(), before)
    }))

  test("come before verify, whose failure undoes what they did too", () =>
    Effect.gen(function* () {
      const { apply, before, now, read, verify } = yield* opened({ f: "1\n" }, { after_patch: [script("echo 3 > f")] })
      const failed = rejection(yield* Effect.result(apply(oneToTwo, { verify: verify({ script: "cat f; exit 1" }) })))
      assert.deepInclude(failed, { output: "3\n", exit_code: 1 })
      assert.isUndefined(failed.hook)
      assert.deepStrictEqual(now(), before)
      const delta = yield* apply(oneToTwo, { verify: verify({ command: ["grep", "3", "f"] }) })
      assert.deepInclude(delta.verify, { exit_code: 0, output: "3\n" })
      assert.strictEqual(read("f"), "3\n")
    }))

  for (const moment of ["before_patch", "after_patch"] as const)
    test(`are ended, and the patch undone, when the call is cancelled during ${moment}`, () =>
      Effect.gen(function* () {
        const { apply, now, root } = yield* opened({ f: "1\n" }, { [moment]: [script("echo 3 > f; touch started; sleep 60")] })
        const fiber = yield* Effect.forkChild(apply(oneToTwo), { startImmediately: true })
        yield* until(() => fs.existsSync(path.join(root, "started")))
        yield* Fiber.interrupt(fiber)
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
        const f = moment === "before_patch" ? "644 3\n" : "644 1\n"
        assert.deepStrictEqual(now(), { f, started: "644 " })
        const processes = yield* ProcessSupervisor.use((supervisor) => supervisor.list())
        assert.deepStrictEqual(
          processes.map(({ state }) => state),
          ["terminated"],
        )
      }))
})

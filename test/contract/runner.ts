/** What every way to reach the workspace side is held to: files, patches, processes, cancellation, limits, large answers. */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Result, type Schema, type Scope } from "effect"
import { PathNotFound } from "../../src/schema/Workspace.ts"
import { builtInProfiles } from "../../src/services/AppConfig.ts"
import { Runner } from "../../src/services/Runner.ts"
import { until } from "../support/Processes.ts"
import { app, makePlace, type Place, type RunnerOf } from "../support/Runners.ts"
import { commandsIn, livingIn } from "../support/Survivors.ts"
import { readTree, writeTree } from "../support/Tree.ts"

const scenarios = join(import.meta.dirname, "../fixtures/apply-patch/scenarios")

/** A one-pixel PNG. */
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64")

const call = (tool: string, input: Schema.JsonObject, operationId?: string) =>
  Effect.flatMap(Runner, (runner) =>
    runner.execute({ tool, workspaceId: app, input, ...(operationId === undefined ? {} : { operationId }) }),
  )
const result = (tool: string, input: Schema.JsonObject, operationId?: string) =>
  Effect.map(call(tool, input, operationId), (reply) => reply.result)

/** Not as a script: bash, whose input is a socket here, takes itself for a remote one and runs what its user set up for that. */
const exec = (script: string, more: Schema.JsonObject = {}): Schema.JsonObject => ({
  ...{ command: ["/bin/sh", "-c", script], stdin: "closed", access: "exclusive", yield_ms: 20_000, max_output_bytes: 30_000 },
  ...more,
})
const reading = { wait_ms: 0, max_bytes: 30_000 }

/** The commands of these tests that still run; what held them goes a moment after them. */
const sleeping = (root: string) => commandsIn(root).filter((command) => /^sleep 30\d$/u.test(command))

/** `runnerOf` gives a runner for a folder; each test has its own, and closing it must leave nothing that runs. */
export const runnerContract = (runnerOf: RunnerOf) => {
  const live = (
    name: string,
    test: (place: Place) => Effect.Effect<void, unknown, Runner | Scope.Scope>,
    limits?: Parameters<RunnerOf>[1],
  ) =>
    it.live(
      name,
      () =>
        Effect.gen(function* () {
          const place = yield* makePlace
          yield* Effect.provide(test(place), runnerOf(place, limits), { local: true })
          yield* until(() => livingIn(place.root).length === 0)
        }),
      60_000,
    )

  describe("files", () => {
    live("are read, found and searched", ({ root }) =>
      Effect.gen(function* () {
        writeTree(root, { "a.txt": "one\ntwo\n", "src/b.ts": "two\n" })
        assert.deepInclude(yield* result("read", { path: "a.txt" }), { text: "one\ntwo\n", total_lines: 2 })
        assert.deepStrictEqual((yield* result("find", { glob: "**/*.ts" }))["paths"], ["src/b.ts"])
        assert.strictEqual((yield* result("search", { pattern: "two" }))["files_matched"], 2)
      }),
    )

    live("that are images come as images", ({ root }) =>
      Effect.gen(function* () {
        writeFileSync(join(root, "p.png"), PIXEL)
        const { image } = yield* call("read", { path: "p.png" })
        assert.deepStrictEqual(image, { mimeType: "image/png", data: PIXEL.toString("base64") })
      }),
    )

    live("are refused with the refusal itself", () =>
      Effect.gen(function* () {
        const refusal = yield* Effect.flip(result("read", { path: "nope" }))
        assert.instanceOf(refusal, PathNotFound)
        assert.match(refusal.message, /"nope" does not exist/u)
        assert.strictEqual(refusal.retry, "change_request")
      }),
    )

    live("are held to the stricter profile that comes with a call", ({ root }) =>
      Effect.gen(function* () {
        writeTree(root, { "a.txt": "a\n", ".env": "secret\n" })
        const open = builtInProfiles.get("workspace-write")
        if (open === undefined) return assert.fail("no profile")
        const profile = { ...open, name: "strict", files: [...open.files, { glob: "**/.env", access: "deny", reason: "secrets" } as const] }
        const runner = yield* Runner
        const read = (path: string) => runner.execute({ tool: "read", workspaceId: app, input: { path }, profile })
        assert.deepInclude((yield* read("a.txt")).result, { text: "a\n" })
        assert.strictEqual((yield* Effect.flip(read(".env")))._tag, "POLICY_DENIED")
        assert.deepInclude(yield* result("read", { path: ".env" }), { text: "secret\n" })
      }),
    )

    live("of a size that a result can hold come whole, many at once, and small calls beside them", ({ root }) =>
      Effect.gen(function* () {
        const text = `${"é".repeat(90)}\n`.repeat(1000)
        writeTree(root, { "small.txt": "s\n" })
        writeFileSync(join(root, "large.txt"), text)
        const large = result("read", { path: "large.txt", start_byte: 0, max_bytes: 180_000, encoding: "base64" })
        const small = result("read", { path: "small.txt" })
        const [pages, quick] = yield* Effect.all(
          [
            Effect.all(
              Array.from({ length: 40 }, () => large),
              { concurrency: "unbounded" },
            ),
            Effect.all(Array.from({ length: 40 }, () => small)),
          ],
          { concurrency: "unbounded" },
        )
        const wanted = Buffer.from(text).subarray(0, 180_000).toString("base64")
        for (const page of pages) assert.isTrue(page["base64"] === wanted)
        for (const page of quick) assert.strictEqual(page["text"], "s\n")
      }),
    )
  })

  describe("patches", () => {
    live("of every scenario do what they do elsewhere", ({ root }) =>
      Effect.gen(function* () {
        for (const name of readdirSync(scenarios)) {
          for (const left of readdirSync(root)) rmSync(join(root, left), { recursive: true })
          const [input, expected, refused] = ["input", "expected", "refused"].map((part) => join(scenarios, name, part)) as [
            string,
            string,
            string,
          ]
          if (existsSync(input)) cpSync(input, root, { recursive: true })
          const before = readTree(root, { modes: false })
          const patch = readFileSync(join(scenarios, name, "patch.txt"), "utf8")
          const answer = yield* Effect.result(result("apply_patch", { patch }))
          const told = Result.isFailure(answer) ? answer.failure._tag : "applied"
          assert.deepStrictEqual([name, told], [name, existsSync(refused) ? readFileSync(refused, "utf8").trim() : "applied"])
          const wanted = existsSync(refused) ? before : existsSync(expected) ? readTree(expected, { modes: false }) : {}
          assert.deepStrictEqual([name, readTree(root, { modes: false })], [name, wanted])
        }
      }),
    )

    live("of a megabyte go through", ({ root }) =>
      Effect.gen(function* () {
        const content = `${"x".repeat(99)}\n`.repeat(10_000)
        assert.deepInclude(yield* result("write", { path: "big.txt", content }), { status: "applied" })
        assert.strictEqual(statSync(join(root, "big.txt")).size, 1_000_000)
      }),
    )

    live("whose verification fails are rolled back, and say so", ({ root }) =>
      Effect.gen(function* () {
        writeTree(root, { "a.txt": "old\n" })
        const verify = { script: "echo no; exit 7", timeout_ms: 10_000 }
        const refusal = yield* Effect.flip(result("write", { path: "a.txt", content: "new\n", verify }))
        assert.deepInclude(refusal, { _tag: "VERIFY_FAILED", status: "failed_rolled_back", exit_code: 7 })
        assert.deepStrictEqual(readTree(root, { modes: false }), { "a.txt": "old\n" })
      }),
    )

    live("are known by their operation until they are acknowledged", () =>
      Effect.gen(function* () {
        const runner = yield* Runner
        const cut = [
          { operationId: "op_done", tool: "write" },
          { operationId: "op_never", tool: "write" },
        ] as const
        const done = yield* result("write", { path: "a.txt", content: "a\n" }, "op_done")
        const outcomes = yield* runner.outcomes(app, cut)
        assert.deepStrictEqual(outcomes.get("op_done"), { kind: "committed", delta: done as never })
        assert.deepStrictEqual(outcomes.get("op_never"), { kind: "rolled_back" })
        yield* runner.acknowledge(app, cut[0])
      }),
    )
  })

  describe("processes", () => {
    live("run to their end", () =>
      Effect.gen(function* () {
        const facts = yield* result("exec_command", exec("echo out; echo err >&2; exit 3"), "op_1")
        assert.deepInclude(facts, { state: "exited", exit_code: 3, output: "out\nerr\n" })
      }),
    )

    live("outlive their call, are fed and read, and their end is told", () =>
      Effect.gen(function* () {
        const reply = yield* call("exec_command", exec("read line; echo got $line; exit 4", { stdin: "open", yield_ms: 0 }), "op_1")
        const process_id = String(reply.result["process_id"])
        assert.strictEqual(reply.result["state"], "running")
        if (reply.ending === undefined) return assert.fail("no ending")
        const ending = yield* Effect.forkChild(reply.ending, { startImmediately: true })
        assert.deepInclude(yield* result("write_stdin", { process_id, data: "hey\n", yield_ms: 5000 }), { output: "got hey\n" })
        assert.deepInclude(yield* Fiber.join(ending), { state: "exited", exit_code: 4, process_id })
        assert.deepInclude(yield* result("read_process", { process_id, cursor: "4", ...reading }), { output: "hey\n", eof: true })
      }),
    )

    live("are stopped with all they started", ({ root }) =>
      Effect.gen(function* () {
        const reply = yield* call("exec_command", exec("sleep 300 & sleep 301", { yield_ms: 0 }), "op_1")
        yield* until(() => sleeping(root).length === 2)
        const process_id = String(reply.result["process_id"])
        assert.deepInclude(yield* result("terminate_process", { process_id, grace_ms: 500 }), { state: "terminated", ended_by: "caller" })
        assert.deepStrictEqual(sleeping(root), [])
      }),
    )

    live("that are not known are refused", () =>
      Effect.gen(function* () {
        const refusal = yield* Effect.flip(result("read_process", { process_id: "proc_nope", ...reading }))
        assert.deepInclude(refusal, { _tag: "PROCESS_NOT_FOUND", process_id: "proc_nope" })
      }),
    )
  })

  describe("cancellation", () => {
    live("ends the command before the call is over", ({ root }) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(call("exec_command", exec("sleep 300 & sleep 301"), "op_1"))
        yield* until(() => sleeping(root).length === 2)
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(sleeping(root), [])
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      }),
    )

    live("rolls a patch back before the call is over", ({ root }) =>
      Effect.gen(function* () {
        writeTree(root, { "a.txt": "old\n" })
        const verify = { script: "touch here; sleep 300", timeout_ms: 60_000 }
        const fiber = yield* Effect.forkChild(call("write", { path: "a.txt", content: "new\n", verify }, "op_1"))
        yield* until(() => existsSync(join(root, "here")))
        assert.strictEqual(readFileSync(join(root, "a.txt"), "utf8"), "new\n")
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(readFileSync(join(root, "a.txt"), "utf8"), "old\n")
        const outcomes = yield* Effect.flatMap(Runner, ({ outcomes }) => outcomes(app, [{ operationId: "op_1", tool: "write" }]))
        assert.deepStrictEqual(outcomes.get("op_1"), { kind: "rolled_back" })
      }),
    )

    live("of a waiting read leaves the process alone", () =>
      Effect.gen(function* () {
        const reply = yield* call("exec_command", exec("sleep 0.3; echo late", { yield_ms: 0 }), "op_1")
        const process_id = String(reply.result["process_id"])
        const fiber = yield* Effect.forkChild(result("read_process", { process_id, wait_ms: 20_000, max_bytes: 1000, until: "never" }))
        yield* Effect.sleep(20)
        yield* Fiber.interrupt(fiber)
        assert.deepInclude(yield* reply.ending ?? Effect.die("no ending"), { state: "exited", output: "late\n" })
      }),
    )
  })

  describe("limits", () => {
    live(
      "of live processes are kept",
      () =>
        Effect.gen(function* () {
          const long = exec("sleep 300", { access: "shared", yield_ms: 0 })
          yield* Effect.all([call("exec_command", long, "op_1"), call("exec_command", long, "op_2")])
          const refusal = yield* Effect.flip(call("exec_command", long, "op_3"))
          assert.deepInclude(refusal, { _tag: "LIMIT_EXCEEDED", limit: "processes", value: 2, asked: 3 })
        }),
      { processes: 2 },
    )

    live(
      "of output and time are kept",
      () =>
        Effect.gen(function* () {
          const facts = yield* result("exec_command", exec("head -c 3000000 /dev/zero; sleep 300", { timeout_ms: 400 }), "op_1")
          assert.deepInclude(facts, { state: "timed_out", ended_by: "timeout", total_bytes: 3_000_000 })
          assert.isAbove(Number(facts["dropped_bytes"]), 1_000_000)
        }),
      { spool_bytes: 1_000_000 },
    )
  })

  live("ends with everything that runs", () =>
    Effect.asVoid(call("exec_command", exec("trap '' TERM; sleep 300", { yield_ms: 0 }), "op_1")),
  )
}

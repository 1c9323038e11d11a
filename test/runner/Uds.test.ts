/** The Runner behind a Unix socket: held to the same suite, and what is its own, above all what becomes of calls when a worker dies. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import * as RpcClient from "effect/rpc/RpcClient"
import { RpcSerialization } from "effect/rpc/RpcSerialization"
import { Socket } from "effect/socket/Socket"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import { connectTo, ownerOf, socketOf } from "../../src/layers/WorkerSocket.ts"
import { PROTOCOL, serialization, Wire } from "../../src/runner/Wire.ts"
import { Runner, type RunRequest } from "../../src/services/Runner.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { runnerContract } from "../contract/runner.ts"
import { contentOf, until } from "../support/Processes.ts"
import { main } from "../support/Program.ts"
import { app, detachedWorker, gatewayWorker, makePlace, type Place, throughWorker } from "../support/Runners.ts"
import { commandsIn, livingIn } from "../support/Survivors.ts"
import { writeTree } from "../support/Tree.ts"

const isBuilt = existsSync(main)
if (!isBuilt) console.warn("Uds.test.ts is skipped: dist/main.mjs is not built (npm run build)")

describe.skipIf(!isBuilt)("Uds", () => runnerContract(throughWorker()))

/** Quick to notice what a test does to a worker. */
const impatient = { lookEvery: 100, silence: 400, line: 20_000 }

const identity = Effect.runSync(Effect.provide(ServerIdentity, NodeIdentity.layer))

/** The folders with sockets below a state folder. */
const foldersOf = ({ stateFolder }: Place) => readdirSync(join(stateFolder, "workers")).map((name) => join(stateFolder, "workers", name))
const workerOf = (place: Place): number => {
  const owners = foldersOf(place).flatMap((folder) => ownerOf(folder, identity) ?? [])
  assert.strictEqual(owners.length, 1)
  return Number(owners[0]?.split(".")[0])
}
const kill = (pid: number) => Effect.sync(() => process.kill(pid, "SIGKILL"))

const call = (tool: string, input: RunRequest["input"], operationId?: string) =>
  Effect.flatMap(Runner, (runner) =>
    runner.execute({ tool, workspaceId: app, input, ...(operationId === undefined ? {} : { operationId }) }),
  )
const read = Effect.map(call("read", { path: "a.txt" }), ({ result }) => result["text"])
const exec = (script: string, yield_ms: number) => ({
  command: ["/bin/sh", "-c", script],
  stdin: "closed",
  access: "exclusive",
  yield_ms,
  max_output_bytes: 30_000,
})

describe.skipIf(!isBuilt)("a worker", () => {
  const live = (
    name: string,
    test: (place: Place) => Effect.Effect<void, unknown, Runner | Scope.Scope>,
    runnerOf = throughWorker(gatewayWorker, impatient),
  ) =>
    it.live(
      name,
      () =>
        Effect.gen(function* () {
          const place = yield* makePlace
          writeTree(place.root, { "a.txt": "old\n" })
          yield* Effect.provide(test(place), runnerOf(place), { local: true })
          yield* until(() => livingIn(place.root).length === 0)
        }),
      60_000,
    )

  live("has a socket for its user alone, and is not started twice (R154)", (place) =>
    Effect.gen(function* () {
      yield* Effect.all([read, read, read], { concurrency: "unbounded" })
      const [folder = ""] = foldersOf(place)
      const sockets = readdirSync(folder)
      assert.strictEqual(sockets.length, 1)
      assert.strictEqual(statSync(folder).mode & 0o777, 0o700)
      assert.strictEqual(statSync(join(folder, sockets[0] ?? "")).mode & 0o777, 0o600)
    }),
  )

  live("that was killed leaves a socket that is in nobody's way (R154)", (place) =>
    Effect.gen(function* () {
      assert.strictEqual(yield* read, "old\n")
      const first = workerOf(place)
      yield* kill(first)
      assert.strictEqual(yield* Effect.retry(read, { times: 3 }), "old\n")
      assert.notStrictEqual(workerOf(place), first)
      assert.strictEqual(foldersOf(place).flatMap((folder) => readdirSync(folder)).length, 1)
    }),
  )

  live("has nothing of its server's but what it needs", (place) =>
    Effect.gen(function* () {
      process.env["CODESPACE_TEST_SECRET"] = "s3cret"
      yield* Effect.ensuring(
        read,
        Effect.sync(() => delete process.env["CODESPACE_TEST_SECRET"]),
      )
      const pid = workerOf(place)
      assert.notInclude(contentOf(`/proc/${pid}/environ`), "s3cret")
      assert.match(contentOf(`/proc/${pid}/limits`), /Max core file size\s+0\s+0/u)
      const files = readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
        try {
          return [readlinkSync(`/proc/${pid}/fd/${name}`)]
        } catch {
          return []
        }
      })
      assert.deepStrictEqual(
        files.filter((file) => file.includes("sqlite")),
        [],
      )
      const inodes = new Set(files.flatMap((file) => /^socket:\[(\d+)\]$/u.exec(file)?.[1] ?? []))
      const internet = ["tcp", "tcp6", "udp", "udp6"].flatMap((name) => contentOf(`/proc/${pid}/net/${name}`).split("\n").slice(1))
      assert.deepStrictEqual(
        internet.filter((line) => inodes.has(line.trim().split(/\s+/u)[9] ?? "")),
        [],
      )
    }),
  )

  live("that dies in the middle of a patch: it is undone, and its caller knows", (place) =>
    Effect.gen(function* () {
      const verify = { script: "touch here; sleep 300", timeout_ms: 60_000 }
      const fiber = yield* Effect.forkChild(Effect.flip(call("write", { path: "a.txt", content: "new\n", verify }, "op_1")))
      yield* until(() => existsSync(join(place.root, "here")))
      assert.strictEqual(readFileSync(join(place.root, "a.txt"), "utf8"), "new\n")
      yield* kill(workerOf(place))
      const refusal = yield* Fiber.join(fiber)
      assert.deepInclude(refusal, { _tag: "RUNNER_UNAVAILABLE", retry: "later" })
      assert.match(refusal.message, /rolled back: every file is as it was/u)
      assert.strictEqual(readFileSync(join(place.root, "a.txt"), "utf8"), "old\n")
    }),
  )

  live("that dies during a command: nothing of it stays, and its caller knows", (place) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Effect.flip(call("exec_command", exec("sleep 300 & sleep 301", 20_000), "op_1")))
      yield* until(() => commandsIn(place.root).includes("sleep 301"))
      yield* kill(workerOf(place))
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "CANCELLED", cause: "its worker ended before it answered" })
      yield* until(() => livingIn(place.root).length === 0)
    }),
  )

  live(
    "that dies during a command and cannot be started again: nobody is told that the command may be repeated",
    (place) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(Effect.flip(call("exec_command", exec("sleep 301", 20_000), "op_1")))
        yield* until(() => commandsIn(place.root).includes("sleep 301"))
        const pid = workerOf(place)
        rmSync(join(place.stateFolder, "workers"), { recursive: true })
        writeFileSync(join(place.stateFolder, "workers"), "in the way")
        yield* kill(pid)
        assert.deepInclude(yield* Fiber.join(fiber), { _tag: "CANCELLED", retry: "ask_status" })
      }),
    throughWorker(gatewayWorker, { ...impatient, line: 1500 }),
  )

  live("that dies with a process that had outlived its call: the process is lost, and so it is told", (place) =>
    Effect.gen(function* () {
      const reply = yield* call("exec_command", exec("echo one; sleep 300", 300), "op_1")
      const ending = yield* Effect.forkChild(reply.ending ?? Effect.die("no ending"), { startImmediately: true })
      yield* kill(workerOf(place))
      const last = yield* Fiber.join(ending)
      assert.deepInclude(last, { state: "lost", process_id: reply.result["process_id"] })
      assert.include(JSON.stringify(last["notes"]), "its worker ended, and the process with it")
      yield* until(() => livingIn(place.root).length === 0)
    }),
  )

  live("that hangs is replaced", (place) =>
    Effect.gen(function* () {
      yield* read
      const first = workerOf(place)
      process.kill(first, "SIGSTOP")
      const refusal = yield* Effect.flip(read)
      assert.deepInclude(refusal, { _tag: "RUNNER_UNAVAILABLE" })
      assert.strictEqual(yield* Effect.retry(read, { times: 3 }), "old\n")
      assert.notStrictEqual(workerOf(place), first)
      assert.isFalse(existsSync(`/proc/${first}`))
    }),
  )

  live("that dies again and again is started ever more rarely, and each call gets an answer", (place) =>
    Effect.gen(function* () {
      const began = performance.now()
      for (let death = 0; death < 5; death++) {
        yield* Effect.retry(read, { times: 5 })
        yield* kill(workerOf(place))
      }
      assert.strictEqual(yield* Effect.retry(read, { times: 5 }), "old\n")
      // 50, 100, 200, 400 and 800 ms.
      assert.isAbove(performance.now() - began, 1550)
    }),
  )

  live("of another version is not used, and it says so", (place) =>
    Effect.gen(function* () {
      yield* read
      const [folder = ""] = foldersOf(place)
      const owner = ownerOf(folder, identity) ?? ""
      const refusal = yield* Effect.scoped(
        Effect.gen(function* () {
          const protocol = yield* RpcClient.makeProtocolSocket()
          const client = yield* Effect.provideService(RpcClient.make(Wire), RpcClient.Protocol, protocol)
          return yield* Effect.flip(client.hello({ protocol: PROTOCOL + 1, server: identity.self, workspaces: "[]" }))
        }).pipe(
          Effect.provideServiceEffect(Socket, connectTo(socketOf(folder, owner))),
          Effect.provideService(RpcSerialization, serialization),
        ),
      )
      assert.deepInclude(refusal, { _tag: "RUNNER_UNAVAILABLE" })
      assert.match(refusal.message, /another version .* process \d+/u)
    }),
  )

  /** Sets where this user's sockets may lie while something runs. */
  const withRuntime = <A, E, R>(folder: string, run: Effect.Effect<A, E, R>) => {
    const set = (value: string | undefined) =>
      Effect.sync(() => {
        if (value === undefined) delete process.env["XDG_RUNTIME_DIR"]
        else process.env["XDG_RUNTIME_DIR"] = value
      })
    const before = process.env["XDG_RUNTIME_DIR"]
    return Effect.acquireUseRelease(
      set(folder),
      () => run,
      () => set(before),
    )
  }
  const withLongState = Effect.map(makePlace, (place) => {
    const stateFolder = join(place.home, "s".repeat(120))
    mkdirSync(stateFolder, { mode: 0o700 })
    writeTree(place.root, { "a.txt": "old\n" })
    return { ...place, stateFolder }
  })

  it.live("lies on a short path where its own would be too long (R153)", () =>
    Effect.gen(function* () {
      const place = yield* withLongState
      const runtime = mkdtempSync("/tmp/cs-")
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(runtime, { recursive: true })))
      const test = Effect.gen(function* () {
        assert.strictEqual(yield* read, "old\n")
        assert.strictEqual(readdirSync(join(runtime, "codespace")).length, 1)
      })
      yield* withRuntime(runtime, Effect.provide(test, throughWorker()(place), { local: true }))
      assert.deepStrictEqual(readdirSync(join(runtime, "codespace")), [])
    }),
  )

  it.live("has no path that is short enough: one line says path and limit, and nothing is tried for ever (R153)", () =>
    Effect.gen(function* () {
      const place = yield* withLongState
      const refusal = yield* withRuntime(place.stateFolder, Effect.provide(Effect.flip(read), throughWorker()(place), { local: true }))
      assert.match(refusal.message, /too long: \d+ bytes in .*, where this system allows 10[37]/u)
    }),
  )

  it.live("does not start in a folder that is a link, or belongs to a living worker", () =>
    Effect.gen(function* () {
      const place = yield* makePlace
      const workers = join(place.stateFolder, "workers")
      mkdirSync(workers, { mode: 0o700 })
      mkdirSync(join(place.home, "elsewhere"), { mode: 0o700 })
      symlinkSync(join(place.home, "elsewhere"), join(workers, "box"))
      const runner = Effect.provide(Effect.flip(read), throughWorker(detachedWorker)(place), { local: true })
      assert.match((yield* runner).message, /is a link/u)
    }),
  )

  it.live("never takes the socket of a living process, and removes those of dead ones", () =>
    Effect.gen(function* () {
      const { home } = yield* makePlace
      const folder = join(home, "w")
      mkdirSync(folder)
      const server = createServer().listen(socketOf(folder, identity.self))
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      yield* until(() => readdirSync(folder).length === 1)
      writeFileSync(socketOf(folder, "999999999.gone-1"), "")
      assert.strictEqual(ownerOf(folder, identity), identity.self)
      assert.deepStrictEqual(readdirSync(folder), [`${identity.self}.sock`])
      assert.isUndefined(ownerOf(folder, identity, identity.self))
    }),
  )
})

describe.skipIf(!isBuilt)("a detached worker", () => {
  const runnerOf = throughWorker(detachedWorker, impatient)

  it.live("and its processes go on without a server, and are read on by the next one", () =>
    Effect.gen(function* () {
      const place = yield* makePlace
      const cut = [{ operationId: "op_1", tool: "exec_command" }]
      const reading = { wait_ms: 5000, max_bytes: 30_000 }
      const open = Effect.fnUntraced(function* () {
        const scope = yield* Scope.make()
        const context = yield* Layer.buildWithScope(runnerOf(place), scope)
        return { runner: yield* Effect.provide(Runner, context), close: Scope.close(scope, Exit.void) }
      })
      const first = yield* open()
      const lease = { kind: "exclusive" } as const
      const input = exec("echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 7", 300)
      const reply = yield* first.runner.execute({ tool: "exec_command", workspaceId: app, input, operationId: "op_1", lease })
      const process_id = String(reply.result["process_id"])
      const follower = yield* Effect.forkChild(reply.ending ?? Effect.die("no ending"), { startImmediately: true })
      yield* first.close
      // Nobody is told an end that has not come.
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(follower)))
      assert.isAbove(livingIn(place.root).length, 0)

      const second = yield* open()
      const outcome = (yield* second.runner.outcomes(app, cut)).get("op_1")
      if (outcome?.kind !== "replied") return assert.fail(`it is ${outcome?.kind}`)
      assert.deepStrictEqual(outcome.lease, lease)
      assert.deepStrictEqual(outcome.reply.result, reply.result)
      writeFileSync(join(place.root, "go"), "")
      assert.deepInclude(yield* outcome.reply.ending ?? Effect.die("no ending"), { state: "exited", exit_code: 7, output: "one\ntwo\n" })
      const page = yield* second.runner.execute({
        tool: "read_process",
        workspaceId: app,
        input: { process_id, cursor: String(reply.result["cursor"]), ...reading },
      })
      assert.deepInclude(page.result, { output: "two\n", exit_code: 7, eof: true })
      yield* second.runner.acknowledge(app, { operationId: "op_1", tool: "exec_command" })
      assert.deepStrictEqual((yield* second.runner.outcomes(app, cut)).get("op_1"), { kind: "unknown" })
      process.kill(workerOf(place), "SIGTERM")
      yield* second.close
      yield* until(() => livingIn(place.root).length === 0)
    }),
  )

  it.live("ends with its processes when no server has been there for its limit", () =>
    Effect.gen(function* () {
      const place = yield* makePlace
      const short = throughWorker({ ...detachedWorker, orphanLimitMs: 300 }, impatient)
      const start = Effect.gen(function* () {
        yield* call("exec_command", exec("trap '' TERM; sleep 300", 0), "op_1")
        yield* until(() => livingIn(place.root).length > 0)
        return workerOf(place)
      })
      const worker = yield* Effect.provide(start, short(place), { local: true })
      yield* until(() => !existsSync(`/proc/${worker}`))
      yield* until(() => livingIn(place.root).length === 0)
      assert.deepStrictEqual(
        foldersOf(place).flatMap((folder) => readdirSync(folder)),
        ["log"],
      )
    }),
  )

  it.live("serves several servers, each with its own settings", () =>
    Effect.gen(function* () {
      const place = yield* makePlace
      writeTree(place.root, { "a.txt": "old\n" })
      const long = { ...exec("sleep 300", 0), access: "shared" }
      const start = (operationId: string) => call("exec_command", long, operationId)
      yield* Effect.gen(function* () {
        yield* start("op_1")
        const pid = workerOf(place)
        const refusal = yield* Effect.flip(
          Effect.provide(Effect.andThen(read, start("op_2")), runnerOf(place, { processes: 1 }), { local: true }),
        )
        assert.deepInclude(refusal, { _tag: "LIMIT_EXCEEDED", value: 1, asked: 2 })
        yield* start("op_3")
        assert.strictEqual(workerOf(place), pid)
        process.kill(pid, "SIGTERM")
        yield* until(() => !existsSync(`/proc/${pid}`))
      }).pipe(Effect.provide(runnerOf(place), { local: true }))
    }),
  )
})

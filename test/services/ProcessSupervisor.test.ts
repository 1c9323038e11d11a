/** Time, causes and bookkeeping of the supervisor, over processes that do what the test says and on virtual time. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as Bubblewrap from "../../src/layers/Bubblewrap.ts"
import { defaults } from "../../src/schema/ConfigDefaults.ts"
import { type ProcessId, type Signal, SpawnFailed } from "../../src/schema/Process.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import { KEPT } from "../../src/services/ProcessRetention.ts"
import { type Child, type Descendant, type Exit as ProcessExit, ProcessSpawner } from "../../src/services/ProcessSpawner.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { limits, requestOf } from "../support/Processes.ts"

const idle = (pid: number): Descendant => ({ pid, start: "1", isBusy: false })

/** A process in the hands of a test. */
class Puppet {
  output = ""
  isRemoved = false
  readonly signals: Array<Signal> = []
  left: Array<Descendant> = []
  readonly exit = Deferred.makeUnsafe<ProcessExit>()

  end(exit: ProcessExit) {
    Deferred.doneUnsafe(this.exit, Effect.succeed(exit))
  }

  readonly child: Child = {
    pid: 1000,
    exit: Deferred.await(this.exit),
    hasExited: () => Deferred.isDoneUnsafe(this.exit),
    closed: Effect.void,
    losses: Effect.succeed([]),
    spool: {
      size: Effect.sync(() => this.output.length),
      read: (offset, length) => Effect.sync(() => new TextEncoder().encode(this.output.slice(offset, offset + length))),
      grown: () => Effect.never,
      gap: () => ({ from: 0, to: 0 }),
      giveBack: () => Effect.succeed(false),
      cut: (size) =>
        Effect.sync(() => {
          this.output = this.output.slice(0, size)
        }),
      remove: Effect.sync(() => {
        this.isRemoved = true
      }),
    },
    errors: undefined,
    write: () => Effect.void,
    pendingInput: () => 0,
    closeInput: Effect.void,
    resize: undefined,
    signal: (signal) => Effect.sync(() => void this.signals.push(signal)),
    descendants: Effect.sync(() => this.left),
    signalTree: (signal) =>
      Effect.sync(() => {
        this.signals.push(signal)
        return this.left
      }),
  }
}

/** A supervisor whose processes are puppets, in the order of their starts. */
const stageKeeping = Effect.fnUntraced(function* (
  processes: Duration.Duration = defaults.retention.processes,
  failures: Array<SpawnFailed> = [],
  output_bytes = defaults.retention.output_bytes,
) {
  const puppets: Array<Puppet> = []
  const spawner = Layer.succeed(ProcessSpawner, {
    spawn: () =>
      Effect.suspend(() => {
        const failure = failures.shift()
        if (failure !== undefined) return Effect.fail(failure)
        const puppet = new Puppet()
        puppets.push(puppet)
        return Effect.succeed(puppet.child)
      }),
    record: () => Effect.void,
    left: Effect.succeed([]),
    turn: Effect.void,
    hostEnvironment: Effect.succeed({ PATH: "/bin", TOKEN: "s3cret", CI: "1" }),
    shell: () => "/bin/sh",
  })
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const puppet of puppets) puppet.end({ code: 0 })
    }),
  )
  const context = yield* Layer.buildWithScope(
    ProcessSupervisor.layer({ processes, output_bytes }).pipe(Layer.provide(Layer.merge(spawner, Bubblewrap.layerGroups("a test")))),
    scope,
  )
  return { supervisor: Context.get(context, ProcessSupervisor), puppets, scope }
})
const stage = stageKeeping()

const facts = (supervisor: ProcessSupervisor["Service"], id: ProcessId) => supervisor.awaitEnd(id, 0, 1000)

describe("ProcessSupervisor", () => {
  it.effect("ends by the time limit of the call, politely first", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"], { timeoutMs: 5000 }))
      yield* TestClock.adjust(4990)
      assert.deepStrictEqual(puppets[0]!.signals, [])
      yield* TestClock.adjust(20)
      assert.deepStrictEqual(puppets[0]!.signals, ["SIGTERM", "SIGCONT"])
      yield* TestClock.adjust(900)
      assert.notInclude(puppets[0]!.signals, "SIGKILL")
      yield* TestClock.adjust(200)
      assert.include(puppets[0]!.signals, "SIGKILL")
      puppets[0]!.end({ signal: "SIGKILL" })
      assert.deepInclude(yield* supervisor.ended(id), { state: "timed_out", ended_by: "timeout", signal: "SIGKILL" })
    }),
  )

  it.effect("ends by the time limit of the profile when the call has none", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      yield* supervisor.start(requestOf(["x"], { limits: { ...limits, timeout_ms: 1000 } }))
      yield* TestClock.adjust(1010)
      assert.include(puppets[0]!.signals, "SIGTERM")
    }),
  )

  it.effect("counts silence from the last output on", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      yield* supervisor.start(requestOf(["x"], { idleTimeoutMs: 1000 }))
      yield* TestClock.adjust(800)
      puppets[0]!.output += "x"
      yield* TestClock.adjust(900)
      assert.deepStrictEqual(puppets[0]!.signals, [])
      yield* TestClock.adjust(250)
      assert.include(puppets[0]!.signals, "SIGTERM")
    }),
  )

  it.effect("ends what writes more than its limit where the disk cannot give back what was written", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"], { limits: { ...limits, spool_bytes: 1000 } }))
      puppets[0]!.output = "x".repeat(1500)
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(puppets[0]!.signals.slice(0, 1), ["SIGKILL"])
      assert.deepInclude(yield* facts(supervisor, id), { state: "running", total_bytes: 1000 })
      puppets[0]!.end({ signal: "SIGKILL" })
      const ended = yield* supervisor.ended(id)
      assert.deepInclude(ended, { state: "terminated", ended_by: "limit", total_bytes: 1000, eof: true })
      assert.match(ended.notes?.join() ?? "", /limit of 1000 bytes was reached.*; 500 more bytes were dropped/u)
      assert.strictEqual(puppets[0]!.output.length, 1000)
    }),
  )

  it.effect("lets live processes of all workspaces share one half of the room for output, and ended ones the other, the newest first", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stageKeeping(undefined, undefined, 3000)
      const startIn = (workspace: string) =>
        supervisor.start(requestOf(["x"], { workspaceId: WorkspaceId.make(workspace), limits: { ...limits, spool_bytes: 10_000 } }))
      const ids = yield* Effect.forEach(["a", "b", "c"], startIn)
      puppets[0]!.output = "x".repeat(500)
      puppets[1]!.output = "x".repeat(501)
      puppets[2]!.output = "x".repeat(450)
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(
        puppets.map(({ signals }) => signals.includes("SIGKILL")),
        [false, true, false],
      )
      for (const [index, id] of ids.entries()) {
        puppets[index]!.end({ code: 0 })
        yield* supervisor.ended(id)
        yield* TestClock.adjust(1)
      }
      // 500, 500 and 450 bytes: all of it fits into 1500, and one more does not.
      assert.strictEqual((yield* supervisor.list()).length, 3)
      const last = yield* startIn("d")
      puppets[3]!.output = "x".repeat(100)
      puppets[3]!.end({ code: 0 })
      yield* supervisor.ended(last)
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(
        (yield* supervisor.list()).map(({ process_id }) => process_id),
        [...ids.slice(1), last],
      )
      assert.isTrue(puppets[0]!.isRemoved)
    }),
  )

  it.effect("names a signal that nobody here sent, a program's own fault, and one a caller sent", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const causes: Array<ReadonlyArray<string | undefined>> = []
      for (const signal of ["SIGTERM", "SIGABRT", "SIGHUP"] as const) {
        const id = yield* supervisor.start(requestOf(["x"]))
        if (signal === "SIGHUP") yield* supervisor.write(id, { signal, waitMs: 0, maxBytes: 100 })
        puppets.at(-1)!.end({ signal })
        const { state, ended_by } = yield* supervisor.ended(id)
        causes.push([signal, state, ended_by])
      }
      assert.deepStrictEqual(causes, [
        ["SIGTERM", "signalled", "unknown_external"],
        ["SIGABRT", "signalled", "itself"],
        ["SIGHUP", "signalled", "caller"],
      ])
    }),
  )

  it.effect("keeps the first cause when a second wish comes", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"], { timeoutMs: 1000 }))
      const stopping = yield* Effect.forkChild(supervisor.terminate(id, 20_000), { startImmediately: true })
      yield* TestClock.adjust(2000)
      assert.deepStrictEqual(puppets[0]!.signals, ["SIGTERM", "SIGCONT"])
      puppets[0]!.end({ code: 0 })
      assert.deepInclude(yield* Fiber.join(stopping), { state: "terminated", ended_by: "caller", exit_code: 0 })
    }),
  )

  it.effect("does not blame a caller for a process that was already gone", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"]))
      puppets[0]!.end({ code: 0 })
      assert.deepInclude(yield* supervisor.terminate(id, 1000), { state: "exited", ended_by: "itself" })
      assert.deepStrictEqual(puppets[0]!.signals, [])
    }),
  )

  it.effect("gives descendants a moment to end by themselves, then ends them and counts", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"]))
      const puppet = puppets[0]!
      puppet.left = [idle(1001), idle(1002)]
      puppet.end({ code: 0 })
      yield* TestClock.adjust(90)
      assert.strictEqual((yield* facts(supervisor, id)).state, "running")
      assert.deepStrictEqual(puppet.signals, [])
      yield* TestClock.adjust(60)
      assert.include(puppet.signals, "SIGKILL")
      puppet.left = []
      yield* TestClock.adjust(50)
      assert.deepStrictEqual((yield* facts(supervisor, id)).notes, ["2 descendants ended with it"])
    }),
  )

  it.effect("gives a descendant that is busy more time than one that only stays, but not for ever", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"]))
      const other = yield* supervisor.start(requestOf(["y"]))
      for (const puppet of puppets) {
        puppet.left = [{ ...idle(1001), isBusy: true }]
        puppet.end({ code: 0 })
      }
      yield* TestClock.adjust(900)
      assert.deepStrictEqual([puppets[0]!.signals, puppets[1]!.signals], [[], []])
      puppets[0]!.left = []
      yield* TestClock.adjust(50)
      const ended = yield* facts(supervisor, id)
      assert.deepInclude(ended, { state: "exited" })
      assert.isUndefined(ended.notes)
      yield* TestClock.adjust(150)
      assert.include(puppets[1]!.signals, "SIGKILL")
      assert.strictEqual((yield* facts(supervisor, other)).state, "running")
      puppets[1]!.left = []
      yield* TestClock.adjust(50)
      assert.deepStrictEqual((yield* facts(supervisor, other)).notes, ["1 descendant ended with it"])
    }),
  )

  it.effect("says what escaped, and ends all the same", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"]))
      puppets[0]!.left = [idle(1001)]
      puppets[0]!.end({ code: 0 })
      yield* TestClock.adjust(3000)
      const { state, notes } = yield* facts(supervisor, id)
      assert.strictEqual(state, "exited")
      assert.deepStrictEqual(notes, ["could not be ended: pid 1001"])
    }),
  )

  it.effect("answers terminate also when the kernel cannot end a process", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"]))
      const stopping = yield* Effect.forkChild(supervisor.terminate(id, 1000), { startImmediately: true })
      yield* TestClock.adjust(6000)
      assert.deepInclude(yield* Fiber.join(stopping), { state: "running", eof: false })
      assert.isBelow(puppets[0]!.signals.length, 60)
    }),
  )

  it.effect("does not wait for ever when it closes", () =>
    Effect.gen(function* () {
      const { supervisor, puppets, scope } = yield* stage
      yield* supervisor.start(requestOf(["x"]))
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* TestClock.adjust(2900)
      yield* Fiber.join(closing)
      assert.include(puppets[0]!.signals, "SIGKILL")
    }),
  )

  it.effect("keeps the newest ended processes and forgets older ones with their spools", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const ids: Array<ProcessId> = []
      for (let index = 0; index <= KEPT; index++) {
        ids.push(yield* supervisor.start(requestOf(["x"])))
        puppets[index]!.end({ code: 0 })
        yield* supervisor.ended(ids[index]!)
      }
      yield* TestClock.adjust(1)
      assert.strictEqual((yield* supervisor.list()).length, KEPT)
      assert.strictEqual((yield* Effect.flip(supervisor.ended(ids[0]!)))._tag, "PROCESS_NOT_FOUND")
      assert.deepStrictEqual(puppets.map(({ isRemoved }) => isRemoved).filter(Boolean).length, 1)
      assert.isTrue(puppets[0]!.isRemoved)
    }),
  )

  it.effect("keeps within its bounds over a day of 5,000 commands (R157)", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stageKeeping(Duration.hours(2))
      let most = 0
      for (let index = 0; index < 5000; index++) {
        const id = yield* supervisor.start(requestOf(["x"]))
        puppets[index]!.end({ code: 0 })
        yield* supervisor.ended(id)
        if (index % 50 === 49) yield* TestClock.adjust(Duration.minutes(14.4))
        most = Math.max(most, puppets.length - puppets.filter(({ isRemoved }) => isRemoved).length)
      }
      assert.isAtMost(most, KEPT + 1)
      assert.isAtLeast(most, KEPT)
      yield* TestClock.adjust(Duration.hours(2.1))
      assert.isTrue(puppets.every(({ isRemoved }) => isRemoved))
      assert.deepStrictEqual(yield* supervisor.list(), [])
    }),
  )

  it.effect("makes a confinement anew when the machine changed under it, a few times, and for no other failure", () =>
    Effect.gen(function* () {
      const failed = (cause: string) => new SpawnFailed({ command: "x", cause })
      const gone = failed("its namespace could not be made: bwrap: Can't find source path /run/daemon.sock: No such file or directory")
      const twice = yield* stageKeeping(undefined, [gone, gone])
      yield* twice.supervisor.start(requestOf(["x"]))
      assert.strictEqual(twice.puppets.length, 1)
      const always = yield* stageKeeping(undefined, [gone, gone, gone])
      assert.deepStrictEqual(yield* Effect.flip(always.supervisor.start(requestOf(["x"]))), gone)
      const other = yield* stageKeeping(undefined, [failed("permission denied (EACCES)")])
      assert.strictEqual((yield* Effect.flip(other.supervisor.start(requestOf(["x"]))))._tag, "SPAWN_FAILED")
      assert.deepStrictEqual(other.puppets, [])
    }),
  )

  it.effect("forgets an ended process with its spool once its time is over, and never one that runs", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stageKeeping(Duration.minutes(3))
      const long = { limits: { ...limits, timeout_ms: 3_600_000 } }
      const ended = yield* supervisor.start(requestOf(["x"], long))
      const runs = yield* supervisor.start(requestOf(["y"], long))
      yield* TestClock.adjust(Duration.seconds(30))
      puppets[0]!.end({ code: 0 })
      yield* TestClock.adjust(Duration.seconds(175))
      assert.strictEqual((yield* facts(supervisor, ended)).state, "exited")
      assert.isFalse(puppets[0]!.isRemoved)
      yield* TestClock.adjust(Duration.seconds(66))
      assert.strictEqual((yield* Effect.flip(facts(supervisor, ended)))._tag, "PROCESS_NOT_FOUND")
      assert.isTrue(puppets[0]!.isRemoved)
      yield* TestClock.adjust(Duration.seconds(200))
      assert.strictEqual((yield* facts(supervisor, runs)).state, "running")
      assert.deepStrictEqual(
        (yield* supervisor.list()).map(({ process_id }) => process_id),
        [runs],
      )
    }),
  )

  it.effect("keeps an ended process for a time that is shorter than it usually looks for them", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stageKeeping(Duration.seconds(5))
      const id = yield* supervisor.start(requestOf(["x"]))
      puppets[0]!.end({ code: 0 })
      yield* TestClock.adjust(4000)
      assert.strictEqual((yield* facts(supervisor, id)).state, "exited")
      yield* TestClock.adjust(6000)
      assert.isTrue(puppets[0]!.isRemoved)
    }),
  )

  it.effect("finds a text across the chunks it looks through", () =>
    Effect.gen(function* () {
      const { supervisor, puppets } = yield* stage
      const id = yield* supervisor.start(requestOf(["x"]))
      puppets[0]!.output = `${"a".repeat(65_534)}needle`
      const request = { waitMs: 60_000, until: "needle", maxBytes: 100, view: "follow" as const }
      const reading = yield* Effect.forkChild(supervisor.read(id, request), { startImmediately: true })
      yield* TestClock.adjust(100)
      assert.isDefined(reading.pollUnsafe())
      const vain = yield* Effect.forkChild(supervisor.read(id, { ...request, cursor: "65535" }), { startImmediately: true })
      yield* TestClock.adjust(100)
      assert.isUndefined(vain.pollUnsafe())
      yield* Fiber.interrupt(vain)
    }),
  )

  it.effect("gives a child what profile and call allow, and refuses the rest", () =>
    Effect.gen(function* () {
      const { supervisor } = yield* stage
      const profile = { name: "p", env: ["CI"] }
      assert.deepStrictEqual(yield* supervisor.environment(profile, {}), { CI: "1" })
      assert.strictEqual((yield* Effect.flip(supervisor.environment(profile, { TOKEN: "x" })))._tag, "POLICY_DENIED")
    }),
  )
})

import { spawnSync } from "node:child_process"
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Result, Scope } from "effect"
import * as Bubblewrap from "../../src/layers/Bubblewrap.ts"
import * as NodePty from "../../src/layers/NodePty.ts"
import { TerminalUnavailable } from "../../src/schema/Process.ts"
import { ProcessSpawner } from "../../src/services/ProcessSpawner.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { processContract } from "../contract/process.ts"
import { terminalContract } from "../contract/terminal.ts"
import {
  contentOf,
  holding,
  layerSpawner,
  layerSupervisor,
  layerSupervisorIn,
  requestOf,
  temporaryFolder,
  until,
} from "../support/Processes.ts"

/** Processes that work in this folder or below, and their children, zombies among them. */
const childrenIn = (folder: string): ReadonlyArray<{ readonly pid: number; readonly name: string; readonly state: string }> => {
  const found = new Map<number, { readonly name: string; readonly state: string }>()
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/u.test(entry))) {
    const stat = contentOf(`/proc/${name}/stat`)
    const [state = "", parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    const isIn = attempted(() => readlinkSync(`/proc/${name}/cwd`)).startsWith(folder)
    if (isIn || found.has(Number(parent))) found.set(Number(name), { name: /\((.*)\)/u.exec(stat)?.[1] ?? "", state })
  }
  return [...found].map(([pid, facts]) => ({ pid, ...facts }))
}

const attempted = (look: () => string): string => {
  try {
    return look()
  } catch {
    return ""
  }
}

const groups = Bubblewrap.layerGroups("a test asks for it")
if (holding.by === "group") console.warn(`NodeProcesses.test.ts tests no namespaces: ${holding.why}`)

describe.skipIf(holding.by === "group")("NodeProcesses, in namespaces", () => processContract(layerSupervisor(), "namespace"))

describe("NodeProcesses, in groups", () => processContract(layerSupervisor(groups), "group"))

const openable = await Effect.runPromise(Effect.result(NodePty.open({ rows: 24, cols: 80 })))
if (Result.isFailure(openable)) console.warn(`NodeProcesses.test.ts tests no terminals: ${openable.failure.message}`)
else {
  closeSync(openable.success.far)
  openable.success.destroy()
}

describe.skipIf(Result.isFailure(openable) || holding.by === "group")("NodeProcesses, in terminals in namespaces", () =>
  terminalContract(layerSupervisor()),
)

describe.skipIf(Result.isFailure(openable))("NodeProcesses, in terminals in groups", () => terminalContract(layerSupervisor(groups)))

describe.skipIf(Result.isFailure(openable))("a terminal", () => {
  it.live("gives all that was written into it when it is closed, also while somebody still holds its far end", () =>
    Effect.gen(function* () {
      const file = join(yield* temporaryFolder, "copy")
      const terminal = yield* NodePty.open({ rows: 24, cols: 80 })
      terminal.copyTo(openSync(file, "w"))
      for (let round = 0; round < 4; round++) writeSync(terminal.far, "x".repeat(2000))
      // Nothing of it was read yet: that takes turns of the event loop, and there was none.
      assert.strictEqual(statSync(file).size, 0)
      yield* Effect.timeout(terminal.drained, 300)
      assert.strictEqual(statSync(file).size, 8000)
      closeSync(terminal.far)
    }),
  )
})

describe("NodeProcesses", () => {
  it.live("without the package for terminals refuses one, says what to do, and runs everything else", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const none = () => Effect.fail(new TerminalUnavailable({ cause: "the package node-pty cannot be loaded (MODULE_NOT_FOUND)" }))
      yield* Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const refusal = yield* Effect.flip(supervisor.start(requestOf(["true"], { tty: { rows: 24, cols: 80 } })))
        assert.deepInclude(refusal, { _tag: "TERMINAL_UNAVAILABLE" })
        assert.match(refusal.message, /npm install node-pty/u)
        assert.deepInclude(yield* supervisor.ended(yield* supervisor.start(requestOf(["echo", "hi"]))), { exit_code: 0, output: "hi\n" })
      }).pipe(Effect.provide(layerSupervisorIn(folder, groups, { openTerminal: none })))
    }),
  )

  it.live("keeps spools to this user, also when it is gone itself", () =>
    Effect.gen(function* () {
      const folder = join(yield* temporaryFolder, "spools")
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(layerSupervisorIn(folder, groups), scope)
      yield* Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        yield* supervisor.ended(yield* supervisor.start(requestOf(["echo", "secret"], { stdin: { text: "input" } })))
      }).pipe(Effect.provide(context))
      const [own] = readdirSync(folder)
      const spools = readdirSync(join(folder, own!))
      assert.strictEqual(spools.length, 3)
      assert.strictEqual(statSync(folder).mode & 0o777, 0o700)
      for (const name of spools) assert.strictEqual(statSync(join(folder, own!, name)).mode & 0o777, 0o600)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(readdirSync(join(folder, own!)).length, 2)
    }),
  )

  it.live("leaves nothing when it ran nothing", () =>
    Effect.gen(function* () {
      const folder = join(yield* temporaryFolder, "spools")
      yield* Effect.scoped(Layer.build(layerSupervisorIn(folder, groups)))
      assert.deepStrictEqual(readdirSync(folder), [])
    }),
  )

  it.live("removes what a dead server left behind", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const left = join(folder, "999999999.gone")
      mkdirSync(left)
      yield* Effect.provide(ProcessSpawner, layerSpawner(folder))
      assert.isFalse(existsSync(left))
    }),
  )

  it.live("does not blame a command for a spool that cannot be made", () =>
    Effect.gen(function* () {
      const folder = join(yield* temporaryFolder, "spools")
      yield* Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        rmSync(folder, { recursive: true })
        assert.match(String(yield* Effect.flip(supervisor.start(requestOf(["true"])))), /SPAWN_FAILED.*ENOENT/u)
      }).pipe(Effect.provide(layerSupervisorIn(folder, groups)))
    }),
  )

  it.live("says that the disk is full when there is no room for a spool", ({ skip }) =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k,nr_inodes=6", "none", folder])
      if (mounted.status !== 0) return skip("this user may not mount a small file system")
      yield* Effect.addFinalizer(() => Effect.sync(() => spawnSync("umount", ["--lazy", folder])))
      yield* Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const used = readdirSync(folder).map((name) => join(folder, name))
        yield* supervisor.ended(yield* supervisor.start(requestOf(["true"])))
        for (let index = 0; index < 6; index++)
          yield* Effect.sync(() => writeFileSync(join(used[0]!, `more-${index}`), "")).pipe(Effect.ignoreCause)
        assert.deepInclude(yield* Effect.flip(supervisor.start(requestOf(["true"]))), { _tag: "STORAGE_FULL" })
        const refusal = yield* Effect.flip(supervisor.start(requestOf(["cat"], { stdin: { text: "x".repeat(100_000) } })))
        assert.deepInclude(refusal, { _tag: "STORAGE_FULL" })
        assert.deepStrictEqual(
          readdirSync(used[0]!).filter((name) => name.endsWith(".in")),
          [],
        )
      }).pipe(Effect.provide(layerSupervisorIn(folder, groups)))
    }),
  )

  it.live(
    "says that output is missing when the disk gets full, lets the program go on, and keeps what comes when there is room again",
    ({ skip }) =>
      Effect.gen(function* () {
        if (holding.by === "group") return skip(holding.why)
        const folder = yield* temporaryFolder
        const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "none", folder])
        if (mounted.status !== 0) return skip("this user may not mount a small file system")
        yield* Effect.addFinalizer(() => Effect.sync(() => spawnSync("umount", ["--lazy", folder])))
        const go = join(yield* temporaryFolder, "go")
        yield* Effect.gen(function* () {
          const supervisor = yield* ProcessSupervisor
          const script = `head -c 1500000 /dev/zero; while [ ! -e ${go} ]; do sleep 0.02; done; echo back`
          const id = yield* supervisor.start(requestOf(["bash", "-c", script]))
          const [own] = readdirSync(folder).filter((name) => name.includes("."))
          yield* until(() => statSync(join(folder, own!, id)).size > 900_000)
          truncateSync(join(folder, own!, id), 1000)
          writeFileSync(go, "")
          const facts = yield* supervisor.ended(id)
          assert.deepInclude(facts, { state: "exited", exit_code: 0 })
          assert.match(facts.output, /back\n$/u)
          assert.deepStrictEqual(facts.notes, ["a part of its output is missing: it could not be written to the server's state folder"])
        }).pipe(Effect.provide(layerSupervisorIn(folder)))
      }),
  )

  it.live(
    "copies output with one small process that leaves nothing behind, goes with the server, and is made anew when somebody ends it",
    ({ skip }) =>
      Effect.gen(function* () {
        if (holding.by === "group") return skip(holding.why)
        const folder = join(yield* temporaryFolder, "spools")
        // At rest there is the shell that copies, and a copy, with the shell it began in, for the namespace that is made ahead.
        const isAtRest = () => childrenIn(folder).length <= 3 && childrenIn(folder).every(({ state }) => state === "S")
        const scope = yield* Scope.make()
        const supervisor = yield* Effect.map(Layer.buildWithScope(layerSupervisorIn(folder), scope), (context) =>
          Context.get(context, ProcessSupervisor),
        )
        const say = (text: string) => Effect.flatMap(supervisor.start(requestOf(["echo", text])), (id) => supervisor.ended(id))
        assert.deepInclude(yield* say("one"), { output: "one\n" })
        for (let round = 0; round < 10; round++) yield* say("more")
        yield* until(isAtRest)
        const [shell] = childrenIn(folder).filter(({ name }) => name === "sh")
        const id = yield* supervisor.start(requestOf(["sh", "-c", "echo a; read line; echo $line"], { stdin: "open" }))
        yield* supervisor.read(id, { until: "a", waitMs: 10_000, maxBytes: 10, view: "follow" })
        process.kill(shell!.pid, "SIGKILL")
        yield* until(() => childrenIn(folder).every(({ pid }) => pid !== shell!.pid))
        yield* supervisor.write(id, { data: "b\n", waitMs: 0, maxBytes: 100 })
        assert.deepInclude(yield* supervisor.ended(id), { output: "a\nb\n", exit_code: 0 })
        assert.deepInclude(yield* say("two"), { output: "two\n" })
        yield* until(isAtRest)
        yield* Scope.close(scope, Exit.void)
        yield* until(() => childrenIn(folder).length === 0)
      }),
  )

  it.live("tells that a spool has grown, to each who waits", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const spawner = yield* ProcessSpawner
      const child = yield* spawner.spawn({
        id: `proc_grown${process.pid}`,
        argv: ["sh", "-c", "sleep 0.2; printf abc; sleep 100"],
        cwd: { path: folder, shown: "." },
        env: { PATH: process.env["PATH"] ?? "" },
        stdin: "closed",
        split: false,
        holding: { by: "group", why: "a test asks for it" },
      })
      yield* Effect.all([child.spool.grown(0), child.spool.grown(2)], { concurrency: 2 }).pipe(Effect.timeout(5000))
      assert.strictEqual(new TextDecoder().decode(yield* child.spool.read(1, 100)), "bc")
      assert.strictEqual((yield* child.spool.read(3, 100)).length, 0)
      yield* child.signalTree("SIGKILL")
      assert.deepStrictEqual(yield* child.exit, { signal: "SIGKILL" })
    }).pipe(Effect.provide(Layer.unwrap(Effect.map(temporaryFolder, (folder) => layerSpawner(folder))))),
  )
})

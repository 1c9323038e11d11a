/** What every way to run processes is held to: real processes, through the supervisor. */

import { spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Exit, Fiber, Layer, Result, Schedule, Scope } from "effect"
import type { ProcessFacts, ProcessId } from "../../src/schema/Process.ts"
import type { ReadRequest } from "../../src/services/ProcessReport.ts"
import type { StartRequest } from "../../src/services/ProcessStart.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import type { Holding } from "../../src/services/Sandbox.ts"
import { patient } from "../support/Patience.ts"
import { carriers, contentOf, limits, requestOf, running, temporaryFolder, until, zombies } from "../support/Processes.ts"

/** A variable that no other run of these tests uses. */
const marked = (name: string) => ({ MARKED: `${name}-${process.pid}` })

const shell = (text: string, more: Partial<StartRequest> = {}) => requestOf(["bash", "-c", text], more)

const reading = (more: Partial<ReadRequest> = {}): ReadRequest => ({ waitMs: 0, maxBytes: 30_000, view: "follow", ...more })

/** Starts a process and waits for its end. */
const run = Effect.fnUntraced(function* (request: StartRequest, maxBytes = 30_000) {
  const supervisor = yield* ProcessSupervisor
  const id = yield* supervisor.start(request)
  return yield* supervisor.awaitEnd(id, 20_000, maxBytes)
})

/** Reads pages until the process has ended and everything is read. */
const readAll = Effect.fnUntraced(function* (id: ProcessId, maxBytes: number, from = "0") {
  const supervisor = yield* ProcessSupervisor
  const pages: Array<ProcessFacts> = []
  let cursor = from
  while (true) {
    const page = yield* supervisor.read(id, reading({ cursor, waitMs: 5000, maxBytes }))
    pages.push(page)
    cursor = page.cursor
    if (page.eof) return pages
  }
})

const NODE_WRITES = "fs.writeFileSync('/dev/stdout', 'b'); process.stdout.write('c'); fs.writeFileSync('/dev/stderr', 'd')"

/** Scripts that open their output anew by one of its names, and what they have written then. */
const REOPENED = [
  ["echo", "printf a; printf b >/dev/stderr; printf c >/dev/stdout; printf d", "abcd"],
  ["by descriptor", "printf a; printf b >/dev/fd/2; printf c >/proc/self/fd/1; printf d >>/dev/fd/1; printf e", "abcde"],
  ["tee", "echo a; echo b | tee /dev/stderr; echo c", "a\nb\nb\nc\n"],
  ["node", `printf a; '${process.execPath}' -e "${NODE_WRITES}"; printf e`, "abcde"],
  ...(spawnSync("python3", ["-c", ""]).status === 0
    ? ([["python", `printf a; python3 -c "open('/dev/stderr', 'w').write('b')"; printf c`, "abc"]] as const)
    : []),
] as const

const joined = (pages: ReadonlyArray<ProcessFacts>) => pages.map(({ output }) => output).join("")

const elapsed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.timed(effect), ([duration, value]) => ({ value, ms: Duration.toMillis(duration) }))

export const processContract = (layer: Layer.Layer<ProcessSupervisor>, by: Holding["by"]) => {
  const live = (name: string, test: () => Effect.Effect<void, unknown, ProcessSupervisor | Scope.Scope>) =>
    it.live(name, () => Effect.suspend(test).pipe(Effect.provide(layer, { local: true })), patient(60_000))

  describe("an end", () => {
    live("comes with the main process, and takes what was left behind along (R042)", () =>
      Effect.gen(function* () {
        const facts = yield* run(shell("sleep 30 & echo done", { env: marked("r042") }))
        assert.deepInclude(facts, { state: "exited", exit_code: 0, ended_by: "itself", output: "done\n", eof: true })
        assert.deepStrictEqual(facts.notes, ["1 descendant ended with it"])
        assert.isBelow(facts.duration_ms, 30_000)
        assert.deepStrictEqual(carriers(`MARKED=${marked("r042").MARKED}`), [])
      }),
    )

    live("waits for the last bytes of a process substitution", () =>
      Effect.gen(function* () {
        for (let round = 0; round < 10; round++) {
          const facts = yield* run(shell("exec > >(tee /dev/null); echo done"))
          assert.deepInclude(facts, { exit_code: 0, output: "done\n" })
          assert.isUndefined(facts.notes)
        }
      }),
    )

    live("finds descendants that left the session, or cleaned their environment", () =>
      Effect.gen(function* () {
        const own = process.pid
        const facts = yield* run(
          shell(`setsid sleep 301.${own} & env -i setsid -f sleep 302.${own}; env -i /bin/sleep 303.${own} & sleep 0.2`),
        )
        assert.strictEqual(facts.exit_code, 0)
        assert.deepStrictEqual(facts.notes, [`${by === "namespace" ? 3 : 2} descendants ended with it`])
        const commands = readdirSync("/proc").map((name) => [Number(name), contentOf(`/proc/${name}/cmdline`)] as const)
        // The one that left session, parent and environment all at once is the known gap without a namespace.
        const survivors = commands.filter(([, command]) => /^\S*sleep\0/u.test(command) && command.endsWith(`.${own}\0`))
        assert.deepStrictEqual(
          survivors.map(([, command]) => command.split("\0")[1]),
          by === "namespace" ? [] : [`302.${own}`],
        )
        for (const [pid] of survivors) process.kill(pid, "SIGKILL")
      }),
    )

    live("has all output: 100 times 70,000 bytes (R052)", () =>
      Effect.gen(function* () {
        const program = "process.stdout.write('x'.repeat(70000)); process.exit(0)"
        const one = run(requestOf([process.execPath, "-e", program]))
        const all = yield* Effect.forEach(
          Array.from({ length: 30 }, () => one),
          (each) => each,
          { concurrency: 4 },
        )
        const small = yield* Effect.forEach(Array.from({ length: 70 }), () => run(requestOf(["head", "-c", "70000", "/dev/zero"])))
        for (const facts of [...all, ...small]) assert.deepInclude(facts, { total_bytes: 70_000, exit_code: 0 })
      }),
    )

    if (by === "namespace")
      for (const [what, script, output] of REOPENED)
        live(`keeps what was written when a program opens its output anew: ${what}`, () =>
          Effect.gen(function* () {
            assert.deepInclude(yield* run(shell(script)), { output, exit_code: 0, total_bytes: output.length })
          }),
        )

    if (by === "namespace")
      live("keeps both streams when they are apart and a program opens them anew", () =>
        Effect.gen(function* () {
          const script = "printf a; printf b >&2; printf c >/dev/stdout; printf d >/dev/stderr; printf e >/dev/fd/2; printf f"
          const facts = yield* run(shell(script, { split: true }))
          assert.deepInclude(facts, { output: "acf" })
          assert.strictEqual(facts.stderr?.output, "bde")
        }),
      )

    if (by === "group")
      live("says so when a program opens its output anew and empties it with that, and nothing when it does it properly", () =>
        Effect.gen(function* () {
          const emptied = yield* run(shell("echo before; echo b >/dev/stderr; echo after"))
          assert.match(emptied.notes?.join() ?? "", /opened its own output anew by name/u)
          assert.match(emptied.output, /after\n$/u)
          const split = yield* run(shell("echo before >&2; echo b >/dev/stderr; echo after", { split: true }))
          assert.match(split.notes?.join() ?? "", /opened its own output anew by name/u)
          const proper = yield* run(shell("echo a; echo b >>/dev/stderr; echo c >&2"))
          assert.deepInclude(proper, { output: "a\nb\nc\n", total_bytes: 6 })
          assert.isUndefined(proper.notes)
        }),
      )

    live("keeps what a program wrote last when it is killed, and when it kills all it can reach", () =>
      Effect.gen(function* () {
        const long = "head -c 70000 /dev/zero; printf last; "
        for (let round = 0; round < 10; round++)
          assert.deepInclude(yield* run(shell(`${long}kill -9 $$`)), { state: "signalled", total_bytes: 70_004 })
        if (by !== "namespace") return
        const facts = yield* run(shell(`${long}sleep 100 & kill -9 -1; wait 2>/dev/null; echo on`))
        assert.deepInclude(facts, { exit_code: 0, total_bytes: 70_007 })
      }),
    )

    live("has all that a program wrote before it ended itself, which a pipe would have been too small for", () =>
      Effect.gen(function* () {
        const programs = [
          "process.stdout.write('x'.repeat(3_000_000)); process.exit(3)",
          "console.error('x'.repeat(2_999_999)); process.exit(3)",
          "require('child_process').spawn('sleep', ['100'], { stdio: 'inherit' }); console.log('x'.repeat(2_999_999)); process.exit(3)",
        ]
        for (const program of programs)
          assert.deepInclude(yield* run(requestOf([process.execPath, "-e", program])), { total_bytes: 3_000_000, exit_code: 3 })
      }),
    )

    live("by a signal never has a code (R053)", () =>
      Effect.gen(function* () {
        const killed = yield* run(shell("kill -9 $$"))
        assert.deepInclude(killed, { state: "signalled", signal: "SIGKILL", ended_by: "unknown_external" })
        assert.notProperty(killed, "exit_code")
        const passed = yield* run(shell("sh -c 'kill -9 $$'; exit $?"))
        assert.deepInclude(passed, { state: "exited", exit_code: 137, ended_by: "itself" })
        assert.deepInclude(yield* run(shell("kill -SEGV $$")), { signal: "SIGSEGV", ended_by: "itself" })
      }),
    )

    live("says who brought it about (R060)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const caller = yield* supervisor.start(requestOf(["sleep", "100"]))
        assert.deepInclude(yield* supervisor.terminate(caller, 1000), { state: "terminated", ended_by: "caller", signal: "SIGTERM" })
        const timeout = yield* run(requestOf(["sleep", "100"], { timeoutMs: 100 }))
        assert.deepInclude(timeout, { state: "timed_out", ended_by: "timeout" })
        const outside = yield* supervisor.start(requestOf(["sleep", "100"], { env: marked("r060") }))
        yield* until(() => running("sleep", `MARKED=${marked("r060").MARKED}`).length === 1)
        for (const pid of running("sleep", `MARKED=${marked("r060").MARKED}`)) process.kill(pid, "SIGTERM")
        assert.deepInclude(yield* supervisor.ended(outside), { state: "signalled", ended_by: "unknown_external", signal: "SIGTERM" })
      }),
    )

    live("stays readable (R049), and no signal is sent after it (R061)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(requestOf(["echo", "hi"]))
        yield* supervisor.ended(id)
        for (let round = 0; round < 2; round++)
          assert.deepInclude(yield* supervisor.read(id, reading()), { state: "exited", exit_code: 0, output: "hi\n", eof: true })
        assert.deepInclude(yield* supervisor.terminate(id, 0), { state: "exited", exit_code: 0, ended_by: "itself" })
      }),
    )
  })

  describe("a limit", () => {
    live("of time ends the whole tree (R044)", () =>
      Effect.gen(function* () {
        const request = requestOf(["sh", "-c", "sleep 300 & sleep 300"], { env: marked("r044"), timeoutMs: 200 })
        const facts = yield* run(request)
        assert.deepInclude(facts, { state: "timed_out", ended_by: "timeout" })
        assert.include(facts.notes?.join(), "it ran for 200 ms")
        assert.deepStrictEqual(carriers(`MARKED=${marked("r044").MARKED}`), [])
      }),
    )

    live("of silence ends the silent and spares the talking (R066)", () =>
      Effect.gen(function* () {
        const [silent, talking] = yield* Effect.all(
          [
            run(requestOf(["sleep", "100"], { idleTimeoutMs: 300 })),
            run(shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done", { idleTimeoutMs: 700 })),
          ],
          { concurrency: 2 },
        )
        assert.deepInclude(silent, { state: "timed_out", ended_by: "timeout" })
        assert.include(silent.notes?.join(), "wrote nothing for 300 ms")
        assert.deepInclude(talking, { state: "exited", exit_code: 0 })
      }),
    )

    live("on a wait never ends a process (R066)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(requestOf(["cat"], { stdin: "open" }))
        assert.deepInclude(yield* supervisor.awaitEnd(id, 50, 1000), { state: "running", eof: false })
        yield* supervisor.write(id, { close: true, waitMs: 0, maxBytes: 100 })
        assert.deepInclude(yield* supervisor.ended(id), { state: "exited", exit_code: 0 })
      }),
    )

    live("of output keeps beginning and end of a flood, and counts what is gone (R072)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const spool_bytes = 16_000_000
        // Numbered lines, so that every byte that comes back can be told to be the right one.
        const id = yield* supervisor.start(requestOf(["seq", "-f", "%09.0f", "1", "1000000000"], { limits: { ...limits, spool_bytes } }))
        const early = yield* Effect.repeat(supervisor.read(id, reading({ maxBytes: 16 })), {
          until: ({ dropped_bytes = 0 }) => dropped_bytes > 3 * spool_bytes,
        })
        assert.deepInclude(early, { state: "running", output: "000000001\n000000", cursor: "16" })
        const facts = yield* supervisor.terminate(id, 0)
        const { dropped_bytes = 0, total_bytes } = facts
        assert.deepInclude(facts, { state: "terminated", ended_by: "caller", eof: true })
        assert.isAtMost(total_bytes - dropped_bytes, spool_bytes)
        assert.include(facts.notes?.join(), `${dropped_bytes} bytes between them were dropped`)
        assert.match(facts.output, new RegExp(`^0{8}1\n.*; ${dropped_bytes} are gone, .*\n\\d{9}\n`, "su"))
        const pages = yield* readAll(id, 200_000)
        const [first = "", last = ""] = joined(pages).split(`[${dropped_bytes} bytes are gone here, since the output limit was reached]\n`)
        assert.strictEqual(first.length + dropped_bytes + last.length, total_bytes)
        const lines = (text: string, from: number) =>
          Array.from({ length: Math.floor(text.length / 10) }, (_, index) => `${String(from + index).padStart(9, "0")}\n`).join("")
        assert.strictEqual(first.slice(0, -(first.length % 10) || undefined), lines(first, 1))
        const start = (10 - ((first.length + dropped_bytes) % 10)) % 10
        assert.isTrue(last.slice(start).startsWith(lines(last.slice(start, 1_000_000), (first.length + dropped_bytes + start) / 10 + 1)))
        // A cursor in what is gone tells how much of it lies behind it.
        const inside = yield* supervisor.read(id, reading({ cursor: String(first.length + 7), maxBytes: 100 }))
        assert.deepInclude(inside, { omitted_bytes: dropped_bytes - 7 })
        assert.notProperty(inside, "omitted_cursor")
      }),
    )

    live("of a workspace's output makes room by forgetting what ended first", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const request = requestOf(["head", "-c", "1000000", "/dev/zero"], { limits: { ...limits, spool_bytes: 1_000_000 } })
        const ids = yield* Effect.forEach(Array.from({ length: 6 }), () =>
          Effect.tap(supervisor.start(request), (id) => supervisor.ended(id, 16)),
        )
        const left = yield* Effect.repeat(supervisor.list(), { until: (list) => list.length === 4, schedule: Schedule.spaced(10) }).pipe(
          Effect.timeout(5000),
        )
        assert.deepStrictEqual(
          left.map(({ process_id }) => process_id),
          ids.slice(2),
        )
      }),
    )

    live("of processes refuses one more", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const two = { limits: { ...limits, processes: 2 } }
        const id = yield* supervisor.start(requestOf(["sleep", "100"], two))
        yield* supervisor.start(requestOf(["sleep", "100"], two))
        const refusal = yield* Effect.flip(supervisor.start(requestOf(["true"], two)))
        assert.deepInclude(refusal, { _tag: "LIMIT_EXCEEDED", limit: "processes", value: 2, asked: 3 })
        yield* supervisor.terminate(id, 0)
        assert.deepInclude(yield* run(requestOf(["true"], two)), { exit_code: 0 })
      }),
    )

    live("of processes holds when many are started at one time", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const one = supervisor.start(requestOf(["sleep", "100"], { limits: { ...limits, processes: 2 } }))
        const starts = yield* Effect.all(
          Array.from({ length: 6 }, () => Effect.result(one)),
          { concurrency: "unbounded" },
        )
        assert.strictEqual(starts.filter(Result.isSuccess).length, 2)
        assert.deepStrictEqual(
          starts.filter(Result.isFailure).map(({ failure }) => failure._tag),
          Array.from({ length: 4 }, () => "LIMIT_EXCEEDED"),
        )
        assert.strictEqual((yield* supervisor.list()).length, 2)
      }),
    )

    live("of time cannot be passed by asking", () =>
      Effect.gen(function* () {
        const refusal = yield* Effect.flip(run(requestOf(["true"], { timeoutMs: 60_001 })))
        assert.deepInclude(refusal, { _tag: "LIMIT_EXCEEDED", limit: "timeout_ms", value: 60_000, asked: 60_001 })
      }),
    )
  })

  describe("terminate", () => {
    live("kills what ignores SIGTERM, two shells down, and frees its port (R045)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const server =
          "process.on('SIGTERM', () => {}); const s = require('net').createServer().listen(0, '127.0.0.1', () => console.log(s.address().port))"
        const id = yield* supervisor.start(requestOf(["sh", "-c", `sh -c '"${process.execPath}" -e "$0"; true' "$0"; true`, server]))
        const port = Number((yield* supervisor.read(id, reading({ waitMs: 10_000, until: "\n" }))).output)
        const { value: facts, ms } = yield* elapsed(supervisor.terminate(id, 300))
        assert.deepInclude(facts, { state: "terminated", ended_by: "caller" })
        assert.isAtLeast(ms, 290)
        assert.isBelow(ms, 5000)
        const code = yield* Effect.callback<string>((resume) => {
          connect(port, "127.0.0.1")
            .once("connect", () => resume(Effect.succeed("open")))
            .once("error", (error: NodeJS.ErrnoException) => resume(Effect.succeed(error.code ?? "")))
        })
        assert.strictEqual(code, "ECONNREFUSED")
      }),
    )

    live("lets a program that listens end in its own way", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"))
        yield* supervisor.read(id, reading({ waitMs: 5000, until: "ready" }))
        const facts = yield* supervisor.terminate(id, 5000)
        assert.deepInclude(facts, { state: "terminated", exit_code: 7, ended_by: "caller" })
        assert.match(facts.output, /^ready\n.*bye\n$/su)
      }),
    )

    live("ends a stopped process, and can be hastened", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const stopped = yield* supervisor.start(requestOf(["sleep", "100"]))
        yield* supervisor.write(stopped, { signal: "SIGSTOP", waitMs: 0, maxBytes: 100 })
        assert.deepInclude(yield* supervisor.terminate(stopped, 5000), { signal: "SIGTERM" })
        const deaf = yield* supervisor.start(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"))
        yield* supervisor.read(deaf, reading({ waitMs: 5000, until: "ready" }))
        const [facts] = yield* Effect.all([supervisor.terminate(deaf, 30_000), supervisor.terminate(deaf, 0)], { concurrency: 2 })
        assert.deepInclude(facts, { state: "terminated", signal: "SIGKILL", ended_by: "caller" })
      }),
    )
  })

  describe("a start", () => {
    live("that fails for its folder says so, and hurts nothing (R054)", () =>
      Effect.gen(function* () {
        const folder = join(yield* temporaryFolder, "here")
        const inside = { cwd: { path: folder, shown: "here" } }
        assert.deepInclude(yield* Effect.flip(run(requestOf(["true"], inside))), {
          _tag: "CWD_INVALID",
          cwd: "here",
          cause: "it does not exist",
        })
        mkdirSync(folder)
        assert.deepInclude(yield* run(requestOf(["pwd"], inside)), { output: `${folder}\n` })
        rmSync(folder, { recursive: true })
        assert.deepInclude(yield* Effect.flip(run(requestOf(["true"], inside))), { _tag: "CWD_INVALID" })
        writeFileSync(folder, "")
        assert.deepInclude(yield* Effect.flip(run(requestOf(["true"], inside))), { _tag: "CWD_INVALID", cause: "it is not a folder" })
        assert.deepInclude(yield* run(requestOf(["true"])), { exit_code: 0 })
      }),
    )

    live("of an unknown command names PATH (R063)", () =>
      Effect.gen(function* () {
        const refusal = yield* Effect.flip(run(requestOf(["no-such-program"], { env: { PATH: "/usr/bin:/bin" } })))
        assert.deepInclude(refusal, { _tag: "COMMAND_NOT_FOUND", command: "no-such-program", path: "/usr/bin:/bin" })
      }),
    )

    live("that the system refuses says why", () =>
      Effect.gen(function* () {
        const folder = yield* temporaryFolder
        const file = join(folder, "script")
        writeFileSync(file, "#!/no/such/shell\n")
        chmodSync(file, 0o644)
        assert.match(String(yield* Effect.flip(run(requestOf([file])))), /SPAWN_FAILED.*EACCES/u)
        chmodSync(file, 0o755)
        assert.match(String(yield* Effect.flip(run(requestOf([file])))), /SPAWN_FAILED.*interpreter/u)
        const tooMuch = Array.from({ length: 40 }, () => "x".repeat(100_000))
        assert.match(String(yield* Effect.flip(run(requestOf(["true", ...tooMuch])))), /SPAWN_FAILED.*E2BIG/u)
      }),
    )

    live("gives the child its own environment and no secret of the server", () =>
      Effect.gen(function* () {
        process.env["CODESPACE_TEST_TOKEN"] = "s3cret"
        const facts = yield* Effect.ensuring(
          run(requestOf(["env"], { env: { WANTED: "yes" } })),
          Effect.sync(() => delete process.env["CODESPACE_TEST_TOKEN"]),
        )
        assert.include(facts.output, "WANTED=yes\n")
        assert.include(facts.output, `PATH=${process.env["PATH"]}\n`)
        assert.include(facts.output, "GIT_TERMINAL_PROMPT=0\n")
        assert.notInclude(facts.output, "s3cret")
      }),
    )

    live("of a script keeps its text out of every command line (R048)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const { argv, env } = supervisor.script(`pkill -f r048-marker-${process.pid}; echo $# $CODESPACE_SCRIPT; echo still\nexit 4`)
        assert.deepInclude(yield* run(requestOf(argv, { env })), { state: "exited", exit_code: 4, output: "0\nstill\n" })
      }),
    )

    live("many times leaves no zombie and no open file behind (R046)", () =>
      Effect.gen(function* () {
        yield* run(requestOf(["true"]))
        const files = readdirSync("/proc/self/fd").length
        const request = requestOf(["echo", "x"], { limits: { ...limits, processes: 40 } })
        yield* Effect.forEach(Array.from({ length: 300 }), () => run(request), { concurrency: 20, discard: true })
        yield* until(() => zombies() === 0 && readdirSync("/proc/self/fd").length <= files + 10)
      }),
    )
  })

  describe("output", () => {
    live("read by cursor has no gap and no repeat, for two readers (R051)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(shell("for i in $(seq 1 50); do echo line $i; sleep 0.02; done"))
        const whole = Array.from({ length: 50 }, (_, index) => `line ${index + 1}\n`).join("")
        const [one, two] = yield* Effect.all([readAll(id, 30_000), readAll(id, 16)], { concurrency: 2 })
        assert.strictEqual(joined(one), whole)
        assert.strictEqual(joined(two), whole)
        assert.isAbove(one.length, 3)
        const again = yield* supervisor.read(id, reading({ cursor: two[3]!.cursor, maxBytes: 16 }))
        assert.isTrue(again.output.startsWith(two[4]!.output))
      }),
    )

    live("never splits a character", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(
          shell("for i in $(seq 1 60); do printf 'a€😀'; done; printf '\\xe2'; sleep 0.2; printf '\\x82\\xac.'"),
        )
        const pages = yield* readAll(id, 17)
        assert.strictEqual(joined(pages), `${"a€😀".repeat(60)}€.`)
      }),
    )

    live("that is too long comes as head and tail with the place of the gap (R073)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const program = "head -c 2500000 /dev/zero | tr '\\0' a; echo; head -c 2500000 /dev/zero | tr '\\0' b; echo; echo FATAL-END; exit 3"
        const id = yield* supervisor.start(shell(program))
        const facts = yield* supervisor.awaitEnd(id, 20_000, 10_000)
        assert.deepInclude(facts, { exit_code: 3, total_bytes: 5_000_012, omitted_bytes: 4_990_012, omitted_cursor: "5000", eof: true })
        assert.match(facts.output, /^aaaa/u)
        assert.match(facts.output, /FATAL-END\n$/u)
        const gap = yield* readAll(id, 200_000, facts.omitted_cursor)
        assert.strictEqual(5000 + joined(gap).length, 5_000_012)
      }),
    )

    live("of one endless line costs no memory and delays nobody (R071)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const before = process.memoryUsage().rss
        const flood = shell("head -c 600000000 /dev/zero | tr '\\0' a; printf THE-END", { limits: { ...limits, spool_bytes: 200_000_000 } })
        const id = yield* supervisor.start(flood)
        while ((yield* supervisor.awaitEnd(id, 100, 16)).state === "running") {
          const { ms } = yield* elapsed(run(requestOf(["echo", "ping"])))
          assert.isBelow(ms, patient(1000))
        }
        const facts = yield* supervisor.ended(id)
        assert.deepInclude(facts, { state: "exited", exit_code: 0, total_bytes: 600_000_007, eof: true })
        assert.isAbove(facts.dropped_bytes ?? 0, 400_000_000)
        assert.match(facts.output, /^aaaa.*aaaaTHE-END$/su)
        assert.isBelow(process.memoryUsage().rss - before, 100_000_000)
      }),
    )

    live("of split streams is kept apart (R075)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(
          shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; echo err >&2; echo out", { split: true }),
        )
        const facts = yield* supervisor.ended(id, 1000)
        assert.deepInclude(facts, { exit_code: 0, total_bytes: 1_000_004, eof: true })
        assert.match(facts.output, /out\n$/u)
        assert.deepInclude(facts.stderr, { total_bytes: 1_000_004 })
        assert.match(facts.stderr?.output ?? "", /err\n$/u)
        const page = yield* supervisor.read(id, reading({ stream: "stderr", cursor: "1000000" }))
        assert.deepInclude(page, { output: "err\n", eof: true, total_bytes: 1_000_004 })
        const merged = yield* supervisor.start(requestOf(["true"]))
        assert.deepInclude(yield* Effect.flip(supervisor.read(merged, reading({ stream: "stderr" }))), { _tag: "INVALID_ARGUMENTS" })
      }),
    )

    live("is short when it is clean, and still there when it is not (R074)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const program =
          "for i in $(seq 1 5000); do printf '\\033[32m[%4d/5000] compiling something\\033[0m\\r' $i; done; printf '\\n'; echo DONE"
        const id = yield* supervisor.start(shell(program))
        const facts = yield* supervisor.awaitEnd(id, 20_000, 30_000, true)
        assert.deepInclude(facts, { exit_code: 0, output: "[5000/5000] compiling something\nDONE\n", omitted_bytes: 0, eof: true })
        const raw = yield* readAll(id, 30_000)
        assert.strictEqual(joined(raw).length, facts.total_bytes)
        assert.include(joined(raw), "\u001b[32m[ 123/5000] compiling something\u001b[0m\r")
      }),
    )

    live("of both streams is whole and in order (R075)", () =>
      Effect.gen(function* () {
        const facts = yield* run(shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; echo err >&2; echo out; echo err >&2"))
        assert.deepInclude(facts, { exit_code: 0, total_bytes: 2_000_012 })
        assert.match(facts.output, /err\nout\nerr\n$/u)
      }),
    )

    live("can be waited for, to its end and to a text (R058)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const end = yield* supervisor.start(shell("sleep 0.5; echo x"))
        const text = yield* supervisor.start(shell("echo y; sleep 0.5; echo x"))
        const first = yield* supervisor.read(end, reading({ waitMs: 10_000 }))
        assert.deepInclude(first, { state: "exited", exit_code: 0, output: "x\n", eof: true })
        const second = yield* supervisor.read(text, reading({ waitMs: 10_000, until: "x" }))
        assert.deepInclude(second, { output: "y\nx\n" })
        assert.deepInclude(yield* supervisor.ended(text), { state: "exited", exit_code: 0 })
      }),
    )

    live("waited for in vain comes as it is when the time is over, or at the end", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(shell("echo y; sleep 0.6"))
        const early = yield* supervisor.read(id, reading({ waitMs: 200, until: "x" }))
        assert.deepInclude(early, { state: "running", output: "y\n", eof: false })
        const late = yield* supervisor.read(id, reading({ waitMs: 10_000, until: "x", cursor: early.cursor }))
        assert.deepInclude(late, { state: "exited", output: "", eof: true, cursor: early.cursor })
      }),
    )

    live("behind its end is empty, and a wrong cursor is refused", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(requestOf(["echo", "hi"]))
        yield* supervisor.ended(id)
        assert.deepInclude(yield* supervisor.read(id, reading({ cursor: "99" })), { output: "", eof: true, cursor: "99" })
        const refusal = yield* Effect.flip(supervisor.read(id, reading({ cursor: "-1" })))
        assert.strictEqual(refusal._tag, "INVALID_ARGUMENTS")
        assert.include(refusal.message, '"-1"')
      }),
    )
  })

  describe("input", () => {
    live("is closed unless asked for (R055), and a given text is all of it", () =>
      Effect.gen(function* () {
        assert.deepInclude(yield* run(requestOf(["cat"])), { exit_code: 0, output: "" })
        assert.deepInclude(yield* run(requestOf(["cat"], { stdin: { text: "hello €" } })), { exit_code: 0, output: "hello €" })
        assert.deepInclude(yield* run(requestOf(["wc", "-c"], { stdin: { text: "x".repeat(1_048_576) } })), { output: "1048576\n" })
      }),
    )

    live("goes through while the process lives, and comes back", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(requestOf(["cat"], { stdin: "open" }))
        for (const word of ["one\n", "two\n"]) {
          const facts = yield* supervisor.write(id, { data: word, waitMs: 5000, maxBytes: 1000 })
          assert.deepInclude(facts, { state: "running", output: word })
        }
        const last = yield* supervisor.write(id, { data: "three", close: true, waitMs: 5000, cursor: "0", maxBytes: 1000 })
        assert.include(last.output, "one\ntwo\n")
        assert.deepInclude(yield* supervisor.ended(id), { exit_code: 0, output: "one\ntwo\nthree" })
      }),
    )

    live("is refused in three different ways (R050)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const request = { data: "x\n", waitMs: 0, maxBytes: 100 }
        const finished = yield* supervisor.start(shell("exit 3", { stdin: "open" }))
        yield* supervisor.ended(finished)
        assert.deepInclude(yield* Effect.flip(supervisor.write(finished, request)), {
          _tag: "PROCESS_EXITED",
          exit_code: 3,
          state: "exited",
        })
        const closed = yield* supervisor.start(requestOf(["sleep", "100"]))
        assert.deepInclude(yield* Effect.flip(supervisor.write(closed, request)), { _tag: "STDIN_CLOSED" })
        const unknown = finished.replace(/.$/u, (last) => (last === "0" ? "1" : "0")) as ProcessId
        assert.deepInclude(yield* Effect.flip(supervisor.write(unknown, request)), { _tag: "PROCESS_NOT_FOUND" })
      }),
    )

    live("after closing, or closed by the process itself, is refused", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const request = { data: "x\n", waitMs: 0, maxBytes: 100 }
        const own = yield* supervisor.start(shell("exec 0<&-; echo ready; sleep 100", { stdin: "open" }))
        yield* supervisor.read(own, reading({ waitMs: 5000, until: "ready" }))
        assert.deepInclude(yield* Effect.flip(supervisor.write(own, request)), { _tag: "STDIN_CLOSED" })
        const deaf = yield* supervisor.start(requestOf(["sleep", "100"], { stdin: "open" }))
        yield* supervisor.write(deaf, { close: true, waitMs: 0, maxBytes: 100 })
        assert.deepInclude(yield* Effect.flip(supervisor.write(deaf, request)), { _tag: "STDIN_CLOSED" })
      }),
    )

    live("that a process does not read holds up nobody else, and has a limit", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const deaf = yield* supervisor.start(requestOf(["sleep", "100"], { stdin: "open" }))
        const cat = yield* supervisor.start(requestOf(["cat"], { stdin: "open" }))
        const big = "x".repeat(3_000_000)
        const [stuck, quick] = yield* Effect.all(
          [
            supervisor.write(deaf, { data: big, waitMs: 1500, maxBytes: 100 }),
            elapsed(supervisor.write(cat, { data: "hi\n", waitMs: 5000, maxBytes: 100 })),
          ],
          { concurrency: 2 },
        )
        assert.strictEqual(quick.value.output, "hi\n")
        assert.isBelow(quick.ms, 1000)
        assert.match(stuck.notes?.join() ?? "", /has not taken \d+ bytes/u)
        const refusal = yield* Effect.flip(supervisor.write(deaf, { data: big, waitMs: 0, maxBytes: 100 }))
        assert.deepInclude(refusal, { _tag: "LIMIT_EXCEEDED", limit: "unread stdin bytes" })
      }),
    )

    live("has an interrupt (R076)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(requestOf(["sleep", "100"]))
        const facts = yield* supervisor.write(id, { signal: "SIGINT", waitMs: 5000, maxBytes: 100 })
        assert.deepInclude(facts, { state: "signalled", signal: "SIGINT", ended_by: "caller", eof: true })
      }),
    )
  })

  describe("all processes", () => {
    live("are listed, with what they are and how they stand (R059)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const ids = yield* Effect.forEach([1, 2, 3], () => supervisor.start(requestOf(["sleep", "100"], { env: marked("r059") })))
        yield* supervisor.terminate(ids[1]!, 0)
        const list = yield* supervisor.list()
        assert.deepStrictEqual(
          list.map(({ state }) => state),
          ["running", "terminated", "running"],
        )
        assert.strictEqual(running("sleep", `MARKED=${marked("r059").MARKED}`).length, 2)
        assert.deepInclude(list[0], {
          process_id: ids[0]!,
          workspace_id: "app",
          command: "sleep 100",
          cwd: ".",
          access: "shared",
          tty: false,
        })
        assert.match(list[0]!.started_at, /^\d{4}-\d\d-\d\dT/u)
        assert.deepStrictEqual(yield* supervisor.summary(ids[1]!), list[1]!)
        assert.deepStrictEqual(yield* supervisor.list("other" as StartRequest["workspaceId"]), [])
      }),
    )

    live("end with the server, deaf ones too, within its five seconds", () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
        const supervisor = Context.get(context, ProcessSupervisor)
        const ids = yield* Effect.forEach(
          ["sleep 100 & sleep 100", "trap '' TERM HUP INT; echo r; while :; do sleep 0.1; done", "setsid sleep 100 & echo r; wait"],
          (text) => supervisor.start(shell(text, { env: marked("stop") })),
        )
        yield* until(() => carriers(`MARKED=${marked("stop").MARKED}`).length >= 5)
        const endings = yield* Effect.forkChild(
          Effect.forEach(ids, (id) => supervisor.ended(id), { concurrency: "unbounded" }),
          {
            startImmediately: true,
          },
        )
        const { ms } = yield* elapsed(Scope.close(scope, Exit.void))
        assert.isBelow(ms, 4500)
        assert.deepStrictEqual(carriers(`MARKED=${marked("stop").MARKED}`), [])
        for (const facts of yield* Fiber.join(endings)) assert.deepInclude(facts, { state: "terminated", ended_by: "server_stop" })
        assert.match(String(yield* Effect.flip(supervisor.start(requestOf(["true"])))), /SPAWN_FAILED.*stopping/u)
      }),
    )
  })
}

/** What every way to run processes is held to for those in a terminal: real ones, through the supervisor. */

import { readdirSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, type Layer, type Scope } from "effect"
import type { ProcessFacts, ProcessId } from "../../src/schema/Process.ts"
import type { WriteRequest } from "../../src/services/ProcessInput.ts"
import type { ReadRequest } from "../../src/services/ProcessReport.ts"
import type { StartRequest } from "../../src/services/ProcessStart.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { until as becomes, limits, requestOf, zombies } from "../support/Processes.ts"

const tty = { rows: 24, cols: 80 }
const inTerminal = (text: string, more: Partial<StartRequest> = {}) => requestOf(["bash", "-c", text], { tty, ...more })

const reading = (more: Partial<ReadRequest> = {}): ReadRequest => ({ waitMs: 5000, maxBytes: 30_000, view: "follow", ...more })
const writing = (more: Partial<WriteRequest> = {}): WriteRequest => ({ waitMs: 5000, maxBytes: 30_000, ...more })

const run = Effect.fnUntraced(function* (request: StartRequest) {
  const supervisor = yield* ProcessSupervisor
  return yield* supervisor.ended(yield* supervisor.start(request))
})

/** Waits for a text behind the beginning. */
const shows = (id: ProcessId, until: string): Effect.Effect<ProcessFacts, unknown, ProcessSupervisor> =>
  ProcessSupervisor.use((supervisor) => supervisor.read(id, reading({ until, waitMs: 10_000 })))

export const terminalContract = (layer: Layer.Layer<ProcessSupervisor>) => {
  const live = (name: string, test: () => Effect.Effect<void, unknown, ProcessSupervisor | Scope.Scope>) =>
    it.live(name, () => Effect.suspend(test).pipe(Effect.provide(layer, { local: true })))

  describe("a terminal", () => {
    live("is the program's own, of the size asked for, and takes a new size", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(
          inTerminal("tty; stty size; trap 'stty size; exit 4' WINCH; echo $TERM ready; while :; do sleep 0.05; done"),
        )
        assert.match((yield* shows(id, "ready")).output, /^\/dev\/pts\/\d+\n24 80\nxterm-256color ready\n$/u)
        const resized = yield* supervisor.write(id, writing({ resize: { rows: 50, cols: 132 }, waitMs: 0 }))
        assert.isTrue(["running", "exited"].includes(resized.state))
        const facts = yield* supervisor.ended(id)
        assert.deepInclude(facts, { state: "exited", exit_code: 4 })
        assert.match(facts.output, /ready\n50 132\n$/u)
        assert.isTrue((yield* supervisor.summary(id)).tty)
        const plain = yield* supervisor.start(requestOf(["sleep", "100"]))
        assert.deepInclude(yield* Effect.flip(supervisor.write(plain, writing({ resize: tty }))), { _tag: "INVALID_ARGUMENTS" })
      }),
    )

    live("shows a question while the program waits, and takes the answer (R077)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const id = yield* supervisor.start(inTerminal("read -p 'name? ' name; echo hi $name"))
        assert.deepInclude(yield* shows(id, "name? "), { state: "running", output: "name? " })
        yield* supervisor.write(id, writing({ data: "bob\n" }))
        const facts = yield* supervisor.ended(id)
        assert.deepInclude(facts, { exit_code: 0, output: "name? bob\nhi bob\n" })
        const raw = yield* supervisor.read(id, reading({ clean: false }))
        assert.strictEqual(raw.output, "name? bob\r\nhi bob\r\n")
        assert.deepInclude(yield* run(inTerminal("read name; echo hi $name", { stdin: { text: "eve\n" } })), { exit_code: 0 })
      }),
    )

    live("passes an interrupt to the program, by signal and by key (R076), and an end of file", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        for (const how of [{ signal: "SIGINT" }, { data: "\u0003" }] as const) {
          const id = yield* supervisor.start(inTerminal("echo ready; exec sleep 100"))
          yield* shows(id, "ready")
          yield* supervisor.write(id, writing(how))
          const facts = yield* supervisor.ended(id)
          assert.deepInclude(facts, { state: "signalled", signal: "SIGINT", ended_by: "caller" })
        }
        const trap = yield* supervisor.start(inTerminal("trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"))
        yield* shows(trap, "ready")
        yield* supervisor.write(trap, writing({ data: "\u0003" }))
        assert.deepInclude(yield* supervisor.ended(trap), { state: "exited", exit_code: 3 })
        const cat = yield* supervisor.start(requestOf(["cat"], { tty }))
        yield* supervisor.write(cat, writing({ data: "one\n", close: true }))
        assert.deepInclude(yield* supervisor.ended(cat), { state: "exited", exit_code: 0, output: "one\none\n" })
      }),
    )

    live("tells how its program ended (R053)", () =>
      Effect.gen(function* () {
        assert.deepInclude(yield* run(inTerminal("exit 5")), { state: "exited", exit_code: 5, ended_by: "itself" })
        const killed = yield* run(inTerminal("kill -9 $$"))
        assert.deepInclude(killed, { state: "signalled", signal: "SIGKILL", ended_by: "unknown_external" })
        assert.notProperty(killed, "exit_code")
        assert.deepInclude(yield* run(inTerminal("sh -c 'kill -9 $$'; exit $?")), { exit_code: 137 })
        const supervisor = yield* ProcessSupervisor
        const deaf = yield* supervisor.start(inTerminal("trap '' HUP TERM INT; echo ready; while :; do sleep 0.05; done"))
        yield* shows(deaf, "ready")
        assert.deepInclude(yield* supervisor.terminate(deaf, 100), { state: "terminated", signal: "SIGKILL", ended_by: "caller" })
      }),
    )

    live("loses no byte: 30 times 20,480 of them", () =>
      Effect.gen(function* () {
        const all = yield* Effect.forEach(Array.from({ length: 30 }), () => run(requestOf(["head", "-c", "20480", "/dev/zero"], { tty })), {
          concurrency: 4,
        })
        for (const facts of all) assert.deepInclude(facts, { total_bytes: 20_480, exit_code: 0, eof: true })
      }),
    )

    live("refuses a line that it would cut, and takes long ones as bytes (R069)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const lines = yield* supervisor.start(inTerminal("stty -echo; echo ready; head -n 3 | wc -c"))
        yield* shows(lines, "ready")
        const refusal = yield* Effect.flip(supervisor.write(lines, writing({ data: `${"x".repeat(10_000)}\n` })))
        assert.deepInclude(refusal, { _tag: "LIMIT_EXCEEDED", limit: "bytes in one line of a terminal", value: 4095, asked: 10_000 })
        // Nothing of the refused line went in, and a line may come in parts.
        yield* supervisor.write(lines, writing({ data: "x".repeat(2000), waitMs: 0 }))
        assert.deepInclude(yield* Effect.flip(supervisor.write(lines, writing({ data: "x".repeat(2100) }))), { _tag: "LIMIT_EXCEEDED" })
        yield* supervisor.write(lines, writing({ data: `\n${"y".repeat(4095)}\nz\n` }))
        assert.match((yield* supervisor.ended(lines)).output, /ready\n6099\n$/u)
        const bytes = yield* supervisor.start(inTerminal("stty raw -echo; echo ready; head -c 10000 | wc -c"))
        yield* shows(bytes, "ready")
        yield* supervisor.write(bytes, writing({ data: "x".repeat(10_000) }))
        assert.match((yield* supervisor.ended(bytes)).output, /10000/u)
      }),
    )

    live("whose program does not read costs no processor and delays nobody (R070)", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const stuck = yield* supervisor.start(inTerminal("stty raw -echo; echo ready; exec sleep 100"))
        yield* shows(stuck, "ready")
        const facts = yield* supervisor.write(stuck, writing({ data: "x".repeat(1_000_000), waitMs: 100 }))
        assert.match(facts.notes?.join() ?? "", /has not taken \d+ bytes/u)
        const before = process.cpuUsage()
        yield* Effect.sleep(2000)
        const { system, user } = process.cpuUsage(before)
        assert.isBelow(user + system, 400_000)
        const [duration, other] = yield* Effect.timed(run(inTerminal("echo hi")))
        assert.strictEqual(other.output, "hi\n")
        assert.isBelow(Duration.toMillis(duration), 500)
      }),
    )

    live("is closed to every other process", () =>
      Effect.gen(function* () {
        const supervisor = yield* ProcessSupervisor
        const first = yield* supervisor.start(requestOf(["cat"], { tty }))
        yield* supervisor.write(first, writing({ data: "mine\n" }))
        const list = "readlink /proc/self/fd/* | grep -c -e ptmx -e /dev/pts"
        // Its own three, opened anew by readlink's shell, and none of the first.
        const [pipe, terminal] = [yield* run(requestOf(["bash", "-c", list])), yield* run(inTerminal(list))]
        assert.deepInclude(pipe, { output: "0\n" })
        assert.notInclude(terminal.output, "ptmx")
        const links = yield* run(inTerminal("readlink /proc/$$/fd/* | grep -e ptmx -e /dev/pts | sort | uniq | wc -l"))
        assert.strictEqual(links.output, "1\n")
        assert.deepInclude(yield* supervisor.terminate(first, 0), { state: "terminated" })
      }),
    )

    live("does not bring pagers, editors and questions back (R065)", () =>
      Effect.gen(function* () {
        const git = "git -c init.defaultBranch=main -c user.name=a -c user.email=a@b"
        const program = `cd $(mktemp -d) && ${git} init -q . && for i in $(seq 60); do ${git} commit -q --allow-empty -m "number $i"; done; git log --oneline; ${git} commit --allow-empty; git fetch https://127.0.0.1:1/x.git; echo done`
        const facts = yield* run(inTerminal(program, { timeoutMs: 20_000 }))
        assert.deepInclude(facts, { state: "exited", exit_code: 0 })
        assert.match(facts.output, /number 60\n(?:.*\n)+.*number 1\n(?:.*\n)+done\n$/u)
      }),
    )

    live("of 60 short programs leaves nothing open behind (R046)", () =>
      Effect.gen(function* () {
        yield* run(inTerminal("true"))
        const files = readdirSync("/proc/self/fd").length
        const request = inTerminal("true", { limits: { ...limits, processes: 40 } })
        yield* Effect.forEach(Array.from({ length: 60 }), () => run(request), { concurrency: 10, discard: true })
        yield* becomes(() => zombies() === 0 && readdirSync("/proc/self/fd").length <= files + 3)
      }),
    )
  })
}

/**
 * The built program with a worker, each of the two processes killed at random moments of patches, commands and streams:
 * nothing is half done, nothing survives that should not, and what is recorded is what happened. And what a detached worker
 * promises over a restart of its server.
 */
import { existsSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, describe, expect, it } from "vitest"
import { type Home, main, makeHome } from "../support/Program.ts"
import { startServer } from "../support/RawServer.ts"
import { commandsIn, livingIn } from "../support/Survivors.ts"
import { readTree } from "../support/Tree.ts"
import { backward, forward, twentyFiles } from "../support/TwentyFiles.ts"
import { until } from "../support/Until.ts"

const isBuilt = existsSync(main)
if (!isBuilt) console.warn("worker.test.ts is skipped: dist/main.mjs is not built (npm run build)")

/** How often each job is killed in each way; 4 x 3 x this in all, as much as fits a minute. A long run sets 17 or more. */
const ROUNDS = Number(process.env["CODESPACE_WORKER_DEATHS"] ?? 6)

type Lifetime = "gateway" | "detached"
type Server = ReturnType<typeof startServer>
type Facts = Readonly<Record<string, unknown>>

const homes: Array<Home> = []
const workersOf = (home: Home): ReadonlyArray<number> => {
  const workers = join(home.env.XDG_STATE_HOME, "codespace/workers")
  if (!existsSync(workers)) return []
  return readdirSync(workers, { recursive: true, encoding: "utf8" })
    .flatMap((name) => /(\d+)\.[^/]*\.sock$/u.exec(name)?.[1] ?? [])
    .map(Number)
    .filter((pid) => existsSync(`/proc/${pid}`))
}
afterAll(async () => {
  for (const home of homes) {
    for (const pid of workersOf(home)) process.kill(pid, "SIGTERM")
    await until(() => workersOf(home).length === 0)
    home.remove()
  }
})

const makeWorkspace = (lifetime: Lifetime, files: Readonly<Record<string, string>> = {}) => {
  const made = makeHome(files)
  // So short that the sockets lie in it.
  const home: Home = { ...made, env: { ...made.env, XDG_STATE_HOME: join(made.home, "s") } }
  homes.push(home)
  const config = join(home.home, "config.json")
  writeFileSync(
    config,
    JSON.stringify({
      workspaces: { app: { root: home.workspace, profile: "workspace-write", environment: "b" } },
      environments: { b: { kind: "worker", lifetime } },
    }),
  )
  return { home, start: () => startServer(home, ["--config", config]) }
}
type Workspace = ReturnType<typeof makeWorkspace>

const killed = async (server: Server): Promise<void> => {
  server.child.kill("SIGKILL")
  await server.ended
}

const codeOf = (answer: Facts): unknown =>
  (answer["_meta"] as { readonly "codespace/refusal"?: { readonly code: string } } | undefined)?.["codespace/refusal"]?.code

/** Files and modes; folders that a deletion leaves empty stay and are no part of it. */
const filesOf = (home: Home): string =>
  JSON.stringify(
    Object.entries(readTree(home.workspace))
      .filter(([, file]) => file !== "dir")
      .sort(),
  )

/** Another server with a worker that runs: one whose worker dies again and again waits ever longer before it starts it. */
const renewed = async ({ start }: Workspace, old: Server): Promise<Server> => {
  await killed(old)
  const server = start()
  expect(await server.call("exec_command", { command: ["true"] })).toMatchObject({ exit_code: 0 })
  return server
}

/** A call that is not answered when its server dies. */
const cut = (answer: Promise<Facts>, server: Server) => Promise.race([answer.catch(() => undefined), server.ended.then(() => undefined)])

const LINES = 60
const stream = {
  script: `for i in $(seq 1 ${LINES}); do echo "line $i"; sleep 0.005; done; exit 9`,
  yield_ms: 0,
  access: "shared",
}
const allLines = Array.from({ length: LINES }, (_, index) => `line ${index + 1}\n`).join("")

interface Death {
  readonly name: string
  readonly lifetime: Lifetime
  /** Kills somebody, and gives a server that lives. */
  readonly strike: (workspace: Workspace, server: Server) => Promise<Server>
}
const worker = async ({ home }: Workspace, server: Server) => {
  for (const pid of await until(() => workersOf(home).length > 0 && workersOf(home))) process.kill(pid, "SIGKILL")
  return server
}
const server = async ({ start }: Workspace, dying: Server) => {
  await killed(dying)
  return start()
}
const deaths: ReadonlyArray<Death> = [
  { name: "the worker of a server", lifetime: "gateway", strike: worker },
  { name: "a detached worker", lifetime: "detached", strike: worker },
  { name: "the server of a worker", lifetime: "gateway", strike: server },
  { name: "the server of a detached worker", lifetime: "detached", strike: server },
]

describe.skipIf(!isBuilt)("killed at a random moment", { timeout: 600_000 }, () => {
  for (const { lifetime, name, strike } of deaths) {
    it(`${name}, in a patch: all old or all new, and the record says which`, async () => {
      const workspace = makeWorkspace(lifetime, twentyFiles)
      const { home } = workspace
      let server = workspace.start()
      const states = [filesOf(home), ""]
      await server.call("workspace_info", {})
      const began = performance.now()
      expect(await server.call("apply_patch", { patch: forward })).toMatchObject({ status: "applied" })
      const took = performance.now() - began
      states[1] = filesOf(home)
      let side = 1
      for (let round = 0; round < ROUNDS; round++) {
        const operation_key = `k${round}`
        const answer = cut(server.call("apply_patch", { patch: side === 0 ? forward : backward, operation_key }), server)
        await sleep(Math.random() * took * 0.6)
        const before = server
        server = await strike(workspace, server)
        const told = await answer
        const { state, result } = await settled(server, operation_key)
        const where = [round, codeOf(told ?? {}), told?.["status"], state]
        if (state === "done") side = 1 - side
        expect([...where, filesOf(home)]).toEqual([...where, states[side]])
        if (state === "done") expect(result).toMatchObject({ status: "applied" })
        // Whoever is told something is told the truth.
        if (told !== undefined && server === before) expect([...where, told["status"] === "applied"]).toEqual([...where, state === "done"])
        if (round % 4 === 3 && server === before) server = await renewed(workspace, server)
      }
      await killed(server)
    })

    it(`${name}, in a command: it goes with it, and the record says so`, async () => {
      const workspace = makeWorkspace(lifetime)
      const { home } = workspace
      let server = workspace.start()
      expect(await server.call("exec_command", { command: ["true"] })).toMatchObject({ exit_code: 0 })
      for (let round = 0; round < ROUNDS; round++) {
        const operation_key = `k${round}`
        const answer = cut(
          server.call("exec_command", { script: "sleep 300 & setsid sleep 301 & sleep 302", operation_key, yield_ms: 20_000 }),
          server,
        )
        if (round % 3 !== 0) await until(() => commandsIn(home.workspace).length > 0)
        await sleep(Math.random() * 40)
        const before = server
        let told: Facts | undefined
        // A worker that died before it had the command is no reason not to run it in the next one.
        for (let isOpen = true; isOpen; ) {
          server = await strike(workspace, server)
          const soon = sleep(2000).then(() => "not yet" as const)
          const answered = await Promise.race([answer, soon])
          isOpen = answered === "not yet"
          if (answered !== "not yet") told = answered
        }
        const { state } = await settled(server, operation_key)
        // One that found no worker although it tried several never ran, and may be repeated.
        const ends = ["CANCELLED interrupted", "RUNNER_UNAVAILABLE failed"]
        if (server === before) expect(ends).toContain(`${codeOf(told ?? {})} ${state}`)
        else expect(["interrupted", "cancelled", "OPERATION_NOT_FOUND"]).toContain(state)
        await until(() => livingIn(home.workspace).length === 0)
        expect(await server.call("exec_command", { command: ["echo", "next"] })).toMatchObject({ output: "next\n" })
        if (round % 4 === 3 && server === before) server = await renewed(workspace, server)
      }
      await killed(server)
    })

    const survives = strike === server && lifetime === "detached"
    it(`${name}, in a stream: ${survives ? "it is read on at the same cursor to its true end" : "its process is lost, and said to be"}`, async () => {
      const workspace = makeWorkspace(lifetime)
      const { home } = workspace
      let server = workspace.start()
      for (let round = 0; round < ROUNDS; round++) {
        const started = await server.call("exec_command", stream)
        const { operation_id, process_id } = started as { readonly operation_id: string; readonly process_id: string }
        expect([round, started["state"]]).toEqual([round, "running"])
        let output = String(started["output"])
        let cursor = String(started["cursor"])
        const dieAt = performance.now() + Math.random() * 150
        while (performance.now() < dieAt) {
          const page = await server.call("read_process", { process_id, cursor, wait_ms: 30 })
          output += String(page["output"])
          cursor = String(page["cursor"])
        }
        expect([round, allLines.startsWith(output)]).toEqual([round, true])
        const before = server
        server = await strike(workspace, server)
        if (survives) {
          for (let eof = false; !eof; ) {
            const page = await server.call("read_process", { process_id, cursor, wait_ms: 5000 })
            expect([round, codeOf(page)]).toEqual([round, undefined])
            output += String(page["output"])
            cursor = String(page["cursor"])
            eof = page["eof"] === true
          }
          expect([round, output]).toEqual([round, allLines])
          const { result, state } = await statusWhen(server, { operation_id }, (now) => now !== "running")
          expect([round, state, result]).toMatchObject([round, "done", { process_id, state: "exited", exit_code: 9 }])
        } else {
          const { result, state } = await statusWhen(server, { operation_id }, (now) => now !== "running")
          const isServers = server !== before
          expect([round, state]).toEqual([round, isServers ? "interrupted" : "done"])
          if (!isServers) expect(result).toMatchObject({ process_id, state: expect.stringMatching(/^(lost|exited)$/u) })
          await until(() => livingIn(home.workspace).length === 0)
        }
        if (round % 4 === 3 && server === before) server = await renewed(workspace, server)
      }
      await killed(server)
    })
  }

  it("leaves no worker and no process of those that end with their server", async () => {
    for (const home of homes.filter((home) => !existsSync(join(home.env.XDG_STATE_HOME, "codespace/workers/b"))))
      await until(() => workersOf(home).length === 0 && livingIn(home.home).length === 0)
  })
})

describe.skipIf(!isBuilt)("a detached worker", { timeout: 60_000 }, () => {
  it("keeps a process over an orderly restart; the next server takes over its record and its lease", async () => {
    const workspace = makeWorkspace("detached")
    const first = workspace.start()
    const started = await first.call("exec_command", { script: "echo one; sleep 300", yield_ms: 300 })
    const { operation_id, process_id } = started
    first.child.stdin.end()
    expect(await first.ended).toEqual([0, null])

    const second = workspace.start()
    const busy = { path: "a.txt", content: "a\n", lease_wait_ms: 200 }
    expect(codeOf(await second.call("write", busy))).toBe("WORKSPACE_BUSY")
    const status = await second.call("operation_status", { operation_id })
    expect(status).toMatchObject({ state: "running", process_id })
    expect((status["events"] as ReadonlyArray<{ readonly event: string }>).map(({ event }) => event)).toContain("OperationAdopted")
    expect(await second.call("terminate_process", { process_id, grace_ms: 100 })).toMatchObject({ state: "terminated" })
    expect(await second.call("write", { ...busy, lease_wait_ms: 5000 })).toMatchObject({ status: "applied" })
    const done = await statusWhen(second, { operation_id }, (state) => state !== "running")
    expect(done).toMatchObject({ state: "done", result: { process_id, state: "terminated", output: "one\n" } })
    await killed(second)
  })

  it("is shared by servers that run at the same time", async () => {
    const workspace = makeWorkspace("detached")
    const [one, two] = [workspace.start(), workspace.start()]
    const started = await Promise.all([one, two].map((server) => server.call("exec_command", { ...stream, access: "shared" })))
    expect(workersOf(workspace.home).length).toBe(1)
    const process_id = String(started[0]?.["process_id"])
    const page = await two.call("read_process", { process_id, cursor: "0", wait_ms: 10_000, until: `line ${LINES}\n` })
    expect(page["output"]).toBe(allLines)
    await Promise.all([killed(one), killed(two)])
  })
})

/** The status once it is as wanted. */
const statusWhen = async (server: Server, named: object, isSo: (state: unknown) => boolean) =>
  until(async () => {
    const told = await server.call("operation_status", named)
    const state = told["state"] ?? codeOf(told)
    return isSo(state) ? { state, result: told["result"] } : undefined
  }, 30_000)

const settled = (server: Server, operation_key: string) => statusWhen(server, { operation_key }, (state) => state !== "running")

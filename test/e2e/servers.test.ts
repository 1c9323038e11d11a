/** Several servers of the built program on one state folder, as hosts that start one a client have them. */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterEach, describe, expect, it } from "vitest"
import { type Home, main, makeHome, refusalOf, type ToolResult } from "../support/Program.ts"
import { startStdio } from "../support/StdioClient.ts"
import { until } from "../support/Until.ts"

const cleanups: Array<() => void> = []
afterEach(() => {
  for (const clean of cleanups.splice(0).reverse()) clean()
})

const home = (files: Readonly<Record<string, string>>): Home => {
  const made = makeHome(files)
  cleanups.push(made.remove)
  return made
}

const databaseOf = (made: Home): string => join(made.home, "state/codespace/codespace.sqlite")

/** A server of its own process; `call` answers with the result, of a refusal too. */
const start = (made: Home, folder = made.workspace) => startWith(made, [folder])

const startWith = (made: Home, args: ReadonlyArray<string>) => {
  const { client, kill } = startStdio(made.env, [main, "mcp", ...args])
  cleanups.push(kill)
  let ids = 0
  const request = async (method: string, params: object, limit: number): Promise<unknown> => {
    ids += 1
    const id = ids
    client.send({ jsonrpc: "2.0", id, method, params })
    const { error, result } = await client.answer(id, limit)
    if (error !== undefined) throw new Error(JSON.stringify(error))
    return result
  }
  const call = async (name: string, args: object, limit = 60_000) =>
    (await request("tools/call", { name, arguments: args }, limit)) as ToolResult
  const list = async () => ((await request("tools/list", {}, 60_000)) as { readonly tools: ReadonlyArray<unknown> }).tools
  const end = async () => {
    client.child.stdin.end()
    return (await client.ended).code
  }
  return { call, list, kill, pid: client.child.pid as number, ended: client.ended, end }
}

const app = { workspace_id: "app" }
const codeOf = (result: ToolResult): string | undefined => refusalOf(result)?.code
const factsOf = (result: ToolResult) => result.structuredContent as Record<string, unknown>

const countOf = (file: string, rows: string): number => {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5_000 })
  try {
    return Number(database.prepare(`SELECT count(*) AS found FROM ${rows}`).get()?.["found"])
  } finally {
    database.close()
  }
}

const tablesOf = (file: string): ReadonlyArray<string> => {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return database
      .prepare("SELECT migration_id || '_' || name AS step FROM effect_sql_migrations ORDER BY migration_id")
      .all()
      .map(({ step }) => String(step))
  } finally {
    database.close()
  }
}

describe("servers that start at the same instant", () => {
  const startTogether = async (made: Home, count: number) => {
    const servers = Array.from({ length: count }, () => start(made))
    const answers = await Promise.all(servers.map(({ call }, n) => call("write", { ...app, path: `${n}.txt`, content: `${n}\n` })))
    const codes = await Promise.all(servers.map(({ end }) => end()))
    return { refusals: answers.map(codeOf).filter((code) => code !== undefined), codes }
  }

  it("all work on a fresh state folder, and make its tables once", async () => {
    for (const _round of [1, 2, 3]) {
      const made = home({ "a.txt": "a\n" })
      expect(await startTogether(made, 8)).toEqual({ refusals: [], codes: Array(8).fill(0) })
      const steps = tablesOf(databaseOf(made))
      expect(steps.slice(0, 2)).toEqual(["1_ledger", "2_leases"])
      expect(new Set(steps).size).toBe(steps.length)
    }
  })

  it("all work on the state folder of an older version, and bring it up to date once", async () => {
    const made = home({ "a.txt": "a\n" })
    mkdirSync(dirname(databaseOf(made)), { recursive: true, mode: 0o700 })
    const database = new DatabaseSync(databaseOf(made))
    database.exec(readFileSync(new URL("../fixtures/state/first-version.sql", import.meta.url), "utf8"))
    database.close()
    expect(await startTogether(made, 8)).toEqual({ refusals: [], codes: Array(8).fill(0) })
    const fresh = home({})
    await startTogether(fresh, 1)
    expect(tablesOf(databaseOf(made))).toEqual(tablesOf(databaseOf(fresh)))
    // What it recorded is still known.
    const server = start(made)
    const known = factsOf(await server.call("operation_status", { operation_key: "first", ...app }))
    expect(known).toMatchObject({ state: "done", kind: "write", result: { status: "applied" } })
    expect(countOf(databaseOf(made), "operations")).toBe(3 + 8)
  })
})

/** A script that says it has begun, and ends when the file `go` is there. */
const untilGo = "echo $$ > begun; while [ ! -e go ]; do sleep 0.02; done; echo ran >> runs"
const begun = async (made: Home): Promise<number> => {
  const file = join(made.workspace, "begun")
  return Number(await until(() => existsSync(file) && readFileSync(file, "utf8").trim()))
}

describe("two servers in one workspace", () => {
  it("do not notice a third that only lists its tools and is killed (R119)", async () => {
    const made = home({ "a.txt": "a\n" })
    const working = start(made)
    await working.call("write", { ...app, path: "b.txt", content: "b\n" })
    const state = () =>
      readdirSync(dirname(databaseOf(made)), { recursive: true })
        .map(String)
        .sort()
    // A patch that was answered is cleared away a moment later.
    let before = state()
    await until(() => {
      const last = before
      before = state()
      return before.join() === last.join()
    })
    const rows = ["operations", "leases", "events"].map((table) => countOf(databaseOf(made), table))
    for (let round = 0; round < 3; round++) {
      const short = start(made)
      expect((await short.list()).length).toBeGreaterThan(10)
      short.kill()
      await short.ended
    }
    expect(state()).toEqual(before)
    expect(["operations", "leases", "events"].map((table) => countOf(databaseOf(made), table))).toEqual(rows)
    expect(factsOf(await working.call("read", { ...app, path: "b.txt" }))).toMatchObject({ text: "b\n" })
    await working.end()
  })

  it("take turns, and a refusal and workspace_info say who works, where and since when (R137)", async () => {
    const made = home({ "a.txt": "a\n" })
    const [one, two] = [start(made), start(made)]
    const build = one.call("exec_command", { ...app, script: untilGo })
    await begun(made)
    const patch = { ...app, path: "a.txt", content: "b\n" }
    const refused = await two.call("write", { ...patch, lease_wait_ms: 0 })
    expect(refusalOf(refused)).toMatchObject({
      code: "WORKSPACE_BUSY",
      retry: "later",
      details: { kind: "exclusive", expires: "when it ends" },
    })
    expect(refusalOf(refused)?.details["holder"]).toBe(`exec_command of local (unknown) in another server (process ${one.pid})`)
    const { leases } = factsOf(await two.call("workspace_info", app))
    expect(leases).toMatchObject([{ kind: "exclusive", server: `another server (process ${one.pid})`, workspace_id: "app", paths: [] }])

    const waiting = two.call("write", patch)
    writeFileSync(join(made.workspace, "go"), "")
    expect(codeOf(await build)).toBeUndefined()
    expect(factsOf(await waiting)).toMatchObject({ status: "applied" })
    expect(factsOf(await one.call("workspace_info", app))["leases"]).toEqual([])
  })

  it("work side by side on different files and beside a shared process", async () => {
    const made = home({ "a.txt": "a\n" })
    const [one, two] = [start(made), start(made)]
    const served = await one.call("exec_command", { ...app, script: untilGo, access: "shared", yield_ms: 0 })
    expect(factsOf(served)["state"]).toBe("running")
    const patches = [one, two].flatMap(({ call }, server) =>
      Array.from({ length: 25 }, (_, n) => call("write", { ...app, path: `${server}-${n}.txt`, content: "x\n", lease_wait_ms: 0 })),
    )
    expect((await Promise.all(patches)).map(codeOf)).toEqual(Array(50).fill(undefined))
    expect(codeOf(await two.call("exec_command", { ...app, command: ["true"], lease_wait_ms: 0 }))).toBe("WORKSPACE_BUSY")
  })

  it("exclude each other under different names for one folder, and in a folder inside it", async () => {
    const made = home({ "app/x.txt": "x\n" })
    const [outer, inner] = [start(made), start(made, join(made.workspace, "app"))]
    const build = outer.call("exec_command", { ...app, script: untilGo })
    await begun(made)
    expect(codeOf(await inner.call("write", { ...app, path: "x.txt", content: "y\n", lease_wait_ms: 0 }))).toBe("WORKSPACE_BUSY")
    writeFileSync(join(made.workspace, "go"), "")
    await build
    expect(codeOf(await inner.call("write", { ...app, path: "x.txt", content: "y\n", lease_wait_ms: 0 }))).toBeUndefined()
  })

  it("free what a server holds when it is killed, and the next in line goes on (R138)", async () => {
    const made = home({ "a.txt": "a\n" })
    const [one, two] = [start(made), start(made)]
    void one.call("exec_command", { ...app, script: `exec > /dev/null; ${untilGo}` }).catch(() => undefined)
    const orphan = await begun(made)
    cleanups.push(() => process.kill(orphan, "SIGKILL"))
    const waiting = two.call("write", { ...app, path: "a.txt", content: "b\n", lease_wait_ms: 30_000 })
    await until(() => countOf(databaseOf(made), "leases WHERE waits = 1") === 1)
    one.kill()
    expect(factsOf(await waiting)).toMatchObject({ status: "applied" })
    await one.ended
  })
})

describe("one operation_key in two servers", () => {
  const keyed = { ...app, script: untilGo, operation_key: "k", yield_ms: 30_000 }

  it("runs once: the second call waits for the outcome of the first", async () => {
    const made = home({ "a.txt": "a\n" })
    const [one, two] = [start(made), start(made)]
    const first = one.call("exec_command", keyed)
    await begun(made)
    const hasty = await two.call("exec_command", { ...keyed, lease_wait_ms: 0 })
    expect(refusalOf(hasty)).toMatchObject({
      code: "WORKSPACE_BUSY",
      retry: "later",
      details: { holder: expect.stringMatching(/^op_/), waited_ms: 0 },
    })
    const second = two.call("exec_command", keyed)
    writeFileSync(join(made.workspace, "go"), "")
    expect(factsOf(await second)).toEqual(factsOf(await first))
    expect(factsOf(await second)).toMatchObject({ state: "exited", exit_code: 0 })
    expect(readFileSync(join(made.workspace, "runs"), "utf8")).toBe("ran\n")
  })

  it("runs once whichever server is first, with leases that wait for each other and with leases that do not", async () => {
    const made = home({ "a.txt": "a\n" })
    const servers = [start(made), start(made)]
    const both = (name: string, args: object) => Promise.all(servers.map(({ call }) => call(name, { ...app, ...args })))
    for (let n = 0; n < 12; n += 1) {
      const written = await both("write", { path: "a.txt", content: `${n}\n`, operation_key: `write-${n}` })
      const run = await both("exec_command", { script: `sleep 0.05; echo >> run-${n}`, access: "shared", operation_key: `run-${n}` })
      for (const [first, second] of [written, run]) expect(factsOf(first as ToolResult)).toEqual(factsOf(second as ToolResult))
      expect(readFileSync(join(made.workspace, `run-${n}`), "utf8")).toBe("\n")
    }
    expect(countOf(databaseOf(made), "operations")).toBe(24)
  })

  it("is not waited for once its server is gone", async () => {
    const made = home({ "a.txt": "a\n" })
    const [one, two] = [start(made), start(made)]
    void one.call("exec_command", keyed).catch(() => undefined)
    const orphan = await begun(made)
    cleanups.push(() => process.kill(orphan, "SIGKILL"))
    const second = two.call("exec_command", { ...keyed, lease_wait_ms: 50_000 })
    one.kill()
    await one.ended
    expect(codeOf(await second)).toBe("CANCELLED")
  })
})

describe("four servers with 200 calls each in one workspace", () => {
  const LANES = 2
  /** Looks at the workspace twice while nobody else may touch it, then adds its line. */
  const alone = (line: string) =>
    'mkdir alone || echo NOT ALONE; a=$(cat *.txt | cksum); sleep 0.01; b=$(cat *.txt | cksum); rmdir alone; [ "$a" = "$b" ] || echo TOUCHED; ' +
    `echo ${line} >> shared.txt`

  it("never have two exclusive ones at once, lose no acknowledged call, and never meet a locked database", {
    timeout: 120_000,
  }, async () => {
    const made = home({ "shared.txt": "" })
    const servers = Array.from({ length: 4 }, () => start(made))
    const added: Array<string> = []
    const acknowledged: Array<string> = []
    const problems: Array<unknown> = []
    const finals = new Map<string, string>()

    const keep = (result: ToolResult): void => {
      if (refusalOf(result) !== undefined) problems.push(refusalOf(result))
      else acknowledged.push(String(factsOf(result)["operation_id"]))
    }
    const lane = async ({ call }: (typeof servers)[number], name: string): Promise<void> => {
      for (let n = 0; n < 200 / LANES; n += 1) {
        const line = `${name}-${n}`
        const common = { ...app, operation_key: line, lease_wait_ms: 50_000 }
        if (n % 7 === 3) {
          const result = await call("exec_command", { ...common, script: alone(line), yield_ms: 30_000 })
          if (factsOf(result)?.["output"] !== "") problems.push(factsOf(result)?.["output"])
          keep(result)
          added.push(line)
        } else if (n % 7 === 5) {
          keep(await call("apply_patch", { ...common, patch: `*** Begin Patch\n*** Update File: shared.txt\n@@\n+${line}\n*** End Patch` }))
          added.push(line)
        } else {
          keep(await call("write", { ...common, path: `${name}.txt`, content: `${n}\n` }))
          finals.set(`${name}.txt`, `${n}\n`)
        }
      }
    }
    await Promise.all(servers.flatMap((server, index) => Array.from({ length: LANES }, (_, place) => lane(server, `${index}-${place}`))))
    expect(problems).toEqual([])
    expect(acknowledged).toHaveLength(800)
    expect(readFileSync(join(made.workspace, "shared.txt"), "utf8").trim().split("\n").sort()).toEqual(added.sort())
    for (const [name, content] of finals) expect(readFileSync(join(made.workspace, name), "utf8")).toBe(content)

    expect(await Promise.all(servers.map(({ end }) => end()))).toEqual([0, 0, 0, 0])
    const database = new DatabaseSync(databaseOf(made), { readOnly: true })
    const done = database.prepare("SELECT operation_id FROM operations WHERE state = 'done'").all()
    expect(new Set(done.map(({ operation_id }) => operation_id))).toEqual(new Set(acknowledged))
    expect(database.prepare("SELECT count(*) AS held FROM leases").get()).toEqual({ held: 0 })
    expect(database.prepare("SELECT seq AS fences FROM sqlite_sequence WHERE name = 'leases'").get()?.["fences"]).toBeGreaterThanOrEqual(
      800,
    )
    expect(brokenLinks(database)).toEqual([])
    database.close()
  })

  /** Entries of the ledger whose hash does not continue the entry before. */
  const brokenLinks = (database: DatabaseSync): ReadonlyArray<unknown> => {
    const entries = database.prepare("SELECT * FROM events ORDER BY seq").all()
    return entries.filter(({ at, body, event, hash, subject }, index) => {
      const text = [entries[index - 1]?.["hash"] ?? "", at, subject, event, body].join("\n")
      return createHash("sha256").update(text).digest("hex") !== hash
    })
  }
})

describe("processes of a server that ended", () => {
  const run = async (server: ReturnType<typeof start>, script: string, more: object = {}) =>
    factsOf(await server.call("exec_command", { ...app, script, yield_ms: 20_000, ...more }))
  const read = async (server: ReturnType<typeof start>, process: Record<string, unknown>, more: object = {}) =>
    server.call("read_process", { process_id: process["process_id"], ...more })
  const idsOf = async (server: ReturnType<typeof start>) =>
    (factsOf(await server.call("list_processes", app))["processes"] as ReadonlyArray<{ readonly process_id: string }>).map(
      ({ process_id }) => process_id,
    )

  for (const how of ["stops", "is killed"] as const)
    it(`can be read and listed by the next one, by the same cursors, when it ${how}`, { timeout: 120_000 }, async () => {
      const made = home({})
      const first = start(made)
      const ended = await run(first, "printf 'one two three'; exit 7", { access: "shared", max_output_bytes: 1000 })
      const split = await run(first, "echo out; echo err >&2", { access: "shared", split: true })
      const killed = await run(first, "kill -9 $$", { access: "shared" })
      const running = await run(first, "echo up; sleep 300", { access: "shared", yield_ms: 0 })
      await read(first, running, { until: "up", wait_ms: 20_000 })
      if (how === "stops") await first.end()
      else first.kill()
      await first.ended

      const second = start(made)
      expect(await idsOf(second)).toEqual([ended, split, killed, running].map(({ process_id }) => process_id))
      expect(factsOf(await read(second, ended, { cursor: "4" }))).toMatchObject({
        output: "two three",
        state: "exited",
        exit_code: 7,
        ended_by: "itself",
        duration_ms: ended["duration_ms"],
        total_bytes: 13,
        eof: true,
        sandbox: ended["sandbox"],
      })
      expect(factsOf(await read(second, split, { stream: "stderr" }))).toMatchObject({ output: "err\n", state: "exited", exit_code: 0 })
      expect(factsOf(await read(second, killed))).toMatchObject({ output: "", state: "signalled", signal: "SIGKILL" })
      const cut = factsOf(await read(second, running, { wait_ms: 20_000 }))
      expect(cut).toMatchObject({ output: "up\n", state: how === "stops" ? "terminated" : "lost", ended_by: "server_stop", eof: true })
      if (how === "is killed") expect(cut).not.toHaveProperty("signal")
      expect(codeOf(await second.call("write_stdin", { process_id: running["process_id"], data: "x" }))).toBe("PROCESS_EXITED")
      const told = factsOf(await second.call("terminate_process", { process_id: running["process_id"] }))
      expect(told).toMatchObject({ state: cut["state"] })
      const status = factsOf(await second.call("operation_status", { operation_id: running["operation_id"] }))
      expect(JSON.stringify(status)).toContain(how === "stops" ? "terminated" : "lost")
      await second.end()

      // A third finds the same: to read takes nothing away.
      const third = start(made)
      expect(factsOf(await read(third, running))).toMatchObject({ state: cut["state"], output: "up\n" })
    })

  it("are seen by each that lives, which leave those of each other alone", { timeout: 120_000 }, async () => {
    const made = home({})
    const [first, second, third] = [start(made), start(made), start(made)]
    const one = await run(first, "echo one", { access: "shared" })
    const two = await run(second, "echo two; sleep 300", { access: "shared", yield_ms: 200 })
    expect(await idsOf(third)).toEqual([])
    expect(codeOf(await read(third, two))).toBe("PROCESS_NOT_FOUND")
    await first.end()
    for (const server of [second, third]) expect(factsOf(await read(server, one))).toMatchObject({ output: "one\n", exit_code: 0 })
    expect(await idsOf(third)).toEqual([one["process_id"]])
    expect(factsOf(await read(second, two))).toMatchObject({ output: "two\n", state: "running" })
    second.kill()
    await second.ended
    expect(factsOf(await read(third, two))).toMatchObject({ output: "two\n", state: "lost" })
  })

  it("go after their time, with their output", { timeout: 120_000 }, async () => {
    const made = home({})
    const first = start(made)
    const ended = await run(first, "echo old", { access: "shared" })
    await first.end()
    const spools = join(made.home, "state/codespace/spools")
    expect(readdirSync(spools)).toHaveLength(1)
    const configured = join(made.home, "short.json")
    writeFileSync(
      configured,
      JSON.stringify({ workspaces: { app: { root: made.workspace, profile: "workspace-write" } }, retention: { processes: "1 second" } }),
    )
    const second = startWith(made, ["--config", configured])
    await until(async () => codeOf(await read(second, ended)) === "PROCESS_NOT_FOUND", 20_000)
    await second.end()
    expect(readdirSync(spools)).toEqual([])
  })
})

/** The record store of the built program: proved, and when its file is damaged or its disk is full. */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { closeSync, cpSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterEach, describe, expect, it } from "vitest"
import { type Home, main, makeHome, refusalOf, type ToolResult } from "../support/Program.ts"
import { startStdio } from "../support/StdioClient.ts"

const cleanups: Array<() => void> = []
afterEach(() => {
  for (const clean of cleanups.splice(0).reverse()) clean()
})

const home = (): Home => {
  const made = makeHome({ "a.txt": "a\n" })
  cleanups.push(made.remove)
  return made
}

/** A server; `before` stands in front of its command line. */
const start = (made: Home, before: ReadonlyArray<string> = []) => {
  const program = [main, "mcp", made.workspace]
  const { client, kill } = startStdio(made.env, before.length === 0 ? program : [runner, ...before, process.execPath, ...program])
  cleanups.push(kill)
  let ids = 0
  const opened = client.initialize()
  const call = async (name: string, args: object): Promise<ToolResult> => {
    await opened
    ids += 1
    client.send({ jsonrpc: "2.0", id: ids, method: "tools/call", params: { name, arguments: { workspace_id: "app", ...args } } })
    return (await client.answer(ids, 30_000)).result as unknown as ToolResult
  }
  const end = () => {
    client.child.stdin.end()
    return client.ended
  }
  return { call, end, client }
}

/** Starts another program with the same pipes, since what these tests start is always Node. */
const runner = new URL("../support/execute.mjs", import.meta.url).pathname

const stateOf = (made: Home): string => join(made.home, "state/codespace")
const factsOf = (result: ToolResult) => result.structuredContent as Record<string, unknown>
const codeOf = (result: ToolResult) => refusalOf(result)?.code

const audit = (made: Home, ...args: ReadonlyArray<string>) =>
  spawnSync(process.execPath, [main, "audit", ...args], { env: made.env, encoding: "utf8" })

describe("codespace audit", () => {
  it("proves the ledger, beside a server that works, and prints it so that others can", async () => {
    const made = home()
    const server = start(made)
    for (let n = 0; n < 20; n += 1) await server.call("write", { path: "a.txt", content: `${n}\n` })
    const verified = audit(made, "verify")
    expect(verified).toMatchObject({ status: 0, stderr: "" })
    const [, anchor = ""] = /The newest is (\d+:[0-9a-f]{64})/u.exec(verified.stdout) ?? []
    const lines = audit(made, "export").stdout.trim().split("\n")
    const hashes = lines
      .map((line) => JSON.parse(line))
      .map(({ at, body, event, hash, subject }, index, all) => {
        const text = [all[index - 1]?.hash ?? "", at, subject, event, JSON.stringify(body)].join("\n")
        expect(createHash("sha256").update(text).digest("hex")).toBe(hash)
        return hash
      })
    expect(anchor).toBe(`40:${hashes.at(-1)}`)
    expect(audit(made, "export", "--after", "38").stdout.trim().split("\n")).toEqual(lines.slice(38))
    expect(audit(made, "rebuild")).toMatchObject({ status: 0, stdout: "40 events read\n" })
    expect(codeOf(await server.call("write", { path: "a.txt", content: "on\n" }))).toBeUndefined()
    await server.end()

    const database = new DatabaseSync(join(stateOf(made), "codespace.sqlite"))
    database.exec("DROP TRIGGER events_are_final; UPDATE events SET body = replace(body, 'applied', 'refused') WHERE seq = 12")
    database.close()
    const broken = audit(made, "verify", "--anchor", anchor)
    expect(broken).toMatchObject({ status: 1, stdout: expect.stringMatching(/^broken at event 12 \(OperationFinished of op_/u) })
    expect(JSON.parse(audit(made, "verify", "--json").stdout)).toMatchObject({ broken: { seq: 12 } })
    expect(audit(made, "renew")).toMatchObject({ status: 1, stderr: expect.stringContaining("no damaged database was set aside") })
    expect(audit(made, "verify", "--anchor", "x").status).toBe(2)
  })
})

describe("a damaged database (R122)", () => {
  it("is kept aside and said aloud; files stay readable, and after renew all works, with what was kept still there", async () => {
    const made = home()
    const database = join(stateOf(made), "codespace.sqlite")
    const before = start(made)
    for (let n = 0; n < 40; n += 1) expect(codeOf(await before.call("write", { path: "a.txt", content: `${n}\n` }))).toBeUndefined()
    await before.end()
    const middle = openSync(database, "r+")
    writeSync(middle, Buffer.alloc(4096, 0x5a), 0, 4096, Math.floor(statSync(database).size / 2))
    closeSync(middle)
    const bytes = readFileSync(database)

    const server = start(made)
    const refused = refusalOf(await server.call("write", { path: "a.txt", content: "lost?\n" }))
    expect(refused).toMatchObject({ code: "STORE_UNAVAILABLE", retry: "later" })
    expect(refused?.message).toMatch(/damaged .* is kept as codespace\.damaged-\d+\.sqlite in the state folder/u)
    expect(refused?.message).toContain("codespace audit renew")
    expect(refused?.message).toContain("Nothing was run")
    expect(server.client.stderr()).toContain("damaged")
    expect(readFileSync(join(made.workspace, "a.txt"), "utf8")).toBe("39\n")
    // Reading needs no records.
    expect(factsOf(await server.call("read", { path: "a.txt" }))).toMatchObject({ text: "39\n" })
    expect(factsOf(await server.call("find", { glob: "*.txt" }))).toMatchObject({ paths: ["a.txt"] })
    expect(factsOf(await server.call("workspace_info", {}))["unavailable"]).toMatch(/damaged/u)
    expect(codeOf(await server.call("exec_command", { command: ["true"] }))).toBe("STORE_UNAVAILABLE")
    // Another start does not begin a new ledger unseen either.
    expect(codeOf(await start(made).call("write", { path: "a.txt", content: "x\n" }))).toBe("STORE_UNAVAILABLE")
    const kept = readdirSync(stateOf(made)).filter((name) => name.endsWith(".sqlite"))
    expect(kept).toEqual([expect.stringMatching(/^codespace\.damaged-\d+\.sqlite$/u)])
    expect(readFileSync(join(stateOf(made), String(kept[0]))).equals(bytes)).toBe(true)

    const renewed = audit(made, "renew")
    expect(renewed).toMatchObject({ status: 0, stdout: expect.stringContaining(String(kept[0])) })
    // The server that runs goes on by itself.
    expect(codeOf(await server.call("write", { path: "a.txt", content: "on\n" }))).toBeUndefined()
    const events = new DatabaseSync(database, { readOnly: true }).prepare("SELECT event, body FROM events ORDER BY seq").all()
    expect(events[0]).toMatchObject({ event: "LedgerBegan", body: JSON.stringify({ after: kept[0] }) })
  })
})

/** A small file system of its own in place of a folder, through bubblewrap. */
const smallDisk = (folder: string, bytes: number) => ["bwrap", "--dev-bind", "/", "/", "--size", String(bytes), "--tmpfs", folder]

const whyNoDisk = (): string | undefined => {
  const tried = spawnSync("bwrap", [...smallDisk("/tmp", 1_000_000).slice(1), "true"], { encoding: "utf8" })
  return tried.status === 0 ? undefined : `bubblewrap cannot make a small disk here: ${tried.error?.message ?? tried.stderr}`
}

describe("a full disk (R123)", () => {
  it("is a typed refusal, loses nothing acknowledged, and is over without a restart once there is space", async (context) => {
    const why = whyNoDisk()
    if (why !== undefined) {
      console.log(`skipped: ${why}`)
      return context.skip(why)
    }
    const made = home()
    mkdirSync(join(made.home, "state"), { recursive: true })
    const server = start(made, smallDisk(join(made.home, "state"), 5 * 1024 * 1024))
    const content = `${"x".repeat(1000)}\n`
    const acknowledged: Array<string> = []
    const write = async (n: number, size = content) => {
      const result = await server.call("write", { path: "a.txt", content: `${n} ${size}`, operation_key: `k${n}` })
      if (codeOf(result) === undefined) acknowledged.push(String(factsOf(result)["operation_id"]))
      return codeOf(result)
    }
    expect(await write(0)).toBeUndefined()
    // The disk as the server sees it.
    const disk = join("/proc", childOf(server.client.child.pid as number), "root", made.home, "state")
    writeFileSync(join(disk, "filler"), Buffer.alloc(3 * 1024 * 1024))
    const codes = new Set<string>()
    for (let n = 1; n < 400 && codes.size === 0; n += 1) {
      const code = await write(n)
      if (code !== undefined) codes.add(code)
    }
    for (let n = 400; n < 405; n += 1) codes.add((await write(n)) ?? "done")
    expect([...codes]).toEqual(["STORAGE_FULL"])
    expect(factsOf(await server.call("read", { path: "a.txt" }))["truncated"]).toBe(false)
    rmSync(join(disk, "filler"))
    for (let n = 500; n < 505; n += 1) expect(await write(n)).toBeUndefined()
    for (const operation_id of acknowledged)
      expect(factsOf(await server.call("operation_status", { operation_id, workspace_id: undefined }))).toMatchObject({ state: "done" })
    // What was cut by the full disk has its outcome by now, too.
    for (const part of ["", "-wal"]) cpSync(join(disk, `codespace/codespace.sqlite${part}`), join(made.home, `copy${part}`))
    const rows = new DatabaseSync(join(made.home, "copy"))
    expect(rows.prepare("SELECT operation_id FROM operations WHERE state = 'running'").all()).toEqual([])
    rows.close()
  })
})

/** The server behind bubblewrap, and behind the program that started it. */
const childOf = (pid: number): string => {
  const listed = spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" })
  const [child = ""] = listed.stdout.trim().split("\n")
  return child === "" ? String(pid) : childOf(Number(child))
}

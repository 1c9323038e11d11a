/** "Apply only if the tests pass", through the built program; and what becomes of a patch whose answer never came. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { startLines } from "../support/LineServer.ts"
import { type Connection, connect, type Home, makeHome, refusalOf, serve, type ToolResult, textOf } from "../support/Program.ts"
import { readTree } from "../support/Tree.ts"
import { until } from "../support/Until.ts"

const homes: Array<Home> = []
const homeWith = (files: Readonly<Record<string, string>>): Home => {
  const home = makeHome(files)
  homes.push(home)
  return home
}
afterAll(() => {
  for (const home of homes) home.remove()
})

const app = { workspace_id: "app" }
const structured = (result: ToolResult) => (result.structuredContent ?? {}) as Readonly<Record<string, unknown>>
const patchOf = (from: string, to: string): string =>
  `*** Begin Patch\n*** Update File: f\n@@\n-${from}\n+${to}\n*** Add File: new/n\n+n\n*** End Patch`

describe("verify", () => {
  const home = homeWith({ f: "1\n" })
  let connection: Connection
  beforeAll(async () => {
    const locked = join(home.home, "locked")
    mkdirSync(locked)
    writeFileSync(join(locked, "f"), "1\n")
    mkdirSync(join(home.env.XDG_CONFIG_HOME, "codespace"), { recursive: true })
    writeFileSync(
      join(home.env.XDG_CONFIG_HOME, "codespace/config.json"),
      JSON.stringify({
        workspaces: { locked: { root: locked, profile: "no-exec", patch: { durability: "power" } } },
        profiles: { "no-exec": { extends: "workspace-write", exec: "off" } },
      }),
    )
    connection = await connect("v2-2025", { stdio: home })
  })
  afterAll(() => connection.close())
  const now = () => readTree(home.workspace)

  it("lets a patch stay when the command agrees, and shows what it wrote", async () => {
    const result = await connection.call("apply_patch", {
      ...app,
      patch: patchOf("1", "2"),
      verify: { command: ["sh", "-c", "cat f new/n; pwd"] },
      operation_key: "good",
    })
    expect(structured(result)).toMatchObject({
      status: "applied",
      verify: { exit_code: 0, output: `2\nn\n${home.workspace}\n`, omitted_bytes: 0, sandbox: expect.stringContaining("network on") },
    })
    expect(textOf(result)).toContain(`exit_code: 0`)
    expect(textOf(result)).toContain(`2\nn\n${home.workspace}`)
    const again = await connection.call("apply_patch", {
      ...app,
      patch: patchOf("1", "2"),
      verify: { command: ["sh", "-c", "cat f new/n; pwd"] },
      operation_key: "good",
    })
    expect(structured(again)).toEqual(structured(result))
  })

  const failures: ReadonlyArray<readonly [string, object, string, string]> = [
    ["fails", { script: "echo the reason; exit 3" }, "ended with exit code 3", "the reason"],
    ["does not end in time", { script: "echo begun; sleep 60", timeout_ms: 300 }, "did not end in time", "begun"],
    ["cannot start", { command: ["no-such-program"] }, "could not be started", ""],
    ["kills itself", { script: "kill -9 $$" }, "was ended by SIGKILL", ""],
    [
      "changes the patched files, deletes one, and fails",
      { script: "echo mine > f; rm -r new; sed -i s/mine/yours/ f; exit 1" },
      "exit code 1",
      "",
    ],
  ]
  for (const [name, verify, cause, output] of failures)
    it(`rolls everything back when the command ${name}`, async () => {
      const tree = now()
      const patch = `*** Begin Patch\n*** Update File: f\n@@\n-2\n+3\n*** Delete File: new/n\n*** Add File: new/m\n+m\n*** End Patch`
      const result = await connection.call("apply_patch", { ...app, patch, verify })
      const refusal = refusalOf(result)
      expect(refusal).toMatchObject({ code: "VERIFY_FAILED", retry: "change_request", details: { status: "failed_rolled_back" } })
      expect(refusal?.message).toContain(cause)
      expect(String(refusal?.details["output"])).toContain(output)
      expect(textOf(result)).toContain(output)
      expect(now()).toEqual(tree)
    })

  it("works for edit and write too, and shows a bounded output", async () => {
    const tree = now()
    const verify = { script: "seq 1 100000; exit 1" }
    const edit = await connection.call("edit", { ...app, path: "f", edits: [{ old: "2", new: "3" }], verify })
    expect(refusalOf(edit)).toMatchObject({ code: "VERIFY_FAILED", details: { exit_code: 1 } })
    const output = String(refusalOf(edit)?.details["output"])
    expect(output.length).toBeLessThan(9000)
    expect(output).toContain("99999\n100000\n")
    expect(textOf(edit)).toContain("99999\n100000\n")
    const write = await connection.call("write", { ...app, path: "w", content: "x", verify: { command: ["false"] } })
    expect(refusalOf(write)?.code).toBe("VERIFY_FAILED")
    expect(now()).toEqual(tree)
  })

  it("runs nothing with check_only, and wants exactly one of command and script", async () => {
    const tree = now()
    const call = (verify: object, more: object = {}) => connection.call("write", { ...app, path: "w", content: "x", verify, ...more })
    expect(structured(await call({ script: "touch ran" }, { check_only: true }))).toMatchObject({ status: "checked" })
    for (const verify of [{}, { command: ["true"], script: "true" }]) expect(refusalOf(await call(verify))?.code).toBe("INVALID_ARGUMENTS")
    expect(now()).toEqual(tree)
  })

  it("is refused by policy where commands are off; patches there work, also with durability power", async () => {
    const patch = patchOf("1", "2")
    const refused = await connection.call("apply_patch", { workspace_id: "locked", patch, verify: { command: ["true"] } })
    expect(refusalOf(refused)).toMatchObject({ code: "POLICY_DENIED", details: { rule: "exec: off" } })
    expect(readFileSync(join(home.home, "locked/f"), "utf8")).toBe("1\n")
    expect(structured(await connection.call("apply_patch", { workspace_id: "locked", patch }))).toMatchObject({ status: "applied" })
  })
})

describe("a patch whose answer never came", () => {
  it("is rolled back when the server is killed while its command verifies; the key runs once more", { timeout: 60_000 }, async () => {
    const home = homeWith({ f: "1\n" })
    const tree = readTree(home.workspace)
    const first = startLines(home)
    const call = { ...app, patch: patchOf("1", "2"), operation_key: "k" }
    void first.call("apply_patch", { ...call, verify: { script: "test -e go || { touch started; exec sleep 60; }" } })
    await until(() => existsSync(join(home.workspace, "started")))
    expect(readFileSync(join(home.workspace, "f"), "utf8")).toBe("2\n")
    await first.kill()
    const second = startLines(home)
    const told = structured(await second.call("operation_status", { operation_key: "k" }))
    expect(told).toMatchObject({ state: "interrupted", changes: [], result: { status: "failed_rolled_back" } })
    rmSync(join(home.workspace, "started"))
    expect(readTree(home.workspace)).toEqual(tree)
    writeFileSync(join(home.workspace, "go"), "")
    const again = { ...call, verify: { script: "test -e go || { touch started; exec sleep 60; }" } }
    const result = await second.call("apply_patch", again)
    expect(structured(result)).toMatchObject({ status: "applied", verify: { exit_code: 0 } })
    expect(structured(await second.call("apply_patch", again))).toEqual(structured(result))
    expect(structured(await second.call("operation_status", { operation_id: String(told["operation_id"]) }))["state"]).toBe("interrupted")
    await second.stop()
  })

  it("is undone when the call is cancelled while its command verifies, and the command ends", { timeout: 60_000 }, async () => {
    const home = homeWith({ f: "1\n" })
    const server = startLines(home)
    void server.call("apply_patch", { ...app, patch: patchOf("1", "2"), operation_key: "k", verify: { script: "touch started; sleep 60" } })
    await until(() => existsSync(join(home.workspace, "started")))
    server.cancel()
    const told = await until(async () => {
      const status = structured(await server.call("operation_status", { ...app, operation_key: "k" }))
      return status["state"] === "running" ? undefined : status
    })
    expect(told).toMatchObject({ state: "cancelled", changes: [] })
    expect(JSON.stringify(told["events"])).toContain("rolled back: every file is as it was")
    expect(readFileSync(join(home.workspace, "f"), "utf8")).toBe("1\n")
    const { processes } = structured(await server.call("list_processes", app)) as {
      readonly processes: ReadonlyArray<{ readonly state: string }>
    }
    expect(processes.filter(({ state }) => state === "running")).toEqual([])
    await server.stop()
  })

  it("R025: a cancelled patch of 200 files is told as it is", { timeout: 60_000 }, async () => {
    const names = Array.from({ length: 200 }, (_, at) => `d/f${at}`)
    const home = homeWith(Object.fromEntries(names.map((name) => [name, "1\n"])))
    const server = startLines(home)
    await server.call("find", { glob: "d/f1" })
    const ends = new Set<unknown>()
    for (let round = 0; round < 12; round++) {
      const [from, to] = readFileSync(join(home.workspace, "d/f0"), "utf8") === "1\n" ? ["1", "2"] : ["2", "1"]
      const patch = `*** Begin Patch\n${names.map((name) => `*** Update File: ${name}\n@@\n-${from}\n+${to}`).join("\n")}\n*** End Patch`
      void server.call("apply_patch", { patch, operation_key: `k${round}` })
      await new Promise((resolve) => setTimeout(resolve, round * 8))
      server.cancel()
      const told = await until(async () => {
        const asked = await server.call("operation_status", { operation_key: `k${round}` })
        if (refusalOf(asked) !== undefined) return { state: refusalOf(asked)?.code }
        return structured(asked)["state"] === "running" ? undefined : structured(asked)
      })
      ends.add(told["state"])
      const contents = new Set(names.map((name) => readFileSync(join(home.workspace, name), "utf8")))
      expect([round, told["state"], [...contents]]).toEqual([round, told["state"], [told["state"] === "done" ? `${to}\n` : `${from}\n`]])
      if (told["state"] === "done") expect((told as { readonly changes: ReadonlyArray<unknown> }).changes.length).toBe(200)
    }
    expect(["done", "cancelled", "OPERATION_NOT_FOUND"]).toEqual(expect.arrayContaining([...ends]))
    await server.stop()
  })

  it("R125: the connection is cut just before the answer; asked by key and by id, the same stored result", {
    timeout: 60_000,
  }, async () => {
    const home = homeWith({ f: "1\n" })
    const first = startLines(home)
    const call = { ...app, patch: patchOf("1", "2"), operation_key: "k" }
    void first.call("apply_patch", call)
    await until(() => existsSync(join(home.workspace, "new/n")))
    await first.stop()
    const second = startLines(home)
    const byKey = structured(await second.call("operation_status", { operation_key: "k" }))
    const operation_id = String(byKey["operation_id"])
    // The end of the connection may have met the call before or behind its commit; either is told.
    const isDone = byKey["state"] === "done"
    expect(readFileSync(join(home.workspace, "f"), "utf8")).toBe(isDone ? "2\n" : "1\n")
    const again = await second.call("apply_patch", call)
    if (isDone) expect(structured(again)).toEqual(byKey["result"])
    else expect(refusalOf(again)?.code).toBe("CANCELLED")
    await second.stop()
    expect(operation_id).toMatch(/^op_/)
  })

  it("R126: a command and a patch in progress, SIGKILL, start: no row runs without a process", { timeout: 60_000 }, async () => {
    const names = Array.from({ length: 100 }, (_, at) => `d/f${at}`)
    const home = homeWith(Object.fromEntries(names.map((name) => [name, "1\n"])))
    const first = startLines(home)
    const ran = structured(
      await first.call("exec_command", { command: ["sleep", "300"], access: "shared", yield_ms: 0, operation_key: "exec" }),
    )
    const patch = `*** Begin Patch\n${names.map((name) => `*** Update File: ${name}\n@@\n-1\n+2`).join("\n")}\n*** End Patch`
    void first.call("apply_patch", { patch, operation_key: "patch" })
    await until(() => readFileSync(join(home.workspace, "d/f50"), "utf8") === "2\n")
    await first.kill()
    const second = startLines(home)
    const exec = structured(await second.call("operation_status", { operation_id: String(ran["operation_id"]) }))
    const patched = structured(await second.call("operation_status", { operation_key: "patch" }))
    expect(exec["state"]).toBe("interrupted")
    expect(JSON.stringify(exec["events"])).toContain("its server ended")
    expect(["done", "interrupted"]).toContain(patched["state"])
    const contents = new Set(names.map((name) => readFileSync(join(home.workspace, name), "utf8")))
    expect([...contents]).toEqual([patched["state"] === "done" ? "2\n" : "1\n"])
    await second.stop()
  })
})

describe("R031: large patches", () => {
  for (const transport of ["stdio", "http"] as const)
    it(`adds 300 KB and 2 MB over ${transport}`, { timeout: 60_000 }, async () => {
      const home = homeWith({ f: "1\n" })
      const served = transport === "http" ? await serve(home) : undefined
      const connection = await connect("v2-2025", served ? { http: served } : { stdio: home })
      try {
        for (const [name, lines] of [
          ["small", 3000],
          ["large", 20_000],
        ] as const) {
          const patch = `*** Begin Patch\n*** Add File: ${name}\n${`+${"x".repeat(99)}\n`.repeat(lines)}*** End Patch`
          const result = await connection.call("apply_patch", { ...app, patch })
          expect([refusalOf(result), structured(result)["status"]]).toEqual([undefined, "applied"])
          expect(readFileSync(join(home.workspace, name)).length).toBe(lines * 100)
        }
      } finally {
        await connection.close()
        await served?.stop()
      }
    })
})

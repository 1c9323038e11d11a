/** The operator's hooks through the built program: whose they are, and what is left of a patch that was cut while one ran. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { startLines } from "../support/LineServer.ts"
import { type Home, makeHome, refusalOf, type ToolResult, textOf } from "../support/Program.ts"
import { readTree } from "../support/Tree.ts"
import { until } from "../support/Until.ts"

const homes: Array<Home> = []
const servers: Array<ReturnType<typeof startLines>> = []
afterAll(async () => {
  for (const server of servers) await server.kill()
  for (const home of homes) home.remove()
})

/** In a script: until the test is over, also when nobody ends it. */
const forever = "while test -e f; do sleep 0.05; done"
const script = (text: string) => ({ command: ["sh", "-c", text, "sh", "{files}"] })

/** A workspace `app` with hooks whose profile lets callers run nothing, beside the one that every home has. */
const hookedHome = (hooks: object, exec: "on" | "off" = "off"): Home => {
  const home = makeHome({})
  homes.push(home)
  const root = join(home.home, "hooked")
  mkdirSync(root)
  writeFileSync(join(root, "f"), "1\n")
  const folder = join(home.env.XDG_CONFIG_HOME, "codespace")
  mkdirSync(folder, { recursive: true })
  const profiles = { own: { extends: "workspace-write", exec } }
  writeFileSync(join(folder, "config.json"), JSON.stringify({ workspaces: { hooked: { root, profile: "own", hooks } }, profiles }))
  return home
}
const start = (home: Home) => {
  const server = startLines(home)
  servers.push(server)
  const call = (name: string, args: object) => server.call(name, { workspace_id: "hooked", ...args })
  return { ...server, call }
}
const at = (home: Home, name: string) => join(home.home, "hooked", name)
const contentOf = (home: Home) => readFileSync(at(home, "f"), "utf8")
const structured = (result: ToolResult) => (result.structuredContent ?? {}) as Readonly<Record<string, unknown>>
const patch = "*** Begin Patch\n*** Update File: f\n@@\n-1\n+2\n*** End Patch"

describe("hooks", { timeout: 60_000 }, () => {
  it("run whatever the profile lets callers run, for all three tools, and no caller sets or skips them", async () => {
    const home = hookedHome({ before_patch: [script("! grep -q locked $1")], after_patch: [script("echo formatted >> $1")] })
    const { call, stop } = start(home)
    const changes = [
      ["apply_patch", { patch }],
      ["edit", { path: "f", edits: [{ old: "2", new: "3" }] }],
      ["write", { path: "f", content: "locked\n" }],
    ] as const
    for (const [tool, args] of changes) {
      for (const extra of [{ hooks: {} }, { skip_hooks: true }])
        expect(refusalOf(await call(tool, { ...args, ...extra }))?.code).toBe("INVALID_ARGUMENTS")
      const checked = await call(tool, { ...args, check_only: true })
      expect(textOf(checked)).toContain("hooks would run: before_patch hook")
      const before = contentOf(home)
      const result = await call(tool, { ...args, operation_key: tool })
      expect(structured(result)["status"]).toBe("applied")
      expect(textOf(result)).toContain('hooks changed \\"f\\"')
      expect(contentOf(home)).not.toBe(before)
      const [change] = structured(result)["changes"] as ReadonlyArray<{ readonly after: string }>
      expect(structured(await call("read", { path: "f" }))["version"]).toBe(change?.after)
      expect(structured(await call(tool, { ...args, operation_key: tool }))).toEqual(structured(result))
    }
    expect(contentOf(home)).toBe("locked\nformatted\n")
    const refused = await call("edit", { path: "f", edits: [{ old: "locked", new: "open" }], operation_key: "refused" })
    expect(refusalOf(refused)).toMatchObject({ code: "VERIFY_FAILED", details: { status: "rejected", exit_code: 1 } })
    expect(refusalOf(refused)?.message).toMatch(/^the before_patch hook .* Nothing was written\./)
    expect(structured(await call("operation_status", { operation_key: "refused" }))).toMatchObject({ state: "failed", changes: [] })
    expect(contentOf(home)).toBe("locked\nformatted\n")
    expect(refusalOf(await call("exec_command", { command: ["true"] }))?.code).toBe("POLICY_DENIED")
    await stop()
  })

  it("keep other patches out, but wait for no process that shares the workspace", async () => {
    const home = hookedHome({ after_patch: [script("touch started; while ! test -e go; do sleep 0.02; done")] }, "on")
    const { call, stop } = start(home)
    await call("exec_command", { command: ["sleep", "300"], access: "shared", yield_ms: 0 })
    const first = call("apply_patch", { patch })
    await until(() => existsSync(at(home, "started")))
    const other = await call("write", { path: "elsewhere", content: "x", lease_wait_ms: 0 })
    expect(refusalOf(other)?.code).toBe("WORKSPACE_BUSY")
    expect(contentOf(home)).toBe("2\n")
    writeFileSync(at(home, "go"), "")
    expect(structured(await first)["status"]).toBe("applied")
    await stop()
  })

  for (const moment of ["before_patch", "after_patch"] as const)
    it(`a server killed during ${moment} leaves the old content, and the ledger says interrupted; the key runs once more`, async () => {
      const home = hookedHome({ [moment]: [script(`test -e go || { echo hooked > seen; cp f seen-f; ${forever}; }`)] })
      const before = readTree(join(home.home, "hooked"))
      const first = start(home)
      void first.call("apply_patch", { patch, operation_key: "k" })
      await until(() => existsSync(at(home, "seen-f")) && readFileSync(at(home, "seen-f"), "utf8") !== "")
      expect(readFileSync(at(home, "seen-f"), "utf8")).toBe(moment === "before_patch" ? "1\n" : "2\n")
      await first.kill()
      const second = start(home)
      const told = structured(await second.call("operation_status", { operation_key: "k" }))
      expect(told).toMatchObject({ state: "interrupted", changes: [], result: { status: "failed_rolled_back" } })
      const { seen, "seen-f": copy, ...tree } = readTree(join(home.home, "hooked"))
      expect([seen, copy === undefined, tree]).toEqual(["644 hooked\n", false, before])
      writeFileSync(at(home, "go"), "")
      expect(structured(await second.call("apply_patch", { patch, operation_key: "k" }))["status"]).toBe("applied")
      expect(contentOf(home)).toBe("2\n")
      await second.stop()
    })

  it("a server killed after the hook changed the file restores what was there before the patch", async () => {
    const home = hookedHome({ after_patch: [script("echo 3 > f.new; mv f.new f"), script(`touch started; ${forever}`)] })
    const first = start(home)
    void first.call("apply_patch", { patch, operation_key: "k" })
    await until(() => existsSync(at(home, "started")))
    expect(contentOf(home)).toBe("3\n")
    await first.kill()
    const second = start(home)
    expect(structured(await second.call("operation_status", { operation_key: "k" }))["state"]).toBe("interrupted")
    expect(contentOf(home)).toBe("1\n")
    await second.stop()
  })

  it("a call cancelled during a hook is undone, and the hook has ended", async () => {
    const home = hookedHome({ after_patch: [script(`echo 3 > f; touch started; ${forever}`)] })
    const server = start(home)
    void server.call("apply_patch", { patch, operation_key: "k" })
    await until(() => existsSync(at(home, "started")))
    expect(contentOf(home)).toBe("3\n")
    server.cancel()
    const told = await until(async () => {
      const status = structured(await server.call("operation_status", { operation_key: "k" }))
      return status["state"] === "running" ? undefined : status
    })
    expect(told).toMatchObject({ state: "cancelled", changes: [] })
    expect(contentOf(home)).toBe("1\n")
    const { processes } = structured(await server.call("list_processes", {})) as {
      readonly processes: ReadonlyArray<{ readonly state: string }>
    }
    expect(processes.map(({ state }) => state)).toEqual(["terminated"])
    await server.stop()
  })
})

/**
 * Calls that wait for a person, through the built program: the operator decides at the command line, in another process,
 * while the caller goes on.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { connect, type Home, main, makeHome, refusalOf, serve } from "../support/Program.ts"

const homes: Array<Home> = []
afterAll(() => {
  for (const home of homes) home.remove()
})

/** A workspace `app` whose changes wait, configured by the file every command reads by itself. */
const guarded = (config: object = {}, workspace: object = {}) => {
  const made = makeHome({ "a.txt": "one\n", "run.sh": "echo ran >> ran.txt\n" })
  homes.push(made)
  const file = join(made.home, "codespace.json")
  writeFileSync(
    file,
    JSON.stringify({
      workspaces: { app: { root: made.workspace, profile: "own", approvals: "confirm", ...workspace } },
      profiles: { own: { extends: "workspace-write", env: ["CI"] } },
      ...config,
    }),
  )
  return { ...made, folders: [], env: { ...made.env, CODESPACE_CONFIG: file } }
}

/** The program as a person at this machine runs it. */
const person = (home: Home, ...args: ReadonlyArray<string>) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [main, ...args], { env: home.env, encoding: "utf8" })
  return { status, text: stdout + stderr }
}

const app = { workspace_id: "app" }
const approvalOf = (result: Parameters<typeof refusalOf>[0]) => {
  const refusal = refusalOf(result)
  expect(refusal?.code).toBe("APPROVAL_REQUIRED")
  return String(refusal?.details["approval_id"])
}

describe("approvals", () => {
  it("hold a patch and a command, show them to the operator, and run each once when granted (R140, R144)", async () => {
    const home = guarded()
    const client = await connect("v2-2025", { stdio: home })
    const patch = { ...app, patch: "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch", operation_key: "k1" }
    const held = approvalOf(await client.call("apply_patch", patch))
    const command = { ...app, command: ["sh", "run.sh"], env: { CI: "secret-value" } }
    const ran = approvalOf(await client.call("exec_command", command))
    expect(readFileSync(join(home.workspace, "a.txt"), "utf8")).toBe("one\n")

    const listed = person(home, "approvals", "list")
    expect(listed.text).toMatch(new RegExp(`${held}  pending  app  apply_patch  update a.txt`))
    expect(listed.text).toMatch(new RegExp(`${ran}  pending  app  exec_command  \\["sh","run.sh"\\]`))
    const shown = person(home, "approvals", "show", held).text
    expect(shown).toContain("-one\n+two\n")
    expect(shown).toContain("rule: approvals: confirm")
    const whole = JSON.parse(person(home, "approvals", "show", ran, "--json").text)
    expect(whole.shown).toMatchObject({ command: ["sh", "run.sh"], cwd: ".", env: ["CI"], profile: "own" })
    expect(JSON.stringify(whole)).not.toContain("secret-value")

    // The caller cannot decide, and the operator's tool is not among its own.
    expect((await client.list()).map(({ name }) => name)).not.toContain("approval_resolve")
    expect(refusalOf(await client.call("operation_resume", { approval_id: held }))?.code).toBe("APPROVAL_REQUIRED")
    expect(person(home, "approvals", "grant", held)).toMatchObject({ status: 0 })
    expect(person(home, "approvals", "grant", ran)).toMatchObject({ status: 0 })
    expect(person(home, "approvals", "grant", ran).status).toBe(1)

    const first = await client.call("operation_resume", { approval_id: held })
    expect(first.structuredContent).toMatchObject({ kind: "apply_patch", result: { status: "applied" } })
    expect((await client.call("operation_resume", { approval_id: held })).structuredContent).toEqual(first.structuredContent)
    expect((await client.call("apply_patch", patch)).structuredContent).toEqual(first.structuredContent?.["result"])
    for (let round = 0; round < 2; round++)
      expect((await client.call("operation_resume", { approval_id: ran })).structuredContent).toMatchObject({ result: { exit_code: 0 } })
    expect(readFileSync(join(home.workspace, "a.txt"), "utf8")).toBe("two\n")
    expect(readFileSync(join(home.workspace, "ran.txt"), "utf8")).toBe("ran\n")
    await client.close()
  })

  it("survive a restart of the server, before and after the decision (R142)", async () => {
    const home = guarded()
    const before = await connect("v1-2025", { stdio: home })
    const granted = approvalOf(await before.call("write", { ...app, path: "b.txt", content: "b\n" }))
    const open = approvalOf(await before.call("write", { ...app, path: "c.txt", content: "c\n" }))
    await before.close()
    expect(person(home, "approvals", "grant", granted)).toMatchObject({ status: 0 })
    const after = await connect("v1-2025", { stdio: home })
    expect((await after.call("operation_resume", { approval_id: granted })).structuredContent).toMatchObject({
      result: { status: "applied" },
    })
    expect(refusalOf(await after.call("operation_resume", { approval_id: open }))?.code).toBe("APPROVAL_REQUIRED")
    expect(existsSync(join(home.workspace, "b.txt"))).toBe(true)
    expect(existsSync(join(home.workspace, "c.txt"))).toBe(false)
    await after.close()
  })

  it("refuse what changed since it was shown: a file, or the script of a command", async () => {
    const home = guarded()
    const client = await connect("v2-2025", { stdio: home })
    const edited = approvalOf(await client.call("edit", { ...app, path: "a.txt", edits: [{ old: "one", new: "two" }] }))
    const ran = approvalOf(await client.call("exec_command", { ...app, script: "sh run.sh" }))
    const created = approvalOf(await client.call("write", { ...app, path: "new.txt", content: "x" }))
    writeFileSync(join(home.workspace, "a.txt"), "one more\n")
    writeFileSync(join(home.workspace, "run.sh"), "touch worse\n")
    writeFileSync(join(home.workspace, "new.txt"), "somebody else's")
    for (const [id, path] of [
      [edited, "a.txt"],
      [ran, "run.sh"],
      [created, "new.txt"],
    ] as const) {
      person(home, "approvals", "grant", id)
      const refusal = refusalOf(await client.call("operation_resume", { approval_id: id }))
      expect(refusal?.code).toBe("APPROVAL_STALE")
      expect(refusal?.message).toContain(path)
    }
    expect(readFileSync(join(home.workspace, "new.txt"), "utf8")).toBe("somebody else's")
    expect(existsSync(join(home.workspace, "worse"))).toBe(false)
    await client.close()
  })

  it("remember commands by their words, list and revoke them (R145)", async () => {
    const home = guarded()
    const client = await connect("v2-2025", { stdio: home })
    const exec = (line: object) => client.call("exec_command", { ...app, ...line })
    const id = approvalOf(await exec({ command: ["echo", "hi"] }))
    expect(person(home, "approvals", "grant", id, "--remember", "echo hi there").status).toBe(2)
    expect(person(home, "approvals", "grant", id, "--remember", "echo hi").status).toBe(0)
    expect((await exec({ command: ["echo", "hi", "you"] })).structuredContent).toMatchObject({ output: "hi you\n" })
    approvalOf(await exec({ script: "echo hi; touch x" }))
    approvalOf(await exec({ script: "X=1 echo hi" }))
    const [grant] = JSON.parse(person(home, "approvals", "grants", "--json").text)
    expect(grant).toMatchObject({ argv: ["echo", "hi"], workspace_id: "app" })
    expect(person(home, "approvals", "revoke", grant.grant_id).status).toBe(0)
    approvalOf(await exec({ command: ["echo", "hi", "again"] }))
    await client.close()
  })

  it("hold a patch by a file rule that asks, and keep commands from writing what it is about", async () => {
    const files = [{ glob: "docs/**", access: "ask", reason: "published" }]
    const home = guarded({ profiles: { own: { extends: "workspace-write", files } } }, { approvals: "off" })
    const client = await connect("v2-2025", { stdio: home })
    expect(refusalOf(await client.call("write", { ...app, path: "b.txt", content: "b\n" }))).toBeUndefined()
    const held = await client.call("write", { ...app, path: "docs/a.md", content: "a\n" })
    expect(refusalOf(held)?.message).toContain('writing "docs/a.md" is held for a person (files: ask docs/** (published))')
    person(home, "approvals", "grant", approvalOf(held))
    await client.call("operation_resume", { approval_id: approvalOf(held) })
    expect(readFileSync(join(home.workspace, "docs/a.md"), "utf8")).toBe("a\n")
    const ran = await client.call("exec_command", { ...app, script: "echo x >> docs/a.md" })
    // Where nothing can confine a command, none runs under such a profile.
    expect(refusalOf(ran)?.code ?? ran.structuredContent?.["exit_code"]).not.toBe(0)
    expect(readFileSync(join(home.workspace, "docs/a.md"), "utf8")).toBe("a\n")
    await client.close()
  })

  it("let the caller itself decide only where the operator says so", async () => {
    const home = guarded({ approvals: { resolver: "caller" } })
    const client = await connect("v2-2025", { stdio: home })
    const id = approvalOf(await client.call("write", { ...app, path: "b.txt", content: "b\n" }))
    const decided = await client.call("approval_resolve", { approval_id: id, decision: "grant" })
    expect(decided.structuredContent).toMatchObject({ state: "granted", decided_by: "caller local" })
    expect((await client.call("operation_resume", { approval_id: id })).structuredContent).toMatchObject({ result: { status: "applied" } })
    await client.close()
    const strict = guarded()
    const other = await connect("v2-2025", { stdio: strict })
    const denied = await other.call("approval_resolve", { approval_id: "apr_x", decision: "grant" }).catch((error: Error) => error.message)
    expect(denied).toContain("Unknown tool")
    await other.close()
  })

  it("are asked for over HTTP too, and refuse an expired one in words that blame nobody (R141)", async () => {
    const home = guarded({ approvals: { expires: "1 millis" } })
    const served = await serve(home)
    const client = await connect("v2-2026", { http: served })
    const id = approvalOf(await client.call("write", { ...app, path: "b.txt", content: "b\n" }))
    const refusal = refusalOf(await client.call("operation_resume", { approval_id: id }))
    expect(refusal?.code).toBe("APPROVAL_CONFLICT")
    expect(refusal?.message).toContain("which is no refusal by anybody")
    expect(person(home, "approvals", "grant", id)).toMatchObject({ status: 1 })
    expect(person(home, "approvals", "list").text).toBe("Nothing waits for a decision.\n")
    await client.close()
    await served.stop()
  })
})

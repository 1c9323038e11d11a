/** Callers over HTTP, on the built program: who is let in, and what the highest profile of a caller leaves of a workspace's. */
import { execFileSync, spawnSync } from "node:child_process"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { type Connection, connect, type Home, main, makeHome, refusalOf, type Served, serve } from "../support/Program.ts"

const homes: Array<Home> = []
const served: Array<Served> = []
afterEach(async () => {
  for (const server of served.splice(0)) await server.stop()
  for (const home of homes.splice(0)) home.remove()
})

const open = async (files: Readonly<Record<string, string>>, config: object = {}) => {
  const home = makeHome(files)
  homes.push(home)
  const file = join(home.home, "config.json")
  writeFileSync(file, JSON.stringify(config))
  const start = async () => {
    const server = await serve(home, ["--config", file])
    served.push(server)
    return server
  }
  const codespace = (...args: ReadonlyArray<string>) =>
    execFileSync(process.execPath, [main, ...args, "--config", file], {
      env: home.env,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    })
  const tokenOf = (name: string, ...args: ReadonlyArray<string>) => codespace("token", "create", name, ...args).trim()
  return { home, file, start, codespace, tokenOf }
}

const as = (server: Served, token: string): Promise<Connection> => connect("v2-2026", { http: { ...server, token } })
const app = { workspace_id: "app" }
const patchOf = (path: string) => `*** Begin Patch\n*** Add File: ${path}\n+new\n*** End Patch`

describe("a token (R118)", () => {
  it("works after a restart, and from the moment it is revoked no more, with a challenge; the disk has only hashes", async () => {
    const { codespace, home, start, tokenOf } = await open({ "a.txt": "a\n" })
    const token = tokenOf("ann", "--workspaces", "app")
    const first = await start()
    const before = await as(first, token)
    expect((await before.call("read", { ...app, path: "a.txt" })).structuredContent).toMatchObject({ text: "a\n" })
    await first.stop()
    const second = await start()
    const after = await as(second, token)
    expect((await after.call("read", { ...app, path: "a.txt" })).structuredContent).toMatchObject({ text: "a\n" })
    expect(codespace("token", "list")).toContain("ann: by token; workspaces app;")
    codespace("token", "revoke", "ann")
    await expect(after.call("read", { ...app, path: "a.txt" })).rejects.toThrow()
    const refused = await fetch(second.endpoint, { method: "POST", headers: { authorization: `Bearer ${token}` }, body: "{}" })
    expect(refused.status).toBe(401)
    expect(refused.headers.get("www-authenticate")).toMatch(/^Bearer error="invalid_token"/)
    const state = join(home.home, "state/codespace")
    for (const name of readdirSync(state, { recursive: true, encoding: "utf8" })) {
      const found = spawnSync("grep", ["-c", token.slice(3), join(state, name)], { encoding: "utf8" }).stdout.trim()
      expect([name, found === "" ? "0" : found]).toEqual([name, "0"])
    }
  })

  it("is refused for a workspace that the operator did not give it, and its owner sees no other (R139)", async () => {
    const { home, start, tokenOf } = await open({ "a.txt": "a\n" })
    const token = tokenOf("ann", "--workspaces", "other")
    const server = await start()
    const ann = await as(server, token)
    expect((await ann.call("workspace_info", {})).structuredContent).toEqual({ workspaces: [] })
    for (const [tool, args] of [
      ["read", { path: "a.txt" }],
      ["write", { path: "a.txt", content: "b" }],
      ["exec_command", { command: ["true"] }],
      ["list_processes", {}],
    ] as const)
      expect(refusalOf(await ann.call(tool, { ...app, ...args }))?.code).toBe("UNAUTHORIZED")
    expect(readFileSync(join(home.workspace, "a.txt"), "utf8")).toBe("a\n")
  })
})

describe("the highest profile of a caller", () => {
  const files = { "src/a.txt": "needle a\n", "docs/d.txt": "needle d\n", "secret.env": "needle s\n" }
  const config = {
    profiles: {
      careful: {
        extends: "workspace-write",
        files: [
          { glob: "docs/**", access: "read" },
          { glob: "**/*.env", access: "deny" },
        ],
        commands: [{ argv: ["git", "push"], decision: "deny" }],
        network: "off",
        limits: { processes: 1 },
      },
    },
  }

  it("holds for every way in: read, find, search, patch, write, commands", async () => {
    const { start, tokenOf } = await open(files, config)
    const [careful, reading] = [tokenOf("careful", "--profile", "careful"), tokenOf("reading", "--profile", "read-only")]
    const server = await start()
    const [owner, ann, bob] = [await as(server, server.token), await as(server, careful), await as(server, reading)]
    const paths = async (who: Connection) => (await who.call("find", { ...app, glob: "**" })).structuredContent?.["paths"]
    const hits = async (who: Connection) => {
      const { matches } = (await who.call("search", { ...app, pattern: "needle" })).structuredContent as {
        matches: ReadonlyArray<{ path: string }>
      }
      return matches.map(({ path }) => path).sort()
    }
    expect(await paths(owner)).toEqual(["docs/d.txt", "secret.env", "src/a.txt"])
    expect(await paths(ann)).toEqual(["docs/d.txt", "src/a.txt"])
    expect(await hits(ann)).toEqual(["docs/d.txt", "src/a.txt"])
    expect(await hits(owner)).toContain("secret.env")
    const codeOf = async (who: Connection, tool: string, args: Record<string, unknown>) =>
      refusalOf(await who.call(tool, { ...app, ...args }))?.code ?? "done"
    expect(await codeOf(ann, "read", { path: "secret.env" })).toBe("POLICY_DENIED")
    expect(await codeOf(ann, "write", { path: "docs/d.txt", content: "x" })).toBe("POLICY_DENIED")
    expect(await codeOf(ann, "apply_patch", { patch: patchOf("docs/n.txt") })).toBe("POLICY_DENIED")
    expect(await codeOf(ann, "apply_patch", { patch: patchOf("src/n.txt") })).toBe("done")
    expect(await codeOf(ann, "exec_command", { command: ["git", "push"] })).toBe("POLICY_DENIED")
    expect(await codeOf(bob, "write", { path: "src/a.txt", content: "x" })).toBe("POLICY_DENIED")
    expect(await codeOf(bob, "exec_command", { command: ["true"] })).toBe("POLICY_DENIED")
    expect(await codeOf(bob, "read", { path: "secret.env" })).toBe("done")
    // Whoever is held to nothing is not held back by those who are.
    expect(await codeOf(owner, "write", { path: "docs/d.txt", content: "owner\n" })).toBe("done")
    const { structuredContent: told } = await ann.call("workspace_info", app)
    expect(told).toMatchObject({ profile: "workspace-write within careful", access: { network: "off" }, limits: { processes: 1 } })
    expect((await owner.call("workspace_info", app)).structuredContent).toMatchObject({ profile: "workspace-write" })
  })

  it("is not passed by way of a process that another caller started", async () => {
    const { start, tokenOf } = await open(files, config)
    const reading = tokenOf("reading", "--profile", "read-only")
    const server = await start()
    const [owner, bob] = [await as(server, server.token), await as(server, reading)]
    const shell = await owner.call("exec_command", { ...app, command: ["cat"], stdin: "open", access: "shared", yield_ms: 0 })
    const { process_id } = shell.structuredContent as { process_id: string }
    for (const [tool, args] of [
      ["write_stdin", { data: "x\n" }],
      ["read_process", {}],
      ["terminate_process", {}],
    ] as const) {
      const refused = refusalOf(await bob.call(tool, { process_id, ...args }))
      expect(refused?.code).toBe("POLICY_DENIED")
      expect(refused?.message).toContain("which another caller started")
    }
    expect((await owner.call("terminate_process", { process_id })).structuredContent).toMatchObject({ state: "terminated" })
  })

  it("lets its caller do nothing once the configuration does not have it any more", async () => {
    const { file, start, tokenOf } = await open(files, config)
    const token = tokenOf("careful", "--profile", "careful")
    writeFileSync(file, "{}")
    const ann = await as(await start(), token)
    expect((await ann.call("workspace_info", {})).structuredContent).toEqual({ workspaces: [] })
    expect(refusalOf(await ann.call("read", { ...app, path: "src/a.txt" }))).toMatchObject({
      code: "UNAUTHORIZED",
      details: { lost_profile: "careful" },
    })
  })
})

describe("codespace operator", () => {
  it("tells where the credential lies, and makes a new one that a running server asks for from then on", async () => {
    const { codespace, start } = await open({})
    const server = await start()
    const file = codespace("operator").trim()
    const health = async (credential: string) =>
      (await fetch(server.endpoint.replace("/mcp", "/healthz"), { headers: { authorization: `Bearer ${credential}` } })).status
    const old = readFileSync(file, "utf8").trim()
    expect(await health(old)).toBe(200)
    expect(JSON.parse(codespace("operator", "--new", "--json"))).toEqual({ file })
    expect(await health(old)).toBe(401)
    expect(await health(readFileSync(file, "utf8").trim())).toBe(200)
  })
})

describe("codespace token", () => {
  it("says what is wrong, and who is known", async () => {
    const { file, home, tokenOf } = await open({})
    const run = (...args: ReadonlyArray<string>) =>
      spawnSync(process.execPath, [main, "token", ...args, "--config", file], { env: home.env, encoding: "utf8" })
    const token = tokenOf("ann")
    expect(token).toMatch(/^cs_[\w-]{43}$/)
    expect(run("create", "ann")).toMatchObject({ status: 1, stdout: "", stderr: expect.stringContaining("revoke it first, or replace it") })
    expect(run("create", "ann", "--replace").status).toBe(0)
    expect(run("create", "local")).toMatchObject({ status: 2, stderr: expect.stringContaining('not "local"') })
    expect(run("create", "bob", "--profile", "nope")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("read-only, workspace-write"),
    })
    expect(run("revoke", "nobody")).toMatchObject({ status: 1, stderr: expect.stringContaining('no caller "nobody"') })
    const made = JSON.parse(run("create", "bob", "--trust-prompts", "--workspaces", "app,lib", "--json").stdout)
    expect(made).toMatchObject({ name: "bob", token: expect.stringMatching(/^cs_/) })
    expect(JSON.parse(run("list", "--json").stdout).callers).toMatchObject([
      { name: "ann", known_by: "token", trust_prompts: false },
      { name: "bob", workspaces: ["app", "lib"], trust_prompts: true },
    ])
  })
})

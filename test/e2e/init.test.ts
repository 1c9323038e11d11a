/** The first minute: `codespace init`, and what the other commands make of what it wrote. */
import { spawnSync } from "node:child_process"
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { type Home, main, makeHome } from "../support/Program.ts"

const homes: Array<Home> = []
const home = (): Home => {
  const made = makeHome({ "a.txt": "a\n" })
  homes.push(made)
  return made
}
afterEach(() => {
  for (const made of homes.splice(0)) made.remove()
})

const run = (made: Home, args: ReadonlyArray<string>, input = "", cwd = made.workspace) =>
  spawnSync(process.execPath, [main, ...args], { env: made.env, encoding: "utf8", input, cwd, timeout: 20_000 })

const configFile = (made: Home) => join(made.env.XDG_CONFIG_HOME, "codespace/config.json")

describe("codespace init", () => {
  it("writes a configuration that serves the folder, and tells each client how", async () => {
    const made = home()
    const first = run(made, ["init"])
    expect([first.status, first.stderr]).toEqual([0, ""])
    expect(first.stdout).toContain(`Wrote ${configFile(made)}`)
    for (const client of ["Claude Code", "Claude Desktop", "Codex", "Cursor", "VS Code", "ChatGPT"])
      expect(first.stdout).toContain(`${client}`)
    expect(statSync(join(made.env.XDG_STATE_HOME, "codespace")).mode & 0o777).toBe(0o700)

    // What a client is told to start works as it stands.
    const { mcpServers } = JSON.parse(/^ {2}(\{"mcpServers".*\})$/m.exec(first.stdout)?.[1] ?? "{}")
    const { args, command } = mcpServers.codespace as { readonly command: string; readonly args: ReadonlyArray<string> }
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "workspace_info", arguments: {} } }
    const served = spawnSync(command, args, { env: made.env, encoding: "utf8", input: `${JSON.stringify(call)}\n`, cwd: "/" })
    expect(JSON.parse(served.stdout).result.structuredContent.workspaces).toMatchObject([
      { workspace_id: "app", profile: "workspace-write" },
    ])
  })

  it("overwrites nothing, and shows a token only once", () => {
    const made = home()
    const token = /^Token: (cs_\S+)$/m.exec(run(made, ["init"]).stdout)?.[1]
    expect(token).toMatch(/^cs_.{40,}/)
    const before = `${readFileSync(configFile(made), "utf8")}// mine\n`
    writeFileSync(configFile(made), before)
    const again = run(made, ["init", made.home])
    expect([again.status, readFileSync(configFile(made), "utf8")]).toEqual([0, before])
    expect(again.stdout).toContain(`${configFile(made)} is there already and stays as it is; nothing of ${made.home} was added`)
    expect(again.stdout).not.toContain(token)
  })

  it("registers the folders it is given, under names that differ, and answers in JSON when asked", () => {
    const made = home()
    for (const folder of ["one/app", "two/app"]) mkdirSync(join(made.home, folder), { recursive: true })
    const file = join(made.home, "elsewhere/own.json")
    const answer = run(made, ["init", "one/app", "two/app", "one/app", "--json", "--config", file], "", made.home)
    const told = JSON.parse(answer.stdout)
    expect(told).toMatchObject({ file, isNew: true, workspaces: ["app", "app-2"], token: expect.stringMatching(/^cs_/) })
    expect(told.clients[0].setups[0].lines[0]).toContain(` mcp --config ${file}`)
    expect(run(made, ["init", "--json", "--config", file]).stdout).toContain('"isNew": false')
  })

  it("leaves no file behind that could not be used", () => {
    const made = home()
    const refused = run(made, ["init", join(made.home, "missing")])
    expect([refused.status, refused.stdout]).toEqual([1, ""])
    expect(refused.stderr).toContain(`workspaces.missing.root: ${made.home}/missing does not exist`)
    expect(() => readFileSync(configFile(made))).toThrow("ENOENT")
    // The home folder holds the state folder, so it is no workspace.
    expect(run(made, ["init", made.home]).stderr).toContain("choose another root")
    expect(() => readFileSync(configFile(made))).toThrow("ENOENT")
  })
})

describe("codespace schema", () => {
  it("prints the schema of the configuration, of the tools and of the operator's API", () => {
    const made = home()
    const config = JSON.parse(run(made, ["schema"]).stdout)
    expect(config.properties.http.properties.port).toMatchObject({ type: "integer", default: 8787 })
    expect(config.additionalProperties).toBe(false)
    const tools = JSON.parse(run(made, ["schema", "tools"]).stdout)
    expect(tools.find(({ name }: { name: string }) => name === "read")).toMatchObject({
      inputSchema: { required: ["workspace_id", "path"] },
      outputSchema: { type: "object" },
      annotations: { readOnlyHint: true },
    })
    const api = JSON.parse(run(made, ["schema", "openapi"]).stdout)
    expect([api.openapi, Object.keys(api.paths)]).toEqual([expect.stringMatching(/^3\./), expect.arrayContaining(["/api/workspaces"])])
    expect(run(made, ["schema", "fly"])).toMatchObject({ status: 2, stdout: "" })
  })

  it("is what the editor's file beside the configuration holds", () => {
    const made = home()
    run(made, ["init"])
    const beside = readFileSync(join(made.env.XDG_CONFIG_HOME, "codespace/config.schema.json"), "utf8")
    expect(beside).toBe(run(made, ["schema", "config"]).stdout)
    expect(readFileSync(configFile(made), "utf8")).toContain('"$schema": "./config.schema.json"')
  })
})

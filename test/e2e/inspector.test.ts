/** The MCP Inspector's strict check of the built program's tool list, and a call through it in both eras. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "vitest"
import { entries } from "../../src/mcp/Tools.ts"
import { main, makeHome } from "../support/Program.ts"

const inspector = fileURLToPath(new URL("../../node_modules/.bin/mcp-inspector", import.meta.url))
const home = makeHome({ "README.md": "# Sample\n" })
/** With a workspace that holds calls there is every tool. */
const held = { root: mkdtempSync(join(home.home, "held-")), profile: "workspace-write", approvals: "confirm" }
const config = join(home.home, "codespace.json")
writeFileSync(config, JSON.stringify({ workspaces: { held }, approvals: { resolver: "caller" } }))
afterAll(home.remove)

/** It hands on no variables but those it is told. */
const environment = ["-e", `CODESPACE_CONFIG=${config}`, "-e", `XDG_STATE_HOME=${home.env.XDG_STATE_HOME}`]

const inspect = (...args: ReadonlyArray<string>): unknown =>
  JSON.parse(
    execFileSync(
      process.execPath,
      [inspector, "--cli", process.execPath, main, "mcp", home.workspace, ...environment, ...args, "--format", "json"],
      {
        env: home.env,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "inherit"],
      },
    ),
  )

describe("the Inspector", () => {
  it("finds no schema that a client could not take", () => {
    // A schema that is not portable ends it with another exit code, and the call throws.
    const listed = inspect("--method", "tools/list", "--strict") as { readonly result: { readonly tools: ReadonlyArray<unknown> } }
    expect(listed.result.tools).toHaveLength(entries.length)
  }, 60_000)

  it.each(["legacy", "modern"])(
    "calls a tool in the %s era",
    (era) => {
      const args = ["--tool-name", "read", "--tool-arg", "workspace_id=app", "--tool-arg", "path=README.md", "--protocol-era", era]
      expect(JSON.stringify(inspect("--method", "tools/call", ...args))).toContain("# Sample")
    },
    60_000,
  )
})

/**
 * The package as a stranger installs it: packed, put into an empty folder of a machine with an empty home, no compiler
 * and install scripts blocked; then configured, examined, used by a client, and embedded by a program.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const folder = realpathSync(mkdtempSync(join(tmpdir(), "codespace-install-")))
const at = (...names: ReadonlyArray<string>) => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What reaches a registry on this machine: its address, proxies, certificates. */
const network = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(npm_config_.*|https?_proxy|no_proxy|node_extra_ca_certs|ssl_cert_file)$/i.test(name)),
)
const settings = join(homedir(), ".npmrc")

const npmProgram = () => {
  const found = (process.env["PATH"] ?? "")
    .split(":")
    .map((place) => join(place, "npm"))
    .find((file) => existsSync(file))
  return found === undefined ? undefined : realpathSync(found)
}

/** The new machine: a home, a project, and in PATH nothing but a shell and Node. */
const env = {
  ...network,
  ...(existsSync(settings) ? { npm_config_userconfig: settings } : {}),
  HOME: at("home"),
  PATH: at("bin"),
  npm_config_cache: at("cache"),
  npm_config_update_notifier: "false",
}
const run = (command: string, args: ReadonlyArray<string>, cwd = at("machine")) =>
  spawnSync(command, args, { cwd, env, encoding: "utf8", timeout: 240_000 })
const npm = (...args: ReadonlyArray<string>) => run(process.execPath, [npmProgram() as string, ...args])
const codespace = (...args: ReadonlyArray<string>) => run(at("machine/node_modules/.bin/codespace"), args, at("home/project"))

/** Why there is nothing to test; the registry is not this project's to answer for. */
const missing: { reason?: string } = {}
const noRegistry = /ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENOTCACHED|ENETUNREACH|EHOSTUNREACH|\bE5\d\d\b|\bE40[347]\b/

const unlessMissing = ({ skip }: TestContext) => (missing.reason === undefined ? undefined : skip(missing.reason))

beforeAll(() => {
  for (const name of ["home/project", "bin", "machine"]) mkdirSync(at(name), { recursive: true })
  symlinkSync(process.execPath, at("bin/node"))
  symlinkSync("/bin/sh", at("bin/sh"))
  writeFileSync(at("home/project/hello.txt"), "hello\n")
  if (npmProgram() === undefined) return void Object.assign(missing, { reason: "npm is not in PATH" })
  const packed = spawnSync("npm", ["pack", "--pack-destination", folder], { cwd: root, encoding: "utf8" })
  if (packed.status !== 0) throw new Error(packed.stderr)
  const [archive = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"))
  const installed = npm("install", "--ignore-scripts", "--no-audit", "--no-fund", at(archive))
  if (installed.status === 0) return
  const [reason] = noRegistry.exec(installed.stderr) ?? []
  if (reason === undefined) throw new Error(installed.stderr)
  Object.assign(missing, { reason: `the registry cannot be reached (${reason})` })
  console.warn(`install.test.ts is skipped: ${missing.reason}`)
}, 300_000)

describe("the packed package", () => {
  it("holds what runs and what is read, and no sources, tests or secrets", (context) => {
    unlessMissing(context)
    const top = readdirSync(at("machine/node_modules/codespace")).sort()
    expect(top).toEqual(["LICENSE", "README.md", "dist", "docs", "package.json"])
    expect(statSync(at("machine/node_modules/codespace/dist/main.mjs")).mode & 0o111).toBe(0o111)
  })

  it("brings few packages, none of which is built on the machine", (context) => {
    unlessMissing(context)
    const names = readdirSync(at("machine/node_modules")).flatMap((name) =>
      name.startsWith("@")
        ? readdirSync(at("machine/node_modules", name)).map((inner) => `${name}/${inner}`)
        : name.startsWith(".")
          ? []
          : [name],
    )
    expect(names.sort()).toEqual(
      ["@lydell/node-pty", "@vscode/ripgrep", "codespace", "node-pty"]
        .flatMap((name) =>
          name === "@lydell/node-pty" || name === "@vscode/ripgrep" ? [`${name}-${process.platform}-${process.arch}`] : [name],
        )
        .concat("@vscode/ripgrep")
        .sort(),
    )
  })

  it("starts, configures itself, finds itself in order and serves a client", async (context) => {
    unlessMissing(context)
    expect(codespace("--version").stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    const init = codespace("init", "--json")
    expect(init.stderr).toBe("")
    const { clients, token, workspaces } = JSON.parse(init.stdout)
    expect([workspaces, token]).toEqual([["project"], expect.stringMatching(/^cs_/)])
    const { findings, ok } = JSON.parse(codespace("doctor", "--json").stdout)
    expect([ok, findings.filter(({ state }: { state: string }) => state === "wrong")]).toEqual([true, []])
    for (const part of ["node", "terminal", "ripgrep", "database"])
      expect(findings.find((one: { part: string }) => one.part === part)).toMatchObject({ state: "ok" })

    const desktop = clients[0].setups.find(({ client }: { client: string }) => client.startsWith("Claude Desktop"))
    const { args, command } = JSON.parse(desktop.lines[0]).mcpServers.codespace
    const client = new Client({ name: "stranger", version: "1" })
    await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }))
    const call = async (name: string, given: object) =>
      (await client.callTool({ name, arguments: { workspace_id: "project", ...given } })).structuredContent
    expect(await call("read", { path: "hello.txt" })).toMatchObject({ text: "hello\n" })
    expect(await call("edit", { path: "hello.txt", edits: [{ old: "hello", new: "bye" }] })).toMatchObject({ status: "applied" })
    expect(await call("search", { pattern: "bye" })).toMatchObject({ files_matched: 1 })
    expect(await call("exec_command", { script: "test -t 1 && echo terminal", tty: { rows: 24, cols: 80 } })).toMatchObject({
      exit_code: 0,
    })
    await client.close()
    const seen = JSON.parse(codespace("doctor", "--json").stdout).findings.find(({ part }: { part: string }) => part === "clients")
    expect(seen.found).toContain("local: exec_command")
  }, 60_000)

  it("is a library with types, on the Effect of the program that embeds it", (context) => {
    unlessMissing(context)
    symlinkSync(join(root, "node_modules/effect"), at("machine/node_modules/effect"))
    symlinkSync(join(root, "node_modules/@types"), at("machine/node_modules/@types"))
    const program = `import { Effect } from "effect"
import { call, Files, layerServicesTest, layerTest } from "codespace"

const refused: Effect.Effect<string> = call("read", { workspace_id: "app", path: "none.txt" }).pipe(
  Effect.as("found"),
  Effect.catchTag("PATH_NOT_FOUND", ({ path }) => Effect.succeed("refused: " + path)),
  Effect.orElseSucceed(() => "something else"),
  Effect.provide(layerTest({ "a.txt": "hello" })),
  Effect.orDie,
)
const read: Effect.Effect<string> = Files.use((files) => files.read({ path: "a.txt" })).pipe(
  Effect.map(({ result }) => String(result.text)),
  Effect.provide(layerServicesTest({ "a.txt": "hello" })),
  Effect.orDie,
)
console.log(await Effect.runPromise(refused), await Effect.runPromise(read))
`
    writeFileSync(at("machine/embed.mts"), program)
    writeFileSync(
      at("machine/tsconfig.json"),
      JSON.stringify({
        compilerOptions: { strict: true, module: "nodenext", target: "es2024", noEmit: true, types: ["node"] },
        include: ["*.mts"],
      }),
    )
    const checked = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", at("machine")], { encoding: "utf8" })
    expect(checked.stdout).toBe("")
    const ran = run(process.execPath, ["embed.mts"])
    expect([ran.stdout, ran.stderr]).toEqual(["refused: none.txt hello\n", ""])
  }, 60_000)
})

describe("the README's second command", () => {
  it("serves the folder in a clean clone, once everything is installed", async ({ skip }) => {
    const clone = at("clone")
    if (spawnSync("git", ["clone", "-q", root, clone]).status !== 0) return skip("this is no git repository")
    symlinkSync(join(root, "node_modules"), join(clone, "node_modules"))
    const { spawn } = await import("node:child_process")
    expect(spawnSync("npm", ["run", "prepare", "--silent"], { cwd: clone }).status).toBe(0)
    const server = spawn("npm", ["start", "--silent", "--", ".", "--port", "0"], {
      cwd: clone,
      env: { ...env, HOME: at("other"), PATH: process.env["PATH"] ?? "" },
    })
    let banner = ""
    for await (const chunk of server.stdout) {
      banner += String(chunk)
      if (banner.includes("Stop with Ctrl-C")) break
    }
    server.kill("SIGTERM")
    expect(banner).toMatch(/^CodeSpace serves clone at http:\/\/127\.0\.0\.1:\d+\/mcp\nToken: cs_/)
  }, 60_000)
})

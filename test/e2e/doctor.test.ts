/** `codespace doctor` on a healthy machine, and with each part broken in turn: one line names it, and the fix (R156). */
import { spawnSync } from "node:child_process"
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "vitest"
import type { Finding } from "../../src/cli/Finding.ts"
import { connect, type Home, main, makeHome, serve } from "../support/Program.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const homes: Array<Home> = []
const home = (): Home => {
  const made = makeHome({ "a.txt": "a\n" })
  homes.push(made)
  return made
}
const folder = realpathSync(mkdtempSync(join(tmpdir(), "codespace-doctor-")))
afterAll(() => {
  for (const made of homes) made.remove()
  rmSync(folder, { recursive: true, force: true })
})

interface Options {
  readonly args?: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  readonly program?: string
  /** What the doctor is started through. */
  readonly through?: ReadonlyArray<string>
}

const doctor = (made: Home, { args = [made.workspace, "--config", quiet], env = {}, program = main, through = [] }: Options = {}) => {
  const [command = "", ...rest] = [...through, process.execPath, program, "doctor", "--json", ...args]
  const { status, stderr, stdout } = spawnSync(command, rest, { env: { ...made.env, ...env }, encoding: "utf8", timeout: 30_000 })
  if (stdout === "") throw new Error(`no answer: ${stderr}`)
  const { findings, ok } = JSON.parse(stdout) as { readonly ok: boolean; readonly findings: ReadonlyArray<Finding> }
  expect(status).toBe(ok ? 0 : 1)
  return { ok, of: (part: string) => findings.find((one) => one.part === part) as Finding, findings }
}

/** A configuration that says nothing but takes any port, so that nobody's server is in the way. */
const quiet = join(folder, "quiet.json")
writeFileSync(quiet, '{ "http": { "port": 0 } }')

const written = (name: string, file: object): string => {
  const path = join(folder, name)
  writeFileSync(path, JSON.stringify(file))
  return path
}

describe("codespace doctor", () => {
  it("finds a healthy machine in order, before the first start and after calls (R156)", async () => {
    const made = home()
    const before = doctor(made)
    expect(before.findings.filter(({ state }) => state === "wrong")).toEqual([])
    expect(before.of("database").found).toContain("is made by the first call")

    const connection = await connect("v2-2025", { stdio: made })
    await connection.call("write", { workspace_id: "app", path: "b.txt", content: "b\n" })
    await connection.close()
    const after = doctor(made)
    expect(after.ok).toBe(true)
    expect(after.of("database")).toMatchObject({ state: "ok", found: expect.stringMatching(/codespace\.sqlite, [\d.]+ KB, in order$/) })
    expect(after.of("clients").found).toMatch(/^last recorded calls: local: write at \d{4}-\d\d-\d\dT/)
    expect(after.of("retention")).toMatchObject({
      state: "ok",
      found: expect.stringMatching(
        /^records [\d.]+ KB of at most 5\.0 GB, kept 90d; output 0 bytes of at most 2\.0 GB of the workspace, kept 7d after the end; journal 0 bytes of patches under way$/,
      ),
    })
  })

  it("shows each part that is kept beside its own bound, and which one is beyond it", async () => {
    const made = home()
    const app = { root: made.workspace, profile: "small" }
    const small = { small: { extends: "workspace-write", limits: { spool_bytes: 500 } } }
    const config = (state_bytes: number) =>
      written("kept.json", { http: { port: 0 }, workspaces: { app }, profiles: small, retention: { state_bytes, processes: "1 hour" } })
    const connection = await connect("v2-2025", { stdio: made })
    await connection.call("exec_command", { workspace_id: "app", command: ["echo", "x".repeat(5000)], yield_ms: 20_000 })
    const looked = doctor(made, { args: ["--config", config(10_000_000)] }).of("retention")
    await connection.close()
    expect(looked).toMatchObject({ state: "note", fix: expect.stringContaining("spool_bytes") })
    expect(looked.found).toMatch(/; output 10\.\d KB of at most 3\.9 KB of the workspace, kept 1h after the end; /)
    expect(doctor(made, { args: ["--config", config(1000)] }).of("retention")).toMatchObject({
      state: "note",
      found: expect.stringMatching(/^records [\d.]+ KB of at most 1000 bytes, /),
      fix: expect.stringContaining("retention.state_bytes"),
    })
  })

  it("says it in text, one line a part", () => {
    const made = home()
    const { stdout } = spawnSync(process.execPath, [main, "doctor", made.workspace, "--config", quiet], { env: made.env, encoding: "utf8" })
    const parts = doctor(made).findings.map(({ part }) => part)
    expect(parts).toEqual(
      expect.arrayContaining(["node", "configuration", "state", "database", "retention", "sandbox", "terminal", "path", "git"]),
    )
    for (const part of parts) expect(stdout).toMatch(new RegExp(`^(ok   |note |WRONG)  ${part} `, "m"))
    expect(stdout.split("\n").filter((line) => line !== "" && !line.startsWith(" "))).toHaveLength(parts.length)
  })

  it("names the field of a configuration that cannot be used", () => {
    const { of, ok } = doctor(home(), { args: ["--config", written("bad.json", { http: { colour: 1 } })] })
    expect([ok, of("configuration").state]).toEqual([false, "wrong"])
    expect(of("configuration").found).toContain("http.colour")
    expect(of("port").state).not.toBe("wrong")
  })

  it("names a state folder that others can enter, and does not mend it in silence", () => {
    const made = home()
    const state = join(made.env.XDG_STATE_HOME, "codespace")
    mkdirSync(state, { recursive: true })
    chmodSync(state, 0o755)
    expect(doctor(made).of("state")).toMatchObject({
      state: "note",
      found: expect.stringContaining("mode 755"),
      fix: expect.stringContaining("chmod 700"),
    })
    expect(doctor(made).of("state")).toMatchObject({ state: "ok" })
  })

  it("names a database that is none, and goes on once it was renewed (R155, R156)", async () => {
    const made = home()
    const state = join(made.env.XDG_STATE_HOME, "codespace")
    mkdirSync(state, { recursive: true, mode: 0o700 })
    writeFileSync(join(state, "codespace.sqlite"), "this is no database, however long one looks at it. ".repeat(200))
    const { of, ok } = doctor(made)
    expect([ok, of("database").state]).toEqual([false, "wrong"])
    expect(of("database").found).toContain(join(state, "codespace.sqlite"))
    expect(of("database").fix).toContain("backup")
    // Looking changed nothing; a server that works on it sets the file aside, and that is said as well.
    expect(doctor(made).of("database").found).toBe(of("database").found)
    const connection = await connect("v2-2025", { stdio: made })
    expect((await connection.call("write", { workspace_id: "app", path: "b.txt", content: "b" })).isError).toBe(true)
    await connection.close()
    expect(doctor(made).of("database")).toMatchObject({
      state: "wrong",
      found: expect.stringMatching(/is kept as codespace\.damaged-.*\.sqlite/),
    })
    expect(spawnSync(process.execPath, [main, "audit", "renew"], { env: made.env }).status).toBe(0)
    expect(doctor(made).of("database").state).toBe("ok")
  })

  it("names the sandbox when bubblewrap cannot start, and counts it where it is required", ({ skip }) => {
    const program = ["/usr/bin/bwrap", "/bin/bwrap"].find((file) => existsSync(file))
    const through = [program ?? "", "--dev-bind", "/", "/", "--bind", "/dev/null", realpathSync(program ?? "/")]
    if (program === undefined || spawnSync(program, ["--dev-bind", "/", "/", "true"]).status !== 0)
      return skip("bubblewrap does not run here, so there is nothing to break")
    const made = home()
    const asked = doctor(made, { through })
    expect(asked.of("sandbox")).toMatchObject({
      state: "note",
      found: expect.stringContaining("commands cannot be confined: "),
      fix: expect.stringContaining("bubblewrap"),
    })
    const workspaces = { app: { root: made.workspace, profile: "workspace-write", sandbox: "required" } }
    const required = doctor(made, { through, args: ["--config", written("required.json", { http: { port: 0 }, workspaces })] })
    expect([required.ok, required.of("sandbox").state]).toEqual([false, "wrong"])
    expect(doctor(made).of("sandbox").found).toContain("commands are confined by bubblewrap")
  })

  it("names PATH, git and the Node that clients would start it with (R150)", () => {
    const made = home()
    const bin = join(folder, "bin")
    mkdirSync(bin)
    symlinkSync("/bin/sh", join(bin, "sh"))
    writeFileSync(join(bin, "node"), "#!/bin/sh\necho v20.11.1\n", { mode: 0o755 })
    const { of } = doctor(made, { env: { PATH: `${bin}:${folder}/nowhere` } })
    expect(of("path")).toMatchObject({ state: "note", found: expect.stringContaining(`${folder}/nowhere cannot be opened`) })
    expect(of("git")).toMatchObject({ state: "note", fix: expect.stringContaining("install git") })
    expect(of("node")).toMatchObject({
      state: "note",
      found: expect.stringContaining(`${bin}/node, version 20.11`),
      fix: expect.stringContaining(process.execPath),
    })
    expect(doctor(made, { env: { PATH: "" } }).of("path")).toMatchObject({ state: "wrong" })
    const named = doctor(made, { args: ["--config", written("path.json", { http: { port: 0 }, path: [bin] })] })
    expect(named.of("path")).toEqual({ part: "path", state: "ok", found: `${bin} (as "path" of the configuration says)` })
  })

  it("names file and fix of a terminal and of a search that lost a right or a byte, and the rest goes on (R151)", () => {
    const made = home()
    const place = join(folder, "install")
    for (const path of ["dist", "package.json", "node_modules/node-pty", "node_modules/@lydell", "node_modules/@vscode"])
      if (existsSync(join(root, path))) cpSync(join(root, path), join(place, path), { recursive: true })
    const program = join(place, "dist/main.mjs")
    expect(
      doctor(made, { program }).findings.filter(({ part, state }) => state !== "ok" && (part === "terminal" || part === "ripgrep")),
    ).toEqual([])
    const native = join(place, `node_modules/@lydell/node-pty-${process.platform}-${process.arch}/pty.node`)
    writeFileSync(native, "broken")
    const rg = join(place, `node_modules/@vscode/ripgrep-${process.platform}-${process.arch}/bin/rg`)
    chmodSync(rg, 0o644)
    const { of, ok } = doctor(made, { program })
    expect(of("terminal")).toMatchObject({ state: "note", fix: expect.stringContaining(native) })
    expect(of("ripgrep")).toMatchObject({ state: "wrong", fix: `chmod +x ${rg}` })
    expect(ok).toBe(false)
    rmSync(dirname(native), { recursive: true })
    expect(doctor(made, { program }).of("terminal").fix).toContain("npm install --include=optional")
  })

  it("names a port that somebody else has, and knows a server of its own", async () => {
    const made = home()
    const stranger = createServer((_request, response) => response.end("hello"))
    await new Promise<void>((resolve) => stranger.listen(0, "127.0.0.1", resolve))
    const { port } = stranger.address() as AddressInfo
    // The stranger lives in this process, so it must be able to answer while the doctor asks.
    const asked = await asynchronously(made, written("port.json", { http: { port } }))
    stranger.close()
    expect(asked).toMatchObject({ state: "note", found: expect.stringContaining(`127.0.0.1:${port} cannot be listened at: EADDRINUSE`) })

    const served = await serve(made)
    const own = Number(new URL(served.endpoint).port)
    expect(doctor(made, { args: ["--config", written("own.json", { http: { port: own } })] }).of("port")).toMatchObject({
      state: "ok",
      found: `a codespace server listens at 127.0.0.1:${own}`,
    })
    await served.stop()
  })

  it("says where sockets go when a home is too long for one (R153)", () => {
    const made = home()
    const long = join(made.home, "a".repeat(120))
    const { of, ok } = doctor(made, { env: { XDG_STATE_HOME: long } })
    expect([ok, of("sockets").state]).toEqual([true, "note"])
    expect(of("sockets").found).toMatch(/a{120}\/codespace is too long for the path of a socket; those of workers lie in \S+$/)
    const short = mkdtempSync("/tmp/cs-")
    expect(doctor(made, { env: { XDG_STATE_HOME: short } }).of("sockets")).toMatchObject({
      state: "ok",
      found: `of workers: in ${short}/codespace/workers`,
    })
    rmSync(short, { recursive: true })
  })
})

const asynchronously = async (made: Home, config: string): Promise<Finding | undefined> => {
  const { spawn } = await import("node:child_process")
  const child = spawn(process.execPath, [main, "doctor", "--json", "--config", config], {
    env: made.env,
    stdio: ["ignore", "pipe", "ignore"],
  })
  let text = ""
  for await (const chunk of child.stdout) text += String(chunk)
  return (JSON.parse(text) as { readonly findings: ReadonlyArray<Finding> }).findings.find(({ part }) => part === "port")
}

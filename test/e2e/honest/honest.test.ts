/**
 * The honest-programs suite: what agents run all day works in the sandbox, as this user and, where this user may become
 * another, as an ordinary one; and it leaves nothing behind that it did not make itself.
 */
import { execFileSync, spawnSync } from "node:child_process"
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { holding } from "../../support/Processes.ts"
import { main } from "../../support/Program.ts"
import { startServer } from "../../support/RawServer.ts"
import { until } from "../../support/Until.ts"
import { users, visibleFolder, type Who } from "../../support/Users.ts"
import { files, honest } from "./Programs.ts"

const whyNot = !existsSync(main) ? "dist/main.mjs is not built (npm run build)" : holding.by === "group" ? holding.why : undefined
if (whyNot !== undefined) console.warn(`honest.test.ts is skipped: ${whyNot}`)

const dependency = fileURLToPath(new URL("../../../node_modules/jsonc-parser", import.meta.url))
const networks = { app: "off", looped: "loopback", listed: { allow: ["*.example"] }, open: "on", tree: "off" } as const

const openHouse = (who: Who) => {
  const base = realpathSync(mkdtempSync(join(visibleFolder(), "codespace-honest-")))
  const at = (name: string) => join(base, name)
  const git = (folder: string, ...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: at(folder), stdio: "pipe" })
  const fill = (folder: string, tree: Readonly<Record<string, string>>): void => {
    for (const [name, text] of Object.entries(tree)) {
      mkdirSync(dirname(join(at(folder), name)), { recursive: true })
      writeFileSync(join(at(folder), name), text)
    }
  }
  for (const name of ["app", "looped", "listed", "open"]) fill(name, files)
  for (const name of ["main", "lib-source"]) fill(name, { f: "1\n" })
  cpSync(dependency, at("app/node_modules/jsonc-parser"), { recursive: true })
  for (const name of ["app", "main", "lib-source"]) {
    git(name, "init", "-q", "-b", "main")
    git(name, "add", ".")
    git(name, "commit", "-qm", "first")
  }
  git("main", "worktree", "add", "-q", at("tree"))
  git("app", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", at("main"), "lib")
  git("app", "commit", "-qm", "with a submodule")
  const rust = { RUSTUP_HOME: join(homedir(), ".rustup"), CARGO_HOME: "/tmp/cargo" }
  const workspaces = Object.keys(networks).map((id) => [id, { root: at(id), profile: `with-${id}`, sandbox: "required" }])
  const profiles = Object.entries(networks).map(([id, network]) => [
    `with-${id}`,
    { extends: "workspace-write", network, env: Object.keys(rust) },
  ])
  fill("home", { "config.json": JSON.stringify({ workspaces: Object.fromEntries(workspaces), profiles: Object.fromEntries(profiles) }) })
  execFileSync("chown", ["-R", `${who.uid}:${who.uid}`, base])
  execFileSync("chmod", ["755", base])
  const env = { PATH: process.env["PATH"] ?? "", HOME: at("home"), ...rust }
  const start = () => startServer({ env } as never, ["--config", at("home/config.json")], who.as)
  let running = start()
  const call = (name: string, args: object) => running.call(name, args)
  return {
    at,
    call,
    exec: (place: string, script: string, more: object = {}) =>
      call("exec_command", { workspace_id: place, script, timeout_ms: 60_000, yield_ms: 50_000, ...more }),
    /** What git and a listing say of the workspace, from outside. */
    looks: () => ({
      status: execFileSync("git", ["-c", "safe.directory=*", "status", "--porcelain", "--ignored"], { cwd: at("app"), encoding: "utf8" }),
      root: readdirSync(at("app")).sort(),
      git: readdirSync(at("app/.git")).sort(),
    }),
    /** Kills the server, and starts another. */
    kill: async (meanwhile: () => void = () => {}) => {
      running.child.kill("SIGKILL")
      await running.ended
      meanwhile()
      running = start()
    },
    close: async () => {
      running.child.stdin.end()
      await running.ended
      rmSync(base, { recursive: true, force: true })
    },
  }
}

const can = (program: string, { as }: Who): boolean => {
  const [first = "", ...rest] = [
    ...as,
    "sh",
    "-c",
    `command -v ${program} >/dev/null && { case ${program} in cargo|npm|python3) ${program} --version;; esac; }`,
  ]
  return spawnSync(first, rest, { env: { PATH: process.env["PATH"] ?? "", HOME: as.length > 0 ? "/nonexistent" : homedir() } }).status === 0
}

const suite = (who: Who) => {
  let house: ReturnType<typeof openHouse>
  beforeAll(() => {
    house = openHouse(who)
  })
  afterAll(() => house.close())

  for (const { in: place = "app", name, needs, says, scripts } of honest) {
    const missing = needs.filter((program) => !can(program, who))
    if (missing.length > 0) console.warn(`"${name}" is not tried as ${who.name}: no ${missing.join(", no ")} for this user`)
    it.skipIf(missing.length > 0)(name, async () => {
      let output = ""
      for (const script of scripts) {
        const result = await house.exec(place, script)
        output = String(result["output"])
        expect(result, JSON.stringify(result)).toMatchObject({ state: "exited", exit_code: 0 })
      }
      expect(output).toMatch(says)
    })
  }

  it("a shell in a terminal has its jobs, its interrupts and its size", async () => {
    const started = await house.call("exec_command", {
      workspace_id: "app",
      command: ["bash", "--norc", "-i"],
      tty: { rows: 30, cols: 100 },
      stdin: "open",
      yield_ms: 300,
      env: {},
    })
    const { process_id } = started
    expect(started, JSON.stringify(started)).toMatchObject({ state: "running" })
    const type = (data: string) => house.call("write_stdin", { process_id, data, yield_ms: 200 })
    const seen = (text: string) =>
      until(async () => String((await house.call("read_process", { process_id, clean: true }))["output"]).includes(text))
    await type("stty size; sleep 50 & jobs\n")
    await seen("30 100")
    await seen("Running")
    await type("fg\n")
    await house.call("write_stdin", { process_id, signal: "SIGINT", yield_ms: 200 })
    await type("echo back$((1 + 1))\n")
    await seen("back2")
    await type("exit 3\n")
    await until(async () => (await house.call("read_process", { process_id }))["exit_code"] === 3)
  })

  it("puts the configuration back that a command could write when its server was killed", async () => {
    const config = house.at("app/.git/config")
    const before = readFileSync(config, "utf8")
    const adding = await house.exec("app", "git remote add killed ../x && echo added; sleep 30", { yield_ms: 0 })
    await until(async () => String((await house.call("read_process", { process_id: adding["process_id"] }))["output"]).includes("added"))
    expect(readFileSync(config, "utf8")).toContain("killed")
    await house.kill(() => appendFileSync(config, "[core]\n\tfsmonitor = evil\n"))
    // A server opens its workspaces when somebody asks.
    await house.call("list_processes", { workspace_id: "app" })
    expect(readFileSync(config, "utf8")).toBe(before)
    expect(await house.exec("app", "git remote add again ../x && git remote remove again")).toMatchObject({ exit_code: 0 })
  })

  it("leaves the workspace as it was, before, while it runs, after it, and after a kill of the server", async () => {
    const before = house.looks()
    const { process_id } = await house.exec("app", "echo on; sleep 30", { yield_ms: 0, access: "shared" })
    await until(async () => String((await house.call("read_process", { process_id }))["output"]).includes("on"))
    expect(house.looks()).toEqual(before)
    await house.call("terminate_process", { process_id, grace_ms: 100 })
    expect(house.looks()).toEqual(before)
    await house.exec("app", "echo on; sleep 30", { yield_ms: 200, access: "shared" })
    await house.kill()
    expect(house.looks()).toEqual(before)
    expect(await house.exec("app", "true")).toMatchObject({ exit_code: 0 })
    expect(house.looks()).toEqual(before)
  })
}

describe.skipIf(whyNot !== undefined)("honest programs in the sandbox", { timeout: 120_000 }, () => {
  for (const who of users("honest.test.ts")) describe(`as ${who.name}`, () => suite(who))
})

/**
 * The built program as root, with a worker that is another user: what that one is to the kernel, what it cannot come to, and
 * that patches, commands, sandbox, recovery and a detached lifetime work as they do elsewhere.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { homeOf } from "../../src/layers/WorkerUser.ts"
import { type Home, main, makeHome } from "../support/Program.ts"
import { startServer } from "../support/RawServer.ts"
import { livingIn } from "../support/Survivors.ts"
import { readTree } from "../support/Tree.ts"
import { until } from "../support/Until.ts"
import { users } from "../support/Users.ts"

const nobody = users("worker-user.test.ts").find(({ uid }) => uid === 65534)
if (nobody === undefined) console.warn("worker-user.test.ts is skipped: this user is not root, or nobody cannot read the program")
const uid = 65534

interface Made extends Home {
  readonly config: string
  readonly state: string
  /** Where the worker has what is its own. */
  readonly own: string
  readonly start: () => ReturnType<typeof startServer>
}

const all: Array<Made> = []
const make = (environment: object, { sandbox = "auto", files = {} as Readonly<Record<string, string>> } = {}): Made => {
  const home = makeHome({ "a.txt": "old\n", ...files })
  chmodSync(home.home, 0o711)
  for (const path of [home.workspace, ...readdirSync(home.workspace).map((name) => join(home.workspace, name))]) chownSync(path, uid, uid)
  const config = join(home.home, "config.json")
  const app = { root: home.workspace, profile: "workspace-write", environment: "b", sandbox }
  writeFileSync(config, JSON.stringify({ workspaces: { app }, environments: { b: { kind: "worker", user: "nobody", ...environment } } }), {
    mode: 0o600,
  })
  const state = join(home.env.XDG_STATE_HOME, "codespace")
  const own = homeOf(state, "b", { name: "nobody", uid, gid: uid, home: "/", shell: "/bin/sh" })
  const made = { ...home, config, state, own, start: () => startServer(home, ["--config", config]) }
  all.push(made)
  return made
}

/** Sockets, from the folder. What else is in it comes and goes, so it is not looked at. */
const socketsIn = (folder: string): ReadonlyArray<string> => {
  const named = existsSync(folder) ? readdirSync(folder).filter((name) => /^s(~|$)/u.test(name)) : []
  return named.flatMap((name) =>
    readdirSync(join(folder, name))
      .filter((file) => file.endsWith(".sock"))
      .map((file) => join(name, file)),
  )
}
/** The workers that run. */
const workersOf = ({ own }: Made): ReadonlyArray<number> =>
  socketsIn(own)
    .flatMap((name) => /(\d+)\.[^/]*\.sock$/u.exec(name)?.[1] ?? [])
    .map(Number)
    .filter((pid) => existsSync(`/proc/${pid}`))

afterAll(async () => {
  for (const made of all) {
    for (const pid of workersOf(made)) process.kill(pid, "SIGTERM")
    await until(() => workersOf(made).length === 0 && livingIn(made.home).length === 0)
    rmSync(made.own, { recursive: true, force: true })
    made.remove()
  }
})

const killed = async (server: ReturnType<typeof startServer>) => {
  server.child.kill("SIGKILL")
  await server.ended
}
const fieldsOf = (pid: number, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  readFileSync(`/proc/${pid}/status`, "utf8")
    .split("\n")
    .filter((line) => names.includes(line.split(":")[0] ?? ""))
    .map((line) => line.trim())

/** Whether the user can do this in a shell of its own. */
const canNobody = (script: string): boolean => {
  const [program = "", ...args] = [...(nobody?.as ?? []), "/bin/sh", "-c", script]
  return spawnSync(program, args, { env: { PATH: process.env["PATH"] ?? "" } }).status === 0
}

const canConfine = canNobody("exec bwrap --ro-bind / / true")

describe.skipIf(nobody === undefined)("a worker of another user", { timeout: 60_000 }, () => {
  it("is that user to the kernel, with no group and no right besides", async () => {
    const made = make({})
    const server = made.start()
    const ran = await server.call("exec_command", { script: "id -u; id -g; id -G; echo $HOME $USER", yield_ms: 20_000 })
    expect(ran).toMatchObject({ output: "65534\n65534\n65534\n/nonexistent nobody\n", exit_code: 0 })
    const [pid = 0] = workersOf(made)
    expect(fieldsOf(pid, ["Uid", "Gid", "Groups", "CapEff", "CapPrm"])).toEqual([
      `Uid:\t${Array(4).fill(uid).join("\t")}`,
      `Gid:\t${Array(4).fill(uid).join("\t")}`,
      "Groups:",
      "CapPrm:\t0000000000000000",
      "CapEff:\t0000000000000000",
    ])
    await killed(server)
    await until(() => workersOf(made).length === 0)
  })

  it("cannot read the server's state, ledger, credential and configuration, nor its own socket's folder", async () => {
    const made = make({}, { sandbox: "off" })
    const server = made.start()
    await server.call("write", { path: "b.txt", content: "b\n" })
    const secrets = [join(made.state, "codespace.sqlite"), made.config, ...readdirSync(made.state).map((name) => join(made.state, name))]
    for (const path of secrets) {
      expect([path, existsSync(path)]).toEqual([path, true])
      const { exit_code } = await server.call("exec_command", { command: ["cat", path], yield_ms: 20_000 })
      expect([path, exit_code]).toEqual([path, 1])
    }
    const [socket = ""] = socketsIn(made.own).map((name) => join(made.own, name))
    expect([statSync(socket).uid, statSync(socket).mode & 0o777]).toEqual([uid, 0o600])
    expect([statSync(join(socket, "..")).uid, statSync(join(socket, "..")).mode & 0o777]).toEqual([0, 0o700])
    const connect = `require("net").connect(process.argv[1]).once("connect", () => process.exit(0)).once("error", () => process.exit(1))`
    expect(spawnSync(process.execPath, ["-e", connect, socket]).status).toBe(0)
    expect(canNobody(`exec '${process.execPath}' --version`)).toBe(true)
    expect(canNobody(`exec '${process.execPath}' -e '${connect.replaceAll("'", "")}' '${socket}'`)).toBe(false)
    expect(canNobody(`mv '${join(made.own, "state")}' '${join(made.own, "other")}'`)).toBe(false)
    await killed(server)
  })

  it("patches and runs in a workspace of that user; what it keeps is in a folder of that user", async () => {
    const made = make({})
    const server = made.start()
    const patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** Add File: c.txt\n+c\n*** End Patch\n"
    expect(await server.call("apply_patch", { patch })).toMatchObject({ status: "applied" })
    expect(Object.keys(readTree(made.workspace)).map((name) => statSync(join(made.workspace, name)).uid)).toEqual([uid, uid])
    const ran = await server.call("exec_command", { script: "id -u; cat a.txt; touch d.txt", yield_ms: 20_000 })
    expect(ran).toMatchObject({ output: "65534\nnew\n", exit_code: 0 })
    // Where this machine confines an ordinary user's commands it confines these.
    if (canConfine) expect(ran["sandbox"]).toMatch(/^bubblewrap/u)
    else console.warn("commands of nobody are not confined here, which is not tested")
    expect(statSync(join(made.workspace, "d.txt")).uid).toBe(uid)
    const state = join(made.own, "state")
    expect([statSync(state).uid, statSync(state).mode & 0o777]).toEqual([uid, 0o700])
    expect(readdirSync(state)).toEqual(expect.arrayContaining(["journal", "spools"]))
    expect(readdirSync(made.state)).not.toContain("journal")
    await killed(server)
  })

  it("that is killed in the middle of a patch is recovered by the next one", async () => {
    const made = make({})
    const server = made.start()
    const verify = { script: "touch here; sleep 300", timeout_ms: 60_000 }
    const answer = server.call("write", { path: "a.txt", content: "new\n", verify })
    await until(() => existsSync(join(made.workspace, "here")))
    for (const pid of workersOf(made)) process.kill(pid, "SIGKILL")
    expect(JSON.stringify(await answer)).toContain("rolled back: every file is as it was")
    expect(readFileSync(join(made.workspace, "a.txt"), "utf8")).toBe("old\n")
    await killed(server)
  })

  it("that is detached goes on without its server, and the next one reads on at the same cursor", async () => {
    const made = make({ lifetime: "detached" })
    const first = made.start()
    const started = await first.call("exec_command", {
      script: "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 7",
      yield_ms: 300,
    })
    const { cursor, operation_id, process_id } = started
    expect(started["output"]).toBe("one\n")
    const [pid] = workersOf(made)
    await killed(first)
    const second = made.start()
    await second.call("workspace_info", {})
    writeFileSync(join(made.workspace, "go"), "")
    const page = await second.call("read_process", { process_id, cursor, wait_ms: 20_000, until: "two\n" })
    expect(page["output"]).toBe("two\n")
    await until(async () => (await second.call("operation_status", { operation_id }))["state"] === "done")
    expect(await second.call("operation_status", { operation_id })).toMatchObject({ result: { exit_code: 7 } })
    expect(workersOf(made)).toEqual([pid])
    expect([statSync(join(made.own, "log")).uid, statSync(join(made.own, "log")).mode & 0o777]).toEqual([0, 0o600])
    await killed(second)
  })

  it("that is detached is one for servers that start at the same time", async () => {
    const made = make({ lifetime: "detached" })
    const servers = [made.start(), made.start(), made.start()]
    const ran = await Promise.all(
      servers.map((server) => server.call("exec_command", { command: ["id", "-u"], access: "shared", yield_ms: 20_000 })),
    )
    expect(ran.map(({ output }) => output)).toEqual(["65534\n", "65534\n", "65534\n"])
    expect(workersOf(made).length).toBe(1)
    await Promise.all(servers.map(killed))
  })

  it("is refused by a server that is not root, which says where it stands in the configuration", () => {
    const made = make({})
    chmodSync(made.config, 0o644)
    const [program = "", ...args] = [...(nobody?.as ?? []), process.execPath, main, "mcp", "--config", made.config]
    const { status, stderr } = spawnSync(program, args, { env: { ...made.env, HOME: "/tmp" }, encoding: "utf8", input: "" })
    expect([status, stderr]).toEqual([1, expect.stringMatching(/environments\.b\.user: only a server that runs as root .* as user 65534/u)])
  })

  it("that may not enter its workspace is refused there, and doctor says so before", async () => {
    const made = make({})
    chownSync(made.workspace, 0, 0)
    chmodSync(made.workspace, 0o700)
    const doctor = (PATH: string = made.env.PATH) => {
      const env = { ...made.env, PATH }
      const { stdout } = spawnSync(process.execPath, [main, "doctor", "--json", "--config", made.config], { env, encoding: "utf8" })
      const { findings } = JSON.parse(stdout) as { readonly findings: ReadonlyArray<{ readonly part: string }> }
      return findings.filter(({ part }) => part === "user")
    }
    expect(doctor()).toMatchObject([
      { state: "wrong", found: expect.stringContaining(`nobody (65534:65534) may not change ${made.workspace}`) },
    ])
    const server = made.start()
    expect(JSON.stringify(await server.call("read", { path: "a.txt" }))).toMatch(/PATH_PROTECTED.*EACCES/u)
    await killed(server)
    chownSync(made.workspace, uid, uid)
    const [found] = doctor()
    if (canConfine) expect(found).toMatchObject({ state: "ok", found: expect.stringContaining("nobody") })
    // A bubblewrap that works for root alone, as where the system lets nobody else make namespaces.
    const bin = join(made.home, "bin")
    mkdirSync(bin)
    chmodSync(bin, 0o755)
    const bwrap = spawnSync("/bin/sh", ["-c", "command -v bwrap"], { encoding: "utf8" }).stdout.trim()
    writeFileSync(
      join(bin, "bwrap"),
      `#!/bin/sh
[ "$(id -u)" = 0 ] && exec ${bwrap} "$@"
exit 1
`,
    )
    chmodSync(join(bin, "bwrap"), 0o755)
    expect(doctor(`${bin}:${made.env.PATH}`)).toMatchObject([{ state: "note", found: expect.stringContaining("cannot be confined") }])
  })
})

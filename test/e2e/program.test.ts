/** The built program as an operating system and a person meet it: how it starts, what it prints, how it ends. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterEach, describe, expect, it } from "vitest"
import { patient } from "../support/Patience.ts"
import { connect, type Home, main, makeHome, refusalOf, serve, textOf } from "../support/Program.ts"
import { commandsIn } from "../support/Survivors.ts"

const homes: Array<Home> = []
const home = (files: Readonly<Record<string, string>> = { "a.txt": "a\n" }): Home => {
  const made = makeHome(files)
  homes.push(made)
  return made
}
afterEach(() => {
  for (const made of homes.splice(0)) made.remove()
})

const run = (args: ReadonlyArray<string>, made: Home) =>
  spawnSync(process.execPath, [main, ...args], { env: made.env, encoding: "utf8", input: "", timeout: 20_000 })

const app = { workspace_id: "app" }

/** Waits for a state; the test's own time limit ends it. */
const until = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20))
}

/** A raw stdio connection, for what a well-behaved client would not do. */
const raw = (made: Home, args: ReadonlyArray<string> = ["mcp", made.workspace]) => {
  const child = spawn(process.execPath, [main, ...args], { env: made.env, stdio: ["pipe", "pipe", "pipe"] })
  const lines: Array<string> = []
  let rest = ""
  child.stdout.on("data", (chunk) => {
    rest += String(chunk)
    const parts = rest.split("\n")
    rest = parts.pop() ?? ""
    lines.push(...parts)
  })
  const send = (message: object) => child.stdin.write(`${JSON.stringify(message)}\n`)
  const answer = async (id: number): Promise<{ readonly result?: Record<string, unknown> }> => {
    const found = () => lines.map((line) => JSON.parse(line) as { readonly id?: number }).find((message) => message.id === id)
    await until(() => found() !== undefined)
    return found() as { readonly result?: Record<string, unknown> }
  }
  const call = (id: number, name: string, args: object) =>
    send({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } })
  /** The structured part of a call's answer. */
  const result = async (id: number) => (await answer(id)).result?.["structuredContent"] as Record<string, string>
  const ended = once(child, "exit") as Promise<[number | null, string | null]>
  return { child, lines, send, answer, call, result, ended }
}

describe("the command line", () => {
  it("explains itself", () => {
    const help = run(["--help"], home())
    expect([help.status, help.stdout]).toEqual([0, expect.stringContaining("codespace mcp ")])
    const ofCommand = run(["mcp", "--help"], home())
    expect([ofCommand.status, ofCommand.stdout]).toEqual([0, expect.stringContaining("codespace mcp [DIR...]")])
    expect(run(["help", "mcp"], home()).stdout).toBe(ofCommand.stdout)
    expect(run(["--version"], home()).stdout).toBe(`${JSON.parse(readFileSync(join(main, "../../package.json"), "utf8")).version}\n`)
  })

  it.each([
    [["fly"], /unknown command "fly"/],
    [["mcp", "--colour"], /unknown option --colour; known are --config, --help$/],
    [["--config", "c.json", "mcp"], /--config stands before the command/],
    [["mcp", "--config"], /--config <value>/],
    [["serve", "--port", "many"], /--port: found many, wanted a number/],
  ])("refuses %j with exit code 2 and one line about it", (args, message) => {
    const refused = run(args, home())
    expect([refused.status, refused.stdout]).toEqual([2, ""])
    expect(refused.stderr.split("\n")[0]).toMatch(message)
  })

  it("refuses a configuration that cannot be used with exit code 1, naming the field", () => {
    const made = home()
    writeFileSync(join(made.home, "config.json"), '{ "workspaces": { "app": { "root": "/nowhere-at-all", "colour": 1 } } }')
    const refused = run(["mcp", "--config", join(made.home, "config.json")], made)
    expect([refused.status, refused.stdout]).toEqual([1, ""])
    expect(refused.stderr).toMatch(/workspaces\.app\.colour/)
    expect(refused.stderr).not.toMatch(/ at .*:\d+:\d+/)
  })

  it("refuses a command rule that contradicts its example, naming the place", () => {
    const made = home()
    const commands = [{ argv: ["git", "push"], decision: "deny", examples: { match: [["git", "pull"]] } }]
    const file = { workspaces: { app: { root: made.workspace } }, profiles: { own: { commands } } }
    writeFileSync(join(made.home, "config.json"), JSON.stringify(file))
    const refused = run(["mcp", "--config", join(made.home, "config.json")], made)
    expect([refused.status, refused.stdout]).toEqual([1, ""])
    expect(refused.stderr).toContain('profiles.own.commands[0].examples.match[0]: "git pull" is to match, but the rule does not match it')
  })

  it("starts from two files, however many commands there are", () => {
    const loaded = new Set<string>()
    const load = (name: string): void => {
      if (loaded.has(name)) return
      loaded.add(name)
      for (const [, next = ""] of readFileSync(join(main, "..", name), "utf8").matchAll(/\b(?:from|import)\s*"\.\/([^"]+)"/g)) load(next)
    }
    load("codespace.mjs")
    expect([...loaded].sort()).toEqual(["codespace.mjs", "start.mjs"])
  })

  it("says in one line that Node is too old (R150)", ({ skip }) => {
    const old = (process.env["PATH"] ?? "")
      .split(":")
      .map((folder) => join(folder, "node"))
      .filter((file) => existsSync(file))
      .find((file) => Number(execFileSync(file, ["-p", "process.versions.node.split('.')[0]"], { encoding: "utf8" })) < 22)
    if (old === undefined) return skip("no Node older than 22 on PATH")
    const refused = spawnSync(old, [main, "mcp"], { encoding: "utf8" })
    expect(refused.status).toBe(1)
    expect(refused.stderr).toMatch(/^codespace needs Node 22\.19 or newer; this is Node \d+\.\d+\.\d+ at .*\n$/)
  })
})

describe("codespace mcp", () => {
  it("ends with 0 within 5 s of the end of its input, and leaves no process behind (R103)", async () => {
    const made = home()
    const { call, child, ended, result } = raw(made)
    call(1, "exec_command", { ...app, script: "trap '' TERM; sleep 300 & sleep 300", yield_ms: 500 })
    await result(1)
    expect(commandsIn(made.workspace)).toEqual(expect.arrayContaining(["sleep 300", "sleep 300"]))
    const closed = Date.now()
    child.stdin.end()
    expect(await ended).toEqual([0, null])
    expect(Date.now() - closed).toBeLessThan(5000)
    expect(commandsIn(made.workspace)).toEqual([])
  })

  it("ends with 0 on SIGTERM, records what it stopped, and takes a second signal calmly (R060, R127)", async () => {
    const made = home()
    const first = raw(made)
    first.call(1, "exec_command", { ...app, command: ["sleep", "300"], yield_ms: 100 })
    const { operation_id: id } = await first.result(1)
    first.child.kill("SIGTERM")
    first.child.kill("SIGTERM")
    expect(await first.ended).toEqual([0, null])
    const second = await connect("v2-2025", { stdio: made })
    const status = (await second.call("operation_status", { operation_id: id })).structuredContent
    await second.close()
    expect(status).toMatchObject({ state: "done", result: { state: "terminated", ended_by: "server_stop" } })
  })

  it("ends calmly when its reader goes away in the middle of big results and progress notices, and has all of it recorded (R105)", async () => {
    const made = home()
    const first = raw(made)
    let problems = ""
    first.child.stderr.on("data", (chunk) => {
      problems += String(chunk)
    })
    first.send({
      ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
      params: {
        name: "exec_command",
        arguments: { ...app, command: ["sleep", "300"], access: "shared", yield_ms: 50_000, operation_key: "long" },
        _meta: { progressToken: "p" },
      },
    })
    await until(() => commandsIn(made.workspace).includes("sleep 300"))
    // 5 MB of answers, of which a pipe takes a small part; then nobody reads any more.
    const keys = Array.from({ length: 14 }, (_, index) => `key-${index}`)
    first.child.stdout.pause()
    const big = { ...app, script: "head -c 200000 /dev/zero | tr '\\0' a", access: "shared", max_output_bytes: 180_000 }
    for (const [index, key] of keys.entries()) first.call(index + 2, "exec_command", { ...big, operation_key: key })
    // Keys belong to a client; one that does not say its name is the same everywhere.
    const other = raw(made)
    let asked = 0
    const statusOf = (key: string): Promise<Record<string, unknown> | undefined> => {
      asked += 1
      other.call(asked, "operation_status", { ...app, operation_key: key })
      return other.result(asked)
    }
    await until(async () => (await Promise.all(keys.map(statusOf))).some((status) => status?.["state"] === "done"))
    first.child.stdout.destroy()
    first.child.stdin.end()
    expect(await first.ended).toEqual([0, null])
    // Those that had not begun are not known.
    for (const key of keys) expect(["done", "cancelled", undefined]).toContain((await statusOf(key))?.["state"])
    expect(problems).not.toMatch(/\n\s+at |EPIPE|unhandled/iu)
    expect(commandsIn(made.workspace)).toEqual([])
    expect(["done", "cancelled"]).toContain((await statusOf("long"))?.["state"])
    other.child.stdin.end()
    expect(await other.ended).toEqual([0, null])
  })

  it("answers at once and runs commands although the login shell hangs that it asks for PATH (R064)", async () => {
    const made = home()
    for (const name of [".bash_profile", ".profile", ".bashrc"]) writeFileSync(join(made.home, name), "read -r x </dev/tty; sleep 60\n")
    const config = join(made.home, "config.json")
    writeFileSync(
      config,
      JSON.stringify({ workspaces: { app: { root: made.workspace, profile: "workspace-write" } }, path: "login-shell" }),
    )
    const env = { ...made.env, HOME: made.home, SHELL: "/bin/bash", PATH: "/usr/bin:/bin" }
    const { call, child, ended, result, send, answer } = raw({ ...made, env }, ["mcp", "--config", config])
    const from = performance.now()
    send({
      ...{ jsonrpc: "2.0", id: 1, method: "initialize" },
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } },
    })
    await answer(1)
    expect(performance.now() - from).toBeLessThan(patient(5000))
    call(2, "exec_command", { ...app, script: "echo $PATH" })
    expect(await result(2)).toMatchObject({ exit_code: 0, output: `${env.PATH}\n` })
    child.stdin.end()
    expect(await ended).toEqual([0, null])
  })

  it("says after a kill -9 that what ran was interrupted (R126)", async () => {
    const made = home()
    const first = raw(made)
    first.call(1, "exec_command", { ...app, script: "exec sleep 300", yield_ms: 500, operation_key: "k" })
    const { operation_id } = await first.result(1)
    first.child.kill("SIGKILL")
    await first.ended
    const second = await connect("v2-2025", { stdio: made })
    const status = (await second.call("operation_status", { operation_id })).structuredContent
    const again = await second.call("exec_command", { ...app, script: "exec sleep 300", yield_ms: 500, operation_key: "k" })
    expect(commandsIn(made.workspace)).toEqual([])
    await second.close()
    expect(status).toMatchObject({ state: "interrupted", operation_id })
    expect(again.structuredContent).toMatchObject({ operation_id })
  })

  it("writes nothing but messages to stdout, whatever comes in", async () => {
    const made = home()
    const { answer, child, ended, lines, send } = raw(made)
    child.stdin.write("this is no JSON\n")
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 7, method: "nonsense" })}\n`)
    child.stdin.write(`[${JSON.stringify({ jsonrpc: "2.0", id: 8, method: "ping" })}]\n`)
    child.stdin.write(`{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"${"y".repeat(17_000_000)}"}}\n`)
    send({ jsonrpc: "2.0", id: 10, method: "ping" })
    await answer(10)
    child.stdin.end()
    expect(await ended).toEqual([0, null])
    const codes = lines.map((line) => (JSON.parse(line) as { readonly error?: { readonly code: number } }).error?.code)
    // Answers may overtake each other.
    expect(codes.sort()).toEqual([-32600, -32600, -32601, -32700, undefined])
  })

  it("serves each of several workspaces from its own folder", async () => {
    const made = home({ "a.txt": "first\n", "../two/a.txt": "second\n" })
    const { answer, call, child, ended, result } = raw(made, ["mcp", made.workspace, join(made.home, "two")])
    call(1, "write", { workspace_id: "two", path: "a.txt", content: "changed\n" })
    await answer(1)
    call(2, "read", { ...app, path: "a.txt" })
    call(3, "read", { workspace_id: "two", path: "a.txt" })
    const texts = [(await result(2))["text"], (await result(3))["text"]]
    child.stdin.end()
    await ended
    expect(texts).toEqual(["first\n", "changed\n"])
    expect(readFileSync(join(made.home, "two/a.txt"), "utf8")).toBe("changed\n")
  })

  it("runs no command that a rule of its profile denies, nor one that it asks about before a person has decided, and shows the rules", async () => {
    const made = home()
    const commands = [
      { argv: ["touch", "denied"], decision: "deny", reason: "not here" },
      { argv: ["touch", "asked"], decision: "ask" },
    ]
    const file = {
      workspaces: { app: { root: made.workspace, profile: "own" } },
      profiles: { own: { extends: "workspace-write", commands } },
    }
    writeFileSync(join(made.home, "config.json"), JSON.stringify(file))
    const { answer, call, child, ended, result } = raw(made, ["mcp", "--config", join(made.home, "config.json")])
    const lines = [{ script: "cd . && /usr/bin/touch denied" }, { command: ["sh", "-c", "touch asked"] }, { script: 'x=asked; touch "$x"' }]
    for (const [at, line] of lines.entries()) call(at + 1, "exec_command", { ...app, ...line })
    const texts = []
    for (const at of lines.keys()) texts.push(textOf((await answer(at + 1)).result as never))
    call(9, "write", { ...app, path: "a.txt", content: "b\n", verify: { script: "touch denied" } })
    texts.push(textOf((await answer(9)).result as never))
    call(10, "exec_command", { ...app, script: "touch fine" })
    await answer(10)
    call(11, "workspace_info", app)
    const access = (await result(11))["access"] as unknown
    child.stdin.end()
    await ended
    expect(texts[0]).toContain(
      'POLICY_DENIED: profile "own" does not allow running "/usr/bin/touch denied" (rule: commands: deny touch denied (not here))',
    )
    expect(texts.pop()).toContain("(rule: commands: deny touch denied (not here))")
    expect(readFileSync(join(made.workspace, "a.txt"), "utf8")).toBe("a\n")
    for (const text of texts.slice(1)) expect(text).toMatch(/^APPROVAL_REQUIRED: running .* is held for a person \(commands: /)
    expect(readdirSync(made.workspace).sort()).toEqual(["a.txt", "fine"])
    expect(access).toMatchObject({ commands })
  })

  it("keeps its state to its user, and secrets of its environment from children, on every call (R062)", async () => {
    const made = home()
    const withSecret = { ...made, env: { ...made.env, API_TOKEN: "hunter2" } }
    const connection = await connect("v2-2025", { stdio: withSecret })
    for (const more of [{}, {}, { tty: { rows: 24, cols: 80 } }]) {
      const result = await connection.call("exec_command", { ...app, command: ["env"], ...more })
      if (refusalOf(result)?.code === "TERMINAL_UNAVAILABLE") continue
      expect(result.structuredContent?.["output"]).toContain("GIT_TERMINAL_PROMPT=0")
      expect(result.structuredContent?.["output"]).not.toContain("hunter2")
    }
    await connection.close()
    const state = join(made.home, "state/codespace")
    expect(statSync(state).mode & 0o777).toBe(0o700)
    for (const name of readdirSync(state)) expect([name, readFileSyncSafe(join(state, name)).includes("hunter2")]).toEqual([name, false])
  })

  it("answers initialize and lists its tools with nothing cached, a large ledger, and the records held by another (R152)", async () => {
    const made = home()
    const state = join(made.home, "state/codespace")
    const first = await connect("v2-2025", { stdio: made })
    await first.call("workspace_info", {})
    await first.close()
    const database = new DatabaseSync(join(state, "codespace.sqlite"))
    // A gigabyte that takes no room on the disk: whoever read it all would be noticed.
    writeFileSync(join(state, "spools-of-old"), "")
    truncateSync(join(state, "spools-of-old"), 1024 ** 3)
    database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
    const cold = { ...made, env: { ...made.env, NODE_COMPILE_CACHE: join(made.home, "empty-cache") } }
    const { answer, child, ended, send } = raw(cold)
    send({
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
    })
    expect((await answer(1)).result).toMatchObject({ serverInfo: { name: "codespace" } })
    send({ jsonrpc: "2.0", id: 2, method: "tools/list" })
    expect((await answer(2)).result?.["tools"]).toHaveProperty("length")
    // Only now are the records free: both were answered without them.
    database.exec("ROLLBACK; PRAGMA locking_mode = NORMAL")
    database.close()
    child.stdin.end()
    expect(await ended).toEqual([0, null])
  })

  it("lists its tools, reads, and refuses changes in words while its records cannot be used, and recovers once they can (R155)", async () => {
    const made = home()
    const state = join(made.home, "state/codespace")
    const first = await connect("v2-2025", { stdio: made })
    await first.call("workspace_info", {})
    await first.close()
    writeFileSync(join(state, "codespace.sqlite"), "this is no database, and long enough to be looked at as one".repeat(100))
    for (const name of readdirSync(state)) if (/-(wal|shm)$/.test(name)) rmSync(join(state, name))
    const connection = await connect("v2-2025", { stdio: made })
    expect((await connection.list()).length).toBeGreaterThan(10)
    const write = () => connection.call("write", { ...app, path: "b.txt", content: "b\n" })
    const refused = await write()
    expect(refusalOf(refused)).toMatchObject({ code: "STORE_UNAVAILABLE", retry: "later" })
    expect(textOf(refused)).toMatch(/^STORE_UNAVAILABLE: .*"codespace audit renew".*\[retry: later\]$/)
    expect((await connection.call("read", { ...app, path: "a.txt" })).structuredContent).toMatchObject({ text: "a\n" })
    expect(run(["audit", "renew"], made).status).toBe(0)
    expect((await write()).structuredContent).toMatchObject({ status: "applied" })
    await connection.close()
  })

  it("refuses calls in words when a workspace's folder is gone", async () => {
    const made = home()
    const connection = await connect("v2-2025", { stdio: made })
    rmSync(made.workspace, { recursive: true })
    const refused = await connection.call("read", { ...app, path: "a.txt" })
    await connection.close()
    expect(refusalOf(refused)).toMatchObject({ code: "RUNNER_UNAVAILABLE" })
    expect(textOf(refused)).toContain("app")
  })
})

const readFileSyncSafe = (path: string): string => (statSync(path).isFile() ? readFileSync(path, "latin1") : "")

describe("codespace serve", () => {
  it("prints endpoint, token and a snippet for each client, and the token only once", async () => {
    const made = home()
    const first = await serve(made)
    expect(first.token).toMatch(/^cs_[\w-]{43}$/)
    for (const client of ["Claude Code", "Codex", "Cursor", "VS Code"]) expect(first.banner).toContain(`${client}`)
    expect(first.banner.split(first.token).length).toBeGreaterThan(4)
    expect(await first.stop()).toBe(0)

    const second = await serve(made, [], first.token)
    expect(second.banner).not.toContain(first.token)
    const connection = await connect("v2-2025", { http: second })
    expect((await connection.call("read", { ...app, path: "a.txt" })).structuredContent).toMatchObject({ text: "a\n" })
    await connection.close()
    expect(await second.stop()).toBe(0)

    const third = await serve(made, ["--new-token"])
    expect(third.token).not.toBe(first.token)
    await expect(connect("v2-2025", { http: { ...third, token: first.token } })).rejects.toThrow()
    expect(await third.stop()).toBe(0)
    const state = join(made.home, "state/codespace")
    for (const name of readdirSync(state)) expect([name, /cs_[\w-]{43}/.test(readFileSyncSafe(join(state, name)))]).toEqual([name, false])
  })

  it("answers on loopback, to its own name and with a token only", async () => {
    const made = home()
    const served = await serve(made)
    const { port } = new URL(served.endpoint)
    expect(new URL(served.endpoint).hostname).toBe("127.0.0.1")
    const health = (token: string) => fetch(`http://127.0.0.1:${port}/healthz`, { headers: { authorization: `Bearer ${token}` } })
    expect((await health(served.token)).status).toBe(401)
    expect(await (await health(readFileSync(join(made.home, "state/codespace/operator"), "utf8").trim())).text()).toBe("ok")
    const post = (headers: Record<string, string>) =>
      fetch(served.endpoint, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
      }).then(({ status }) => status)
    expect(await post({})).toBe(401)
    expect(await post({ authorization: "Bearer wrong" })).toBe(401)
    expect(await post({ authorization: `Bearer ${served.token}`, origin: "http://evil.example" })).toBe(403)
    expect(await served.stop()).toBe(0)
  })

  it("keeps processes when the session that started them is gone, and has them listed and read in another (R059, R128)", async () => {
    const served = await serve(home())
    const first = await connect("v2-2025", { http: served })
    const script = "echo ready; read -r line; echo later; exit 3"
    const { process_id } = (await first.call("exec_command", { ...app, script, stdin: "open", yield_ms: 0 })).structuredContent as Record<
      string,
      string
    >
    await first.close()
    const second = await connect("v2-2026", { http: served })
    const { processes } = (await second.call("list_processes", app)).structuredContent as { readonly processes: ReadonlyArray<object> }
    expect(processes).toEqual([expect.objectContaining({ process_id, state: "running" })])
    await second.call("write_stdin", { process_id, data: "\n" })
    const read = await second.call("read_process", { process_id, cursor: "0", until: "later", wait_ms: 10_000 })
    expect(read.structuredContent).toMatchObject({ output: "ready\nlater\n" })
    await until(async () => (await second.call("read_process", { process_id })).structuredContent?.["exit_code"] === 3)
    await second.close()
    expect(await served.stop()).toBe(0)
  })

  it("ends with npm where npm started it, whatever ends npm", async () => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const made = home()
      const npm = spawn("npm", ["start", "--silent", "--", made.workspace, "--port", "0"], {
        cwd: join(main, "../.."),
        env: { ...made.env, npm_config_cache: made.env.XDG_CACHE_HOME, npm_config_update_notifier: "false" },
        stdio: ["ignore", "pipe", "pipe"],
      })
      let banner = ""
      npm.stdout.on("data", (chunk) => {
        banner += String(chunk)
      })
      await until(() => banner.includes("Stop with Ctrl-C"))
      const endpoint = /http:\/\/\S+\/mcp/.exec(banner)?.[0] ?? ""
      expect((await fetch(endpoint)).status).toBe(401)
      npm.kill(signal)
      await until(() =>
        fetch(endpoint).then(
          () => false,
          () => true,
        ),
      )
    }
  })

  it("says in one line that its port is taken", async () => {
    const made = home()
    const served = await serve(made)
    const refused = run(["serve", made.workspace, "--port", new URL(served.endpoint).port], made)
    expect(refused.status).toBe(1)
    expect(refused.stderr).toMatch(/^codespace: cannot listen on 127\.0\.0\.1:\d+: it is in use by another program\n$/)
    await served.stop()
  })
})

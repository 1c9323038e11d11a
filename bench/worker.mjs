/**
 * The same calls to two servers of the built program, call by call in turns: one works in its own process, one through a
 * worker. `node bench/worker.mjs [rounds]` prints the medians and their ratio; each answer is checked. Before them it says
 * what a message to another Node process and back costs here when nothing is done with it: no call through a worker costs less
 * than that more.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createConnection } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Client } from "./client.mjs"
import { quantile } from "./report.mjs"
import { builtServer, editPatch } from "./servers.mjs"

const rounds = Number(process.argv[2] ?? 5)
const home = mkdtempSync(join(tmpdir(), "codespace-worker-bench-"))
const line = (index) => `line ${index} ${"x".repeat(60)}`

/** A server over its own copy of the files. */
const open = async (environment) => {
  const root = join(home, environment)
  mkdirSync(join(root, "many"), { recursive: true })
  writeFileSync(join(root, "small.txt"), "s".repeat(1023) + "\n")
  writeFileSync(join(root, "large.txt"), `${line(0)}\n`.repeat(1500))
  writeFileSync(join(root, "hundred.txt"), Array.from({ length: 100 }, (_, index) => `${line(index)}\n`).join(""))
  for (let index = 0; index < 200; index++) writeFileSync(join(root, "many", `f${index}.ts`), "")
  const config = join(home, `${environment}.json`)
  writeFileSync(config, JSON.stringify({ workspaces: { app: { root, profile: "workspace-write", environment } } }))
  const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, `state-${environment}`) }
  const client = new Client({ argv: [process.execPath, builtServer, "mcp", "--config", config], cwd: home, env })
  await client.open()
  return { client, call: async (name, args) => (await client.call(name, { workspace_id: "app", ...args })).structuredContent }
}

const jobs = [
  {
    title: "read 1 KB",
    aim: 1.25,
    count: 200,
    run: ({ call }) => call("read", { path: "small.txt" }),
    isRight: ({ size }) => size === 1024,
  },
  {
    title: "list_processes",
    aim: 1.25,
    count: 200,
    run: ({ call }) => call("list_processes", {}),
    isRight: ({ processes }) => Array.isArray(processes),
  },
  {
    title: "find in 200 files",
    aim: 1.25,
    count: 60,
    run: ({ call }) => call("find", { glob: "**/*.ts", limit: 1000 }),
    isRight: ({ paths }) => paths.length === 200,
  },
  {
    title: "read 100 KB",
    aim: undefined,
    count: 60,
    run: ({ call }) => call("read", { path: "large.txt", max_bytes: 200_000 }),
    isRight: ({ truncated }) => !truncated,
  },
  {
    title: "patch one line of 100",
    aim: 1.1,
    count: 60,
    run: ({ call }, turn) =>
      call("apply_patch", {
        patch: editPatch([
          { path: "hundred.txt", before: line(49), old: turn === 0 ? line(50) : `turn ${turn - 1}`, text: `turn ${turn}`, after: line(51) },
        ]),
      }),
    isRight: ({ status }) => status === "applied",
  },
  {
    title: "run true to its exit code",
    aim: 1.1,
    count: 30,
    run: ({ call }) => call("exec_command", { command: ["true"] }),
    isRight: ({ exit_code }) => exit_code === 0,
  },
]

/** Milliseconds of a JSON message to another Node process and back over a Unix socket, as a median. */
const bareHop = async () => {
  const path = join(home, "echo.sock")
  const echo = `require("net").createServer((socket) => socket.on("data", (data) => socket.write(JSON.stringify(JSON.parse(data))))).listen(process.argv[1], () => console.log("ready"))`
  const child = spawn(process.execPath, ["-e", echo, path], { stdio: ["ignore", "pipe", "inherit"] })
  await once(child.stdout, "data")
  const socket = createConnection({ path })
  const message = JSON.stringify({ id: 1, tool: "read", input: { path: "small.txt" }, text: "s".repeat(1023) })
  const times = []
  for (let turn = 0; turn < 2000; turn++) {
    const from = performance.now()
    socket.write(message)
    JSON.parse((await once(socket, "data"))[0])
    if (turn >= 1000) times.push(performance.now() - from)
  }
  socket.destroy()
  child.kill()
  return quantile(times, 0.5)
}

/** Calls until the code of both is as fast as it gets. */
const WARM = 300

const servers = [await open("host"), await open("worker")]
try {
  console.log(`A message to another process and back: ${(await bareHop()).toFixed(2)} ms.\n`)
  // What a first call loads and starts is no part of a call.
  for (let turn = 0; turn < WARM; turn++) for (const server of servers) await jobs[0].run(server)
  console.log("| Call | Host | Worker | Ratio (of the rounds) | Aim | |\n|---|---|---|---|---|---|")
  for (const { aim, count, isRight, run, title } of jobs) {
    let turn = 0
    const ratios = []
    const all = [[], []]
    for (let round = 0; round < rounds; round++) {
      const times = [[], []]
      for (let index = 0; index < count; index++, turn++)
        for (const [at, server] of servers.entries()) {
          const from = performance.now()
          const answer = await run(server, turn)
          times[at].push(performance.now() - from)
          if (!isRight(answer)) throw new Error(`${title}: ${JSON.stringify(answer)}`)
        }
      ratios.push(quantile(times[1], 0.5) / quantile(times[0], 0.5))
      for (const at of [0, 1]) all[at].push(...times[at])
    }
    const [host, worker] = all.map((times) => `${quantile(times, 0.5).toFixed(2)} ms`)
    const ratio = quantile(ratios, 0.5)
    const span = `${ratio.toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`
    const verdict = aim === undefined ? ["", ""] : [`≤ ${aim}`, ratio <= aim ? "met" : "not met"]
    console.log(`| ${[title, host, worker, span, ...verdict].join(" | ")} |`)
  }
} finally {
  for (const { client } of servers) await client.close()
  rmSync(home, { recursive: true, force: true })
}

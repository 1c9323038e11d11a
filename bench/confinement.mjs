/**
 * What confinement costs, in ratios within one run: `true` under each profile against a bare spawn and against bubblewrap
 * alone; find and search with rules that deny against without; the proxy's latency and throughput against a direct
 * connection. Prints a table; leaves nothing behind. Exit code: 0 when every result was right, 1 when one was not.
 *
 *     node bench/confinement.mjs [--rounds n]
 */
import { spawn } from "node:child_process"
import fs from "node:fs"
import http from "node:http"
import { homedir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Client } from "./client.mjs"
import { quantile } from "./report.mjs"
import { builtServer } from "./servers.mjs"

const { rounds: wanted } = parseArgs({ options: { rounds: { type: "string", default: "20" } } }).values
const rounds = Math.max(3, Number(wanted) || 20)

/** Not in the temp folder, which a confined command does not see. */
const folder = fs.realpathSync(
  fs.mkdtempSync(join(process.getuid?.() === 0 && fs.existsSync("/home") ? "/home" : homedir(), "codespace-confinement-")),
)
const place = (name) => join(folder, name)

const networks = { off: "off", loopback: "loopback", on: "on" }

const configure = (port) => {
  const files = [
    { glob: "**/*.env", access: "deny" },
    { glob: "private", access: "deny" },
  ]
  const workspace = (name, profile) => [name, { root: place(name), profile }]
  const profiles = {
    listed: { extends: "workspace-write", network: { allow: [`127.0.0.1:${port}`] } },
    reading: { extends: "read-only", exec: "on" },
    ruled: { extends: "workspace-write", network: "off", files },
    ...Object.fromEntries(Object.entries(networks).map(([name, network]) => [name, { extends: "workspace-write", network }])),
  }
  const names = [...Object.keys(profiles), "unconfined"]
  for (const name of names) fs.mkdirSync(place(name))
  const workspaces = Object.fromEntries(names.map((name) => workspace(name, name === "unconfined" ? "on" : name)))
  workspaces.unconfined.sandbox = "off"
  fs.writeFileSync(place("config.json"), JSON.stringify({ workspaces, profiles }))
}

/** The same 5,000 files for find and search, with and without rules. */
const fillTrees = () => {
  for (const tree of ["off", "ruled"])
    for (let n = 0; n < 5000; n++) {
      const at = join(place(tree), `d${n % 50}`, `e${n % 7}`)
      if (n < 350) fs.mkdirSync(at, { recursive: true })
      fs.writeFileSync(join(at, `f${n}.${n % 20 === 0 ? "tsx" : n % 99 === 0 ? "env" : "ts"}`), `line ${n}\n${n === 777 ? "needle\n" : ""}`)
    }
}

const timed = async (act) => {
  const from = performance.now()
  const result = await act()
  return { ms: performance.now() - from, result }
}

const ended = (argv) =>
  new Promise((resolve, reject) => {
    spawn(argv[0], argv.slice(1), { stdio: "ignore" }).once("error", reject).once("exit", resolve)
  })

const bwrap = [
  "bwrap",
  "--unshare-user",
  "--unshare-pid",
  "--unshare-net",
  "--die-with-parent",
  "--ro-bind",
  "/",
  "/",
  "--dev",
  "/dev",
  "--proc",
  "/proc",
  "--",
  "true",
]

const wrong = []
/** Runs all sides in turns, after a pause of milliseconds each, and gives each one's median in milliseconds. */
const compare = async (title, sides, pause = 0) => {
  const times = sides.map(() => [])
  for (let round = -1; round < rounds; round++)
    for (const [at, [name, act, isRight]] of sides.entries()) {
      await new Promise((resolve) => setTimeout(resolve, pause))
      const { ms, result } = await timed(act)
      if (!isRight(result)) wrong.push(`${title}: ${name} gave ${JSON.stringify(result)?.slice(0, 300)}`)
      if (round >= 0) times[at].push(ms)
    }
  const medians = times.map((all) => quantile(all, 0.5))
  const width = Math.max(...sides.map(([name]) => name.length))
  console.log(`\n${title}`)
  for (const [at, [name]] of sides.entries())
    console.log(`  ${name.padEnd(width)}  ${medians[at].toFixed(2).padStart(8)} ms  × ${(medians[at] / medians[0]).toFixed(2)}`)
}

/** Answers with as many bytes as the path says. */
const origin = http.createServer((request, response) => {
  response.end(Buffer.alloc(Number(request.url?.slice(1)) || 0))
})

/** Fetches in a command, many times through one program, and prints the milliseconds of each; directly, or as its environment says. */
const fetcher = (port, bytes, times) => `
const http = require("node:http")
const proxy = process.env.http_proxy && new URL(process.env.http_proxy)
const target = { host: "127.0.0.1", port: ${port}, path: "/${bytes}" }
const options = proxy ? { host: proxy.hostname, port: proxy.port, path: "http://127.0.0.1:${port}/${bytes}", headers: { host: "127.0.0.1:${port}" } } : target
const once = () => new Promise((resolve, reject) => {
  const from = performance.now()
  http.get({ ...options, agent: new http.Agent({ keepAlive: false }) }, (response) => {
    let size = 0
    response.on("data", (chunk) => { size += chunk.length })
    response.on("end", () => size === ${bytes} ? resolve(performance.now() - from) : reject(new Error(size + " bytes, status " + response.statusCode)))
  }).on("error", reject)
})
;(async () => { const all = []; for (let n = 0; n < ${times}; n++) all.push(await once()); all.sort((a, b) => a - b); console.log(all[all.length >> 1]) })()
`

const run = async (client) => {
  const call = async (name, args) => (await client.call(name, args)).structuredContent
  const exec = (workspace_id, command, more = {}) =>
    call("exec_command", { workspace_id, command, access: "shared", yield_ms: 9_000, ...more })
  const isTrue = ({ exit_code }) => exit_code === 0
  const titles = { unconfined: "no sandbox", reading: "read-only", ruled: "network off, deny rules", listed: "network to one host" }
  const title = (name) => `CodeSpace, ${titles[name] ?? `network ${name}`}`
  const commands = [
    ["spawned bare", () => ended(["true"]), (code) => code === 0],
    ["bubblewrap alone", () => ended(bwrap), (code) => code === 0],
    ...["unconfined", "on", "off", "loopback", "listed", "reading", "ruled"].map((name) => [
      title(name),
      () => exec(name, ["true"]),
      isTrue,
    ]),
    // Split streams have no namespace ready.
    ...["unconfined", "on", "off"].map((name) => [`${title(name)}, none ready`, () => exec(name, ["true"], { split: true }), isTrue]),
  ]
  // An agent thinks between its calls; meanwhile the next namespace is made.
  await compare("true", commands, 50)
  const find = (workspace_id) => () => call("find", { workspace_id, glob: "**/*.tsx", limit: 1000 })
  const search = (workspace_id) => () => call("search", { workspace_id, pattern: "needle", literal: true })
  await compare("find in 5,000 files", [
    ["without rules", find("off"), ({ paths }) => paths.length === 250],
    ["with two that deny", find("ruled"), ({ paths }) => paths.length === 250],
  ])
  await compare("search in 5,000 files", [
    ["without rules", search("off"), ({ matches }) => matches.length === 1],
    ["with two that deny", search("ruled"), ({ matches }) => matches.length === 1],
  ])
  const { port } = origin.address()
  const fetching = (workspace_id, bytes, times) => async () =>
    Number((await exec(workspace_id, [process.execPath, "-e", fetcher(port, bytes, times)])).output)
  for (const [title, bytes, times] of [
    ["a small page, 30 in a row", 10, 30],
    ["64 MB", 64 << 20, 1],
  ]) {
    const sides = { directly: [], "through the proxy": [] }
    for (let round = 0; round < Math.min(rounds, 7); round++)
      for (const [name, workspace] of [
        ["directly", "on"],
        ["through the proxy", "listed"],
      ]) {
        const ms = await fetching(workspace, bytes, times)()
        if (!(ms > 0)) wrong.push(`${title}: ${name} failed`)
        sides[name].push(ms)
      }
    console.log(`\n${title}`)
    const base = quantile(sides.directly, 0.5)
    for (const [name, all] of Object.entries(sides)) {
      const median = quantile(all, 0.5)
      const speed = bytes > 1000 ? `  ${(bytes / (1 << 20) / (median / 1000)).toFixed(0)} MB/s` : ""
      console.log(`  ${name.padEnd(18)} ${median.toFixed(2).padStart(8)} ms  × ${(median / base).toFixed(2)}${speed}`)
    }
  }
}

await new Promise((resolve) => origin.listen(0, "127.0.0.1", resolve))
configure(origin.address().port)
fillTrees()
const env = { PATH: process.env.PATH, HOME: folder, XDG_STATE_HOME: place("state"), XDG_CONFIG_HOME: place("conf") }
const client = new Client({ argv: [process.execPath, builtServer, "mcp", "--config", place("config.json")], cwd: folder, env })
try {
  await client.open()
  await run(client)
} catch (error) {
  wrong.push(error.message)
} finally {
  await client.close()
  origin.close()
  fs.rmSync(folder, { recursive: true, force: true })
}
for (const what of wrong.slice(0, 10)) console.error(`WRONG: ${what}`)
process.exitCode = wrong.length === 0 ? 0 : 1

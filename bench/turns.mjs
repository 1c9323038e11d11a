/**
 * How long the server lets nobody else have a turn: the longest stretch of processor time that its event loop spends on one
 * turn while commands start, end and print. Processor time, since on a machine with too much to do a turn takes as long as
 * it likes. Exit code: 0 when every command ended with 0, 1 when one did not.
 *
 *     node bench/turns.mjs [--rounds n]
 */
import fs from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Client } from "./client.mjs"
import { builtServer } from "./servers.mjs"

const { rounds: wanted } = parseArgs({ options: { rounds: { type: "string", default: "5" } } }).values
const rounds = Math.max(1, Number(wanted) || 5)

/** Runs in the server: keeps the longest turn since a signal last asked for it, and writes it down then. */
const OBSERVER = `
const cpu = () => { const { user, system } = process.threadCpuUsage(); return (user + system) / 1000 }
if (process.argv.includes("mcp")) {
  const fs = await import("node:fs")
  let last = cpu(), longest = 0
  const turn = () => { const now = cpu(); longest = Math.max(longest, now - last); last = now; setImmediate(turn) }
  setImmediate(turn)
  process.on("SIGUSR2", () => { fs.writeFileSync(process.env.TURNS, String(longest)); longest = 0; last = cpu() })
}`

// Not in the temp folder, which a confined command does not see.
const folder = fs.realpathSync(
  fs.mkdtempSync(join(process.getuid?.() === 0 && fs.existsSync("/home") ? "/home" : homedir(), "codespace-turns-")),
)
const place = (name) => join(folder, name)
fs.mkdirSync(place("work"))
fs.writeFileSync(place("observer.mjs"), OBSERVER)
fs.writeFileSync(
  place("config.json"),
  JSON.stringify({
    workspaces: { work: { root: place("work"), profile: "many" } },
    profiles: { many: { extends: "workspace-write", limits: { processes: 100, spool_bytes: 2_000_000_000 } } },
  }),
)
const env = {
  PATH: process.env.PATH,
  HOME: folder,
  XDG_STATE_HOME: place("state"),
  XDG_CONFIG_HOME: place("conf"),
  TURNS: place("longest"),
}
const client = new Client({
  argv: [process.execPath, "--import", place("observer.mjs"), builtServer, "mcp", "--config", place("config.json")],
  ...{ cwd: folder, env },
})

const wrong = []
const longest = async () => {
  fs.rmSync(place("longest"), { force: true })
  process.kill(client.pid, "SIGUSR2")
  while (!fs.existsSync(place("longest")) || fs.readFileSync(place("longest"), "utf8") === "")
    await new Promise((resolve) => setTimeout(resolve, 5))
  return Number(fs.readFileSync(place("longest"), "utf8"))
}

const exec = async (command) => {
  const { structuredContent } = await client.call("exec_command", { workspace_id: "work", command, access: "shared", yield_ms: 50_000 })
  if (structuredContent?.exit_code !== 0) wrong.push(JSON.stringify(structuredContent).slice(0, 300))
}
const fifty = (...command) => Promise.all(Array.from({ length: 50 }, () => exec(command)))

const jobs = [
  ["50 commands that sleep 0.2 s", () => fifty("sleep", "0.2")],
  ["50 commands that end at once", () => fifty("true")],
  ["100 MB of output", () => exec(["head", "-c", "100000000", "/dev/zero"])],
]

try {
  await client.open()
  // What is loaded and compiled with the first commands is no part of it.
  await fifty("true")
  await longest()
  console.log("The longest turn of the event loop, in milliseconds of processor time; median and longest of the rounds")
  for (const [title, act] of jobs) {
    const turns = []
    for (let round = 0; round < rounds; round++) {
      await act()
      turns.push(await longest())
    }
    turns.sort((one, other) => one - other)
    console.log(`  ${title.padEnd(30)} ${turns[turns.length >> 1].toFixed(1).padStart(6)} ${turns.at(-1).toFixed(1).padStart(6)}`)
  }
} catch (error) {
  wrong.push(error.message)
} finally {
  await client.close()
  fs.rmSync(folder, { recursive: true, force: true })
}
for (const what of wrong.slice(0, 10)) console.error(`WRONG: ${what}`)
process.exitCode = wrong.length === 0 ? 0 : 1

/**
 * The floor: what a Node server over stdio costs at least. The same JSON-RPC as ours straight on `fs` and `child_process`:
 * no SDK, no checks, no records, no recovery. It is a yardstick, not a product.
 */
import { spawn } from "node:child_process"
import fs from "node:fs"
import { rgPath } from "@vscode/ripgrep"

const run = (command, args) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] })
    const pieces = []
    child.stdout.on("data", (piece) => pieces.push(piece))
    child.stderr.on("data", (piece) => pieces.push(piece))
    child.once("error", reject)
    child.once("close", (exitCode) => resolve({ exitCode, output: Buffer.concat(pieces).toString("utf8") }))
  })

const talkers = new Map()

const walk = (folder, suffix, paths) => {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) walk(`${folder}/${entry.name}`, suffix, paths)
    else if (entry.name.endsWith(suffix)) paths.push(`${folder}/${entry.name}`)
  }
  return paths
}

const editInPlace = (path, old, text) => {
  const bytes = fs.readFileSync(path)
  const at = bytes.indexOf(old)
  if (at < 0) throw new Error(`text not found in ${path}`)
  fs.writeFileSync(path, Buffer.concat([bytes.subarray(0, at), Buffer.from(text), bytes.subarray(at + Buffer.byteLength(old))]))
}

const tools = {
  read: ({ path }) => fs.readFileSync(path, "utf8"),
  find: ({ root, suffix }) => walk(root, suffix, []).join("\n"),
  search: async ({ root, text }) => (await run(rgPath, ["--no-heading", "-nF", text, root])).output,
  exec: async ({ command }) => String((await run(command[0], command.slice(1))).exitCode),
  talker: ({ command }) => {
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] })
    talkers.set(String(child.pid), child)
    return String(child.pid)
  },
  tell: ({ id, data }) =>
    new Promise((resolve) => {
      talkers.get(id).stdout.once("data", (piece) => resolve(piece.toString("utf8")))
      talkers.get(id).stdin.write(data)
    }),
  hush: ({ id }) => String(talkers.get(id).kill("SIGKILL")),
  edit: ({ edits }) => {
    for (const { path, old, text } of edits) editInPlace(path, old, text)
    return "ok"
  },
  write: ({ path, content }) => {
    fs.writeFileSync(path, content)
    return "ok"
  },
}

const answer = async ({ method, params }) => {
  if (method === "initialize")
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "floor", version: "1" } }
  if (method === "tools/list") return { tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object" } })) }
  try {
    return { content: [{ type: "text", text: await tools[params.name](params.arguments) }] }
  } catch (error) {
    return { isError: true, content: [{ type: "text", text: error.message }] }
  }
}

let rest = ""
process.stdin.setEncoding("utf8").on("data", (chunk) => {
  const lines = (rest + chunk).split("\n")
  rest = lines.pop()
  for (const line of lines) {
    const message = JSON.parse(line)
    if (message.id === undefined) continue
    answer(message).then((result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, result })}\n`))
  }
})
process.stdin.on("end", () => process.exit(0))

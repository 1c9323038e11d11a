/** The built program over stdio with as much of the protocol as a test needs, and with its process in the test's hands. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { type Home, main } from "./Program.ts"
import { until } from "./Until.ts"

/** Milliseconds an answer may take. */
const ANSWER_LIMIT = 60_000

/** Tools that name a process instead of the workspace. */
const OF_PROCESS = new Set(["read_process", "write_stdin", "terminate_process"])

/** `as` stands in front of the command, to run it as somebody else. Calls go to the workspace `app`. */
export const startServer = (made: Home, args: ReadonlyArray<string>, as: ReadonlyArray<string> = []) => {
  const [program = "", ...rest] = [...as, process.execPath, main, "mcp", ...args]
  const child = spawn(program, rest, { env: made.env, stdio: ["pipe", "pipe", "ignore"] })
  const answers = new Map<number, Record<string, unknown>>()
  let unfinished = ""
  child.stdout.on("data", (chunk) => {
    const lines = (unfinished + String(chunk)).split("\n")
    unfinished = lines.pop() ?? ""
    for (const line of lines) {
      const { id, result } = JSON.parse(line) as { readonly id?: number; readonly result?: Record<string, Record<string, unknown>> }
      if (id !== undefined) answers.set(id, result?.["structuredContent"] ?? { ...result })
    }
  })
  child.stdin.on("error", () => {})
  let last = 0
  const request = (method: string, params: object): number => {
    last += 1
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: last, method, params })}\n`)
    return last
  }
  const answer = (id: number) => until(() => answers.get(id), ANSWER_LIMIT)
  const send = (name: string, args: object): number =>
    request("tools/call", { name, arguments: { ...(OF_PROCESS.has(name) ? {} : { workspace_id: "app" }), ...args } })
  return {
    child,
    ended: once(child, "exit"),
    /** Sends a call without waiting for its answer. */
    send,
    call: (name: string, args: object) => answer(send(name, args)),
    ping: () => answer(request("ping", {})),
  }
}

/** The built program over stdio, written to line by line: for tests that kill it, or leave it without an answer. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { type Home, main, type ToolResult } from "./Program.ts"

/** A server over stdio, written to line by line. */
export const startLines = (home: Pick<Home, "workspace"> & { readonly env: Readonly<Record<string, string>> }) => {
  const child: ChildProcess = spawn(process.execPath, [main, "mcp", home.workspace], { env: home.env, stdio: ["pipe", "pipe", "ignore"] })
  const waiting = new Map<number, (result: ToolResult) => void>()
  child.stdin?.on("error", () => undefined)
  if (child.stdout !== null)
    createInterface(child.stdout).on("line", (line) => {
      const { id, result } = JSON.parse(line) as { readonly id: number; readonly result: ToolResult }
      waiting.get(id)?.(result)
    })
  const send = (message: object): void => void child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
  const clientInfo = { name: "crash", version: "1" }
  send({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } })
  send({ method: "notifications/initialized" })
  let last = 0
  /** The answer to a call with just these arguments; it never comes when the server dies before it. */
  const callBare = (name: string, args: Record<string, unknown>, meta?: Record<string, unknown>): Promise<ToolResult> =>
    new Promise((resolve) => {
      last += 1
      waiting.set(last, resolve)
      send({ id: last, method: "tools/call", params: { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) } })
    })
  /** The same in the workspace `app`. */
  const call = (name: string, args: Record<string, unknown>, meta?: Record<string, unknown>): Promise<ToolResult> =>
    callBare(name, { workspace_id: "app", ...args }, meta)
  const ended = once(child, "exit")
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL")
    await ended
  }
  const stop = async (): Promise<void> => {
    child.stdin?.end()
    await ended
  }
  /** Cancels the newest call. */
  const cancel = (): void => send({ method: "notifications/cancelled", params: { requestId: last, reason: "changed my mind" } })
  return { call, callBare, cancel, kill, stop }
}

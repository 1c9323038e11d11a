/** A raw client of a stdio program: lines in, lines out, and nothing else. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { until } from "./Until.ts"

export type Message = Record<string, unknown> & { readonly id?: unknown; readonly result?: Record<string, unknown> }

export interface StdioClient {
  readonly child: ChildProcessWithoutNullStreams
  /** Every line of stdout, parsed; a line that is not JSON would throw here. */
  readonly messages: ReadonlyArray<Message>
  readonly stderr: () => string
  readonly write: (line: string) => void
  readonly send: (message: unknown) => void
  /** The answer under this id, when it has come. */
  readonly answer: (id: unknown, limit?: number) => Promise<Message>
  readonly initialize: () => Promise<Message>
  /** Exit code and signal, when it has ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
}

const program = fileURLToPath(new URL("stdioServer.ts", import.meta.url))

/** Starts the test server, or another program. It is killed with the returned function at the latest. */
export const startStdio = (
  env: Record<string, string> = {},
  args: ReadonlyArray<string> = [program],
): { readonly client: StdioClient; readonly kill: () => void } => {
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env } })
  const messages: Array<Message> = []
  const parts: Array<Buffer> = []
  let stderr = ""
  child.stdout.on("data", (chunk: Buffer) => {
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, at))
      messages.push(JSON.parse(Buffer.concat(parts.splice(0)).toString("utf8")))
      from = at + 1
    }
    parts.push(chunk.subarray(from))
  })
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  child.stdin.on("error", () => undefined)
  const write = (line: string): void => void child.stdin.write(`${line}\n`)
  const send = (message: unknown): void => write(JSON.stringify(message))
  const answer = (id: unknown, limit?: number) =>
    until(() => messages.find((message) => message.id === id && ("result" in message || "error" in message)), limit)
  const client: StdioClient = {
    child,
    messages,
    stderr: () => stderr,
    write,
    send,
    answer,
    initialize: async () => {
      const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "9" } }
      send({ jsonrpc: "2.0", id: "init", method: "initialize", params })
      const answered = await answer("init", 20_000)
      send({ jsonrpc: "2.0", method: "notifications/initialized" })
      return answered
    },
    ended: new Promise((resolve) => child.on("close", (code, signal) => resolve({ code, signal }))),
  }
  return { client, kill: () => void child.kill("SIGKILL") }
}

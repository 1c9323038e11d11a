/**
 * The thinnest MCP client: newline-delimited JSON-RPC over a child's stdio. No SDK, no schema check; one `JSON.parse` an
 * answer, so that what is measured is the server. It promises to end its child by pid.
 */
import { spawn } from "node:child_process"

const callLimit = 10_000

export class Client {
  #child
  #pending = new Map()
  #nextId = 1
  #stderr = ""
  #gone

  /** Starts `argv`; `onEnd` is called once when the child is gone. */
  constructor({ argv, cwd, env }, onEnd = () => {}) {
    this.#child = spawn(argv[0], argv.slice(1), { cwd, env, stdio: "pipe" })
    this.#gone = new Promise((resolve) => {
      const end = (why) => {
        this.ended = why
        for (const { reject } of this.#pending.values()) reject(this.#failure(why))
        this.#pending.clear()
        onEnd(this)
        resolve()
      }
      this.#child.once("error", (error) => end(error.message))
      this.#child.once("exit", (code, signal) => end(`the server ended (${signal ?? `exit code ${code}`})`))
    })
    this.#child.stdin.on("error", () => {})
    this.#child.stderr.on("data", (chunk) => {
      if (this.#stderr.length < 10_000) this.#stderr += chunk
    })
    this.#readLines()
  }

  get pid() {
    return this.#child.pid
  }

  /** The result of one request; rejects on a JSON-RPC error, after 10 s, and when the server ends. */
  request(method, params) {
    if (this.ended) return Promise.reject(this.#failure(this.ended))
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id)
        this.kill()
        reject(new Error(`no answer to ${method} ${params.name ?? ""} within ${callLimit / 1000} s`))
      }, callLimit)
      const settle = (done) => (value) => {
        clearTimeout(timer)
        done(value)
      }
      this.#pending.set(id, { resolve: settle(resolve), reject: settle(reject) })
      this.#send({ jsonrpc: "2.0", id, method, params })
    })
  }

  /** One tool call; a refusal is thrown with its text. */
  async call(name, args) {
    const result = await this.request("tools/call", { name, arguments: args })
    if (result.isError) throw new Error(result.content[0].text.slice(0, 300))
    return result
  }

  /** The handshake every client does, up to the list of tools. */
  async open() {
    const clientInfo = { name: "bench", version: "1" }
    await this.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo })
    this.#send({ jsonrpc: "2.0", method: "notifications/initialized" })
    return (await this.request("tools/list", {})).tools
  }

  /** Ends the server the polite way, then by signal. Resolves when it is gone. */
  async close() {
    this.#child.stdin.end()
    const timer = setTimeout(() => this.kill(), 3_000)
    await this.#gone
    clearTimeout(timer)
  }

  kill() {
    this.#child.kill("SIGKILL")
  }

  #failure(why) {
    return new Error(`${why}${this.#stderr ? `; its last words: ${this.#stderr.trim().slice(-300)}` : ""}`)
  }

  #send(message) {
    this.#child.stdin.write(`${JSON.stringify(message)}\n`)
  }

  /** Answers may come in any number of pieces; they are joined once, at the newline. */
  #readLines() {
    let pieces = []
    this.#child.stdout.on("data", (chunk) => {
      let from = 0
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        pieces.push(chunk.subarray(from, end))
        this.#answer(JSON.parse(Buffer.concat(pieces).toString("utf8")))
        pieces = []
        from = end + 1
      }
      if (from < chunk.length) pieces.push(chunk.subarray(from))
    })
  }

  #answer({ id, result, error, method }) {
    if (method !== undefined) {
      if (id !== undefined)
        this.#send({ jsonrpc: "2.0", id, ...(method === "ping" ? { result: {} } : { error: { code: -32601, message: method } }) })
      return
    }
    const waiting = this.#pending.get(id)
    this.#pending.delete(id)
    if (error) waiting?.reject(new Error(`JSON-RPC error ${error.code}: ${error.message}`))
    else waiting?.resolve(result)
  }
}

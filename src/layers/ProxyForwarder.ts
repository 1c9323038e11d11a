/**
 * The way from a command without a network to its proxy: a listener on loopback that hands each connection to the Unix
 * socket. It listens before the command starts, so that no first connection is lost, and ends as the command ends.
 */

export interface ForwarderRequest {
  /** The Node that runs the forwarder, as the command would find it. */
  readonly node: string
  /** The proxy's socket, as the command would find it. */
  readonly socket: string
  /** Free on loopback where the command runs. */
  readonly port: number
  readonly argv: ReadonlyArray<string>
}

/** The command behind a forwarder, and the variables that lead programs to it. */
export const forwarded = ({ argv, node, port, socket }: ForwarderRequest) => ({
  argv: [node, "-e", PROGRAM, "--", socket, String(port), ...argv] as const,
  env: proxyVariables(port),
})

/** What the usual programs read. All of them are given HTTP: not every one that reads ALL_PROXY has SOCKS. */
const proxyVariables = (port: number): Readonly<Record<string, string>> => {
  const proxy = `http://127.0.0.1:${port}`
  const own = "localhost,127.0.0.1,::1"
  return {
    http_proxy: proxy,
    https_proxy: proxy,
    all_proxy: proxy,
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    ALL_PROXY: proxy,
    no_proxy: own,
    NO_PROXY: own,
    NODE_USE_ENV_PROXY: "1",
  }
}

/**
 * The command shares process group, terminal and streams with it: a signal to the group reaches the command by itself, and
 * the forwarder only has to outlive it and to end in the same way. 125: no listener; 126 and 127 as shells use them.
 */
const PROGRAM = `
const net = require("node:net")
const [socket, port, program, ...args] = process.argv.slice(1)
const fail = (code, text) => { process.stderr.write("codespace: " + text + "\\n"); process.exit(code) }
const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const proxy = net.connect({ path: socket, allowHalfOpen: true })
  for (const [from, to] of [[client, proxy], [proxy, client]]) {
    from.on("error", () => to.destroy()).on("close", () => to.destroySoon())
    from.pipe(to)
  }
})
server.on("error", (error) => fail(125, "the way to the network proxy cannot be opened: " + error.message))
server.listen(Number(port), "127.0.0.1", () => {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR2"]
  for (const signal of signals) process.on(signal, () => {})
  const child = require("node:child_process").spawn(program, args, { stdio: "inherit" })
  child.on("error", (error) => fail(error.code === "ENOENT" ? 127 : 126, program + " cannot be started: " + error.message))
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // A signal that ends no Node, such as SIGPIPE.
    setTimeout(() => process.exit(128 + require("node:os").constants.signals[signal]), 200)
  })
})`

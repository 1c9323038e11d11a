/**
 * The agent's line to CodeSpace: an ordinary MCP client over stdio. A call comes back as `{ data }` or `{ refusal }`, never as
 * a throw, because an agent has to read refusals. The line can also break on purpose.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"

/** Starts a server for `folder` with its own state under `home`, and connects to it. */
export const connect = async ({ main, folder, home }) => {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [main, "mcp", folder],
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: `${home}/state`, XDG_CONFIG_HOME: `${home}/config` },
    stderr: "pipe",
  })
  const words = []
  transport.stderr.on("data", (chunk) => words.push(chunk))
  const client = new Client({ name: "demo-agent", version: "1.0.0" })
  await client.connect(transport).catch((error) => {
    throw new Error(`CodeSpace did not start: ${error.message} ${Buffer.concat(words).toString("utf8").slice(-500)}`)
  })
  const pid = transport.pid

  const call = async (name, args) => {
    const answer = await client.callTool({ name, arguments: args })
    if (answer.isError) return { refusal: answer._meta?.["codespace/refusal"] ?? { code: "?", message: answer.content[0].text } }
    return { data: answer.structuredContent }
  }

  /** Sends a call and hangs up once `hasBegun`, or after 5 s. The answer is not heard. Answers whether the call failed for that reason. */
  const callAndHangUp = async (name, args, hasBegun) => {
    transport.onmessage = () => {}
    const isLost = client.callTool({ name, arguments: args }).then(
      () => false,
      () => true,
    )
    const until = performance.now() + 5_000
    while (!hasBegun() && performance.now() < until) await sleep(1)
    await client.close()
    return isLost
  }

  return { call, callAndHangUp, close: () => client.close(), pid }
}

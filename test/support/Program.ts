/**
 * The built program as clients meet it: over stdio or HTTP, through the SDK's clients of both generations, in both
 * protocol eras. Everything it writes lies in a temporary folder that goes with the program.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as v2 from "@modelcontextprotocol/client"
import { StdioClientTransport as V2Stdio } from "@modelcontextprotocol/client/stdio"
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport as V1Stdio } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport as V1Http } from "@modelcontextprotocol/sdk/client/streamableHttp.js"

export const main = fileURLToPath(new URL("../../dist/main.mjs", import.meta.url))

export interface ToolResult {
  readonly isError?: boolean
  readonly content: ReadonlyArray<{ readonly type: string; readonly text?: string; readonly mimeType?: string }>
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly _meta?: Readonly<Record<string, unknown>>
}

export interface Connection {
  readonly call: (name: string, args: Record<string, unknown>) => Promise<ToolResult>
  readonly list: () => Promise<
    ReadonlyArray<{ readonly name: string; readonly inputSchema: object; readonly outputSchema?: object | undefined }>
  >
  readonly close: () => Promise<void>
}

export type Transport = "stdio" | "http"
export type Peer = "v2-2025" | "v2-2026" | "v1-2025"

/** A folder for a workspace `app` with these files, which the command line names, and one for the server's state; `remove` takes both away. */
export const makeHome = (files: Readonly<Record<string, string>>) => {
  const home = realpathSync(mkdtempSync(join(tmpdir(), "codespace-test-")))
  const workspace = join(home, "app")
  mkdirSync(workspace)
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(workspace, path)), { recursive: true })
    writeFileSync(join(workspace, path), content)
  }
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    XDG_STATE_HOME: join(home, "state"),
    XDG_CONFIG_HOME: join(home, "config"),
    XDG_CACHE_HOME: join(home, "cache"),
  }
  return {
    home,
    workspace,
    folders: [workspace] as ReadonlyArray<string>,
    env,
    remove: () => rmSync(home, { recursive: true, force: true }),
  }
}
export type Home = ReturnType<typeof makeHome>

const info = { name: "codespace-test", version: "1" }

/** Opens a connection; the program of a stdio connection ends with it. */
export const connect = async (
  peer: Peer,
  spec: { readonly stdio: Home } | { readonly http: Served },
  program: string = main,
): Promise<Connection> => {
  const server =
    "stdio" in spec ? { command: process.execPath, args: [program, "mcp", ...spec.stdio.folders], env: spec.stdio.env } : undefined
  if (peer === "v1-2025") {
    const client = new V1Client(info)
    await client.connect(
      server === undefined && "http" in spec
        ? (new V1Http(new URL(spec.http.endpoint), { requestInit: { headers: bearer(spec.http) } }) as never)
        : new V1Stdio({ ...(server as NonNullable<typeof server>), stderr: "ignore" }),
    )
    return {
      call: async (name, args) => (await client.callTool({ name, arguments: args })) as ToolResult,
      list: async () => (await client.listTools()).tools,
      close: () => client.close(),
    }
  }
  const mode = peer === "v2-2026" ? { pin: "2026-07-28" } : ("legacy" as const)
  const client = new v2.Client(info, { versionNegotiation: { mode } })
  await client.connect(
    server === undefined && "http" in spec
      ? new v2.StreamableHTTPClientTransport(new URL(spec.http.endpoint), { requestInit: { headers: bearer(spec.http) } })
      : new V2Stdio({ ...(server as NonNullable<typeof server>), stderr: "ignore" }),
  )
  return {
    call: async (name, args) => (await client.callTool({ name, arguments: args })) as unknown as ToolResult,
    list: async () => (await client.listTools()).tools,
    close: () => client.close(),
  }
}

export interface Served {
  readonly endpoint: string
  readonly token: string
  readonly banner: string
  readonly process: ChildProcess
  /** Asks it to stop and waits for its exit code. */
  readonly stop: () => Promise<number | null>
}

const bearer = ({ token }: Served) => ({ Authorization: `Bearer ${token}` })

/** `codespace serve` on a free port, once it has printed where it listens. */
export const serve = async (
  home: Pick<Home, "workspace" | "folders"> & { readonly env: Readonly<Record<string, string>> },
  args: ReadonlyArray<string> = [],
  token?: string,
): Promise<Served> => {
  const child = spawn(process.execPath, [main, "serve", ...home.folders, "--port", "0", ...args], {
    env: home.env,
    stdio: ["ignore", "pipe", "pipe"],
  })
  let banner = ""
  let problems = ""
  child.stderr.on("data", (chunk) => {
    problems += String(chunk)
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      banner += String(chunk)
      if (banner.includes("Stop with Ctrl-C")) resolve()
    })
    child.once("exit", (code) => reject(new Error(`serve ended with ${code}: ${problems}`)))
  })
  const endpoint = /http:\/\/\S+\/mcp/.exec(banner)?.[0] ?? ""
  return {
    endpoint,
    token: token ?? /^Token: (cs_\S+)$/m.exec(banner)?.[1] ?? "",
    banner,
    process: child,
    stop: async () => {
      if (child.exitCode !== null) return child.exitCode
      const ended = once(child, "exit")
      child.kill("SIGTERM")
      return (await ended)[0] as number | null
    },
  }
}

export const textOf = (result: ToolResult): string => result.content.map((part) => part.text ?? "").join("\n")

export const refusalOf = (result: ToolResult) =>
  result._meta?.["codespace/refusal"] as
    | { readonly code: string; readonly message: string; readonly retry: string; readonly details: Readonly<Record<string, unknown>> }
    | undefined

/** The same tools, results and refusals for every client: both SDK generations, both eras, both transports. */
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport as OldStdio } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport as OldHttp } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect } from "effect"
import { openEdge } from "../support/HttpEdge.ts"

const program = fileURLToPath(new URL("../support/stdioServer.ts", import.meta.url))
const server = { command: process.execPath, args: [program], stderr: "ignore" as const }
const headers = { authorization: "Bearer token-alice" }
const info = { name: "client", version: "3" }

interface Connected {
  readonly list: () => Promise<ReadonlyArray<{ readonly name: string }>>
  readonly call: (
    name: string,
    args?: Record<string, unknown>,
    onprogress?: (progress: { progress: number }) => void,
  ) => Promise<Record<string, unknown>>
  readonly close: () => Promise<void>
}

const newer = async (
  transport: StdioClientTransport | StreamableHTTPClientTransport,
  mode: "legacy" | "auto" | { pin: string },
): Promise<Connected> => {
  const client = new Client(info, { versionNegotiation: { mode } })
  await client.connect(transport)
  return {
    list: async () => (await client.listTools()).tools,
    call: (name, args = {}, onprogress) => client.callTool({ name, arguments: args }, onprogress === undefined ? {} : { onprogress }),
    close: () => client.close(),
  }
}

const older = async (transport: OldStdio | OldHttp): Promise<Connected> => {
  const client = new OldClient(info)
  await client.connect(transport as Parameters<OldClient["connect"]>[0])
  return {
    list: async () => (await client.listTools()).tools,
    call: (name, args = {}, onprogress) =>
      client.callTool({ name, arguments: args }, undefined, onprogress === undefined ? {} : { onprogress }) as Promise<
        Record<string, unknown>
      >,
    close: () => client.close(),
  }
}

const ways: Record<string, (url: string) => Promise<Connected>> = {
  "SDK 2, stdio, 2025": () => newer(new StdioClientTransport(server), "legacy"),
  "SDK 2, stdio, 2026": () => newer(new StdioClientTransport(server), { pin: "2026-07-28" }),
  "SDK 2, stdio, its choice": () => newer(new StdioClientTransport(server), "auto"),
  "SDK 2, HTTP, 2025": (url) => newer(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }), "legacy"),
  "SDK 2, HTTP, 2026": (url) => newer(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }), { pin: "2026-07-28" }),
  "SDK 2, HTTP, its choice": (url) => newer(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }), "auto"),
  "SDK 1, stdio": () => older(new OldStdio(server)),
  "SDK 1, HTTP": (url) => older(new OldHttp(new URL(url), { requestInit: { headers } })),
}

/** What an era adds to every result says nothing about the call. */
const essence = ({ content, structuredContent, isError, _meta }: Record<string, unknown>) => ({
  content,
  structuredContent,
  isError,
  refusal: (_meta as Record<string, unknown> | undefined)?.["codespace/refusal"],
})

describe("every client", () => {
  for (const [way, connect] of Object.entries(ways))
    it.live(way, () =>
      Effect.gen(function* () {
        const { url, table } = yield* openEdge()
        const client = yield* Effect.acquireRelease(
          Effect.promise(() => connect(url)),
          (connected) => Effect.promise(() => connected.close()),
        )
        yield* Effect.promise(async () => {
          const names = (await client.list()).map((tool) => tool.name).filter((name) => name !== "noisy")
          assert.deepStrictEqual(names, [...names].sort())
          assert.include(names, "echo")
          const expected = async (name: string, args: Record<string, unknown> = {}) =>
            essence(
              (await table.call(
                { name, arguments: args },
                {
                  authority: { name: "x", workspaces: undefined },
                  client: undefined,
                  signal: new AbortController().signal,
                  notify: () => Promise.resolve(),
                },
              )) as Record<string, unknown>,
            )
          for (const name of ["missing", "long_refusal", "image", "halves"])
            assert.deepStrictEqual(essence(await client.call(name)), await expected(name), name)
          assert.deepStrictEqual(essence(await client.call("echo", { text: "ä😀" })), await expected("echo", { text: "ä😀" }))
          const who = (await client.call("who"))["structuredContent"]
          assert.deepStrictEqual(
            who,
            way.includes("HTTP")
              ? { name: "alice", workspaces: ["app"], client: "client/3" }
              : { name: "local", workspaces: ["*"], client: "client/3" },
          )
          const progress: Array<number> = []
          await client.call("wait", { ms: 60 }, (one) => void progress.push(one.progress))
          assert.deepStrictEqual(progress, [1, 2, 3])
          const unknown = await client.call("nothing").catch((error: { code?: number }) => error.code)
          assert.strictEqual(unknown, -32602)
        })
      }),
    )
})

/**
 * Held calls whose client can ask its person, over HTTP: eras, kinds of prompts, answers, forgeries and repeats. Whatever a
 * client says, a held call runs at most once, and only after the operator, or a caller the operator trusts with it, said so.
 */
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as v2 from "@modelcontextprotocol/client"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type Home, main, makeHome, refusalOf, type Served, serve, type ToolResult } from "../support/Program.ts"

let home: Home
let served: Served
const tokens: Record<string, string> = {}
let cookie = ""

const origin = () => new URL(served.endpoint).origin

beforeAll(async () => {
  const made = makeHome({ "a.txt": "one\n" })
  const file = join(made.home, "codespace.json")
  writeFileSync(file, JSON.stringify({ workspaces: { app: { root: made.workspace, profile: "workspace-write", approvals: "confirm" } } }))
  home = { ...made, folders: [], env: { ...made.env, ...{ CODESPACE_CONFIG: file } } }
  served = await serve(home)
  for (const [name, ...more] of [["plain"], ["trusted", "--trust-prompts"]] as const) {
    const { stdout } = spawnSync(process.execPath, [main, "token", "create", name, ...more], { env: home.env, encoding: "utf8" })
    tokens[name] = /cs_\S+/u.exec(stdout)?.[0] ?? ""
  }
  const credential = readFileSync(join(home.env.XDG_STATE_HOME, "codespace/operator"), "utf8").trim()
  const login = await page("/login", { method: "POST", body: new URLSearchParams({ credential }) })
  cookie = login.headers.get("set-cookie")?.split(";")[0] ?? ""
})

afterAll(async () => {
  await served.stop()
  home.remove()
})

/** A request of a browser at one of the server's own pages. */
const page = (path: string, init: RequestInit = {}, own = true) =>
  fetch(origin() + path, {
    redirect: "manual",
    ...init,
    headers: { ...(cookie === "" ? {} : { cookie }), ...(own ? { origin: origin() } : {}) },
  })

const decide = (id: string, decision: "grant" | "deny") =>
  page(`/approvals/${id}`, { method: "POST", body: new URLSearchParams({ decision, reason: "seen" }) })

interface Asked {
  readonly mode?: string
  readonly message: string
  readonly url?: string
}
type Said = { readonly action: "accept" | "decline" | "cancel"; readonly content?: Record<string, string> }

const eras = ["2025", "2026"] as const
type Era = (typeof eras)[number]

/** A client that answers questions in this way. */
const client = async (era: Era, token: string, kinds: object | undefined, say: (asked: Asked) => Said | Promise<Said>) => {
  const questions: Array<Asked> = []
  const connected = new v2.Client(
    { name: "asker", version: "1" },
    {
      capabilities: (kinds === undefined ? {} : { elicitation: kinds }) as object,
      versionNegotiation: { mode: era === "2026" ? { pin: "2026-07-28" } : "legacy" },
    },
  )
  if (kinds !== undefined)
    connected.setRequestHandler("elicitation/create", async ({ params }) => {
      questions.push(params as Asked)
      return await say(params as Asked)
    })
  await connected.connect(
    new v2.StreamableHTTPClientTransport(new URL(served.endpoint), {
      requestInit: { headers: { Authorization: `Bearer ${tokens[token]}` } },
    }),
  )
  return {
    questions,
    call: async (name: string, args: object) =>
      (await connected.callTool({ name, arguments: { workspace_id: "app", ...args } })) as unknown as ToolResult,
    resume: async (approval_id: string) =>
      (await connected.callTool({ name: "operation_resume", arguments: { approval_id } })) as unknown as ToolResult,
    close: () => connected.close(),
  }
}

let count = 0
/** A command that leaves a line for every time it runs. */
const command = () => {
  const name = `ran-${++count}`
  const times = () => {
    try {
      return readFileSync(join(home.workspace, name), "utf8").length
    } catch {
      return 0
    }
  }
  return { args: { script: `printf x >> ${name}` }, times }
}

const allow: Said = { action: "accept", content: { decision: "allow once" } }
const codeOf = (result: ToolResult) => refusalOf(result)?.code ?? "ran"
const idOf = (result: ToolResult) => String(refusalOf(result)?.details["approval_id"])

describe.each(eras)("prompts of %s", (era) => {
  it("lead to the operator's page, whose word counts and not the client's", async () => {
    const { args, times } = command()
    const asker = await client(era, "plain", { url: {}, form: {} }, async ({ url }) => {
      expect(url).toMatch(new RegExp(`^${origin()}/approvals/apr_`))
      expect((await decide(url?.split("/").at(-1) ?? "", "grant")).status).toBe(303)
      return { action: "accept" }
    })
    expect(codeOf(await asker.call("exec_command", args))).toBe("ran")
    expect(asker.questions).toHaveLength(1)
    expect(asker.questions[0]).toMatchObject({ mode: "url" })
    expect(times()).toBe(1)
    await asker.close()
  })

  it("tell a denial by the operator, once, and ask no second time", async () => {
    const { args, times } = command()
    const asker = await client(era, "plain", { url: {} }, async ({ url }) => {
      await decide(url?.split("/").at(-1) ?? "", "deny")
      return { action: "accept" }
    })
    const result = await asker.call("exec_command", args)
    expect(codeOf(result)).toBe("APPROVAL_CONFLICT")
    expect(refusalOf(result)?.message).toContain("was denied (seen)")
    expect(asker.questions).toHaveLength(1)
    expect(times()).toBe(0)
    await asker.close()
  })

  const unheard: ReadonlyArray<readonly [string, object | undefined, Said, number]> = [
    [
      "a form filled in for a page that was asked to be opened, and refused",
      { url: {} },
      { action: "decline", content: { decision: "allow once" } },
      1,
    ],
    ["a page that was closed", { url: {} }, { action: "cancel" }, 1],
    ["a form of a caller that is not trusted with it", { form: {} }, allow, 0],
    ["a client that names no kind of prompt", {}, allow, 0],
    ["a client without prompts", undefined, allow, 0],
  ]
  for (const [what, kinds, said, asked] of unheard)
    it(`grant nothing by ${what}`, async () => {
      const { args, times } = command()
      const asker = await client(era, "plain", kinds, () => said)
      const result = await asker.call("exec_command", args)
      expect(codeOf(result)).toBe("APPROVAL_REQUIRED")
      expect(asker.questions).toHaveLength(asked)
      expect(codeOf(await asker.resume(idOf(result)))).toBe("APPROVAL_REQUIRED")
      expect(times()).toBe(0)
      await asker.close()
    })

  it("are answered by the form of a trusted caller, and a repeat runs nothing again", async () => {
    const { args, times } = command()
    const asker = await client(era, "trusted", { form: {} }, () => allow)
    const key = { operation_key: `trusted-${era}` }
    const first = await asker.call("exec_command", { ...args, ...key })
    expect(codeOf(first)).toBe("ran")
    expect(asker.questions[0]?.message).toContain("running a command waits for a decision (approvals: confirm)")
    expect((await asker.call("exec_command", { ...args, ...key })).structuredContent?.["operation_id"]).toBe(
      first.structuredContent?.["operation_id"],
    )
    expect(asker.questions).toHaveLength(1)
    expect(times()).toBe(1)
    await asker.close()
  })

  const refusing: ReadonlyArray<readonly [string, Said, string]> = [
    ["deny", { action: "accept", content: { decision: "deny" } }, "APPROVAL_CONFLICT"],
    ["decline", { action: "decline" }, "APPROVAL_CONFLICT"],
    ["cancel", { action: "cancel" }, "APPROVAL_REQUIRED"],
  ]
  for (const [what, said, code] of refusing)
    it(`of a trusted caller that say ${what} run nothing`, async () => {
      const { args, times } = command()
      const asker = await client(era, "trusted", { form: {} }, () => said)
      expect(codeOf(await asker.call("exec_command", args))).toBe(code)
      expect(asker.questions).toHaveLength(1)
      expect(times()).toBe(0)
      await asker.close()
    })
})

it("ask a client of 2025 on the stream of its call, also when it listens on no other", async () => {
  const { args, times } = command()
  const post = (message: object, session?: string) =>
    fetch(served.endpoint, {
      method: "POST",
      headers: {
        authorization: `Bearer ${tokens["trusted"]}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(session === undefined ? {} : { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    })
  const clientInfo = { name: "raw", version: "1" }
  const opened = await post({
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: { elicitation: { form: {} } }, clientInfo },
  })
  const session = opened.headers.get("mcp-session-id") ?? ""
  await opened.text()
  await (await post({ method: "notifications/initialized" }, session)).text()
  const answer = await post(
    { id: 2, method: "tools/call", params: { name: "exec_command", arguments: { workspace_id: "app", ...args } } },
    session,
  )
  const messages: Array<{ id: unknown; method?: string; result?: ToolResult }> = []
  let text = ""
  for await (const chunk of answer.body ?? []) {
    text += new TextDecoder().decode(chunk as Uint8Array)
    const lines = text.split("\n")
    text = lines.pop() ?? ""
    for (const line of lines) if (line.startsWith("data: {")) messages.push(JSON.parse(line.slice("data: ".length)))
    const asked = messages.at(-1)
    if (asked?.method === "elicitation/create") await (await post({ id: asked.id, result: allow }, session)).text()
  }
  expect(messages.map(({ method }) => method)).toEqual(["elicitation/create", undefined])
  expect(codeOf(messages[1]?.result ?? ({ content: [] } as ToolResult))).toBe("ran")
  expect(times()).toBe(1)
})

describe("answers of 2026 that nobody was asked for", () => {
  const call = async (token: string, args: object, more: object, kinds: object = { url: {} }) => {
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "forger", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": { elicitation: kinds },
    }
    const params = { name: "exec_command", arguments: { workspace_id: "app", ...args }, _meta: meta, ...more }
    const response = await fetch(served.endpoint, {
      method: "POST",
      headers: {
        authorization: `Bearer ${tokens[token]}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "exec_command",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    })
    const text = await response.text()
    const line = text.split("\n").find((part) => part.startsWith("data: {")) ?? text
    return JSON.parse(line.replace(/^data: /u, "")) as { result?: ToolResult & { requestState?: string }; error?: unknown }
  }
  const answering = (requestState: string, said: object = allow) => ({ requestState, inputResponses: { approval: said } })

  it("grant nothing: of an approval that is another caller's, of none, of one with other arguments", async () => {
    const mine = command()
    const other = command()
    const asked = await call("plain", mine.args, {})
    const id = asked.result?.requestState ?? ""
    expect(id).toMatch(/^apr_/u)
    for (const [token, args, state] of [
      ["trusted", mine.args, id],
      ["plain", other.args, id],
      ["plain", mine.args, "apr_none"],
      ["plain", mine.args, "nonsense"],
    ] as const) {
      const answered = await call(token, args, answering(state, allow), { form: {} })
      expect(codeOf(answered.result ?? ({ content: [] } as ToolResult))).toBe("APPROVAL_REQUIRED")
    }
    expect([mine.times(), other.times()]).toEqual([0, 0])
  })

  it("that are repeated run nothing a second time", async () => {
    const { args, times } = command()
    const key = { operation_key: "replayed" }
    const id = (await call("plain", { ...args, ...key }, {})).result?.requestState ?? ""
    await decide(id, "grant")
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => call("plain", { ...args, ...key }, answering(id, { action: "accept" }))),
    )
    const operations = new Set(answers.map(({ result }) => result?.structuredContent?.["operation_id"]))
    expect(operations.size).toBe(1)
    expect(times()).toBe(1)
  })
})

describe("the operator's page", () => {
  it("shows what is held to the operator alone, and takes no decision from elsewhere", async () => {
    const { args, times } = command()
    const asker = await client("2025", "plain", undefined, () => allow)
    const id = idOf(await asker.call("exec_command", { ...args, env: {}, cwd: "." }))
    const html = await (await page(`/approvals/${id}`)).text()
    expect(html).toContain("printf x &#62;&#62; ran-")
    expect(html).toContain("Allow once")
    expect(await (await page("/approvals")).text()).toContain(`/approvals/${id}`)

    const stranger = await fetch(`${origin()}/approvals/${id}`, { redirect: "manual", headers: { accept: "text/html" } })
    expect([stranger.status, stranger.headers.get("location")]).toEqual([303, `/login?next=%2Fapprovals%2F${id}`])
    const asCaller = await fetch(`${origin()}/approvals/${id}`, { headers: { authorization: `Bearer ${tokens["plain"]}` } })
    expect(asCaller.status).toBe(401)
    // A page of another site sends the cookie too.
    const foreign = await page(`/approvals/${id}`, { method: "POST", body: new URLSearchParams({ decision: "grant" }) }, false)
    expect(foreign.status).toBe(401)
    expect(codeOf(await asker.resume(id))).toBe("APPROVAL_REQUIRED")
    expect((await page("/approvals/apr_none")).status).toBe(404)

    await decide(id, "grant")
    expect(await (await decide(id, "deny")).text()).toContain("is granted already")
    expect(codeOf(await asker.resume(id))).toBe("ran")
    expect(times()).toBe(1)
    await asker.close()
  })
})

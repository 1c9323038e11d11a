/** Operations, approvals and callers through the operator's API, and the same records at the command line. */
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Conflict, NotFound, Rejected } from "../../src/operator/Problem.ts"
import { operatorOf, rootOf } from "../support/OperatorSide.ts"
import { type Connection, connect, main, makeHome, refusalOf, type Served, serve } from "../support/Program.ts"

const run = Effect.runPromise
const refused = <A, E>(effect: Effect.Effect<A, E>) => run(Effect.flip(effect))
const app = { workspace_id: "app" }

/** Beside `app`, where everything may be done, a workspace whose changes wait for a person. */
const configuredHome = () => {
  const made = makeHome({ "a.txt": "one\n" })
  const guarded = makeHome({ "a.txt": "one\n", "run.sh": "echo ran >> ran.txt\n" })
  const file = join(made.home, "codespace.json")
  const workspace = { profile: "workspace-write" }
  const workspaces = {
    app: { root: made.workspace, ...workspace },
    guarded: { root: guarded.workspace, ...workspace, approvals: "confirm" },
  }
  writeFileSync(file, JSON.stringify({ workspaces }))
  const remove = () => {
    made.remove()
    guarded.remove()
  }
  return { ...made, folders: [], env: { ...made.env, CODESPACE_CONFIG: file }, guarded: guarded.workspace, remove }
}

interface Opened {
  home: ReturnType<typeof configuredHome>
  served: Served
  loop: Connection
  operator: ReturnType<typeof operatorOf>
}
const opened = {} as Opened

beforeAll(async () => {
  opened.home = configuredHome()
  opened.served = await serve(opened.home)
  opened.loop = await connect("v2-2025", { http: opened.served })
  opened.operator = operatorOf(opened.home, opened.served)
})
afterAll(async () => {
  await opened.loop.close()
  await opened.served.stop()
  opened.home.remove()
})

const idOf = (result: { readonly structuredContent?: Readonly<Record<string, unknown>> }) =>
  String(result.structuredContent?.["operation_id"])

describe("operations", () => {
  it("are listed newest first, page by page, and shown whole with the diff of a preview", async () => {
    const { loop, operator } = opened
    const { client } = operator
    const write = (content: string, more = {}) => loop.call("write", { ...app, path: "w.txt", content, ...more })
    const ids = [await write("1\n"), await write("2\n"), await write("3\n", { check_only: true })].map(idOf)
    const missed = await loop.call("edit", { ...app, path: "w.txt", edits: [{ old: "nothing", new: "x" }] })
    expect(refusalOf(missed)?.code).toBe("CONTEXT_NOT_FOUND")
    const { operations } = await run(client.operations.list({ query: { workspace_id: "app" } }))
    expect(operations[0]).toMatchObject({ kind: "edit", state: "failed", refusal: "CONTEXT_NOT_FOUND", caller: "owner" })
    expect(operations.slice(1, 4).map(({ operation_id }) => operation_id)).toEqual([...ids].reverse())
    const page = await run(client.operations.list({ query: { workspace_id: "app", before: ids[2] as string, limit: 1 } }))
    expect(page.operations.map(({ operation_id }) => operation_id)).toEqual([ids[1]])
    expect((await run(client.operations.list({ query: { caller: "nobody" } }))).operations).toEqual([])
    const shown = await run(client.operations.show({ params: { operation_id: ids[2] as string } }))
    expect(shown).toMatchObject({ kind: "write", state: "done", caller: "owner" })
    expect(shown.diff).toContain("-2\n+3\n")
    expect(shown.events.map(({ event }) => event)).toEqual(["OperationStarted", "OperationFinished"])
    expect(await refused(client.operations.show({ params: { operation_id: "op_none" } }))).toBeInstanceOf(NotFound)
    expect((await operator.get("/api/operations?limit=0")).status).toBe(400)
    expect((await operator.get("/api/operations?state=asleep")).status).toBe(400)
  })
})

describe("approvals", () => {
  const hold = async (name: string, args: object) => {
    const result = await opened.loop.call(name, { workspace_id: "guarded", ...args })
    expect(refusalOf(result)?.code).toBe("APPROVAL_REQUIRED")
    return { approval_id: String(refusalOf(result)?.details["approval_id"]) }
  }

  it("are shown whole and decided once, and the granted call runs once", async () => {
    const { home, loop, operator } = opened
    const { client } = operator
    const params = await hold("write", { path: "a.txt", content: "two\n" })
    const denied = await hold("write", { path: "a.txt", content: "three\n" })
    const pending = await run(client.approvals.list({ query: { state: "pending" } }))
    expect(pending.approvals.map(({ approval_id }) => approval_id).sort()).toEqual([params.approval_id, denied.approval_id].sort())
    const shown = await run(client.approvals.show({ params }))
    expect(shown.shown.diff).toContain("-one\n+two\n")
    expect(await run(client.operations.show({ params: { operation_id: shown.operation_id } }))).toMatchObject({
      state: "held",
      approval_id: params.approval_id,
      diff: shown.shown.diff,
    })
    expect(await run(client.approvals.grant({ params, payload: {} }))).toMatchObject({ state: "granted", decided_by: "operator (API)" })
    expect(await refused(client.approvals.grant({ params, payload: {} }))).toBeInstanceOf(Conflict)
    await run(client.approvals.deny({ params: denied, payload: { reason: "not today" } }))
    expect((await loop.call("operation_resume", params)).structuredContent).toMatchObject({ result: { status: "applied" } })
    expect(readFileSync(join(home.guarded, "a.txt"), "utf8")).toBe("two\n")
    expect(refusalOf(await loop.call("operation_resume", denied))?.message).toContain("not today")
    expect(await refused(client.approvals.grant({ params: { approval_id: "apr_none" }, payload: {} }))).toBeInstanceOf(NotFound)
  })

  it("remember only words that the held command begins with, and forget them again", async () => {
    const { client } = opened.operator
    const params = await hold("exec_command", { command: ["sh", "run.sh"] })
    for (const remember of [["rm"], ["sh", "other.sh"], []])
      expect(await refused(client.approvals.grant({ params, payload: { remember } }))).toBeInstanceOf(Rejected)
    await run(client.approvals.grant({ params, payload: { remember: ["sh", "run.sh"] } }))
    const { grants } = await run(client.grants.list({ query: { workspace_id: "guarded" } }))
    expect(grants).toMatchObject([{ argv: ["sh", "run.sh"], granted_by: "operator (API)" }])
    const again = { workspace_id: "guarded", command: ["sh", "run.sh", "x"] }
    expect((await opened.loop.call("exec_command", again)).structuredContent).toMatchObject({ exit_code: 0 })
    const grant = { params: { grant_id: grants[0]?.grant_id ?? "" } }
    await run(client.grants.revoke(grant))
    expect(await refused(client.grants.revoke(grant))).toBeInstanceOf(NotFound)
    expect(refusalOf(await opened.loop.call("exec_command", again))?.code).toBe("APPROVAL_REQUIRED")
  })
})

describe("callers", () => {
  it("are let in with a token that is told once, and turned out at once", async () => {
    const { client, root } = opened.operator
    const ask = (token: string) =>
      fetch(`${root}/mcp`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 0,
          method: "initialize",
          params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
        }),
      })
    const { token = "" } = await run(
      client.callers.admit({ payload: { name: "ann", workspaces: ["app"], highest: "read-only", trust_prompts: false } }),
    )
    expect((await ask(token)).status).toBe(200)
    const { callers } = await run(client.callers.list())
    expect(callers.find(({ name }) => name === "ann")).toMatchObject({ workspaces: ["app"], highest: "read-only", known_by: "token" })
    expect(JSON.stringify(callers)).not.toContain(token)
    const again = { name: "ann", trust_prompts: false }
    expect(await refused(client.callers.admit({ payload: again }))).toBeInstanceOf(Conflict)
    expect(await refused(client.callers.admit({ payload: { ...again, name: "bob", highest: "none" } }))).toBeInstanceOf(Rejected)
    const { token: fresh = "" } = await run(client.callers.admit({ payload: { ...again, replace: true } }))
    expect([(await ask(token)).status, (await ask(fresh)).status]).toEqual([401, 200])
    await run(client.callers.revoke({ params: { name: "ann" } }))
    expect((await ask(fresh)).status).toBe(401)
    expect(await refused(client.callers.revoke({ params: { name: "ann" } }))).toBeInstanceOf(NotFound)
  })
})

// Each command is a program of its own, which on a machine with much to do takes its time.
describe("the command line", { timeout: 180_000 }, () => {
  const person = (...args: ReadonlyArray<string>) => {
    const { status, stderr, stdout } = spawnSync(process.execPath, [main, ...args], { env: opened.home.env, encoding: "utf8" })
    return { status, stdout, stderr }
  }
  const json = (...args: ReadonlyArray<string>) => JSON.parse(person(...args, "--json").stdout)

  it("lists and shows what was called, from the state folder and from the server", async () => {
    const written = await opened.loop.call("write", { ...app, path: "esc.txt", content: "\u001b[31mred\n", check_only: true })
    const id = idOf(written)
    const url = rootOf(opened.served)
    expect(json("ops", "--workspace", "app", "--limit", "1").operations).toMatchObject([{ operation_id: id, kind: "write" }])
    expect(json("ops", "--workspace", "app", "--limit", "1", "--url", url)).toEqual(json("ops", "--workspace", "app", "--limit", "1"))
    expect(person("ops", "--limit", "1").stdout).toContain(id)
    const shown = person("show", id)
    expect([shown.status, shown.stderr]).toEqual([0, ""])
    expect(shown.stdout).toContain("+\ufffd[31mred")
    expect(shown.stdout).not.toContain("\u001b")
    expect(json("show", id)).toEqual(json("show", id, "--url", url))
  })

  it("writes to the inbox, whoever serves the loop", async () => {
    const { loop } = opened
    const work_id = String((await loop.call("work_open", { ...app, title: "by hand" })).structuredContent?.["work_id"])
    expect(person("inbox", "list").stdout).toContain(`${work_id}  open  app  owner`)
    const { instruction_id } = json("inbox", "draft", work_id, "first thought")
    json("inbox", "edit", work_id, instruction_id, "second thought")
    expect((await loop.call("steer_claim_next", { work_id })).structuredContent).not.toHaveProperty("instruction")
    expect(json("inbox", "queue", work_id, instruction_id)).toMatchObject({ state: "queued" })
    const sent = json("inbox", "send", work_id, "third", "--url", rootOf(opened.served))
    expect((await loop.call("steer_claim_next", { work_id })).structuredContent).toMatchObject({ instruction: { text: "second thought" } })
    expect(json("inbox", "cancel", work_id, sent.instruction_id)).toMatchObject({ state: "cancelled" })
    const taken = person("inbox", "cancel", work_id, instruction_id)
    expect([taken.status, taken.stdout]).toEqual([1, ""])
    expect(taken.stderr).toContain("is claimed")
    expect(person("inbox", "show", work_id).stdout).toMatch(/claimed by owner[\s\S]*second thought[\s\S]*cancelled[\s\S]*third/)
  })

  it("tells by its exit code and on stderr what it cannot do", () => {
    expect(person("show", "op_none")).toMatchObject({ status: 1, stdout: "" })
    expect(person("ops", "--state", "asleep")).toMatchObject({ status: 2, stdout: "" })
    expect(person("inbox", "show")).toMatchObject({ status: 2, stdout: "" })
    const nobody = person("ops", "--url", "http://127.0.0.1:9")
    expect([nobody.status, nobody.stdout]).toEqual([1, ""])
  })
})

/**
 * Servers of the built program on one state folder, killed with SIGKILL at random moments of mixed operations. The kinds of
 * calls, the keys and the moments come from a seed, so that a failure can be had again.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterEach, describe, expect, it } from "vitest"
import { type Home, main, makeHome, refusalOf, type ToolResult } from "../support/Program.ts"
import { startStdio } from "../support/StdioClient.ts"

const cleanups: Array<() => void> = []
afterEach(() => {
  for (const clean of cleanups.splice(0).reverse()) clean()
})

const SERVERS = 8
/** Operations of each server; the whole count is for longer runs. */
const OPERATIONS = Number(process.env["CODESPACE_KILL_OPERATIONS"] ?? 12)

const random = (seed: number) => {
  const state = { value: seed }
  return (below: number) => {
    state.value = (Math.imul(state.value, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state.value / 2 ** 32) * below)
  }
}

const databaseOf = (made: Home): string => join(made.home, "state/codespace/codespace.sqlite")
const factsOf = (result: ToolResult) => result.structuredContent as Record<string, unknown>

const start = (made: Home) => {
  const { client, kill } = startStdio(made.env, [main, "mcp", made.workspace])
  cleanups.push(kill)
  let ids = 0
  const opened = client.initialize()
  // A server may be killed before it answers.
  opened.catch(() => undefined)
  /** The answer, or nothing when the server was killed first. */
  const call = async (name: string, args: object): Promise<ToolResult | undefined> => {
    await Promise.race([opened, client.ended]).catch(() => undefined)
    ids += 1
    client.send({ jsonrpc: "2.0", id: ids, method: "tools/call", params: { name, arguments: { workspace_id: "app", ...args } } })
    const answered = client.answer(ids, 60_000).then(({ result }) => result as unknown as ToolResult)
    answered.catch(() => undefined)
    return Promise.race([answered, client.ended.then(() => undefined)])
  }
  return { call, kill, ended: client.ended }
}

/** A call of a kind; its effect on the disk tells how often it ran. */
const callOf = (name: string, kind: number): { readonly tool: string; readonly args: object } => {
  const common = { operation_key: name, lease_wait_ms: 50_000 }
  if (kind === 0) return { tool: "write", args: { ...common, path: `written/${name}`, content: `${name}\n` } }
  if (kind === 1)
    return { tool: "apply_patch", args: { ...common, patch: `*** Begin Patch\n*** Update File: shared.txt\n@@\n+${name}\n*** End Patch` } }
  if (kind === 2) return { tool: "exec_command", args: { ...common, script: `echo ${name} >> ran.txt`, access: "shared" } }
  return { tool: "exec_command", args: { ...common, script: `echo ${name} >> ran.txt; sleep 0.05`, yield_ms: 5 } }
}

interface Acknowledged {
  readonly tool: string
  readonly args: object
  readonly facts: Record<string, unknown>
}

describe("servers killed at random moments (R126, R136)", () => {
  for (const [folder, seed] of [
    ["a fresh", 11],
    ["an existing", 12],
  ] as const)
    it(`of ${OPERATIONS} operations from each of ${SERVERS}, on ${folder} state folder: nothing runs twice, no answer is forgotten, no row stays running`, {
      timeout: 240_000,
    }, async () => {
      const made = makeHome({ "shared.txt": "" })
      cleanups.push(made.remove)
      if (folder === "an existing") {
        mkdirSync(dirname(databaseOf(made)), { recursive: true, mode: 0o700 })
        const database = new DatabaseSync(databaseOf(made))
        database.exec(readFileSync(new URL("../fixtures/state/first-version.sql", import.meta.url), "utf8"))
        database.close()
      }
      writeFileSync(join(made.workspace, "ran.txt"), "")
      const acknowledged: Array<Acknowledged> = []
      const asked: Array<{ readonly name: string; readonly tool: string; readonly args: object }> = []

      const lane = async (lane: number): Promise<void> => {
        const below = random(seed * 100 + lane)
        let server = start(made)
        for (let n = 0; n < OPERATIONS; n += 1) {
          const name = `s${lane}-${n}`
          const { args, tool } = callOf(name, below(4))
          asked.push({ name, tool, args })
          const dies = below(5) === 0
          if (dies) setTimeout(server.kill, below(120))
          const result = await server.call(tool, args)
          if (result !== undefined && refusalOf(result) === undefined) acknowledged.push({ tool, args, facts: factsOf(result) })
          if (!dies) continue
          server.kill()
          await server.ended
          server = start(made)
        }
        server.kill()
        await server.ended
      }
      await Promise.all(Array.from({ length: SERVERS }, (_, index) => lane(index)))

      const last = start(made)
      // Whatever was answered is answered again, and what was not is settled: done, or told not to have been.
      for (const { args, facts, tool } of acknowledged) {
        const again = (await last.call(tool, args)) as ToolResult
        expect(factsOf(again)?.["operation_id"], JSON.stringify([args, refusalOf(again)])).toBe(facts["operation_id"])
      }
      for (const { name, tool } of asked) {
        const status = (await last.call("operation_status", { operation_key: name })) as ToolResult
        if (refusalOf(status)?.code === "OPERATION_NOT_FOUND") continue
        const { events, result, state } = factsOf(status)
        expect(["done", "failed", "cancelled", "interrupted"], `${name} (${tool})`).toContain(state)
        if (state === "interrupted") expect(JSON.stringify([events, result]), name).toMatch(/its server ended|its process|lost/u)
      }
      expect(factsOf((await last.call("operation_list", { state: "running" })) as ToolResult)["operations"]).toEqual([])

      const linesOf = (file: string) =>
        readFileSync(join(made.workspace, file), "utf8")
          .split("\n")
          .filter((line) => line !== "")
      for (const file of ["ran.txt", "shared.txt"]) {
        const lines = linesOf(file)
        expect(new Set(lines).size, `${file} has a line twice`).toBe(lines.length)
      }
      for (const { args, facts, tool } of acknowledged) {
        const { operation_key: name } = args as { readonly operation_key: string }
        // It ended with its server, maybe before its first line.
        if (facts["state"] === "running") continue
        if (tool === "write") expect(existsSync(join(made.workspace, "written", name)), name).toBe(true)
        else expect(linesOf(tool === "apply_patch" ? "shared.txt" : "ran.txt"), name).toContain(name)
      }
      last.kill()
      await last.ended
      const verified = spawnSync(process.execPath, [main, "audit", "verify"], { env: made.env, encoding: "utf8" })
      expect(verified.stdout).toMatch(/all in one chain/u)
      expect(execFileSync("find", [made.workspace, "-name", ".codespace*"], { encoding: "utf8" })).toBe("")
    })
})

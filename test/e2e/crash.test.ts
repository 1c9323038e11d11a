/**
 * The built program, killed at random moments of a large patch and started again: the files are all old or all new, and
 * `operation_status` says which (field reports R125, R126, R136).
 */
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, describe, expect, it } from "vitest"
import { startLines } from "../support/LineServer.ts"
import { type Home, makeHome, refusalOf, type ToolResult } from "../support/Program.ts"
import { readTree } from "../support/Tree.ts"
import { backward, forward, twentyFiles } from "../support/TwentyFiles.ts"

const homes: Array<Home> = []
afterAll(() => {
  for (const home of homes) home.remove()
})

/** Files and modes; folders that a deletion leaves empty stay and are no part of it. */
const filesOf = (home: Home): string =>
  JSON.stringify(
    Object.entries(readTree(home.workspace))
      .filter(([, file]) => file !== "dir")
      .sort(),
  )

/** Whether half of a patch may be on disk. Folders come and go while it looks. */
const hasPlan = (home: Home): boolean => {
  const journal = join(home.env.XDG_STATE_HOME, "codespace/journal")
  try {
    return readdirSync(journal, { recursive: true, encoding: "utf8" }).some((name) => name.endsWith(".plan"))
  } catch {
    return false
  }
}

const status = (result: ToolResult) => (result.structuredContent ?? {}) as Readonly<Record<string, unknown>>

const DEATHS = 100

interface Tally {
  deaths: number
  halfway: number
  readonly ends: Record<string, number>
}

/** One home, patched to and fro; its server dies at a random moment of each patch. */
const lane = async (deaths: number, tally: Tally): Promise<void> => {
  const home = makeHome(twentyFiles)
  homes.push(home)
  const states = [filesOf(home), ""]
  const first = startLines(home)
  // How long the patch takes in a fresh server, and what it does.
  await first.call("workspace_info", {})
  const began = performance.now()
  const made = await first.call("apply_patch", { patch: forward })
  const took = performance.now() - began
  expect([refusalOf(made)?.message, status(made)["status"]]).toEqual([undefined, "applied"])
  expect((status(made)["changes"] as ReadonlyArray<unknown>).length).toBe(19)
  states[1] = filesOf(home)
  // A server that may end in peace leaves its compiled code behind, and the next ones start faster.
  await first.stop()
  let side = 1
  let server = startLines(home)
  for (let death = 0; death < deaths; death++) {
    const patch = side === 0 ? forward : backward
    const operation_key = `k${death}`
    const answer = server.call("apply_patch", { patch, operation_key }).then(() => true)
    // Any moment of the call, or one soon after the plan was written: that is where half of it may be done.
    if (death % 3 === 0) await sleep(Math.random() * took * 1.2)
    else {
      while (!hasPlan(home) && !(await Promise.race([answer, sleep(1, false)])));
      for (const end = performance.now() + Math.random() * 5; performance.now() < end; );
    }
    await server.kill()
    if (hasPlan(home)) tally.halfway += 1
    tally.deaths += 1
    server = startLines(home)
    const told = await server.call("operation_status", { operation_key })
    const { changes, events, result, state } = status(told) as {
      readonly changes?: ReadonlyArray<unknown>
      readonly events?: ReadonlyArray<{ readonly event: string; readonly detail?: string }>
      readonly result?: Readonly<Record<string, unknown>>
      readonly state?: string
    }
    const end = state ?? refusalOf(told)?.code ?? "nothing"
    tally.ends[end] = (tally.ends[end] ?? 0) + 1
    const where = [death, end]
    const files = filesOf(home)
    expect([...where, files]).toEqual([...where, states[end === "done" ? 1 - side : side]])
    if (end === "done") {
      expect([...where, changes?.length, result?.["status"]]).toEqual([...where, 19, "applied"])
      side = 1 - side
    } else if (end === "interrupted") {
      expect([...where, changes, result?.["status"]]).toEqual([...where, [], "failed_rolled_back"])
      expect(events?.at(-1)?.detail).toContain("rolled back: every file is as it was")
    } else expect(end).toBe("OPERATION_NOT_FOUND")
    // Now and then the loop repeats its call instead of asking: once more for one that did not happen, the stored result for one that did.
    if (death % 10 === 0) {
      const again = await server.call("apply_patch", { patch, operation_key })
      expect([...where, refusalOf(again)?.message, status(again)["status"]]).toEqual([...where, undefined, "applied"])
      if (end === "done") expect(status(again)).toEqual(result)
      else side = 1 - side
      expect([...where, filesOf(home)]).toEqual([...where, states[side]])
    }
  }
  await server.kill()
  const left = Object.keys(readTree(home.workspace)).filter((name) => name.includes("codespace"))
  expect(left).toEqual([])
}

describe("the server killed at random moments of a patch (R125, R126, R136)", () => {
  it("leaves all old or all new, and the ledger says which", { timeout: 240_000 }, async () => {
    const tally: Tally = { deaths: 0, halfway: 0, ends: {} }
    await Promise.all([lane(DEATHS / 2, tally), lane(DEATHS / 2, tally)])
    expect(tally.deaths).toBe(DEATHS)
    expect(tally.halfway).toBeGreaterThan(DEATHS / 20)
    expect(tally.ends["done"]).toBeGreaterThan(DEATHS / 20)
    expect(tally.ends["interrupted"]).toBeGreaterThan(DEATHS / 20)
  })
})

/**
 * What recording costs: the gate over the real ledger beside the same gate over one that records nothing, operations a
 * second at both durabilities, and the first change after a start on a ledger of a million events beside an empty one.
 * Run it with `node bench/ledger.ts`, after a build. Only ratios inside a run count.
 */
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import { Effect, Layer, Option, Result } from "effect"
import * as Sqlite from "../src/layers/Sqlite.ts"
import { noHooks, patchDefaults } from "../src/schema/ConfigDefaults.ts"
import type { OperationId } from "../src/schema/Operation.ts"
import { ConfinedPath, WorkspaceId } from "../src/schema/Workspace.ts"
import { AppConfig, builtInProfiles } from "../src/services/AppConfig.ts"
import { Approvals } from "../src/services/Approvals.ts"
import { Caller } from "../src/services/Caller.ts"
import { CommandReader } from "../src/services/CommandReader.ts"
import { Endings } from "../src/services/Endings.ts"
import { type GatedTool, GatedTools } from "../src/services/GatedTool.ts"
import { LeaseManager } from "../src/services/LeaseManager.ts"
import { Operations } from "../src/services/Operations.ts"
import { Policy } from "../src/services/Policy.ts"
import { Runner } from "../src/services/Runner.ts"
import { ShellParser } from "../src/services/ShellParser.ts"
import { type Recorded, Store } from "../src/services/Store.ts"
import { layerIn } from "../test/support/Records.ts"

const CALLS = 1000
const ROUNDS = 5
const EVENTS = 1_000_000

const folder = mkdtempSync(join(tmpdir(), "codespace-ledger-bench-"))
const config = {
  workspaces: new Map([
    [
      "app",
      {
        id: WorkspaceId.make("app"),
        root: "/w",
        realRoot: "/w",
        profile: builtInProfiles.get("workspace-write"),
        sandbox: "auto",
        approvals: "off",
        patch: patchDefaults,
        hooks: noHooks,
        environment: { kind: "host" },
      },
    ],
  ]),
} as unknown as AppConfig["Service"]

interface Input {
  readonly [key: string]: string
  readonly workspace_id: string
}
const tool: GatedTool<Input> = {
  name: "write",
  records: true,
  names: ({ workspace_id }) => ({ workspace: workspace_id }),
  touches: () => Result.succeed({ write: [ConfinedPath.make("a")] }),
  lease: () => undefined,
}

/** A ledger that forgets at once. */
const forgetful = Layer.effect(
  Store,
  Effect.map(Store, (store) =>
    Store.of({
      ...store,
      byKey: () => Effect.succeed(Option.none()),
      begin: (beginning) =>
        Effect.succeed({ begun: true, operation: { ...beginning, operationId: "op_0" as OperationId, state: "running" } as Recorded }),
      settle: () => Effect.void,
    }),
  ),
)

const gate = (database: string, durability: "process" | "power", records: boolean) =>
  Operations.layer.pipe(
    Layer.provideMerge(
      Layer.succeed(
        Runner,
        Runner.of({
          execute: () => Effect.succeed({ result: { status: "applied", changes: [] } }),
          outcomes: () => Effect.succeed(new Map()),
          acknowledge: () => Effect.void,
        }),
      ),
    ),
    Layer.provideMerge(records ? Layer.empty : forgetful),
    Layer.provideMerge(
      Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, CommandReader.layer.pipe(Layer.provide(ShellParser.layerNone))),
    ),
    Layer.provideMerge(Layer.succeed(GatedTools, GatedTools.of(new Map()))),
    Layer.provideMerge(Approvals.layer),
    Layer.provideMerge(layerIn(Sqlite.layer(join(folder, database), { durability }))),
    Layer.provideMerge(Layer.succeed(AppConfig, { ...config, approvals: { resolver: "operator", expires: "1 hour" } } as never)),
  )

const caller = Caller.of({ name: "local", workspaces: undefined, client: "bench", progress: () => Effect.void })
const median = (values: ReadonlyArray<number>) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

/** Milliseconds of one call, the median of rounds of calls one after the other. */
const perCall = (name: string, layer: ReturnType<typeof gate>) =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const rounds: Array<number> = []
    for (let round = 0; round < ROUNDS; round += 1) {
      const from = performance.now()
      for (let n = 0; n < CALLS; n += 1) yield* operations.run(tool, { workspace_id: "app", operation_key: `${round}-${n}`, path: "a" })
      rounds.push((performance.now() - from) / CALLS)
    }
    return { name, ms: median(rounds) }
  }).pipe(Effect.provideService(Caller, caller), Effect.provide(layer))

/** From the start of the built program to the answer of its first change. */
const firstChange = async (home: string): Promise<number> => {
  const from = performance.now()
  const child = spawn(process.execPath, [fileURLToPath(new URL("../dist/main.mjs", import.meta.url)), "mcp", join(home, "app")], {
    env: { PATH: process.env["PATH"], HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CONFIG_HOME: join(home, "config") },
    stdio: ["pipe", "pipe", "ignore"],
  })
  const send = (id: number, method: string, params: object) =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`)
  send(1, "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } })
  send(2, "tools/call", { name: "write", arguments: { workspace_id: "app", path: "a.txt", content: "x\n" } })
  let text = ""
  const ms = await new Promise<number>((resolve) =>
    child.stdout.on("data", (chunk) => {
      text += String(chunk)
      if (text.includes('"id":2')) resolve(performance.now() - from)
    }),
  )
  if (!text.includes("applied")) throw new Error(text)
  child.stdin.end()
  await new Promise((resolve) => child.on("exit", resolve))
  return ms
}

const homeOf = async (name: string, events: number): Promise<string> => {
  const home = join(folder, name)
  mkdirSync(join(home, "app"), { recursive: true })
  await firstChange(home)
  if (events === 0) return home
  const database = new DatabaseSync(join(home, "state/codespace/codespace.sqlite"))
  const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${events / 2})`
  const body = `json_object('result', json_object('status', 'applied', 'changes', json_array()))`
  const now = Date.now()
  database.exec(`BEGIN;
    INSERT INTO operations (operation_id, caller, workspace_id, kind, fingerprint, check_only, state, server, created_at, finished_at, result)
      ${numbers} SELECT 'op_0' || i, 'local', 'app', 'write', hex(randomblob(32)), 0, 'done', '1.x', ${now}, ${now}, ${body} FROM n;
    INSERT INTO events (at, subject, event, body, hash)
      ${numbers} SELECT ${now}, 'op_0' || i, 'OperationStarted', json_object('kind', 'write', 'workspace_id', 'app'), hex(randomblob(32)) FROM n;
    INSERT INTO events (at, subject, event, body, hash)
      ${numbers} SELECT ${now}, 'op_0' || i, 'OperationFinished', ${body}, hex(randomblob(32)) FROM n;
    COMMIT`)
  database.close()
  return home
}

const ratio = (a: number, b: number) => (a / b).toFixed(2)
try {
  const calls = await Effect.runPromise(
    Effect.all([
      perCall("nothing", gate("none.sqlite", "process", false)),
      perCall("process", gate("process.sqlite", "process", true)),
      perCall("power", gate("power.sqlite", "power", true)),
    ]),
  )
  for (const { ms, name } of calls)
    console.log(`a call through the gate, recorded for ${name}: ${ms.toFixed(3)} ms, ${Math.round(1000 / ms)} operations a second`)
  const [none, process_] = calls
  if (none !== undefined && process_ !== undefined) console.log(`recording costs ${(process_.ms - none.ms).toFixed(3)} ms a call (process)`)
  const empty = await homeOf("empty", 0)
  const full = await homeOf("full", EVENTS)
  const times: { readonly empty: Array<number>; readonly full: Array<number> } = { empty: [], full: [] }
  for (let round = 0; round < 9; round += 1) {
    times.empty.push(await firstChange(empty))
    times.full.push(await firstChange(full))
  }
  const [without, with_] = [median(times.empty), median(times.full)]
  console.log(
    `start to the first change: ${without.toFixed(0)} ms; with ${EVENTS} events ${with_.toFixed(0)} ms, ratio ${ratio(with_, without)}`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}

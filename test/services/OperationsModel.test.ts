/**
 * The gate against a small model of what it promises. Random calls, with keys and without, come to several servers on one
 * ledger, twice and at once, with other arguments, while servers die at any point of them and new ones start, and while a
 * person grants, denies, or lets time pass. Of each key at most one run may have had an effect, and whatever was once
 * answered must be answered again.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Result, Scope } from "effect"
import { SqlClient } from "effect/sql"
import * as Migrations from "../../src/layers/Migrations.ts"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import { noHooks, patchDefaults } from "../../src/schema/ConfigDefaults.ts"
import type { Outcome } from "../../src/schema/Journal.ts"
import { VersionConflict } from "../../src/schema/Patch.ts"
import type { Profile } from "../../src/schema/Policy.ts"
import type { Refusal } from "../../src/schema/Refusal.ts"
import { ConfinedPath, WorkspaceId } from "../../src/schema/Workspace.ts"
import { AppConfig, type WorkspaceSettings } from "../../src/services/AppConfig.ts"
import { Approvals } from "../../src/services/Approvals.ts"
import { Audit } from "../../src/services/Audit.ts"
import { Caller } from "../../src/services/Caller.ts"
import { CommandReader } from "../../src/services/CommandReader.ts"
import { Endings } from "../../src/services/Endings.ts"
import { type GatedTool, GatedTools } from "../../src/services/GatedTool.ts"
import { LeaseManager } from "../../src/services/LeaseManager.ts"
import { Ledger } from "../../src/services/Ledger.ts"
import { Operations } from "../../src/services/Operations.ts"
import { Policy } from "../../src/services/Policy.ts"
import { Runner, type RunRequest } from "../../src/services/Runner.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { ShellParser } from "../../src/services/ShellParser.ts"
import { Store } from "../../src/services/Store.ts"
import { layerIn } from "../support/Records.ts"

const HISTORIES = Number(process.env["CODESPACE_HISTORIES"] ?? 25)
const STEPS = 30
const KEYS = 6
/** Long enough to be granted and used, short enough to be waited for. */
const EXPIRES = 250

interface Input {
  readonly [key: string]: string | boolean | number
  readonly workspace_id: string
  readonly path: string
}

const profile: Profile = {
  name: "w",
  files: [{ glob: "**", access: "write" }],
  exec: "on",
  network: "on",
  commands: [],
  env: [],
  limits: { processes: 9, spool_bytes: 1000, timeout_ms: 1000 },
}
const settings = (id: string, approvals: WorkspaceSettings["approvals"]): WorkspaceSettings => ({
  id: WorkspaceId.make(id),
  root: "/w",
  realRoot: `/${id}`,
  profile,
  sandbox: "auto",
  approvals,
  patch: patchDefaults,
  hooks: noHooks,
  environment: { kind: "host" },
})
const config = {
  workspaces: new Map([settings("app", "off"), settings("held", "confirm")].map((one) => [one.id, one])),
  approvals: { resolver: "operator", expires: Duration.millis(EXPIRES) },
} as unknown as AppConfig["Service"]

const tool = (name: string): GatedTool<Input> => ({
  name,
  records: true,
  names: ({ workspace_id }) => ({ workspace: workspace_id }),
  touches: ({ path }) => Result.succeed({ write: [ConfinedPath.make(path)] }),
  lease: (_input, touches) => ({ kind: "path", paths: touches.write ?? [] }),
  holds: { shown: () => ({ command: ["x"], cwd: "." }) },
})
/** A patch has a journal that knows what became of it; a command has none. */
const tools = { write: tool("write"), exec_command: tool("exec_command") }

/** Numbers that a seed repeats. */
const random = (seed: number) => {
  const state = { value: seed * 2_654_435_761 + 1 }
  const next = () => {
    state.value = (Math.imul(state.value ^ (state.value >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0
    return ((state.value ^ (state.value >>> 13)) >>> 0) / 2 ** 32
  }
  return { chance: (p: number) => next() < p, below: (n: number) => Math.floor(next() * n) }
}
type Random = ReturnType<typeof random>

/** What the workspace side did, which outlives every server. */
interface World {
  readonly effects: Array<{ readonly operationId: string; readonly slot: string }>
  readonly alive: Set<string>
}

const slotOf = ({ operation_key, workspace_id }: Facts): string => `${workspace_id}/${operation_key}`
type Facts = { readonly [key: string]: unknown }

interface Server {
  readonly name: string
  readonly die: Effect.Effect<unknown>
  readonly died: Deferred.Deferred<void>
  readonly services: Context.Context<Operations | Store | Approvals | Ledger | Audit>
}

const startServer = Effect.fnUntraced(function* (name: string, world: World, chance: Random, database: Layer.Layer<SqlClient.SqlClient>) {
  const died = yield* Deferred.make<void>()
  world.alive.add(name)
  const die = Effect.suspend(() => {
    world.alive.delete(name)
    return Deferred.succeed(died, undefined)
  })
  /** A dead server does nothing any more, whatever it had begun. */
  const living = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.suspend(() => (world.alive.has(name) ? effect : Effect.never))
  const pause = Effect.suspend(() => (chance.chance(0.3) ? Effect.sleep(chance.below(4)) : Effect.yieldNow))
  const mayDie = Effect.suspend(() =>
    chance.chance(0.06) ? Effect.andThen(die, Effect.never) : Effect.andThen(pause, living(Effect.void)),
  )

  const execute = Effect.fnUntraced(function* (request: RunRequest) {
    const { input, operationId = "", tool } = request
    yield* mayDie
    if (input["refuse"] === true) return yield* new VersionConflict({ path: "a", expected: "0".repeat(16), current: "absent" })
    world.effects.push({ operationId, slot: slotOf(input) })
    yield* mayDie
    return { result: tool === "write" ? { status: "applied", changes: [] } : { state: "exited", exit_code: 0 } }
  })
  const runner = Runner.of({
    execute,
    outcomes: (_workspace, cut) =>
      living(
        Effect.sync(
          () =>
            new Map(
              cut.map(({ operationId, tool }): [string, Outcome] => {
                if (tool !== "write") return [operationId, { kind: "unknown" }]
                const committed = world.effects.some((effect) => effect.operationId === operationId)
                return [operationId, committed ? { kind: "committed", delta: { status: "applied", changes: [] } } : { kind: "rolled_back" }]
              }),
            ),
        ),
      ),
    acknowledge: () => Effect.void,
  })
  const records = layerIn(database, Layer.succeed(ServerIdentity, { self: name, isAlive: (identity) => world.alive.has(identity) }))
  const mortalStore = Layer.effect(
    Store,
    Effect.map(Store, (store) =>
      Store.of({
        ...store,
        begin: (beginning) => living(store.begin(beginning)),
        settle: (operation, ending) => living(store.settle(operation, ending)),
        settleOrphan: (operation, ending) => living(store.settleOrphan(operation, ending)),
      }),
    ),
  )
  const gate = Operations.layer.pipe(
    Layer.provideMerge(Layer.succeed(Runner, runner)),
    Layer.provideMerge(
      Layer.mergeAll(Endings.layer, LeaseManager.layer, Policy.layer, CommandReader.layer.pipe(Layer.provide(ShellParser.layerNone))),
    ),
    Layer.provideMerge(
      Layer.succeed(
        GatedTools,
        GatedTools.of(
          new Map(
            Object.values(tools).map((gated) => [gated.name, { gated: gated as never, decode: (args) => Effect.succeed(args as never) }]),
          ),
        ),
      ),
    ),
    // Not below the approvals: what stops inside a transaction is rolled back by the database when a process dies.
    Layer.provideMerge(mortalStore),
    Layer.provideMerge(Layer.mergeAll(Approvals.layer, Audit.layer)),
    Layer.provideMerge(records),
    Layer.provideMerge(Layer.succeed(AppConfig, config)),
  )
  const scope = yield* Scope.make()
  const services = yield* Layer.buildWithScope(Layer.fresh(gate), scope)
  return { name, die, died, services } satisfies Server
})

const caller = Caller.of({ name: "local", workspaces: undefined, client: "test", progress: () => Effect.void })

type Answer = { readonly lost: true } | { readonly exit: Exit.Exit<Facts, Refusal> }

/** Asks a server; the answer is lost when it dies first. */
const ask = Effect.fnUntraced(function* (server: Server, effect: Effect.Effect<Facts, Refusal, Operations | Caller>) {
  // On its own, since what a dead server had begun is not interrupted: it stops where it is.
  const call = yield* effect.pipe(
    Effect.provideService(Caller, caller),
    Effect.provideContext(server.services),
    Effect.forkDetach({ startImmediately: true }),
  )
  return yield* Effect.raceFirst(
    Effect.map(Fiber.await(call), (exit): Answer => ({ exit })),
    Effect.as(Deferred.await(server.died), { lost: true } as const),
  )
})

const run = (server: Server, name: keyof typeof tools, input: Input) =>
  ask(
    server,
    Operations.use((operations) => Effect.map(operations.run(tools[name], input), ({ result }) => result)),
  )

const codeOf = (answer: Answer): string => {
  if ("lost" in answer) return "lost"
  if (Exit.isSuccess(answer.exit)) return "done"
  const refusal = answer.exit.cause.reasons.find((reason) => reason._tag === "Fail")
  return refusal?._tag === "Fail" ? refusal.error._tag : "defect"
}

const history = (seed: number) =>
  Effect.gen(function* () {
    const chance = random(seed)
    const world: World = { effects: [], alive: new Set() }
    const client = yield* SqlClient.SqlClient
    const database = Layer.succeed(SqlClient.SqlClient, client)
    const count = { servers: 0 }
    const started = () => startServer(`s${++count.servers}`, world, chance, database)
    const servers: Array<Server> = [yield* started(), yield* started(), yield* started()]
    /** What was answered under a key: the arguments, and the outcome where it is final. */
    const acknowledged = new Map<string, { readonly input: Input; readonly name: keyof typeof tools; readonly result: Facts }>()

    const check = (name: keyof typeof tools, input: Input, answer: Answer) => {
      const code = codeOf(answer)
      assert.notStrictEqual(code, "defect", JSON.stringify(answer))
      if (!("exit" in answer) || !Exit.isSuccess(answer.exit)) return
      const known = acknowledged.get(slotOf(input))
      if (known !== undefined) assert.deepStrictEqual(answer.exit.value, known.result, `${slotOf(input)} was answered otherwise before`)
      acknowledged.set(slotOf(input), { input, name, result: answer.exit.value })
    }

    const oneCall = Effect.fnUntraced(function* () {
      const key = chance.below(KEYS)
      const name = key % 2 === 0 ? "write" : "exec_command"
      const input: Input = {
        workspace_id: key < 4 ? "app" : "held",
        path: `f${key}`,
        operation_key: `k${key}`,
        lease_wait_ms: 400,
        value: chance.chance(0.1) ? 2 : 1,
        ...(chance.chance(0.1) ? { refuse: true } : {}),
      }
      const times = chance.chance(0.3) ? 2 : 1
      const asked = Array.from({ length: times }, () => servers[chance.below(servers.length)] as Server)
      const answers = yield* Effect.all(
        asked.map((server) => run(server, name, input)),
        { concurrency: "unbounded" },
      )
      for (const answer of answers) check(name, input, answer)
    })

    const decide = Effect.gen(function* () {
      const server = servers[chance.below(servers.length)] as Server
      if (!world.alive.has(server.name)) return
      const approvals = Context.get(server.services, Approvals)
      for (const { approvalId, hold, state } of yield* approvals.list({ limit: 10 })) {
        if (state === "pending" && chance.chance(0.6))
          yield* Effect.ignore(chance.chance(0.7) ? approvals.grant(approvalId, "operator") : approvals.deny(approvalId, "operator"))
        if (state !== "granted" && state !== "consumed") continue
        const resumed = yield* ask(
          server,
          Operations.use((operations) => Effect.map(operations.resume(approvalId), ({ result }) => result)),
        )
        check(hold.shown.kind as keyof typeof tools, hold.input as Input, resumed)
      }
    })

    const running: Array<Fiber.Fiber<unknown, unknown>> = []
    for (let step = 0; step < STEPS; step += 1) {
      for (const [index, { name }] of servers.entries()) if (!world.alive.has(name)) servers[index] = yield* started()
      running.push(yield* Effect.forkChild(chance.chance(0.25) ? decide : oneCall(), { startImmediately: true }))
      if (chance.chance(0.4)) yield* Effect.sleep(chance.below(5))
      if (chance.chance(0.03)) yield* Effect.sleep(EXPIRES)
      if (chance.chance(0.05)) yield* (servers[0] as Server).die
    }
    yield* Effect.forEach(running, (fiber) => Effect.timeoutOption(Fiber.join(fiber), 5_000))

    // All die; one that never dies looks at what is left.
    yield* Effect.forEach(servers, ({ die }) => die)
    const last = yield* startServer("last", world, { chance: () => false, below: () => 0 }, database)
    const store = Context.get(last.services, Store)
    assert.deepStrictEqual((yield* client`SELECT operation_id FROM operations WHERE state = 'running'`).length, 0, "a row stays running")
    for (const [slot, effects] of Map.groupBy(world.effects, (effect) => effect.slot))
      assert.strictEqual(effects.length, 1, `${slot} ran more than once`)
    for (const [slot, { input, name, result }] of acknowledged) {
      check(name, input, yield* run(last, name, input))
      const recorded = yield* store.byId(String(result["operation_id"]))
      assert.deepInclude(recorded, { _tag: "Some" }, slot)
      if (recorded._tag === "Some") assert.deepStrictEqual([recorded.value.state, recorded.value.result as Facts], ["done", result])
    }
    // The ledger tells the same story: of held calls only what a person granted ran, the chain holds, and the rows follow from it.
    const told = yield* Effect.provideContext(
      Ledger.use(({ read }) => read({ after: 0, limit: 10_000 })),
      last.services,
    )
    for (const { operationId, slot } of world.effects.filter(({ slot }) => slot.startsWith("held/"))) {
      const names = told.filter(({ subject }) => subject === operationId).map(({ event }) => event)
      assert.includeMembers(names, ["ApprovalGranted", "ApprovalConsumed"], slot)
      assert.notIncludeMembers(names, ["ApprovalDenied"], slot)
    }
    assert.isUndefined(
      (yield* Effect.provideContext(
        Audit.use((audit) => audit.verify()),
        last.services,
      )).broken,
    )
    const rows = client`SELECT * FROM operations ORDER BY operation_id`
    const before = yield* rows
    yield* Effect.provideContext(
      Ledger.use(({ rebuild }) => rebuild),
      last.services,
    )
    assert.deepStrictEqual(yield* rows, before)
    return { runs: world.effects.length, answered: acknowledged.size }
  })

describe("any history of calls, deaths and decisions", () => {
  it.live(
    `runs nothing twice and forgets no answer (${HISTORIES} of ${STEPS} steps)`,
    () =>
      Effect.gen(function* () {
        const totals = { runs: 0, answered: 0 }
        for (let seed = 1; seed <= HISTORIES; seed += 1) {
          const { answered, runs } = yield* Effect.provide(
            Effect.tapCause(Effect.timeout(history(seed), "30 seconds"), () =>
              Effect.sync(() => console.error(`the history of seed ${seed}`)),
            ),
            Layer.fresh(Migrations.layer.pipe(Layer.provideMerge(Sqlite.layerMemory))),
          )
          totals.runs += runs
          totals.answered += answered
        }
        // The histories are of use only where something happened in them.
        assert.isAbove(totals.runs, HISTORIES * 2)
        assert.isAbove(totals.answered, HISTORIES * 2)
      }),
    240_000,
  )
})

import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { Instruction } from "../../src/schema/Work.ts"
import { Caller } from "../../src/services/Caller.ts"
import { Ledger } from "../../src/services/Ledger.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { DEFAULT_CLAIM, OPEN_INSTRUCTIONS, Works } from "../../src/services/Works.ts"
import { layerIn, layerRecords } from "../support/Records.ts"

const caller = (name = "local", workspaces?: ReadonlyArray<string>) =>
  Caller.of({ name, workspaces, client: "test", progress: () => Effect.void })

const as =
  (name?: string, workspaces?: ReadonlyArray<string>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.provideService(effect, Caller, caller(name, workspaces))

const opened = (over: Partial<{ key: string; title: string; workspaceId: string }> = {}) =>
  Works.use((works) => works.open({ workspaceId: "app", title: undefined, key: undefined, ...over })).pipe(
    Effect.map(({ workId }) => workId),
  )

const queued = (workId: string, text: string) => Works.use((works) => works.draft(workId, text, true))
const claim = (workId: string, over: Partial<{ key: string; leaseMs: number }> = {}) =>
  Works.use((works) => works.claimNext({ workId, leaseMs: 1000, key: undefined, ...over }))
const complete = (workId: string, instructionId: string, status: "done" | "blocked" = "done", note?: string) =>
  Works.use((works) => works.complete({ workId, instructionId, status, note }))
const textsIn = (workId: string, wanted: Instruction["state"]) =>
  Works.use((works) => works.show(workId)).pipe(
    Effect.map(({ instructions }) => instructions.filter(({ state }) => state === wanted).map(({ text }) => text)),
  )
const refused = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ _tag }) => _tag)

/** Another server on the same database. */
const elsewhere = <A, E>(effect: Effect.Effect<A, E, Works | Caller>, self = "other") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const identity = Layer.succeed(ServerIdentity, { self, isAlive: (id) => !id.startsWith("gone") })
    return yield* Effect.provide(effect, Layer.fresh(layerIn(Layer.succeed(SqlClient.SqlClient, sql), identity)), { local: true })
  })

const test = (name: string, body: () => Effect.Effect<void, unknown, Works | Ledger | SqlClient.SqlClient | Caller>) =>
  it.effect(name, () => body().pipe(as(), Effect.provide(Layer.fresh(layerRecords))))

describe("Works", () => {
  test("hands instructions out in the order they were queued, and drafts never", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const work = yield* opened()
      const second = yield* works.draft(work, "second", false)
      const first = yield* works.draft(work, "first", false)
      assert.isUndefined((yield* claim(work)).instruction)
      yield* works.queue(work, first.instruction_id)
      yield* works.queue(work, second.instruction_id)
      // Queued again, it keeps its place.
      yield* works.queue(work, first.instruction_id)
      yield* works.draft(work, "still a draft", false)
      const { coordination, instruction } = yield* claim(work)
      assert.strictEqual(instruction?.text, "first")
      assert.deepStrictEqual(coordination, { work_id: work, state: "open", queued: 1, claimed: 1 })
      assert.strictEqual((yield* claim(work)).instruction?.text, "second")
      assert.isUndefined((yield* claim(work)).instruction)
      assert.deepStrictEqual(yield* textsIn(work, "draft"), ["still a draft"])
    }))

  test("lets people change and take back what nobody was given, and refuses the rest by its state", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const work = yield* opened()
      const a = yield* queued(work, "a")
      const b = yield* queued(work, "b")
      yield* works.edit(work, a.instruction_id, "A")
      yield* works.cancel(work, b.instruction_id)
      assert.strictEqual((yield* works.cancel(work, b.instruction_id)).state, "cancelled")
      assert.strictEqual(yield* refused(works.queue(work, b.instruction_id)), "INSTRUCTION_CONFLICT")
      const { instruction } = yield* claim(work)
      assert.strictEqual(instruction?.text, "A")
      for (const change of [works.edit(work, a.instruction_id, "late"), works.cancel(work, a.instruction_id)])
        assert.strictEqual(yield* refused(change), "INSTRUCTION_CONFLICT")
      assert.strictEqual(yield* refused(works.edit(work, "ins_none", "x")), "INSTRUCTION_NOT_FOUND")
      assert.strictEqual(yield* refused(works.edit("work_none", a.instruction_id, "x")), "WORK_NOT_FOUND")
      assert.strictEqual(yield* refused(works.edit(yield* opened(), a.instruction_id, "x")), "INSTRUCTION_NOT_FOUND")
    }))

  test("R148: gives two clients that ask at once one instruction each, and each is acknowledged once", () =>
    Effect.gen(function* () {
      const work = yield* opened()
      yield* queued(work, "first")
      yield* queued(work, "second")
      const given = yield* Effect.all([claim(work), elsewhere(claim(work)), elsewhere(claim(work)), claim(work)], {
        concurrency: "unbounded",
      })
      const texts = given.flatMap(({ instruction }) => instruction?.text ?? [])
      assert.deepStrictEqual(texts.sort(), ["first", "second"])
      const mine = given[0].instruction ?? given[3].instruction
      if (mine !== undefined) {
        yield* complete(work, mine.instruction_id)
        yield* complete(work, mine.instruction_id)
        assert.strictEqual(yield* refused(complete(work, mine.instruction_id, "blocked")), "INSTRUCTION_CONFLICT")
      }
      const events = yield* Ledger.use((ledger) => ledger.read({ after: 0, limit: 100, subject: work }))
      assert.strictEqual(events.filter(({ event }) => event === "InstructionClaimed").length, 2)
      assert.strictEqual(events.filter(({ event }) => event === "InstructionCompleted").length, mine === undefined ? 0 : 1)
    }))

  test("puts the instruction of a dead client back into its place, and refuses that client when it wakes up too late", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const work = yield* opened()
      yield* queued(work, "first")
      yield* queued(work, "second")
      const dead = yield* elsewhere(claim(work))
      yield* TestClock.adjust(999)
      assert.deepInclude(yield* works.coordination(work), { queued: 1, claimed: 1 })
      yield* TestClock.adjust(1)
      assert.deepInclude(yield* works.coordination(work), { queued: 2, claimed: 0 })
      const again = yield* claim(work)
      assert.deepInclude(again.instruction, { text: "first", deliveries: 2 })
      const id = dead.instruction?.instruction_id ?? ""
      assert.strictEqual(yield* refused(elsewhere(complete(work, id))), "INSTRUCTION_CONFLICT")
      yield* complete(work, id)
      assert.strictEqual((yield* claim(work)).instruction?.text, "second")
    }))

  test("takes the end of an instruction whose time ran out, as long as nobody else was given it", () =>
    Effect.gen(function* () {
      const work = yield* opened()
      yield* queued(work, "slow")
      const { instruction } = yield* claim(work)
      yield* TestClock.adjust(5000)
      yield* complete(work, instruction?.instruction_id ?? "", "done", "took long")
      assert.isUndefined((yield* claim(work)).instruction)
      const { instructions } = yield* Works.use((works) => works.show(work))
      assert.deepInclude(instructions[0], { state: "done", note: "took long", claimed_by: "local" })
    }))

  test("knows a client again whose server was started anew, and keeps two clients of one name apart", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const work = yield* opened()
      yield* queued(work, "before the restart")
      const { instruction } = yield* elsewhere(claim(work, { leaseMs: DEFAULT_CLAIM }), "gone-1")
      assert.strictEqual((yield* works.status(work)).inHand.length, 1)
      yield* complete(work, instruction?.instruction_id ?? "")
      yield* queued(work, "of the other client")
      const theirs = yield* elsewhere(claim(work, { leaseMs: DEFAULT_CLAIM }))
      assert.deepStrictEqual((yield* works.status(work)).inHand, [])
      assert.strictEqual(yield* refused(complete(work, theirs.instruction?.instruction_id ?? "")), "INSTRUCTION_CONFLICT")
    }))

  test("gives the same instruction to the same key, keeps it longer, and refuses the key when another has it", () =>
    Effect.gen(function* () {
      const work = yield* opened()
      yield* queued(work, "first")
      yield* queued(work, "second")
      const { instruction } = yield* claim(work, { key: "k" })
      yield* TestClock.adjust(600)
      const repeated = yield* claim(work, { key: "k" })
      assert.strictEqual(repeated.instruction?.instruction_id, instruction?.instruction_id)
      assert.strictEqual(repeated.instruction?.deliveries, 1)
      yield* TestClock.adjust(600)
      // Its first time is over, the second is not.
      assert.strictEqual((yield* elsewhere(claim(work))).instruction?.text, "second")
      yield* TestClock.adjust(2000)
      assert.strictEqual((yield* elsewhere(claim(work))).instruction?.text, "first")
      assert.strictEqual(yield* refused(claim(work, { key: "k" })), "INSTRUCTION_CONFLICT")
      yield* elsewhere(complete(work, instruction?.instruction_id ?? ""))
      assert.strictEqual((yield* claim(work, { key: "k" })).instruction?.state, "done")
      assert.strictEqual((yield* claim(work, { key: "other" })).instruction?.text, "second")
    }))

  test("opens one work for a key, and refuses the key for another", () =>
    Effect.gen(function* () {
      const first = yield* opened({ key: "k", title: "t" })
      assert.strictEqual(yield* opened({ key: "k", title: "t" }), first)
      assert.strictEqual(yield* elsewhere(opened({ key: "k", title: "t" })), first)
      assert.strictEqual(yield* refused(opened({ key: "k", title: "other" })), "OPERATION_KEY_CONFLICT")
      assert.notStrictEqual(yield* opened({ key: "k", title: "t", workspaceId: "other" }), first)
      assert.notStrictEqual(yield* opened({ key: "k", title: "t" }).pipe(as("bob")), first)
    }))

  test("closes a work only when nothing waits and nothing is in hand, and nothing can be queued in it then", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const work = yield* opened()
      const draft = yield* works.draft(work, "a thought", false)
      const { instruction_id } = yield* queued(work, "wait")
      assert.isFalse((yield* works.finish(work)).closed)
      yield* claim(work)
      assert.isFalse((yield* works.finish(work)).closed)
      yield* complete(work, instruction_id, "blocked", "cannot")
      assert.deepInclude(yield* works.finish(work), { closed: true })
      assert.isTrue((yield* works.finish(work)).closed)
      assert.strictEqual(yield* refused(works.queue(work, draft.instruction_id)), "WORK_CLOSED")
      assert.strictEqual(yield* refused(works.draft(work, "more", true)), "WORK_CLOSED")
      const events = yield* Ledger.use((ledger) => ledger.read({ after: 0, limit: 100, subject: work }))
      assert.strictEqual(events.filter(({ event }) => event === "WorkFinished").length, 1)
    }))

  test("is as good as unknown to a caller who may not use the workspace", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const work = yield* opened()
      const { instruction_id } = yield* queued(work, "secret plan")
      for (const call of [
        Effect.asVoid(works.coordination(work)),
        Effect.asVoid(works.status(work)),
        Effect.asVoid(claim(work)),
        Effect.asVoid(complete(work, instruction_id)),
        Effect.asVoid(works.finish(work)),
      ])
        assert.strictEqual(yield* refused(call.pipe(as("eve", ["other"]))), "WORK_NOT_FOUND")
      assert.strictEqual((yield* claim(work).pipe(as("bob", ["app"]))).instruction?.text, "secret plan")
    }))

  test("bounds the instructions of one work that have not ended", () =>
    Effect.gen(function* () {
      const work = yield* opened()
      const ledger = yield* Ledger
      yield* ledger.transaction(
        Effect.forEach(Array.from({ length: OPEN_INSTRUCTIONS }), (_, at) => queued(work, `${at}`), { discard: true }),
      )
      assert.strictEqual(yield* refused(queued(work, "one more")), "LIMIT_EXCEEDED")
      const { instruction } = yield* claim(work)
      yield* complete(work, instruction?.instruction_id ?? "")
      yield* queued(work, "one more")
    }))

  test("lists works newest first, page by page", () =>
    Effect.gen(function* () {
      const works = yield* Works
      const ids = yield* Effect.forEach([1, 2, 3, 4, 5], () => opened())
      yield* works.finish(ids[1] as string)
      const page = yield* works.list({ limit: 2 })
      assert.deepStrictEqual(
        page.map(({ work_id }) => work_id),
        [ids[4], ids[3]],
      )
      const rest = yield* works.list({ limit: 10, before: ids[3] as string, state: "open" })
      assert.deepStrictEqual(
        rest.map(({ work_id }) => work_id),
        [ids[2], ids[0]],
      )
      assert.deepStrictEqual(yield* works.list({ limit: 10, workspaceId: "other" }), [])
    }))
})

/** A random number below `n`, the same for the same seed. */
const randomOf = (seed: number) => {
  let state = seed
  return (n: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * n)
  }
}

/** What the queue should be, written as simply as possible. */
interface Modelled {
  readonly id: string
  text: string
  state: Instruction["state"]
  queuedAs: number
  client: string
  until: number
  deliveries: number
}

const CASES = Number(process.env["WORKS_CASES"] ?? 40)
const STEPS = 60

describe("the queue of instructions, held against a model", () => {
  for (let seed = 1; seed <= CASES; seed++)
    test(`seed ${seed}: order kept, nothing lost, nobody given what another has, whatever restarts and dies`, () =>
      Effect.gen(function* () {
        const below = randomOf(seed)
        const work = yield* opened()
        const model: Array<Modelled> = []
        let places = 0
        /** Clients of one name, each on a server of its own; a restart gives a client another server. */
        const servers = new Map([
          ["a", "a-1"],
          ["b", "b-1"],
        ])
        const gone = new Set<string>()
        const on = <A, E>(client: string, effect: Effect.Effect<A, E, Works | Caller>) =>
          Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const identity = Layer.succeed(ServerIdentity, { self: servers.get(client) ?? "", isAlive: (id) => !gone.has(id) })
            return yield* Effect.provide(as(client)(effect), Layer.fresh(layerIn(Layer.succeed(SqlClient.SqlClient, sql), identity)), {
              local: true,
            })
          })
        const pick = (list: ReadonlyArray<Modelled>) => list[below(list.length)]
        const lapse = (now: number) => {
          for (const one of model) if (one.state === "claimed" && one.until <= now) one.state = "queued"
        }
        const works = yield* Works

        for (let step = 0; step < STEPS; step++) {
          const now = yield* Clock.currentTimeMillis
          lapse(now)
          const client = below(2) === 0 ? "a" : "b"
          switch (below(9)) {
            case 0:
            case 1: {
              const queue = below(2) === 0
              const { instruction_id } = yield* works.draft(work, `text ${step}`, queue)
              model.push({
                id: instruction_id,
                text: `text ${step}`,
                state: queue ? "queued" : "draft",
                queuedAs: queue ? places++ : -1,
                client: "",
                until: 0,
                deliveries: 0,
              })
              break
            }
            case 2: {
              const one = pick(model.filter(({ state }) => state === "draft"))
              if (one === undefined) break
              yield* works.queue(work, one.id)
              Object.assign(one, { state: "queued", queuedAs: places++ })
              break
            }
            case 3: {
              const one = pick(model)
              if (one === undefined) break
              const isFree = (one.state === "draft" || one.state === "queued") && one.deliveries === 0
              const edited = yield* Effect.result(works.edit(work, one.id, `edited ${step}`))
              assert.strictEqual(Result.isSuccess(edited), isFree)
              if (isFree) one.text = `edited ${step}`
              break
            }
            case 4: {
              const one = pick(model)
              if (one === undefined) break
              const cancelled = yield* Effect.result(works.cancel(work, one.id))
              assert.strictEqual(Result.isSuccess(cancelled), ["draft", "queued", "cancelled"].includes(one.state))
              if (Result.isSuccess(cancelled)) one.state = "cancelled"
              break
            }
            case 5:
            case 6: {
              const expected = model.filter(({ state }) => state === "queued").sort((x, y) => x.queuedAs - y.queuedAs)[0]
              const leaseMs = 1000 + below(5000)
              const { instruction } = yield* on(client, claim(work, { leaseMs }))
              assert.strictEqual(instruction?.instruction_id, expected?.id)
              assert.strictEqual(instruction?.text, expected?.text)
              if (expected !== undefined)
                Object.assign(expected, { state: "claimed", client, until: now + leaseMs, deliveries: expected.deliveries + 1 })
              break
            }
            case 7: {
              const one = pick(model.filter(({ deliveries, state }) => deliveries > 0 && state !== "done" && state !== "blocked"))
              if (one === undefined) break
              const status = below(2) === 0 ? "done" : "blocked"
              const may = (one.state === "claimed" && one.client === client) || one.state === "queued"
              const ended = yield* Effect.result(on(client, complete(work, one.id, status)))
              assert.strictEqual(Result.isSuccess(ended), may)
              if (may) one.state = status
              break
            }
            case 8: {
              if (below(2) === 0) yield* TestClock.adjust(below(4000))
              else {
                // The client's server is killed and started anew.
                gone.add(servers.get(client) ?? "")
                servers.set(client, `${client}-${step + 2}`)
              }
              break
            }
          }
        }
        lapse(yield* Clock.currentTimeMillis)
        const ordered = (state: Instruction["state"]) => model.filter((one) => one.state === state).sort((x, y) => x.queuedAs - y.queuedAs)
        assert.deepStrictEqual(
          yield* textsIn(work, "queued"),
          ordered("queued").map(({ text }) => text),
        )
        assert.deepInclude(yield* works.coordination(work), { queued: ordered("queued").length, claimed: ordered("claimed").length })
        const { instructions } = yield* works.show(work)
        assert.deepStrictEqual(
          new Map(instructions.map(({ deliveries, instruction_id, state }) => [instruction_id, `${state} ${deliveries}`])),
          new Map(model.map(({ deliveries, id, state }) => [id, `${state} ${deliveries}`])),
        )
        // The rows follow from the events alone.
        const ledger = yield* Ledger
        const before = yield* works.show(work)
        yield* ledger.rebuild
        assert.deepStrictEqual(yield* works.show(work), before)
        assert.strictEqual((yield* works.finish(work)).closed, ordered("queued").length + ordered("claimed").length === 0)
      }))
})

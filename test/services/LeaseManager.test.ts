import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema, Scope } from "effect"
import { TestClock } from "effect/testing"
import type { Lease, LeaseRequest } from "../../src/schema/Lease.ts"
import { ConfinedPath, WorkspaceId } from "../../src/schema/Workspace.ts"
import { LeaseManager } from "../../src/services/LeaseManager.ts"

const app = WorkspaceId.make("app")
const exclusive: LeaseRequest = { kind: "exclusive" }
const shared: LeaseRequest = { kind: "shared" }
const onPaths = (...paths: ReadonlyArray<string>): LeaseRequest => ({ kind: "path", paths: paths.map((text) => ConfinedPath.make(text)) })

const acquire = (request: LeaseRequest, holder: string, waitMs = 0, workspaceId = app) =>
  LeaseManager.use((leases) => leases.acquire(workspaceId, request, holder, waitMs))
const current = LeaseManager.use((leases) => leases.current(app))
const holders = Effect.map(current, (leases) => leases.map(({ holder }) => holder))

/** A lease in a scope of its own, given back by `end`. */
const held = Effect.fnUntraced(function* (request: LeaseRequest, holder: string, waitMs = 0) {
  const scope = yield* Scope.make()
  const lease = yield* Scope.provide(acquire(request, holder, waitMs), scope)
  return { lease, end: Scope.close(scope, Exit.void) }
})

const waiting = (request: LeaseRequest, holder: string, waitMs = 10_000) =>
  Effect.forkChild(held(request, holder, waitMs), { startImmediately: true })

const fresh = <A, E>(effect: Effect.Effect<A, E, LeaseManager | Scope.Scope>) => Effect.provide(effect, LeaseManager.layer, { local: true })

describe("which leases stand beside each other", () => {
  const cases: ReadonlyArray<readonly [string, LeaseRequest, LeaseRequest, boolean]> = [
    ["exclusive and exclusive", exclusive, exclusive, false],
    ["exclusive and shared", exclusive, shared, false],
    ["exclusive and path", exclusive, onPaths("a"), false],
    ["shared and shared", shared, shared, true],
    ["shared and path", shared, onPaths("a"), true],
    ["different paths", onPaths("a", "b"), onPaths("c", "ab"), true],
    ["one equal path", onPaths("a", "b"), onPaths("c", "b"), false],
    ["a path and its folder", onPaths("a/b/c"), onPaths("a/b"), false],
    ["a path and the root", onPaths("a"), onPaths(""), false],
  ]
  for (const [name, one, other, beside] of cases)
    for (const [first, second] of [
      [one, other],
      [other, one],
    ] as const)
      it.effect(`${name}, ${first.kind} first: ${beside ? "yes" : "no"}`, () =>
        fresh(
          Effect.gen(function* () {
            yield* held(first, "first")
            const exit = yield* Effect.exit(held(second, "second"))
            assert.strictEqual(Exit.isSuccess(exit), beside)
          }),
        ),
      )

  it.effect("workspaces do not know of each other", () =>
    fresh(
      Effect.gen(function* () {
        yield* acquire(exclusive, "one")
        const lease = yield* acquire(exclusive, "two", 0, WorkspaceId.make("other"))
        assert.strictEqual(lease.fence, 1)
      }),
    ),
  )
})

describe("waiting", () => {
  it.effect("a refusal names the holder, its kind, since when, and how long was waited", () =>
    fresh(
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 0, 2, 3, 4, 5))
        yield* held(exclusive, "npm test")
        const waiter = yield* Effect.forkChild(Effect.flip(held(onPaths("a"), "patch", 2_500)), { startImmediately: true })
        yield* TestClock.adjust(2_500)
        const busy = yield* Fiber.join(waiter)
        assert.strictEqual(busy._tag, "WORKSPACE_BUSY")
        assert.deepInclude(busy, {
          workspace_id: "app",
          holder: "npm test",
          kind: "exclusive",
          since: "2026-01-02T03:04:05.000Z",
          expires: "when it ends",
          waited_ms: 2_500,
        })
        assert.deepStrictEqual(yield* holders, ["npm test"])
      }),
    ),
  )

  it.effect("0 is refused at once", () =>
    fresh(
      Effect.gen(function* () {
        yield* held(shared, "server")
        assert.strictEqual((yield* Effect.flip(held(exclusive, "test"))).waited_ms, 0)
      }),
    ),
  )

  it.effect("a waiter gets the lease when the holder ends, with a higher fence", () =>
    fresh(
      Effect.gen(function* () {
        const first = yield* held(exclusive, "first")
        const waiter = yield* waiting(exclusive, "second")
        yield* TestClock.adjust(1_000)
        yield* first.end
        const second = yield* Fiber.join(waiter)
        assert.isAbove(second.lease.fence, first.lease.fence)
        assert.deepStrictEqual(yield* current, [second.lease])
      }),
    ),
  )

  it.effect("a lease granted in the instant the wait ends is kept, not lost", () =>
    fresh(
      Effect.gen(function* () {
        const first = yield* held(exclusive, "first")
        const waiter = yield* waiting(exclusive, "second", 1_000)
        yield* Effect.forkChild(Effect.delay(first.end, 1_000), { startImmediately: true })
        yield* TestClock.adjust(1_000)
        const exit = yield* Fiber.await(waiter)
        assert.deepStrictEqual(yield* holders, Exit.isSuccess(exit) ? ["second"] : [])
      }),
    ),
  )

  it.effect("nobody overtakes a waiter it excludes, and the refusal says who is next in line; others pass", () =>
    fresh(
      Effect.gen(function* () {
        const first = yield* held(onPaths("a"), "first")
        const second = yield* waiting(onPaths("a", "b"), "second")
        const refused = yield* Effect.flip(held(onPaths("b"), "third"))
        assert.deepInclude(refused, { holder: "second, next in line", expires: "when it has had its turn" })
        const beside = yield* held(shared, "fourth")
        assert.deepStrictEqual(yield* holders, ["first", "fourth"])
        yield* first.end
        yield* Fiber.join(second)
        assert.deepStrictEqual(yield* holders, ["fourth", "second"])
        yield* beside.end
      }),
    ),
  )

  it.effect("an interrupted waiter leaves no trace and lets those behind it through", () =>
    fresh(
      Effect.gen(function* () {
        const first = yield* held(shared, "first")
        const blocked = yield* waiting(exclusive, "blocked")
        const behind = yield* waiting(shared, "behind")
        assert.deepStrictEqual(yield* holders, ["first"])
        yield* Fiber.interrupt(blocked)
        yield* Fiber.join(behind)
        assert.deepStrictEqual(yield* holders, ["first", "behind"])
        yield* first.end
      }),
    ),
  )

  it.effect("a waiter that gives up lets those behind it through", () =>
    fresh(
      Effect.gen(function* () {
        yield* held(shared, "first")
        const hasty = yield* Effect.forkChild(Effect.flip(held(exclusive, "hasty", 100)), { startImmediately: true })
        const patient = yield* waiting(shared, "patient")
        yield* TestClock.adjust(100)
        assert.strictEqual((yield* Fiber.join(hasty)).holder, "first")
        yield* Fiber.join(patient)
      }),
    ),
  )

  it.effect("an interrupted holder gives its lease back", () =>
    fresh(
      Effect.gen(function* () {
        const working = yield* Deferred.make<Lease>()
        const work = Effect.scoped(
          Effect.gen(function* () {
            yield* Deferred.succeed(working, yield* acquire(exclusive, "work"))
            return yield* Effect.never
          }),
        )
        const fiber = yield* Effect.forkChild(work)
        yield* Deferred.await(working)
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(yield* current, [])
      }),
    ),
  )
})

describe("validate", () => {
  it.effect("holds while the lease is held, and refuses a late write by its fence", () =>
    fresh(
      Effect.gen(function* () {
        const leases = yield* LeaseManager
        const first = yield* held(exclusive, "first")
        yield* leases.validate(first.lease)
        yield* first.end
        yield* held(exclusive, "second")
        const lost = yield* Effect.flip(leases.validate(first.lease))
        assert.deepInclude(lost, { _tag: "LEASE_LOST", workspace_id: "app", fence: first.lease.fence, current: first.lease.fence + 1 })
      }),
    ),
  )
})

const Actor = Schema.Struct({
  at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 })),
  kind: Schema.Literals(["exclusive", "shared", "path"]),
  paths: Schema.Array(Schema.Literals(["a", "a/b", "a/c", "d", ""])).check(Schema.isMinLength(1), Schema.isMaxLength(2)),
  wait: Schema.Literals([0, 3, 10, 30, 1000]),
  hold: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 15 })),
  /** Interrupted this long after it came, wherever it is then; 0 for never. */
  cut: Schema.Literals([0, 0, 0, 1, 5, 12]),
})
type Actor = typeof Actor.Type

/** What the test itself knows of an actor, beside the manager. */
interface Seen {
  readonly actor: Actor
  readonly order: number
  state: "waits" | "holds" | "gone"
  /** 0 until it gets a lease. */
  fence: number
}

const apart = (one: Actor, other: Actor): boolean => {
  if (one.kind === "exclusive" || other.kind === "exclusive") return false
  if (one.kind === "shared" || other.kind === "shared") return true
  const below = (path: string, folder: string) => `/${path}/`.startsWith(folder === "" ? "/" : `/${folder}/`)
  return !one.paths.some((path) => other.paths.some((beside) => below(path, beside) || below(beside, path)))
}

describe("random schedules", () => {
  it.effect.prop(
    "exclude, keep the order, wake everyone, and leave nothing behind",
    { actors: Schema.Array(Actor).check(Schema.isMaxLength(12)) },
    ({ actors }) => fresh(schedule(actors)),
    { arbitrary: { runs: 150 } },
  )

  const schedule = Effect.fnUntraced(function* (actors: ReadonlyArray<Actor>) {
    const seen: Array<Seen> = []
    const justGranted: Array<Seen> = []

    const arrive = (actor: Actor) => {
      const me: Seen = { actor, order: seen.length, state: "waits", fence: 0 }
      seen.push(me)
      return me
    }
    const granted = (me: Seen, lease: Lease) => {
      for (const other of seen.filter((one) => !apart(one.actor, me.actor))) {
        assert.notStrictEqual(other.state, "holds", "two leases that exclude each other")
        assert.isAbove(lease.fence, other.fence, "a fence that does not grow")
      }
      me.fence = lease.fence
      me.state = "holds"
      justGranted.push(me)
    }
    const goneNow = (me: Seen) =>
      Effect.sync(() => {
        me.state = "gone"
      })
    const work = (me: Seen) =>
      Effect.scoped(
        Effect.gen(function* () {
          const { actor } = me
          const request = actor.kind === "path" ? onPaths(...actor.paths) : { kind: actor.kind }
          granted(me, yield* acquire(request, `${me.order}`, actor.wait))
          // Runs before the lease is given back, so the next holder never meets this one.
          yield* Effect.addFinalizer(() => goneNow(me))
          yield* Effect.sleep(actor.hold)
        }),
      ).pipe(
        Effect.catchTag("WORKSPACE_BUSY", (busy) => Effect.sync(() => assert.strictEqual(busy.waited_ms, me.actor.wait))),
        Effect.ensuring(goneNow(me)),
      )
    const live = (actor: Actor) =>
      Effect.gen(function* () {
        yield* Effect.sleep(actor.at)
        const run = work(arrive(actor))
        yield* actor.cut === 0 ? run : Effect.timeoutOption(run, actor.cut)
      })

    /**
     * After each instant: whoever waits is kept waiting by a holder or an earlier waiter that it excludes, and nobody got
     * a lease before an earlier one that it excludes and that still waits.
     */
    const checkInstant = Effect.gen(function* () {
      const waits = seen.filter(({ state }) => state === "waits")
      const ahead = (me: Seen) => waits.filter((other) => other.order < me.order && !apart(me.actor, other.actor))
      const inWay = (me: Seen) => seen.filter((other) => other.state === "holds" && !apart(me.actor, other.actor))
      for (const me of waits) assert.isAbove(ahead(me).length + inWay(me).length, 0, `${me.order} waits for nothing`)
      for (const me of justGranted.splice(0)) assert.isEmpty(ahead(me), `${me.order} overtook an earlier one`)
      const inHand = seen.filter(({ state }) => state === "holds").map(({ order }) => `${order}`)
      assert.sameMembers([...(yield* holders)], inHand)
    })

    const fiber = yield* Effect.forkChild(Effect.forEach(actors, live, { concurrency: "unbounded", discard: true }))
    yield* Effect.forEach(Array.from({ length: 300 }), () => Effect.andThen(TestClock.adjust(1), checkInstant), { discard: true })
    yield* Fiber.join(fiber)
    assert.deepStrictEqual(yield* current, [])
    assert.isTrue(seen.every(({ state }) => state === "gone"))
    const fences = seen.map(({ fence }) => fence).filter((fence) => fence > 0)
    assert.strictEqual(new Set(fences).size, fences.length, "a fence was given twice")
  })
})

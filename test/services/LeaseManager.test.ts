import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Schema, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/layers/Migrations.ts"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import type { Lease, LeaseRequest, WorkspaceBusy } from "../../src/schema/Lease.ts"
import { ConfinedPath, WorkspaceId } from "../../src/schema/Workspace.ts"
import { LeaseManager } from "../../src/services/LeaseManager.ts"
import * as LeaseQueue from "../../src/services/LeaseQueue.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"

const workspace = (id: string, realRoot = `/w/${id}`) => ({ id: WorkspaceId.make(id), realRoot })
const app = workspace("app")
const exclusive: LeaseRequest = { kind: "exclusive" }
const shared: LeaseRequest = { kind: "shared" }
const onPaths = (...paths: ReadonlyArray<string>): LeaseRequest => ({ kind: "path", paths: paths.map((text) => ConfinedPath.make(text)) })

/** The database that servers share. */
const records = Migrations.layer.pipe(Layer.provideMerge(Sqlite.layerMemory))
/** Which process a server is, among servers of which some have ended. */
const identity = (self: string, gone: ReadonlySet<string> = new Set()) =>
  Layer.succeed(ServerIdentity, { self, isAlive: (other) => !gone.has(other) })

const acquire = (request: LeaseRequest, holder: string, waitMs = 0, where = app) =>
  LeaseManager.use((leases) => leases.acquire(where, request, holder, waitMs))
const current = LeaseManager.use((leases) => leases.current(app))
const holders = Effect.map(current, (leases) => leases.map(({ holder }) => holder))

/** A lease in a scope of its own, given back by `end`. */
const held = Effect.fnUntraced(function* (request: LeaseRequest, holder: string, waitMs = 0, where = app) {
  const scope = yield* Scope.make()
  const lease = yield* Scope.provide(acquire(request, holder, waitMs, where), scope)
  return { lease, end: Scope.close(scope, Exit.void) }
})

const waiting = (request: LeaseRequest, holder: string, waitMs = 10_000) =>
  Effect.forkChild(held(request, holder, waitMs), { startImmediately: true })

const busyOf = <A, R>(effect: Effect.Effect<A, WorkspaceBusy | { readonly _tag: string }, R>) =>
  Effect.map(Effect.flip(effect), (refusal) => {
    assert.strictEqual(refusal._tag, "WORKSPACE_BUSY")
    return refusal as WorkspaceBusy
  })

const fresh = <A, E>(effect: Effect.Effect<A, E, LeaseManager | SqlClient.SqlClient | Scope.Scope>) =>
  Effect.provide(effect, LeaseManager.layer.pipe(Layer.provide(identity("7.this")), Layer.provideMerge(records)), { local: true })

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
        yield* acquire(exclusive, "two", 0, workspace("other"))
        yield* acquire(exclusive, "three", 0, workspace("app-2"))
        assert.deepStrictEqual(yield* holders, ["one"])
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
        const waiter = yield* Effect.forkChild(busyOf(held(onPaths("a"), "patch", 2_500)), { startImmediately: true })
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
        assert.strictEqual((yield* busyOf(held(exclusive, "test"))).waited_ms, 0)
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
        const refused = yield* busyOf(held(onPaths("b"), "third"))
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
        const hasty = yield* Effect.forkChild(busyOf(held(exclusive, "hasty", 100)), { startImmediately: true })
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

describe("workspaces on one folder", () => {
  it.effect("exclude each other whatever their names, by what they have in common", () =>
    fresh(
      Effect.gen(function* () {
        const inner = workspace("inner", "/w/app/packages/one")
        const whole = yield* held(exclusive, "whole")
        assert.strictEqual((yield* busyOf(held(onPaths("x"), "twin", 0, workspace("twin", app.realRoot)))).holder, "whole")
        assert.strictEqual((yield* busyOf(held(shared, "inside", 0, inner))).holder, "whole")
        yield* whole.end
        yield* held(onPaths("packages/one/x"), "outer patch")
        assert.strictEqual((yield* busyOf(held(onPaths("x"), "inner patch", 0, inner))).holder, "outer patch")
        yield* held(onPaths("y"), "beside", 0, inner)
        yield* held(exclusive, "sibling", 0, workspace("sibling", "/w/app/packages/two"))
        assert.deepStrictEqual(yield* holders, ["outer patch", "beside", "sibling"])
        assert.strictEqual((yield* busyOf(held(exclusive, "all", 0, workspace("all", "/")))).holder, "outer patch")
      }),
    ),
  )
})

/** Two servers on one database, and what a third, which ended without a word, left in it. */
const servers = Effect.gen(function* () {
  const gone = new Set<string>()
  const open = (self: string) =>
    Effect.map(Layer.build(Layer.fresh(LeaseManager.layer).pipe(Layer.provide(identity(self, gone)))), (services) => ({
      on: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, services),
    }))
  const mortal = yield* LeaseQueue.make.pipe(Effect.provide(identity("3.mortal", gone)))
  return { gone, one: yield* open("1.one"), two: yield* open("2.two"), mortal }
})
const together = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient | Scope.Scope>) => Effect.provide(effect, records, { local: true })

/** As long as a waiter may need to notice what another server did, in milliseconds. */
const NOTICED = 50

describe("several servers on one database", () => {
  it.effect("exclude each other, and a refusal tells in which process the holder is", () =>
    together(
      Effect.gen(function* () {
        const { one, two } = yield* servers
        yield* one.on(held(exclusive, "npm test"))
        const refused = yield* two.on(busyOf(held(onPaths("a"), "patch")))
        assert.strictEqual(refused.holder, "npm test in another server (process 1)")
        const [seen] = yield* two.on(current)
        assert.deepInclude(seen, { holder: "npm test", kind: "exclusive", server: "another server (process 1)" })
        assert.strictEqual((yield* one.on(current))[0]?.server, "this server")
      }),
    ),
  )

  it.effect("serve first come, first served, each noticing the other's release within 50 ms", () =>
    together(
      Effect.gen(function* () {
        const { one, two } = yield* servers
        const first = yield* one.on(held(exclusive, "first"))
        const second = yield* two.on(waiting(exclusive, "second"))
        const third = yield* one.on(waiting(exclusive, "third"))
        yield* TestClock.adjust(1_000)
        yield* first.end
        yield* TestClock.adjust(NOTICED)
        const { end, lease } = yield* Fiber.join(second)
        assert.isAbove(lease.fence, first.lease.fence)
        assert.deepStrictEqual(yield* one.on(holders), ["second"])
        yield* end
        yield* TestClock.adjust(NOTICED)
        assert.isAbove((yield* Fiber.join(third)).lease.fence, lease.fence)
      }),
    ),
  )

  it.effect("take over what a server left that is gone, held or waiting", () =>
    together(
      Effect.gen(function* () {
        const { gone, mortal, one } = yield* servers
        yield* mortal.enter(app, onPaths("a"), "its patch")
        yield* mortal.enter(app, exclusive, "its build")
        const blocked = yield* one.on(waiting(onPaths("b"), "patch"))
        yield* TestClock.adjust(1_000)
        assert.deepStrictEqual(yield* one.on(holders), ["its patch"])
        gone.add("3.mortal")
        assert.deepStrictEqual(yield* one.on(holders), [])
        yield* TestClock.adjust(NOTICED)
        yield* Fiber.join(blocked)
        assert.deepStrictEqual(yield* one.on(holders), ["patch"])
      }),
    ),
  )

  it.effect("find nothing in the way after a restart, not even for a call that does not wait, and go on with higher fences", () =>
    together(
      Effect.gen(function* () {
        const { gone, mortal, one } = yield* servers
        const before = yield* mortal.enter(app, exclusive, "its build")
        gone.add("3.mortal")
        const after = yield* one.on(held(exclusive, "build", 0))
        assert.isAbove(after.lease.fence, before.number)
        yield* after.end
        assert.deepStrictEqual(yield* (yield* SqlClient.SqlClient)`SELECT * FROM leases`, [])
        assert.isAbove((yield* one.on(held(exclusive, "again"))).lease.fence, after.lease.fence)
      }),
    ),
  )
})

describe("while the store refuses", () => {
  it.effect("a lease is refused in words, and one that ends is given back as soon as the store works again", () =>
    fresh(
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const first = yield* held(exclusive, "first")
        yield* sql`ALTER TABLE leases RENAME TO hidden`
        yield* first.end
        assert.strictEqual((yield* Effect.flip(held(exclusive, "second")))._tag, "STORE_UNAVAILABLE")
        yield* sql`ALTER TABLE hidden RENAME TO leases`
        assert.deepStrictEqual(yield* holders, ["first"])
        yield* TestClock.adjust(1_000)
        assert.deepStrictEqual(yield* holders, [])
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
  /** Which server it comes to. What comes to the third stays there until that server is killed. */
  server: Schema.Literals([0, 0, 1, 1, 2]),
})
type Actor = typeof Actor.Type

/** What the test itself knows of an actor, beside the managers. */
interface Seen {
  readonly actor: Actor
  readonly order: number
  state: "waits" | "holds" | "gone"
  /** 0 until it gets a lease. */
  fence: number
  /** For how long it has waited although nothing was in its way, in milliseconds. */
  idle: number
}

const apart = (one: Actor, other: Actor): boolean => {
  if (one.kind === "exclusive" || other.kind === "exclusive") return false
  if (one.kind === "shared" || other.kind === "shared") return true
  const below = (path: string, folder: string) => `/${path}/`.startsWith(folder === "" ? "/" : `/${folder}/`)
  return !one.paths.some((path) => other.paths.some((beside) => below(path, beside) || below(beside, path)))
}

/** When the third server is killed. */
const KILLED = 50

describe("random schedules", () => {
  it.effect.prop(
    "in one server exclude, keep the order, wake everyone at once, and leave nothing behind",
    { actors: Schema.Array(Actor).check(Schema.isMaxLength(12)) },
    ({ actors }) =>
      together(
        schedule(
          actors.map((actor) => ({ ...actor, server: 0 })),
          300,
          0,
        ),
      ),
    { arbitrary: { runs: 100 }, timeout: 120_000 },
  )

  it.effect.prop(
    "in two servers and one that is killed exclude, keep the order, wake everyone soon, and leave nothing behind",
    { actors: Schema.Array(Actor).check(Schema.isMaxLength(12)) },
    ({ actors }) => together(schedule(actors, 600, NOTICED)),
    { arbitrary: { runs: 100 }, timeout: 120_000 },
  )

  const schedule = Effect.fnUntraced(function* (actors: ReadonlyArray<Actor>, instants: number, noticed: number) {
    const { gone, mortal, one, two } = yield* servers
    const seen: Array<Seen> = []
    const justGranted: Array<Seen> = []

    const arrive = (actor: Actor) => {
      const me: Seen = { actor, order: seen.length, state: "waits", fence: 0, idle: 0 }
      seen.push(me)
      return me
    }
    const granted = (me: Seen, fence: number) => {
      for (const other of seen.filter((one) => !apart(one.actor, me.actor))) {
        assert.notStrictEqual(other.state, "holds", "two leases that exclude each other")
        assert.isAbove(fence, other.fence, "a fence that does not grow")
      }
      me.fence = fence
      me.state = "holds"
      justGranted.push(me)
    }
    const goneNow = (me: Seen) =>
      Effect.sync(() => {
        me.state = "gone"
      })
    const requestOf = ({ kind, paths }: Actor): LeaseRequest => (kind === "path" ? onPaths(...paths) : { kind })
    const work = (me: Seen) =>
      Effect.scoped(
        Effect.gen(function* () {
          const { actor } = me
          granted(me, (yield* acquire(requestOf(actor), `${me.order}`, actor.wait)).fence)
          // Runs before the lease is given back, so the next holder never meets this one.
          yield* Effect.addFinalizer(() => goneNow(me))
          yield* Effect.sleep(actor.hold)
        }),
      ).pipe(
        Effect.catchTag("WORKSPACE_BUSY", (busy) => Effect.sync(() => assert.strictEqual(busy.waited_ms, me.actor.wait))),
        Effect.ensuring(goneNow(me)),
      )
    /** Enters and does nothing more: no look, no release. */
    const stay = Effect.fnUntraced(function* (actor: Actor) {
      if (gone.size > 0) return
      const me = arrive(actor)
      const entered = yield* mortal.enter(app, requestOf(actor), `${me.order}`)
      if (!entered.waits) granted(me, entered.number)
    })
    const live = (actor: Actor) =>
      Effect.gen(function* () {
        yield* Effect.sleep(actor.at)
        if (actor.server === 2) return yield* stay(actor)
        const run = (actor.server === 0 ? one : two).on(work(arrive(actor)))
        yield* actor.cut === 0 ? run : Effect.timeoutOption(run, actor.cut)
      })
    const kill = Effect.sync(() => {
      gone.add("3.mortal")
      for (const me of seen) if (me.actor.server === 2) me.state = "gone"
    }).pipe(Effect.delay(KILLED))

    /**
     * After each instant: whoever waits is kept waiting by a holder or an earlier waiter that it excludes, or has only
     * just become free; and nobody got a lease before an earlier one that it excludes and that still waits.
     */
    const checkInstant = Effect.gen(function* () {
      const leases = yield* one.on(current)
      // A lease that its waiter has not noticed yet; those of the killed server never are.
      const given = (me: Seen) => leases.find(({ holder }) => holder === `${me.order}`)
      for (const me of seen.filter(({ actor, state }) => actor.server === 2 && state === "waits")) {
        const lease = given(me)
        if (lease !== undefined) granted(me, lease.fence)
      }
      const waits = seen.filter((me) => me.state === "waits")
      const ahead = (me: Seen) => waits.filter((other) => other.order < me.order && !apart(me.actor, other.actor))
      const inWay = (me: Seen) => seen.filter((other) => other.state === "holds" && !apart(me.actor, other.actor))
      for (const me of waits) {
        me.idle = ahead(me).length + inWay(me).length > 0 ? 0 : me.idle + 1
        assert.isAtMost(me.idle, noticed, `${me.order} waits for nothing`)
      }
      for (const me of justGranted.splice(0)) assert.isEmpty(ahead(me), `${me.order} overtook an earlier one`)
      const inHand = seen.filter((me) => me.state === "holds").map(({ order }) => `${order}`)
      const noticedOnes = leases.map(({ holder }) => holder).filter((holder) => seen[Number(holder)]?.state !== "waits")
      assert.sameMembers(noticedOnes, inHand)
      if (noticed === 0) assert.strictEqual(leases.length, inHand.length)
    })

    const fiber = yield* Effect.forkChild(
      Effect.all([kill, Effect.forEach(actors, live, { concurrency: "unbounded" })], { concurrency: "unbounded", discard: true }),
    )
    yield* Effect.forEach(Array.from({ length: instants }), () => Effect.andThen(TestClock.adjust(1), checkInstant), { discard: true })
    yield* Fiber.join(fiber)
    assert.deepStrictEqual(yield* one.on(current), [])
    assert.isTrue(seen.every(({ state }) => state === "gone"))
    assert.deepStrictEqual(yield* (yield* SqlClient.SqlClient)`SELECT * FROM leases WHERE server <> '3.mortal'`, [])
    const fences = seen.map(({ fence }) => fence).filter((fence) => fence > 0)
    assert.strictEqual(new Set(fences).size, fences.length, "a fence was given twice")
  })
})

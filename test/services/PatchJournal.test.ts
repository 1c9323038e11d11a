/** What a workspace looks like after its server died in the middle of a patch, at any step, and what is said of it. */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, References, Scope } from "effect"
import { build } from "esbuild"
import type { PatchIntent } from "../../src/services/PatchTransaction.ts"
import type { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { beforeEveryKind, everyKind } from "../support/ChangePatch.ts"
import type { CrashRequest } from "../support/crashProgram.ts"
import { faultyRoots } from "../support/FaultyRoot.ts"
import { openPatching } from "../support/Patching.ts"
import { readTree, temporaryFolder, writeTree } from "../support/Tree.ts"
import { backward, forward, twentyFiles } from "../support/TwentyFiles.ts"

const wanted: Readonly<Record<string, string>> = {
  "run.sh": "755 a\nB\n",
  d: "dir",
  n: "dir",
  "n/e": "dir",
  "n/e/moved": "600 m\n",
  "n/e/w": "644 n\n",
  a: "644 B\n",
  b: "644 A\n",
  instead: "dir",
  "instead/of": "dir",
  "instead/of/it": "644 i\n",
}

const written = (tree: Readonly<Record<string, string>>): string => JSON.stringify(Object.entries(tree).toSorted())

const folders = Effect.gen(function* () {
  const root = yield* temporaryFolder
  const stateFolder = yield* temporaryFolder
  writeTree(root, beforeEveryKind)
  return { root, stateFolder, before: readTree(root) }
})

const quiet = Effect.provideService(References.MinimumLogLevel, "None")

/** What the next server finds: the tree, what became of the operation, and what is left in the journal once that is acknowledged. */
const afterwards = Effect.fnUntraced(function* (root: string, stateFolder: string, server?: ServerIdentity["Service"]) {
  const outcome = yield* Effect.scoped(
    Effect.gen(function* () {
      const { journal } = yield* openPatching(root, { stateFolder, ...(server === undefined ? {} : { server }) })
      const found = (yield* journal.outcomes(["op_1"])).get("op_1")
      yield* journal.acknowledge("op_1")
      return found
    }),
  )
  const left = Object.entries(readTree(stateFolder)).filter(([, content]) => content !== "dir")
  return { tree: readTree(root), outcome, left: left.map(([name]) => name) }
})

/** All old or all new, no file more, and told as it is. */
const judge = (
  { left, outcome, tree }: Effect.Success<ReturnType<typeof afterwards>>,
  before: Readonly<Record<string, string>>,
  where: string,
  after = wanted,
) => {
  assert.include([written(before), written(after)], written(tree), where)
  assert.strictEqual(outcome?.kind, written(tree) === written(before) ? "rolled_back" : "committed", where)
  if (outcome?.kind === "committed") assert.strictEqual(outcome.delta.changes.length, 8, where)
  assert.deepStrictEqual(left, [], where)
  return outcome?.kind
}

// --- real deaths ----------------------------------------------------------------------------------------------------

const bundled = Effect.gen(function* () {
  const outdir = yield* temporaryFolder
  const crash = path.join(import.meta.dirname, "../support/crashProgram.ts")
  // In parts, so that the hundreds of starts without a hook do not read what hooks need.
  yield* Effect.promise(() =>
    build({
      ...{ entryPoints: { crash }, outdir, bundle: true, splitting: true, minify: true },
      ...{ platform: "node", format: "esm", outExtension: { ".js": ".mjs" } },
    }),
  )
  return path.join(outdir, "crash.mjs")
})

/** Until it dies; with `moment` it is killed so many milliseconds after it began with its first patch. */
const run = (program: string, request: CrashRequest, moment?: number) =>
  Effect.callback<{ readonly signal: string | null; readonly output: string }>((resume) => {
    const child = spawn(process.execPath, [program, JSON.stringify(request)], { stdio: ["ignore", "pipe", "inherit"] })
    let output = ""
    child.stdout.on("data", (chunk) => {
      if (moment !== undefined && output === "") setTimeout(() => child.kill("SIGKILL"), moment)
      output += chunk
    })
    child.on("close", (_code, signal) => resume(Effect.succeed({ signal, output })))
  })

describe("a server killed at every disk operation of a patch", () => {
  // Every operation, or every third: the steps of both are the same but for the syncs.
  for (const [durability, stride] of [
    ["process", 1],
    ["power", 3],
  ] as const)
    it.live(
      `leaves all old or all new: ${durability}`,
      () =>
        Effect.gen(function* () {
          const program = yield* bundled
          const crash = Effect.fnUntraced(function* (position: number) {
            const { before, root, stateFolder } = yield* folders
            const ended = yield* run(program, { root, stateFolder, durability, intents: [everyKind], position })
            return { ...ended, found: yield* afterwards(root, stateFolder), before }
          }, Effect.scoped)
          const whole = yield* crash(-1)
          assert.strictEqual(judge(whole.found, whole.before, "without a death"), "committed")
          const operations: ReadonlyArray<string> = JSON.parse(whole.output)
          assert.isAbove(operations.length, 50)
          const kinds = yield* Effect.forEach(
            operations.keys().filter((position) => position % stride === 0),
            Effect.fnUntraced(function* (position) {
              const { before, found, signal } = yield* crash(position)
              const where = `killed before ${position}: ${operations[position]}`
              assert.strictEqual(signal, "SIGKILL", where)
              return judge(found, before, where)
            }),
            { concurrency: 2 },
          )
          assert.include(kinds, "rolled_back")
        }).pipe(Effect.scoped, quiet),
      120_000,
    )
})

describe("a server killed at the disk operations of a patch with a hook", () => {
  it.live(
    "leaves all old, or all new with what the hook made of it",
    () =>
      Effect.gen(function* () {
        const program = yield* bundled
        // Replaces one file and appends to another, takes one away, and brings one back that the patch deletes.
        const script = 'sed -i s/B/H/ run.sh; echo h >> n/e/w; rm b; echo back > gone; [ "$#" = 6 ]'
        const { b: _, ...others } = wanted
        const hooked = { ...others, "run.sh": "755 a\nH\n", "n/e/w": "644 n\nh\n", gone: "644 back\n" }
        const crash = Effect.fnUntraced(function* (position: number) {
          const { before, root, stateFolder } = yield* folders
          const hook = { script, spools: yield* temporaryFolder }
          const ended = yield* run(program, { root, stateFolder, durability: "process", intents: [everyKind], hook, position })
          return { ...ended, found: yield* afterwards(root, stateFolder), before }
        }, Effect.scoped)
        const whole = yield* crash(-1)
        assert.strictEqual(judge(whole.found, whole.before, "without a death", hooked), "committed")
        const operations: ReadonlyArray<string> = JSON.parse(whole.output)
        const planned = operations.indexOf("create op_1.plan")
        const marked = operations.indexOf("create op_1.tmp")
        const kinds = yield* Effect.forEach(
          // Every second one, and the marks: what comes before the hook is the same as without it.
          operations.keys().filter((position) => position >= planned && (position % 2 === 0 || position >= marked)),
          Effect.fnUntraced(function* (position) {
            const { before, found, signal } = yield* crash(position)
            const where = `killed before ${position}: ${operations[position]}`
            assert.strictEqual(signal, "SIGKILL", where)
            return judge(found, before, where, hooked)
          }),
          { concurrency: 2 },
        )
        assert.isAbove(marked, planned)
        assert.includeMembers(kinds, ["rolled_back", "committed"])
      }).pipe(Effect.scoped, quiet),
    60_000,
  )
})

describe("a server killed at random moments of patches of twenty files (R136)", () => {
  it.live(
    "leaves all old or all new, and the journal says which",
    () =>
      Effect.gen(function* () {
        const program = yield* bundled
        const intents = [forward, backward].map((patch): PatchIntent => ({ kind: "patch", patch }))
        const kinds: Record<string, number> = {}
        const death = Effect.fnUntraced(function* () {
          const root = yield* temporaryFolder
          const stateFolder = yield* temporaryFolder
          writeTree(root, twentyFiles)
          const request: CrashRequest = { root, stateFolder, durability: "process", intents, position: -1 }
          const { output, signal } = yield* run(program, request, Math.random() * 60)
          assert.strictEqual(signal, "SIGKILL")
          const last = Number(output.trim().split("\n").at(-1))
          const { journal } = yield* openPatching(root, { stateFolder })
          const outcomes = yield* journal.outcomes([`op_${last - 1}`, `op_${last}`])
          const outcome = outcomes.get(`op_${last}`)?.kind ?? "none"
          if (last > 0) assert.strictEqual(outcomes.get(`op_${last - 1}`)?.kind, "committed")
          kinds[outcome] = (kinds[outcome] ?? 0) + 1
          const isPatched = (last % 2 === 0) === (outcome === "committed")
          const where = `${outcome} op_${last}`
          assert.deepStrictEqual(filesIn(root), filesIn(isPatched ? patched : root0), where)
        }, Effect.scoped)
        const root0 = yield* temporaryFolder
        writeTree(root0, twentyFiles)
        const patched = yield* temporaryFolder
        writeTree(patched, twentyFiles)
        yield* Effect.flatMap(openPatching(patched), ({ transaction }) => transaction.apply({ kind: "patch", patch: forward }))
        yield* Effect.all(Array.from({ length: 400 }, death), { concurrency: 2, discard: true })
        assert.isAbove(kinds["rolled_back"] ?? 0, 20)
        assert.strictEqual(kinds["none"], undefined)
      }).pipe(Effect.scoped, quiet),
    180_000,
  )
})

/** Without folders: one that a deletion leaves empty stays. */
const filesIn = (root: string) => Object.fromEntries(Object.entries(readTree(root)).filter(([, content]) => content !== "dir"))

// --- deaths on deaths -----------------------------------------------------------------------------------------------

/** A server whose neighbours in `dead` have ended. */
const serverOf = (self: string, dead: ReadonlySet<string>): ServerIdentity["Service"] => ({
  self,
  isAlive: (identity) => !dead.has(identity) && /^s\d+$/u.test(identity),
})

/** Runs something in a server that dies before its n-th disk operation; gives the operations it did. */
const dying = Effect.fnUntraced(function* (
  server: ServerIdentity["Service"],
  position: number,
  place: { readonly root: string; readonly stateFolder: string },
  life: "patch" | "start",
) {
  const faulty = faultyRoots(position, { kind: "freeze" })
  const scope = yield* Scope.make()
  if (life === "start") faulty.arm()
  const living = Effect.gen(function* () {
    const { transaction } = yield* openPatching(place.root, { stateFolder: place.stateFolder, server, through: faulty.through })
    faulty.arm()
    if (life === "patch") yield* transaction.apply(everyKind, { operationId: "op_1" })
  }).pipe(Scope.provide(scope))
  const fiber = yield* Effect.forkDetach(living, { startImmediately: true })
  yield* Effect.raceFirst(
    Fiber.await(fiber),
    Effect.repeat(Effect.yieldNow, { until: () => Effect.succeed(position >= 0 && faulty.operations.length > position) }),
  )
  const operations = [...faulty.operations]
  yield* Effect.forkDetach(Scope.close(scope, Exit.void))
  return operations
})

describe("a server that dies while it repairs what another left", () => {
  it.live(
    "leaves all old or all new for the one after it",
    () =>
      Effect.gen(function* () {
        const whole = yield* Effect.scoped(Effect.flatMap(folders, (place) => dying(serverOf("s1", new Set()), -1, place, "patch")))
        let deaths = 0
        const kinds = new Set<string | undefined>()
        // Each death of the patch from its plan on, and some before, with each death of the repair.
        const planned = whole.indexOf("create op_1.plan")
        assert.isAbove(planned, 0)
        const begun = whole.findIndex((operation) => operation.startsWith("create"))
        const positions = whole.keys().filter((at) => (at > planned - 4 ? at % 2 === 0 : at >= begun && at % 6 === 0))
        for (const first of [...positions, whole.length])
          for (let second = 0; ; second++) {
            const done = yield* Effect.scoped(
              Effect.gen(function* () {
                const place = yield* folders
                yield* dying(serverOf("s1", new Set()), first, place, "patch")
                const repair = yield* dying(serverOf("s2", new Set(["s1"])), second, place, "start")
                const where = `${whole[first] ?? "no death"}, then ${repair[second]}`
                const found = yield* afterwards(place.root, place.stateFolder, serverOf("s3", new Set(["s1", "s2"])))
                kinds.add(judge(found, place.before, where))
                return repair.length <= second
              }),
            )
            deaths++
            if (done) break
          }
        assert.isAbove(deaths, 400)
        assert.sameMembers([...kinds], ["rolled_back", "committed"])
      }).pipe(quiet),
    120_000,
  )
})

// --- other servers, other people ------------------------------------------------------------------------------------

/** Where the plan lies and half of it is done. */
const halfway = Effect.gen(function* () {
  const whole = yield* Effect.scoped(Effect.flatMap(folders, (place) => dying(serverOf("s1", new Set()), -1, place, "patch")))
  return whole.indexOf("rename b")
})

describe("what a dead server left half done", () => {
  it.live("is not touched as long as its server lives, and undone by the first of several that start after", () =>
    Effect.gen(function* () {
      const place = yield* folders
      const dead = new Set<string>()
      yield* dying(serverOf("s1", dead), yield* halfway, place, "patch")
      const half = readTree(place.root)
      assert.notInclude([written(place.before), written(wanted)], written(half))
      const early = yield* openPatching(place.root, { stateFolder: place.stateFolder, server: serverOf("s2", dead) })
      assert.deepStrictEqual(readTree(place.root), half)
      assert.isUndefined((yield* early.journal.outcomes(["op_1"])).get("op_1"), "it is under way")
      dead.add("s1")
      const starts = ["s3", "s4", "s5"].map((name) =>
        openPatching(place.root, { stateFolder: place.stateFolder, server: serverOf(name, dead) }),
      )
      const opened = yield* Effect.all(starts, { concurrency: "unbounded" })
      assert.deepStrictEqual(readTree(place.root), place.before)
      for (const { journal } of [early, ...opened]) assert.strictEqual((yield* journal.outcomes(["op_1"])).get("op_1")?.kind, "rolled_back")
    }).pipe(quiet),
  )

  it.live("is undone by a server that was there all along, before its next patch", () =>
    Effect.gen(function* () {
      const place = yield* folders
      const dead = new Set<string>()
      const { transaction } = yield* openPatching(place.root, { stateFolder: place.stateFolder, server: serverOf("s2", dead) })
      yield* dying(serverOf("s1", dead), yield* halfway, place, "patch")
      dead.add("s1")
      yield* transaction.apply({ kind: "write", path: "mine", content: "x" })
      assert.deepStrictEqual(readTree(place.root), { ...place.before, mine: "644 x" })
    }).pipe(quiet),
  )

  it.live("needs a person where somebody has changed a file since: the path is told, the rest is as it was, the old content is kept", () =>
    Effect.gen(function* () {
      const place = yield* folders
      yield* dying(serverOf("s1", new Set()), yield* halfway, place, "patch")
      fs.writeFileSync(path.join(place.root, "run.sh"), "somebody's work\n")
      const found = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = serverOf("s2", new Set(["s1"]))
          const { journal } = yield* openPatching(place.root, { stateFolder: place.stateFolder, server })
          const outcome = (yield* journal.outcomes(["op_1"])).get("op_1")
          yield* journal.acknowledge("op_1")
          return outcome
        }),
      )
      assert.deepStrictEqual(found, { kind: "attention", paths: ["run.sh"] })
      assert.deepStrictEqual(readTree(place.root), { ...place.before, "run.sh": "755 somebody's work\n" })
      assert.include(Object.values(readTree(place.stateFolder)), "755 a\nb\n")
      const again = yield* openPatching(place.root, { stateFolder: place.stateFolder, server: serverOf("s3", new Set(["s1", "s2"])) })
      assert.deepStrictEqual(readTree(place.root), { ...place.before, "run.sh": "755 somebody's work\n" })
      yield* again.transaction.apply({ kind: "write", path: "run.sh", content: "mended\n" })
    }).pipe(quiet),
  )

  it.live("of another workspace under the same state folder is neither touched nor judged", () =>
    Effect.gen(function* () {
      const place = yield* folders
      yield* dying(serverOf("s1", new Set()), yield* halfway, place, "patch")
      const half = readTree(place.root)
      const other = yield* temporaryFolder
      const server = serverOf("s2", new Set(["s1"]))
      const { journal } = yield* openPatching(other, { stateFolder: place.stateFolder, server })
      const outcomes = yield* journal.outcomes(["op_1", "op_2"])
      assert.isUndefined(outcomes.get("op_1"))
      assert.strictEqual(outcomes.get("op_2")?.kind, "rolled_back")
      assert.deepStrictEqual(readTree(place.root), half)
    }).pipe(quiet),
  )
})

/** What runs in a namespace that was made ahead is held to the same, and finds the same, as what waits for its own. */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, type Duration, Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { prepare } from "../../src/layers/Namespace.ts"
import { MARK } from "../../src/layers/ProcessTree.ts"
import { Sandbox } from "../../src/services/Sandbox.ts"
import { profileOf, type WorkshopOptions, workshop } from "../support/Confining.ts"
import { carriers, holding, layerSandbox, temporaryFolder } from "../support/Processes.ts"
import { until as untilSo } from "../support/Until.ts"

if (holding.by === "group") console.warn(`ReadyNamespaces.test.ts is skipped: ${holding.why}`)

const until = (condition: () => boolean) => Effect.promise(() => untilSo(condition))

/** Names the namespace that a command is in, if that was made ahead. */
const WHERE = "tr '\\0' '\\n' </proc/1/environ | grep -o 'ready-[0-9]*' || echo its own"

const opened = Effect.fnUntraced(function* (options?: WorkshopOptions) {
  const shop = yield* workshop(options)
  const waiting = () => {
    const [server = ""] = readdirSync(join(shop.state, "spools"))
    return readdirSync(join(shop.state, "spools", server)).filter((name) => /^ready-\d+$/u.test(name))
  }
  /** Waits until a namespace waits for a command. */
  const whenReady = until(() => waiting().length > 0)
  return { ...shop, waiting, whenReady, output: (script: string) => Effect.map(shop.run(script), ({ output }) => output) }
})

describe.skipIf(holding.by === "group")("a namespace made ahead", () => {
  it.live("is there after a command, takes one, and never another", () =>
    Effect.gen(function* () {
      const { output, waiting, whenReady } = yield* opened()
      assert.strictEqual(yield* output(WHERE), "its own\n")
      yield* whenReady
      assert.deepStrictEqual(waiting(), ["ready-0"])
      const both = yield* Effect.all([output(WHERE), output(WHERE)], { concurrency: 2 })
      assert.deepStrictEqual([...both].sort(), ["its own\n", "ready-0\n"])
      yield* whenReady
      assert.strictEqual(yield* output(WHERE), "ready-1\n")
    }).pipe(Effect.scoped),
  )

  it.live("gives a command the same arguments, folder, variables, streams and rights as its own", () =>
    Effect.gen(function* () {
      const { root, run, start, supervisor, waiting, whenReady, write } = yield* opened({ profile: { ...profileOf("off"), env: ["ODD"] } })
      write({ "a folder/it's": "here" })
      const odd = `'"\\$(id) \`id\` $HOME é\u0081 → 𝒳 ; & | \t\n\n end'`
      // What a shell of this machine itself changes on its way is not told apart.
      const look = `printf '[%s]' "$@"; echo; pwd -P; echo "$PWD|$OLDPWD"; ls; ls -l /proc/self/fd | sed 's/.* \\([0-9]*\\) -> .*/\\1/' | sort | tr '\\n' ' '
        readlink /proc/self/fd/0; env | grep -v -e ^CODESPACE_ -e ^SHLVL= -e ^_= | sort; grep -e Cap -e Seccomp: -e NoNewPrivs -e Sig /proc/self/status
        umask; ulimit -a; ps -o pgid=,sid=,tty= -p $$ | sed 's/  */ /g'; trap; echo error >&2; exit 7`
      const facts = Effect.fnUntraced(function* (argv: ReadonlyArray<string>) {
        const id = yield* start(argv, {
          cwd: { path: join(root, "a folder"), shown: "a folder" },
          env: { ODD: odd, CODESPACE_SCRIPT: odd },
        })
        const { duration_ms: _, process_id: __, ...rest } = yield* supervisor.ended(id)
        return rest
      })
      const argv = ["bash", "-c", look, "name", odd, "", "-x", "é", "*"]
      const own = yield* facts(argv)
      assert.include(own.output, odd)
      assert.strictEqual(own.exit_code, 7)
      yield* whenReady
      assert.deepStrictEqual(waiting(), ["ready-0"])
      const ahead = yield* facts(argv)
      assert.deepStrictEqual(ahead, own)
      yield* whenReady
      assert.deepStrictEqual(waiting(), ["ready-1"])
      // A name that no shell has as a variable is not told to one.
      assert.strictEqual((yield* run(WHERE, { env: { "odd-name": "1" } })).output, "its own\n")
    }).pipe(Effect.scoped),
  )

  it.live("is not used when what it protects was replaced meanwhile", () =>
    Effect.gen(function* () {
      const { git, output, root, run, whenReady } = yield* opened()
      git(".", "init", "-q")
      yield* output("true")
      yield* whenReady
      for (const round of [1, 2]) {
        writeFileSync(join(root, ".git/new"), `[user]\n\tname = outside ${round}\n`)
        renameSync(join(root, ".git/new"), join(root, ".git/config"))
      }
      const { output: said, exit_code } = yield* run(`${WHERE}; git config core.hooksPath /tmp/evil`)
      assert.match(said, /^its own\n/u)
      assert.notStrictEqual(exit_code, 0)
      assert.strictEqual(yield* output("git config user.name; git config core.hooksPath || echo none"), "outside 2\nnone\n")
    }).pipe(Effect.scoped),
  )

  it.live("is not used when there is more to hide or to protect than before", () =>
    Effect.gen(function* () {
      const { folder, output, root, whenReady } = yield* opened({ profile: profileOf("on", [{ glob: "*.env", access: "deny" }]) })
      yield* output("true")
      yield* whenReady
      writeFileSync(join(root, "a.env"), "secret\n")
      assert.notInclude(yield* output("cat a.env 2>&1; true"), "secret\n")
      yield* whenReady
      rmSync(join(root, "a.env"))
      mkdirSync(join(root, "a.env"))
      writeFileSync(join(root, "a.env/in"), "secret\n")
      assert.notInclude(yield* output("cat a.env/in 2>&1; true"), "secret\n")
      assert.isTrue(existsSync(folder))
    }).pipe(Effect.scoped),
  )

  it.live("goes with its server", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { output, state, waiting, whenReady } = yield* Scope.provide(opened(), scope)
      yield* output("true")
      yield* whenReady
      const [server = ""] = readdirSync(join(state, "spools"))
      const [name = ""] = waiting()
      const [pid = ""] = readFileSync(join(state, "spools", server, `${name}.pid`), "utf8").split(" ")
      assert.isTrue(existsSync(`/proc/${pid}`))
      yield* Scope.close(scope, Exit.void)
      yield* until(() => !existsSync(`/proc/${pid}`))
    }),
  )

  it.live("let go while it is being made leaves no process behind", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const holding = yield* Context.get(yield* Layer.build(layerSandbox(folder)), Sandbox).holding
      if (holding.by === "group") return assert.fail(holding.why)
      const output = openSync(join(folder, "output"), "w")
      const streams = { standard: ["ignore", output, output], pipes: undefined, isTerminal: false, hasLeaks: false } as const
      const mark = `ready-test/${process.pid}`
      for (let round = 0; round < 120; round++) {
        const waiting = prepare(holding, mark, streams, join(folder, "order"))
        // At different moments of it, from before it has done anything.
        yield* Effect.sleep(round / 12)
        assert.isNotEmpty(carriers(`${MARK}=${mark}`))
        waiting?.discard()
        yield* until(() => carriers(`${MARK}=${mark}`).length === 0)
      }
      closeSync(output)
    }).pipe(Effect.scoped),
  )

  it.effect("that nobody asks for ends after a minute", () =>
    Effect.gen(function* () {
      const { run, waiting } = yield* opened()
      yield* run("true")
      assert.deepStrictEqual(waiting(), [])
      // The clock of the test stands still but for this.
      const pass = (time: Duration.Input) =>
        Effect.andThen(
          TestClock.adjust(time),
          Effect.promise(() => new Promise(setImmediate)),
        )
      yield* Effect.repeat(pass("3 millis"), { until: () => waiting().length === 1 })
      yield* pass("20 seconds")
      assert.lengthOf(waiting(), 1)
      yield* Effect.repeat(pass("60 seconds"), { until: () => waiting().length === 0 })
    }).pipe(Effect.scoped),
  )
})

import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, type Scope } from "effect"
import { makeGitGuards } from "../../src/layers/GitGuards.ts"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import * as Unbash from "../../src/layers/Unbash.ts"
import { gitWorkOf } from "../../src/services/GitWork.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { ShellParser } from "../../src/services/ShellParser.ts"
import { whyUnconfined, workshop } from "../support/Confining.ts"
import { layerSandbox, layerSupervisorIn, requestOf } from "../support/Processes.ts"

if (whyUnconfined !== undefined) console.warn(`GitGuards.test.ts confines nothing: ${whyUnconfined}`)

const parse = await Effect.runPromise(
  Effect.provide(
    Effect.flatMap(ShellParser, ({ load }) => load),
    Unbash.layer,
  ),
)
const test = (name: string, body: () => Effect.Effect<void, unknown, Scope.Scope>) => it.live(name, () => Effect.scoped(body()))

/** A workspace with a repository in it and one beside it that can be fetched from. */
const house = Effect.gen(function* () {
  const shop = yield* workshop()
  const { git, root, run, write } = shop
  write({ f: "1\n", "lib-source/f": "1\n" })
  for (const folder of ["lib-source", "."]) {
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "f")
    git(folder, "commit", "-qm", "first")
  }
  const path = (name: string) => join(root, name)
  return {
    ...shop,
    path,
    text: (name: string) => readFileSync(path(name), "utf8"),
    /** Runs a script as a call would, with what is understood of it. */
    call: (script: string, line: string = script) => run(script, { git: gitWorkOf({ script: line }, [], parse) }),
    /** What nobody takes for harmless, as if it were. */
    trusted: (script: string) => run(script, { git: { _tag: "known", runsHooks: false, isCertain: true } }),
  }
})

describe.skipIf(whyUnconfined !== undefined)("git's own work on a configuration", { timeout: 60_000 }, () => {
  test("is done: a submodule comes, a remote, a branch's name", () =>
    Effect.gen(function* () {
      const { call, git, text } = yield* house
      const added = yield* call(
        "git -c protocol.file.allow=always submodule --quiet add ./lib-source lib && git remote add up ../x && git branch -m trunk",
      )
      assert.strictEqual(added.exit_code, 0, added.output)
      assert.isUndefined(added.notes)
      assert.match(text(".git/config"), /\[submodule "lib"\]/u)
      assert.strictEqual(git(".", "config", "remote.up.url"), "../x")
      assert.strictEqual(git(".", "branch", "--show-current"), "trunk")
      assert.match(text(".git/modules/lib/config"), /worktree = /u)
    }))

  test("is nothing else: what is planted beside it is put back, with a note", () =>
    Effect.gen(function* () {
      const { path, text, trusted } = yield* house
      const before = text(".git/config")
      const planted = yield* trusted("git config core.fsmonitor 'touch /evil'; git remote add up ../x")
      assert.strictEqual(text(".git/config"), before)
      assert.include(planted.notes?.join(), '".git/config" was put back, since core.fsmonitor had been changed in it')
      yield* trusted("rm .git/config; mkdir .git/config; touch .git/config/x")
      assert.strictEqual(text(".git/config"), before)
      yield* trusted("mv .git/config c; ln -s ../c .git/config")
      assert.strictEqual(text(".git/config"), before)
      const module = yield* trusted(
        "git -c protocol.file.allow=always submodule --quiet add ./lib-source lib; git -C lib config core.sshCommand evil; echo x > .git/modules/lib/hooks/post-checkout; echo ../x > .git/modules/lib/commondir; echo x > .git/hooks/pre-commit",
      )
      assert.notInclude(text(".git/modules/lib/config"), "ssh")
      assert.match(text(".git/modules/lib/config"), /worktree/u)
      assert.isFalse(existsSync(path(".git/modules/lib/hooks/post-checkout")))
      assert.isFalse(existsSync(path(".git/modules/lib/commondir")))
      assert.isFalse(existsSync(path(".git/hooks/pre-commit")))
      assert.strictEqual(module.notes?.length, 3)
      const before2 = text(".git/modules/lib/config")
      yield* trusted("git -C lib config core.pager evil; echo 'gitdir: ../lib-source/.git' > lib/.git")
      assert.strictEqual(text(".git/modules/lib/config"), before2)
      assert.include(text("lib/.git"), ".git/modules/lib")
      yield* trusted("git remote add x 'ext::sh -c evil'")
      yield* trusted("git -C lib remote add x 'ext::sh -c evil'")
      yield* trusted("git config submodule.lib.update '!evil'")
      assert.notInclude(text(".git/config") + text(".git/modules/lib/config"), "evil")
    }))

  test("fails as ever beside something else, and a note says what to do", () =>
    Effect.gen(function* () {
      const { call, text } = yield* house
      const before = text(".git/config")
      const refused = yield* call("echo x > y; git remote add up ../x")
      assert.notStrictEqual(refused.exit_code, 0)
      assert.strictEqual(text(".git/config"), before)
      assert.include(refused.notes?.join(), "Run the git command as a call of its own")
    }))

  test("runs no hook and no program of the workspace on the way", () =>
    Effect.gen(function* () {
      const { call, git, path, run, start, supervisor, text, write } = yield* house
      const hook = (name: string) => {
        mkdirSync(path(".git/hooks"), { recursive: true })
        writeFileSync(path(`.git/hooks/${name}`), "#!/bin/sh\ntouch hooked\n")
        chmodSync(path(`.git/hooks/${name}`), 0o755)
      }
      hook("reference-transaction")
      assert.strictEqual((yield* call("git branch -m trunk")).exit_code, 0)
      assert.isFalse(existsSync(path("hooked")))
      const pushed = yield* call("git push -u lib-source trunk")
      assert.include(pushed.notes?.join(), "hooks would run")
      const env = { GIT_AUTHOR_NAME: "a", HOME: join(path("."), "home") }
      const own = yield* run("git remote add up ../x", { env, git: { _tag: "known", runsHooks: false, isCertain: true } })
      assert.include(own.notes?.join(), "lies in the workspace")
      const work = { _tag: "known", runsHooks: false, isCertain: true } as const
      // A git in the workspace, and one that a command has put into what it finds as /tmp.
      write({ "bin/git": "#!/bin/sh\ntouch hooked\n" })
      chmodSync(path("bin/git"), 0o755)
      yield* run("mkdir /tmp/codespace-is-not-there; cp bin/git /tmp/codespace-is-not-there")
      for (const [at, folder] of [path("bin"), "/tmp/codespace-is-not-there", "bin", ""].entries()) {
        const own = yield* run(`cd bin; git remote add up${at} ../x`, { env: { PATH: `${folder}:/usr/bin:/bin` }, git: work })
        assert.deepStrictEqual([own.exit_code, own.notes?.join() ?? ""], [0, ""], folder)
        assert.include(text(".git/config"), `up${at}`)
      }
      assert.isFalse(existsSync(path("hooked")) || existsSync(path("bin/hooked")))
      const searching = ["/bin/sh", "-c", "git remote add up ../x"]
      const nowhere = yield* supervisor.ended(yield* start(searching, { env: { PATH: path("bin") }, git: work }))
      assert.include(nowhere.notes?.join(), "git is looked for only where commands can write")
      write({ "node_modules/x/f": "1" })
      git("node_modules/x", "init", "-q")
      git("node_modules/x", "config", "filter.x.clean", "./evil")
      const before = text(".git/config")
      const refused = yield* call("git remote add up ../x")
      assert.include(refused.notes?.join(), '"filter.x.clean"')
      assert.strictEqual(text(".git/config"), before)
    }))

  test("waits for nobody and is waited for: a mount does not outlive the file it stands on", () =>
    Effect.gen(function* () {
      const { call, path, start, supervisor, text, trusted } = yield* house
      const beside = yield* start(["sh", "-c", "touch there; sleep 60"])
      while (!existsSync(path("there"))) yield* Effect.sleep(10)
      const refused = yield* call("git remote add up ../x")
      assert.include(refused.notes?.join(), "another command runs in the workspace")
      yield* supervisor.terminate(beside, 0)
      const first = yield* Effect.forkChild(trusted("touch working; while [ ! -e go ]; do sleep 0.05; done; git remote add up ../x"))
      while (!existsSync(path("working"))) yield* Effect.sleep(10)
      const second = yield* Effect.forkChild(start(["sh", "-c", "touch started; echo '[core]\n\tpager = evil' >> .git/config"]))
      yield* Effect.sleep(300)
      assert.isFalse(existsSync(path("started")))
      writeFileSync(path("go"), "")
      yield* Fiber.join(first)
      yield* supervisor.ended(yield* Fiber.join(second))
      assert.isTrue(existsSync(path("started")))
      assert.include(text(".git/config"), '[remote "up"]')
      assert.notInclude(text(".git/config"), "evil")
    }))

  test("is not done while a command of another server finds the file mounted, and keeps that server's commands waiting", () =>
    Effect.gen(function* () {
      const { call, confines, path, state, text } = yield* house
      const other = Context.get(
        yield* Layer.build(
          layerSupervisorIn(join(state, "other-spools"), layerSandbox(state, [{ realRoot: confines.root, profile: confines.profile }])),
        ),
        ProcessSupervisor,
      )
      const start = (script: string) =>
        other.start(requestOf(["sh", "-c", script], { ...confines, cwd: { path: confines.root, shown: "." } }))
      const beside = yield* start("touch there; sleep 60")
      while (!existsSync(path("there"))) yield* Effect.sleep(10)
      const refused = yield* call("git remote add up ../x")
      assert.include(refused.notes?.join(), "a command of another server runs")
      assert.notInclude(text(".git/config"), "remote")
      yield* other.terminate(beside, 0)
      assert.strictEqual((yield* call("git remote add up ../x")).exit_code, 0)
    }))

  test("is looked after by the next server when one was killed meanwhile", () =>
    Effect.gen(function* () {
      const { confines, path, state, text } = yield* house
      const identity = Context.get(yield* Layer.build(NodeIdentity.layer), ServerIdentity)
      const folder = join(state, "killed")
      const before = text(".git/config")
      const killed = { self: "killed", isAlive: (name: string) => name !== "killed" && identity.isAlive(name) }
      const left = yield* Effect.scoped(
        Effect.gen(function* () {
          const guards = yield* makeGitGuards(folder, { ...killed, isAlive: () => true })
          const call = { work: { _tag: "known", runsHooks: false, isCertain: true }, variables: { PATH: "/usr/bin:/bin" } } as const
          yield* guards.admit(confines, "exclusive", call, join(state, "nothing"))
          return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))] as const)
        }),
      )
      assert.strictEqual(left.length, 1)
      // What a kill leaves: the record, and whatever the command had done.
      for (const [name, content] of left) writeFileSync(join(folder, name), content)
      writeFileSync(path(".git/config"), `${before}[core]\n\tfsmonitor = evil\n`)
      writeFileSync(path(".git/config.lock"), "")
      // As long as that server lives its record keeps others waiting.
      const living = yield* makeGitGuards(folder, { self: "living", isAlive: () => true })
      const waiting = yield* Effect.forkChild(Effect.scoped(living.admit(confines, "exclusive", undefined, join(state, "nothing"))))
      yield* Effect.sleep(200)
      assert.isUndefined(waiting.pollUnsafe())
      yield* makeGitGuards(folder, killed)
      yield* Fiber.join(waiting)
      assert.strictEqual(text(".git/config"), before)
      assert.isFalse(existsSync(path(".git/config.lock")))
      assert.deepStrictEqual(readdirSync(folder), [])
    }))
})

import { spawnSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createServer, type Server } from "node:net"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { layerGroups } from "../../src/layers/Bubblewrap.ts"
import { NODE, profileOf, whyUnconfined, workshop } from "../support/Confining.ts"

if (whyUnconfined !== undefined) console.warn(`Bubblewrap.test.ts confines nothing: ${whyUnconfined}`)

const test = (name: string, body: () => Effect.Effect<void, unknown, Scope.Scope>) => it.live(name, () => Effect.scoped(body()))

/** Somebody who listens on a file, in a folder of its own. */
const listening = (path: string): Promise<Server> =>
  new Promise((resolve) => {
    mkdirSync(dirname(path), { recursive: true })
    const server = createServer().listen(path, () => resolve(server))
  })

describe.skipIf(whyUnconfined !== undefined)("a confined command", { timeout: 30_000 }, () => {
  test("writes the workspace and nothing else, and says what confined it (R090)", () =>
    Effect.gen(function* () {
      const { folder, root, run, write } = yield* workshop()
      write({ "../beside": "b" })
      const { output, sandbox } = yield* run(
        `echo 1 > in; echo 2 > ../beside; echo 3 > /etc/codespace-test; echo 4 > /proc/sys/kernel/core_pattern; exit 0`,
      )
      assert.strictEqual(sandbox, "bubblewrap: files workspace-write, network on")
      assert.strictEqual(readFileSync(join(root, "in"), "utf8"), "1\n")
      assert.strictEqual(readFileSync(join(folder, "beside"), "utf8"), "b")
      assert.isFalse(existsSync("/etc/codespace-test"))
      assert.match(output, /core_pattern: (Read-only file system|Permission denied)/u)
    }))

  test("has a /tmp of its workspace alone, which TMPDIR names and which goes with the server (R097)", () =>
    Effect.gen(function* () {
      const { folder, run, state } = yield* workshop({ others: { other: profileOf() } })
      const { output } = yield* run('file=$(mktemp); echo "$file $TMPDIR"; ls -A /tmp | wc -l; echo 1 > /tmp/kept', {
        env: { TMPDIR: "/nowhere" },
      })
      assert.match(output, /^\/tmp\/tmp\.\w+ \/tmp\n/u)
      assert.strictEqual((yield* run("cat /tmp/kept")).output, "1\n")
      assert.isFalse(existsSync("/tmp/kept"))
      assert.strictEqual((yield* run(`ls ${folder}`)).output, "app\n")
      assert.notStrictEqual(readdirSync(join(state, "sandbox")).length, 0)
    }))

  test("sees no other workspace, nothing of the server and no secrets of the home folder (R095)", () =>
    Effect.gen(function* () {
      const { folder, run, state, write } = yield* workshop({ others: { "app/inner": profileOf(), other: profileOf() } })
      write({ "../other/secret": "s", "inner/file": "i", "../state/codespace.sqlite": "db" })
      const { output } = yield* run(
        `cat ${folder}/other/secret ${state}/codespace.sqlite; cat inner/file; cat /proc/${process.pid}/environ; kill -0 ${process.pid}`,
      )
      assert.notMatch(output, /^s/mu)
      assert.strictEqual(output.match(/No such file or directory|No such process/gu)?.length, 4)
      assert.include(output, "i")
    }))

  test("changes nothing with read_only access, nor under a read-only profile (R102)", () =>
    Effect.gen(function* () {
      const { root, run, write } = yield* workshop()
      write({ f: "1" })
      const facts = yield* run("cat f; touch new; echo 2 > f; mv f g; touch /tmp/t && echo temp", { access: "read_only" })
      assert.deepInclude(facts, { sandbox: "bubblewrap: files read-only, network on", exit_code: 0 })
      assert.match(facts.output, /^1touch: .*Read-only.*\n.*Read-only.*\n.*Read-only.*\ntemp\n$/u)
      assert.deepStrictEqual(readdirSync(root), ["f"])
      const reading = yield* workshop({ profile: profileOf("on", [{ glob: "out/**", access: "write" }], "read") })
      mkdirSync(join(reading.root, "out"))
      assert.match((yield* reading.run("touch x; touch out/x")).output, /^touch: cannot touch 'x': Read-only file system\n$/u)
      assert.isTrue(existsSync(join(reading.root, "out/x")))
    }))

  test("finds what the profile denies out of reach, from any folder and by any name (R095)", () =>
    Effect.gen(function* () {
      const rules = [
        { glob: "**/*.env", access: "deny" },
        { glob: "keys/**", access: "deny" },
        { glob: "gen/**", access: "read" },
      ] as const
      const { root, run, write } = yield* workshop({ profile: profileOf("on", rules) })
      write({ "a.env": "SECRET", "deep/er/b.env": "SECRET", "keys/k": "SECRET", "gen/g": "g", f: "f" })
      symlinkSync("a.env", join(root, "link"))
      symlinkSync("target", join(root, "c.env"))
      write({ target: "SECRET" })
      const facts = yield* run(
        "cat a.env deep/er/b.env link keys/k target; cd deep/er; cat b.env ../../a.env; ls ../../keys; echo x > ../../a.env; mv ../../a.env ../../a; echo 2 > ../../gen/g; cat ../../gen/g",
      )
      assert.notInclude(facts.output, "SECRET")
      assert.include(facts.output, "gen/g: Read-only file system")
      assert.strictEqual(readFileSync(join(root, "a.env"), "utf8"), "SECRET")
      assert.match(facts.sandbox ?? "", /with rules/u)
      write({ "new.env": "SECRET", "keys/new": "SECRET" })
      assert.notInclude((yield* run("cat new.env keys/new")).output, "SECRET")
    }))

  test("has no network but its own loopback where the profile says off, and makes no Unix socket (R098, R099)", () =>
    Effect.gen(function* () {
      const { putNode, run, write } = yield* workshop({ profile: profileOf("off") })
      putNode()
      write({
        "t.mjs": `import net from "node:net"
          const server = net.createServer((c) => c.end("hello")).listen(0, "127.0.0.1", () =>
            net.connect(server.address().port, "127.0.0.1").on("data", (d) => { console.log(String(d)); server.close() }))
          net.connect(9, "192.0.2.1").on("error", (e) => console.log(e.code))
          net.createServer().on("error", (e) => console.log(e.code)).listen("/tmp/s")`,
      })
      const { output } = yield* run(`./${NODE} t.mjs`)
      assert.deepStrictEqual(output.trim().split("\n").sort(), ["ENETUNREACH", "EPERM", "hello"])
    }))

  test("runs where others listen in folders that root could enter only as root (R091)", () =>
    Effect.gen(function* () {
      if (process.getuid?.() !== 0) return console.warn("Bubblewrap.test.ts gives no folder to another user: only root can")
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync("/srv/codespace-")),
        (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true })),
      )
      const open = yield* Effect.acquireRelease(
        Effect.promise(() => listening(join(folder, "open/s"))),
        (server) => Effect.sync(() => server.close()),
      )
      const closed = yield* Effect.acquireRelease(
        Effect.promise(() => listening(join(folder, "closed/s"))),
        (server) => Effect.sync(() => server.close()),
      )
      chownSync(join(folder, "closed"), 65534, 65534)
      chmodSync(join(folder, "closed"), 0o700)
      chmodSync(folder, 0o755)
      const { run } = yield* workshop()
      const { exit_code, output } = yield* run(`[ -S ${folder}/open/s ] && echo reached; ls ${folder}/closed/s 2>&1; true`)
      assert.deepInclude({ exit_code, reached: output.includes("reached") }, { exit_code: 0, reached: false })
      assert.include(output, "Permission denied")
      assert.isTrue(open.listening && closed.listening)
    }))

  test("can do none of the system calls that lead out, and all that programs need", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop()
      const { output } = yield* run(
        "unshare -Ur true; unshare -m true; mount -t tmpfs none /mnt; (exec 3<>/dev/tcp/127.0.0.1/1); grep -E 'Seccomp:|CapBnd' /proc/self/status",
      )
      assert.strictEqual(output.match(/Operation not permitted|must be superuser|permission denied/gu)?.length, 3)
      assert.match(output, /CapBnd:\s+0+\n/u)
      assert.match(output, /Seccomp:\s+2/u)
    }))
})

describe.skipIf(whyUnconfined !== undefined)("git in a confined command", { timeout: 60_000 }, () => {
  const protectedPaths = ["hooks/pre-commit", "config", "hooks/new", "config.worktree"]

  test("commits, branches and rebases, and keeps hooks and configuration as they are, by any trick (R093, R094)", () =>
    Effect.gen(function* () {
      const { git, root, run, write } = yield* workshop()
      git(".", "init", "-q")
      write({ f: "1\n", "sub/f": "1\n", ".git/hooks/pre-commit": "true" })
      git(".", "add", "-A")
      git(".", "commit", "-qm", "one", "--no-verify")
      const before = readFileSync(join(root, ".git/config"), "utf8")
      const listing = readdirSync(root)
      const facts = yield* run(
        `set -e; echo 2 > f; git commit -qam two --no-verify; git checkout -qb side HEAD~1; echo 1 > g; git add g; git commit -qm side --no-verify; git rebase -q master 2>/dev/null || git rebase -q main; git tag t; git stash list; git gc -q; git worktree add -q wt HEAD~1; cd wt; echo w > w; git add w; git commit -qm w --no-verify; cd ..; git worktree remove wt; git log --oneline | wc -l`,
      )
      assert.deepInclude(facts, { exit_code: 0, output: "3\n" })
      const tricks = [
        "echo evil > .git/hooks/pre-commit",
        "rm -f .git/hooks/pre-commit",
        "mv .git/hooks .git/h && mkdir .git/hooks && echo evil > .git/hooks/new",
        "git config core.fsmonitor evil",
        "echo evil > .git/c && mv .git/c .git/config",
        "cp -r .git .g2 && mv .git .g3 && mv .g2 .git",
        "rm -rf .git/config",
        "ln -sf /tmp/evil .git/config",
      ]
      for (const trick of tricks) yield* run(`cd sub; cd ..; ${trick}`)
      assert.strictEqual(readFileSync(join(root, ".git/config"), "utf8"), before)
      assert.strictEqual(readFileSync(join(root, ".git/hooks/pre-commit"), "utf8"), "true")
      assert.isFalse(existsSync(join(root, ".git/hooks/new")))
      assert.deepStrictEqual(
        readdirSync(root).filter((name) => name !== ".g2"),
        [...listing, "g"].sort(),
      )
    }))

  test("is as well kept in nested repositories and submodules, which are worked in (R094)", () =>
    Effect.gen(function* () {
      const { git, root, run, write } = yield* workshop()
      write({ "../lib/f": "1\n" })
      for (const folder of ["../lib", ".", "nested"]) {
        mkdirSync(join(root, folder), { recursive: true })
        git(folder, "init", "-q")
      }
      git("../lib", "add", "-A")
      git("../lib", "commit", "-qm", "lib")
      git(".", "submodule", "--quiet", "add", "../lib", "mods/lib")
      git(".", "commit", "-qm", "with submodule")
      const facts = yield* run(
        "set -e; cd mods/lib; echo 2 > f; git commit -qam two; cd ../..; git add mods/lib; git commit -qm bump; git submodule status; git submodule foreach --quiet git status --short; cd nested; touch x; git add x; git commit -qm x",
      )
      assert.deepInclude(facts, { exit_code: 0 })
      const folders = [".git", "nested/.git", ".git/modules/mods/lib"]
      const before = folders.map((folder) => readFileSync(join(root, folder, "config"), "utf8"))
      for (const folder of folders)
        for (const name of protectedPaths)
          yield* run(`mkdir -p ${folder}/hooks; echo evil > ${folder}/${name}; echo evil > ${folder}/c; mv ${folder}/c ${folder}/${name}`)
      yield* run(
        "mv nested n2; mkdir -p nested/.git; echo evil > nested/.git/config; mv mods m2; mv .git/modules .git/m2; echo gitdir: /tmp > mods/lib/.git",
      )
      assert.deepStrictEqual(
        folders.map((folder) => readFileSync(join(root, folder, "config"), "utf8")),
        before,
      )
      for (const folder of folders) assert.isFalse(existsSync(join(root, folder, "hooks/pre-commit")), folder)
      assert.include(readFileSync(join(root, "mods/lib/.git"), "utf8"), "modules/mods/lib")
    }))

  test("finds what leads git to another folder put back while it still runs, every time, and at no other time", () =>
    Effect.gen(function* () {
      const { git, root, run, write } = yield* workshop()
      write({ f: "1" })
      git(".", "init", "-q")
      git(".", "add", "f")
      git(".", "commit", "-qm", "first")
      git(".", "worktree", "add", "-q", "wt")
      const pointer = readFileSync(join(root, "wt/.git"), "utf8")
      const gone = "while [ -e .git/commondir ]; do sleep 0.01; done"
      const back = "until grep -q worktrees wt/.git 2>/dev/null; do sleep 0.01; done"
      const { notes, output } = yield* run(
        `for i in 1 2 3; do echo ../evil > .git/commondir; ${gone}; echo gone; echo evil > wt/.git; ${back}; echo back; done`,
      )
      assert.strictEqual(output, "gone\nback\n".repeat(3))
      assert.strictEqual(notes?.length, 2)
      assert.strictEqual(readFileSync(join(root, "wt/.git"), "utf8"), pointer)
      // Whoever does it outside has their reasons.
      writeFileSync(join(root, ".git/commondir"), ".\n")
      yield* Effect.sleep(100)
      assert.isTrue(existsSync(join(root, ".git/commondir")))
    }))

  test("finds what no mount can keep away put back when it has ended, with a note (R094)", () =>
    Effect.gen(function* () {
      const { git, root, run, write } = yield* workshop()
      write({ f: "1\n" })
      git(".", "init", "-q")
      git(".", "add", "-A")
      git(".", "commit", "-qm", "one")
      git(".", "worktree", "add", "-q", "wt")
      const pointer = readFileSync(join(root, "wt/.git"), "utf8")
      const { notes = [] } = yield* run(
        "mkdir evil; echo ../evil > .git/commondir; echo ../../../evil > .git/worktrees/wt/commondir; rm wt/.git; mkdir wt/.git; echo evil > wt/.git/config",
      )
      assert.deepStrictEqual(notes.map((note) => /^"([^"]*)" was put back/u.exec(note)?.[1]).sort(), [
        ".git/commondir",
        ".git/worktrees/wt/commondir",
        "wt/.git",
      ])
      assert.isFalse(existsSync(join(root, ".git/commondir")))
      assert.strictEqual(readFileSync(join(root, ".git/worktrees/wt/commondir"), "utf8"), "../..\n")
      assert.strictEqual(readFileSync(join(root, "wt/.git"), "utf8"), pointer)
      assert.deepInclude(yield* run("git worktree remove --force wt && git worktree list | wc -l"), { exit_code: 0, output: "1\n" })
    }))

  test("commits in a linked worktree whose repository is elsewhere, and opens no folder that does not belong to it (R093)", () =>
    Effect.gen(function* () {
      const { folder, git, root, run, write } = yield* workshop({ others: { main: profileOf() } })
      write({ "../main/f": "1\n" })
      git("../main", "init", "-q")
      git("../main", "add", "-A")
      git("../main", "commit", "-qm", "one")
      git("../main", "worktree", "add", "-q", "--force", root)
      const facts = yield* run("set -e; echo 2 > f; git commit -qam two; git log --oneline | wc -l; git branch side; git status --short")
      assert.deepInclude(facts, { exit_code: 0, output: "2\n" })
      const before = readFileSync(join(folder, "main/.git/config"), "utf8")
      yield* run(
        `echo evil >> ${folder}/main/.git/config; echo evil > ${folder}/main/.git/hooks/pre-commit; echo gitdir: ${folder} > .git; ls ${folder}/main/f`,
      )
      assert.strictEqual(readFileSync(join(folder, "main/.git/config"), "utf8"), before)
      assert.isFalse(existsSync(join(folder, "main/.git/hooks/pre-commit")))
      const victim = join(folder, "victim")
      mkdirSync(victim)
      mkdirSync(join(root, "planted"))
      writeFileSync(join(root, "planted/.git"), `gitdir: ${victim}\n`)
      yield* run(`echo evil > ${victim}/f`)
      assert.deepStrictEqual(readdirSync(victim), [])
    }))
})

describe.skipIf(process.getuid?.() !== 0)("a user whom the list of users does not know, as in containers", () => {
  it("has the home folder that the environment names (R091)", ({ skip }) => {
    const plans = fileURLToPath(new URL("../../src/layers/SandboxPlans.ts", import.meta.url))
    const asked = `import(${JSON.stringify(plans)}).then(({ homes }) => console.log(homes().join()))`
    const { status, stderr, stdout } = spawnSync(process.execPath, ["-e", asked], { uid: 54_321, env: { HOME: "/usr" }, encoding: "utf8" })
    if (status === null || stderr.includes("EACCES")) return skip("this user may not read the sources")
    assert.strictEqual(stdout, "/usr\n", stderr)
  })
})

describe("without a sandbox", () => {
  const none = { sandbox: layerGroups("a test asks for it") }
  const touch = ["touch", "marker"]

  test("what a profile restricts is refused, with the reason, and nothing has run (R089, R090)", () =>
    Effect.gen(function* () {
      const cases = [
        { profile: profileOf("off") },
        { profile: profileOf("on", [{ glob: "x", access: "deny" }]) },
        { profile: profileOf("on", [], "read") },
        { profile: profileOf(), mode: "required" },
        { profile: profileOf("on", [], "read"), mode: "off" },
      ] as const
      for (const options of cases) {
        const { root, start } = yield* workshop({ ...none, ...options })
        const refusal = yield* Effect.flip(start(touch))
        assert.deepInclude(refusal, { _tag: "SANDBOX_UNAVAILABLE", cause: "a test asks for it" })
        assert.isUndefined(lstatSync(join(root, "marker"), { throwIfNoEntry: false }))
      }
      const { start } = yield* workshop(none)
      assert.deepInclude(yield* Effect.flip(start(touch, { access: "read_only" })), {
        _tag: "SANDBOX_UNAVAILABLE",
        wanted: "access read_only",
      })
    }))

  test("what it does not restrict runs, and says that nothing confined it", () =>
    Effect.gen(function* () {
      for (const mode of ["auto", "off"] as const) {
        const { root, run } = yield* workshop({ ...none, mode })
        assert.strictEqual((yield* run("touch marker")).sandbox, "none: files and network were not confined, since a test asks for it")
        assert.isTrue(existsSync(join(root, "marker")))
      }
    }))
})

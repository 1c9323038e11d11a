import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Unbash from "../../src/layers/Unbash.ts"
import { gitWorkOf, mentionsGit } from "../../src/services/GitWork.ts"
import { ShellParser } from "../../src/services/ShellParser.ts"

const parse = await Effect.runPromise(
  Effect.provide(
    Effect.flatMap(ShellParser, ({ load }) => load),
    Unbash.layer,
  ),
)
const work = (script: string, variables: ReadonlyArray<string> = []) => gitWorkOf({ script }, variables, parse)._tag

describe("git's own work", () => {
  const known = [
    "git submodule add https://h.example/lib.git lib",
    "git -c protocol.file.allow=always submodule --quiet add ../lib vendor/lib && git commit -qm 'add lib (for good)'",
    "set -e; cd lib; git submodule update --init --recursive; cd ..; ls -la | head -3",
    "git submodule init && git submodule update 2>&1",
    "git submodule deinit -f -- lib >/dev/null 2>&1 || echo none",
    "if [ -d lib ]; then git submodule sync --recursive; fi",
    "git remote add up git@h.example:a/b.git; git fetch up; git remote -v",
    "git branch -m old new; git branch -u origin/new",
    "git push -u origin main",
    "git checkout -b topic origin/topic",
    "git switch topic",
    "(cd lib && git remote set-url origin ../x)",
    `echo "on $HOME $(git rev-parse HEAD)"; git remote rename a b`,
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b; git config user.name >/dev/null || git submodule add ../lib lib",
    "GIT_TERMINAL_PROMPT=0 LC_ALL=C git push -u origin main; GIT_AUTHOR_NAME=x",
    "git stash -q; git submodule update --init; git stash pop",
    "git config -f .gitmodules submodule.lib.branch main; git submodule sync",
  ]
  for (const script of known) it(`is ${script}`, () => assert.strictEqual(work(script), "known"))

  it("is the same as a program with arguments, also through a shell", () => {
    assert.deepStrictEqual(gitWorkOf({ argv: ["git", "remote", "add", "x", "y"] }, [], parse), {
      _tag: "known",
      runsHooks: false,
      isCertain: true,
    })
    assert.deepStrictEqual(gitWorkOf({ argv: ["sh", "-c", "git push -u x y"] }, [], parse), {
      _tag: "known",
      runsHooks: true,
      isCertain: true,
    })
  })

  it("is looked for only where git is named, and not in long texts", () => {
    assert.isTrue(mentionsGit({ argv: ["bash", "-lc", "cd x; git status"] }))
    assert.isFalse(mentionsGit({ script: "npm test" }))
    assert.isFalse(mentionsGit({ script: `git status #${"x".repeat(20_000)}` }))
    assert.strictEqual(gitWorkOf({ argv: ["bash", "-lc", "git remote add x y"] }, [], parse)._tag, "known")
  })

  const unknown = [
    "git config core.hooksPath evil",
    "git config user.name x",
    "git remote add x y; ./run",
    "git remote add x y; echo x > .git/config",
    "git remote add x y; echo x >> f",
    "git remote add x y < f",
    "PATH=. git remote add x y",
    "export PATH=.; git remote add x y",
    "for PATH in .; do git remote add x y; done",
    "x=1; git remote add x y",
    "GIT_DIR=x git remote add x y",
    "LANG[$(./run)]=x; git remote add x y",
    "LANG[$(./run)]=x git remote add x y",
    "LANG['$(./run)']=x git remote add x y",
    "LANG['$(./run)']+=x; git remote add x y",
    "export LANG[$(./run)]=x; git remote add x y",
    "export 'LANG[$(./run)]=x'; git remote add x y",
    "LANG['a[$(./run)]']=x; git remote add x y",
    "GIT_AUTHOR_NAME=a PATH=. git remote add x y",
    "GIT_AUTHOR_NAME=a git remote add x y > f",
    'export "$X"; git remote add x y',
    "export GIT_AUTHOR_NAME=a GIT_SSH_COMMAND=x; git remote add x y",
    "export -f git; git remote add x y",
    "GIT_AUTHOR_NAME=(a); git remote add x y",
    "git config --unset remote.x.url y; git remote add x y",
    "git config edit; git remote add x y",
    "git remote add x 'ext::sh -c evil'",
    "git -c core.sshCommand=evil remote add x y",
    "git -c core.fsmonitor=evil submodule update",
    "git --exec-path=. remote add x y",
    "git --git-dir=x remote add x y",
    "git submodule foreach ./run; git remote add x y",
    'git remote add x "$URL"',
    "git remote add x $(./run)",
    "echo `./run`; git remote add x y",
    "echo $((a[$(./run)])); git remote add x y",
    "[[ $(cat f) -eq 1 ]]; git remote add x y",
    "test -v 'a[$(./run)]'; git remote add x y",
    'test -v "$GIT_AUTHOR_NAME"; git remote add x y',
    `echo "\${LANG@P}"; git remote add x y`,
    "printf -v 'a[$(./run)]' x; git remote add x y",
    "eval 'git remote add x y'; git remote add x y",
    "bash -c 'git remote add x y'; git remote add x y",
    "git() { ./run; }; git remote add x y",
    "git fetch --upload-pack=./run; git remote add x y",
    "git push --exec=./run -u x y",
    "git clone -u ./run a b; git remote add x y",
    "git clone --template=t a b; git remote add x y",
    "git clone -c core.fsmonitor=x a b; git remote add x y",
    "git log --output=.git/config; git remote add x y",
    "git rebase -x ./run main; git remote add x y",
    "git worktree add a; git status; ./git remote add x y; git remote add x y",
    "git submodule update; set -- x",
    "git remote add x y & ./run",
    "cat <<E | sh\nx\nE\ngit remote add x y",
    "git remote add x y; sort -o .git/config f",
    "trap ./run EXIT; git remote add x y",
    "git remote add x y; case x in x) ./run;; esac",
    "git remote add x y; (",
  ]
  for (const script of unknown) it(`is not ${script}`, () => assert.strictEqual(work(script), "unknown"))

  it("is not what sets variables that git or a shell obeys", () => {
    for (const name of ["GIT_DIR", "GIT_CONFIG_COUNT", "PATH", "BASH_ENV", "HOME", "LD_PRELOAD", "GIT_SSH_COMMAND"])
      assert.strictEqual(work("git remote add x y", [name]), "unknown", name)
    assert.strictEqual(work("git remote add x y", ["GIT_AUTHOR_NAME", "LC_ALL"]), "known")
  })

  for (const script of [
    "git status",
    "git commit -m x; ./run",
    "git branch",
    "git checkout -- f",
    "npm test",
    "git clone a b",
    "git switch topic; ./run",
    "",
  ])
    it(`has nothing to do with ${script || "an empty script"}`, () => assert.strictEqual(work(script), "none"))
})

const shells = ["bash", "dash"].filter((shell) => spawnSync(shell, ["-c", ":"]).status === 0)
if (shells.length === 0) console.warn("GitWork.test.ts runs no shell: there is neither bash nor dash here")

describe.skipIf(shells.length === 0)("in real shells", { timeout: 120_000 }, () => {
  const pieces = [
    ...["git remote add x y", "git submodule update", "git push -u x y", "git", "remote", "add", "cd lib", "echo", "cat", "test", "[", "]"],
    ...[
      "./run",
      "$(./run)",
      "`./run`",
      "$X",
      '"$X"',
      "'$X'",
      `\${X}`,
      `\${X@P}`,
      "$((X))",
      "[[ $X -eq 1 ]]",
      "((X))",
      "a[$X]=1",
      "-v",
      "-eq",
    ],
    ...[
      ";",
      "&&",
      "||",
      "|",
      "&",
      "\n",
      "(",
      ")",
      "{",
      "}",
      "!",
      "if",
      "then",
      "fi",
      "else",
      "for i in a; do",
      "while",
      "done",
      "case",
      "esac",
    ],
    ...[
      "LANG=",
      "LANG=$X",
      "LC_ALL=x",
      "LANG[$X]=1",
      "export",
      "PATH=.",
      "GIT_AUTHOR_NAME='$(./run)'",
      "eval",
      "git() {",
      "f() {",
      "f",
      "trap",
      "EXIT",
    ],
    ...[
      "'",
      '"',
      "\\",
      "#",
      "<<E",
      "E",
      ">",
      "<",
      "2>&1",
      ">/dev/null",
      "<(./run)",
      "$'\\x2e/run'",
      "*",
      "{./run,x}",
      "~",
      "time",
      "coproc",
      ".",
      "exec",
    ],
    ...[
      "printf",
      "%s",
      "set",
      "-e",
      "--",
      "exit",
      "true",
      "-C",
      "-c",
      "core.pager=./run",
      "user.name=x",
      "-m",
      "ext::./run",
      "../x",
      "-o",
      "sh",
      "read",
    ],
  ]

  it("nothing that is taken for git's own work runs anything else", () => {
    const folder = mkdtempSync(join(tmpdir(), "codespace-gitwork-"))
    try {
      mkdirSync(join(folder, "bin"))
      mkdirSync(join(folder, "lib"))
      for (const [name, text] of [
        ["bin/git", "exit 0"],
        ["run", "touch ran"],
        ["lib/run", "touch ../ran"],
        ["git", "touch ran"],
      ] as const)
        writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
      let state = 7
      const next = (below: number) => {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0
        return (state >>> 8) % below
      }
      let known = 0
      for (let turn = 0; turn < 8000; turn++) {
        const words = Array.from({ length: 1 + next(6) }, () => pieces[next(pieces.length)])
        words.splice(next(words.length + 1), 0, [";", "\n", "&&", ""][next(4)], "git remote add x y", [";", "\n", "||", ""][next(4)])
        const script = words.join(" ")
        if (work(script) !== "known") continue
        known++
        for (const shell of shells) {
          const env = { PATH: `${folder}/bin:/usr/bin:/bin`, X: "a[$(./run)]", LANG: "C" }
          spawnSync(shell, ["-c", script], { cwd: folder, env, stdio: "ignore", timeout: 5000 })
          assert.isFalse(existsSync(join(folder, "ran")), `${shell}: ${JSON.stringify(script)}`)
        }
      }
      assert.isAbove(known, 60)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

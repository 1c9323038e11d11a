import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Unbash from "../../src/layers/Unbash.ts"
import { gitWorkOf } from "../../src/services/GitWork.ts"
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

/** Honest work, as data: what agents run all day, and what it must say. */

export interface Program {
  readonly name: string
  /** Programs it takes; where one is missing it is skipped with that reason. */
  readonly needs: ReadonlyArray<string>
  /** `app` when left out: files may be written, no network. */
  readonly in?: "app" | "tree" | "looped" | "open"
  /** Called one after the other; each must end with exit code 0. */
  readonly scripts: ReadonlyArray<string>
  /** What the last one prints. */
  readonly says: RegExp
}

const me = "git config user.name >/dev/null || export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b"
const git = (text: string): string => `set -e; ${me}; ${text}`

const withGit: ReadonlyArray<Program> = [
  {
    name: "git commits, and shows what it has",
    needs: ["git"],
    scripts: [git("echo 2 > f; git add f; git commit -qm second; git log --oneline | wc -l; git status --porcelain | wc -l")],
    says: /^3\s+0\s*$/u,
  },
  {
    name: "git branches, merges, rebases, stashes and tags",
    needs: ["git"],
    scripts: [
      git(
        "git checkout -qb side; echo s > s; git add s; git commit -qm side; git checkout -q -; echo m > m; git add m; git commit -qm main",
      ),
      git(
        "git checkout -q side; git rebase -q main; git checkout -q main; git merge -q --no-ff -m merge side; git tag v1; echo x >> f; git stash -q; git stash pop -q; git checkout -q f",
      ),
      git(
        "GIT_SEQUENCE_EDITOR=true git rebase -qi --root 2>/dev/null; git gc -q; git fsck 2>&1 | grep -c error || true; git log --oneline | wc -l",
      ),
    ],
    says: /^0\s+5\s*$/u,
  },
  {
    name: "git clones from a path, and commits in the clone",
    needs: ["git"],
    scripts: [
      git(
        "git clone -q . copies/clone; cd copies/clone; echo c > c; git add c; git commit -qm c; git push -q origin HEAD:refs/heads/from-clone; cd ../..; git log -1 --format=%s from-clone; rm -rf copies",
      ),
    ],
    says: /^c\s*$/u,
  },
  {
    name: "git starts a repository of its own, with hooks and configuration",
    needs: ["git"],
    scripts: [
      git(
        "git init -q own; cd own; git config user.email a@b; printf '#!/bin/sh\\necho hooked\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo 1 > f; git add f; git commit -m first; cd ..; rm -rf own",
      ),
    ],
    says: /hooked/u,
  },
  {
    name: "git adds a worktree, works in it, and takes it away",
    needs: ["git"],
    scripts: [
      git("git worktree add -q side; cd side; echo w > w; git add w; git commit -qm w"),
      git("git -C side log --oneline | head -1; git worktree remove side; git worktree list | wc -l"),
    ],
    says: / w\s+1\s*$/u,
  },
  {
    name: "git works in a submodule",
    needs: ["git"],
    scripts: [
      git(
        "cd lib; git checkout -q -b own; echo 1 >> f; git commit -qam in-lib; cd ..; git add lib; git commit -qm moved; git submodule status | wc -l; git submodule foreach --quiet git log --oneline | wc -l",
      ),
    ],
    says: /^1\s+2\s*$/u,
  },
  {
    name: "git adds a submodule, and takes it out of the configuration again",
    needs: ["git"],
    scripts: [
      "git -c protocol.file.allow=always submodule --quiet add ../lib-source vendor/added && git submodule status | head -5",
      git("git commit -qm 'a submodule for the tests'; git -C vendor/added log --oneline | head -1"),
      "git submodule deinit -f vendor/added",
      "git submodule init vendor/added",
      "git -c protocol.file.allow=always submodule update vendor/added && git submodule sync --recursive && cat vendor/added/f",
      "git submodule set-url vendor/added ../elsewhere && git add .gitmodules",
      "git mv vendor/added vendor/moved && git submodule status",
      "git config --get submodule.vendor/added.url; cat vendor/moved/f",
    ],
    says: /elsewhere\s+1\s*$/u,
  },
  {
    name: "git keeps remotes, and what branches follow",
    needs: ["git"],
    scripts: [
      "git init -q --bare -b main /tmp/far.git",
      "git remote add far /tmp/far.git",
      "git push -q -u far main",
      "git checkout -q -b topic far/main",
      "git branch -m topic renamed",
      "git branch -u far/main renamed",
      "git fetch -q far; git checkout -q main; git pull -q --ff-only",
      "git remote rename far away",
      "git remote set-url away ../other",
      "git config --get branch.renamed.remote; git remote get-url away; git branch -D -q renamed; git remote remove away; git remote",
      "git config --get-regexp 'branch|remote.(far|away)' | wc -l",
    ],
    says: /^0\s*$/u,
  },
  {
    name: "git works in a linked worktree whose repository lies elsewhere",
    needs: ["git"],
    in: "tree",
    scripts: [
      git(
        "echo t > t; git add t; git commit -qm tree; git checkout -qb another; git log --oneline | wc -l; git status --porcelain | wc -l",
      ),
    ],
    says: /^2\s+0\s*$/u,
  },
  {
    name: "git adds a submodule in a linked worktree whose repository lies elsewhere",
    needs: ["git"],
    in: "tree",
    scripts: [
      "git -c protocol.file.allow=always submodule --quiet add ../lib-source lib && git remote add up ../up",
      git("git -C lib checkout -qb own; echo 2 > lib/f; git -C lib commit -qam own; git add lib; git commit -qm with-lib"),
      "git submodule deinit -f lib && git submodule init && git submodule status",
      "git config --get remote.up.url; git remote remove up; git log --oneline | head -1",
    ],
    says: /^\.\.\/up\s+\w+ with-lib\s*$/u,
  },
]

const serve = `require('http').createServer((q, r) => r.end('hello')).listen(0, '127.0.0.1', function () { require('http').get({ port: this.address().port }, (r) => r.on('data', (d) => { console.log(String(d)); process.exit() })) })`

const languages: ReadonlyArray<Program> = [
  {
    name: "npm runs the tests of a package with its dependencies",
    needs: ["npm", "node"],
    scripts: ["npm test --silent"],
    says: /parsed 2[\s\S]*pass 1/u,
  },
  {
    name: "node forks with a channel, and starts threads",
    needs: ["node"],
    scripts: [
      `node -e "const c = require('child_process').fork('child.cjs'); c.on('message', (m) => { new (require('worker_threads').Worker)('console.log(6 * 7)', { eval: true }).on('exit', () => console.log(m)) })"`,
    ],
    says: /42\s+from the child/u,
  },
  { name: "node serves itself on loopback", needs: ["node"], scripts: [`node -e "${serve}"`], says: /^hello\s*$/u },
  {
    name: "python's asyncio wakes its threads and runs programs",
    needs: ["python3"],
    scripts: [
      "python3 -c \"import asyncio, time\nasync def main():\n    loop = asyncio.get_running_loop()\n    begun = time.monotonic()\n    await loop.run_in_executor(None, time.sleep, 0.05)\n    p = await asyncio.create_subprocess_exec('echo', 'child', stdout=asyncio.subprocess.PIPE)\n    out, _ = await p.communicate()\n    server = await asyncio.start_server(lambda r, w: (w.write(b'served'), w.close()), '127.0.0.1', 0)\n    r, w = await asyncio.open_connection('127.0.0.1', server.sockets[0].getsockname()[1])\n    print(out.decode().strip(), (await r.read()).decode(), time.monotonic() - begun < 2.5)\nasyncio.run(main())\"",
    ],
    says: /^child served True\s*$/u,
  },
  { name: "python's multiprocessing has its pool", needs: ["python3"], scripts: ["python3 pool.py"], says: /^\[0, 1, 4, 9\]\s*$/u },
  {
    name: "python keeps a database and temporary files",
    needs: ["python3"],
    scripts: [
      "python3 -c \"import sqlite3, tempfile\nwith tempfile.TemporaryDirectory() as d:\n    c = sqlite3.connect(d + '/db')\n    c.execute('create table t (x)'); c.execute('insert into t values (7)'); c.commit()\n    print(c.execute('select x from t').fetchone()[0])\"",
    ],
    says: /^7\s*$/u,
  },
  {
    name: "make compiles a program with gcc, which runs",
    needs: ["make", "gcc"],
    scripts: ["make -s && ./hello", "make -s clean && ls *.o 2>/dev/null | wc -l"],
    says: /^0\s*$/u,
  },
  {
    name: "cargo builds and runs, offline",
    needs: ["cargo"],
    scripts: ["cd crate && cargo run -q --offline; status=$?; rm -rf target Cargo.lock; exit $status"],
    says: /hello from rust/u,
  },
]

const shells: ReadonlyArray<Program> = [
  {
    name: "mktemp makes files and folders",
    needs: ["mktemp"],
    scripts: [
      'set -e; a=$(mktemp); b=$(mktemp -d); echo 1 > "$a"; echo 2 > "$b/f"; cat "$a" "$b/f"; case "$a" in "$TMPDIR"/*) echo in TMPDIR;; esac',
    ],
    says: /^1\s+2\s+in TMPDIR\s*$/u,
  },
  {
    name: "ps shows what runs beside it, and nothing of the host",
    needs: ["ps"],
    scripts: [
      "sleep 5 & until ps -e -o comm= | grep -qx sleep; do :; done; ps -e -o comm= | sort | uniq | grep -c -E '^(sleep|ps)$'; ps -e -o comm= | grep -c -E '^(vitest|systemd|init)$' || true; kill $!",
    ],
    says: /^2\s+0\s*$/u,
  },
  {
    name: "pipes, here-documents and process substitution",
    needs: ["bash"],
    scripts: ["bash -c 'diff <(printf \"1\\n2\\n\") <(cat <<E\n1\n2\nE\n) && yes | head -2 | wc -l'"],
    says: /^2\s*$/u,
  },
  {
    name: "output by its device names",
    needs: ["sh"],
    scripts: [
      "echo out >> /dev/stdout; echo err >> /dev/stderr; echo nothing > /dev/null; head -c 4 /dev/urandom | wc -c; : > /dev/tty 2>/dev/null || echo no terminal",
    ],
    says: /out\s+err\s+4\s[\s\S]*no terminal/u,
  },
  {
    name: "tar, find, sort and large files",
    needs: ["tar", "find"],
    scripts: [
      "set -e; mkdir big; head -c 3000000 /dev/zero > big/z; tar cf big.tar big; tar tf big.tar | wc -l; find big -type f -size +2M | wc -l; rm -rf big big.tar",
    ],
    says: /^2\s+1\s*$/u,
  },
]

export const honest: ReadonlyArray<Program> = [...withGit, ...languages, ...shells]

/** What these need in their folder. */
export const files: Readonly<Record<string, string>> = {
  f: "1\n",
  ".gitignore": "node_modules/\n",
  "package.json": JSON.stringify({
    name: "honest",
    private: true,
    type: "module",
    scripts: { test: "node --test --test-reporter=spec" },
    dependencies: { "jsonc-parser": "*" },
  }),
  "test/parse.test.mjs": `import test from "node:test"\nimport { parse } from "jsonc-parser"\ntest("parses", () => console.log("parsed", parse("{ \\"a\\": 2, } // comment").a))\n`,
  "child.cjs": "process.send('from the child')\n",
  "pool.py":
    "from multiprocessing import Pool\n\ndef square(x):\n    return x * x\n\nif __name__ == '__main__':\n    with Pool(2) as pool:\n        print(pool.map(square, range(4)))\n",
  Makefile: "hello: hello.o\n\tgcc -o hello hello.o\nhello.o: hello.c\n\tgcc -c hello.c\nclean:\n\trm -f hello hello.o\n",
  "hello.c": '#include <stdio.h>\nint main(void) { puts("hello from c"); return 0; }\n',
  "crate/Cargo.toml": '[package]\nname = "honest"\nversion = "0.1.0"\nedition = "2021"\n',
  "crate/src/main.rs": 'fn main() { println!("hello from rust"); }\n',
}

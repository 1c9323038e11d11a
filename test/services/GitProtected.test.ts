/** What makes git run programs cannot be written by any tool, in any git folder that a workspace can hold. Real repositories. */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Result } from "effect"
import type { PatchIntent, PatchRefusal } from "../../src/services/PatchTransaction.ts"
import { patchOf } from "../support/ChangePatch.ts"
import { openFiles } from "../support/Looking.ts"
import { openTransaction } from "../support/Patching.ts"
import { readTree, temporaryFolder, writeTree } from "../support/Tree.ts"

const identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
const git = (cwd: string, ...args: ReadonlyArray<string>) => execFileSync("git", [...identity, ...args], { cwd, stdio: "pipe" })

/** A repository with all that can hang on one: nested, submodule, worktree, a git folder elsewhere, behind a link, and a bare one. */
const makeRepositories = (root: string): void => {
  writeTree(root, { "source/f": "1\n", "app/f": "1\n", "app/stores/k": "" })
  git(root, "init", "-q", "source")
  git(join(root, "source"), "add", ".")
  git(join(root, "source"), "commit", "-qm", "first")
  const app = join(root, "app")
  git(app, "init", "-q")
  git(app, "submodule", "--quiet", "add", join(root, "source"), "lib")
  git(app, "add", ".")
  git(app, "commit", "-qm", "first")
  git(app, "worktree", "add", "-q", "side")
  git(app, "init", "-q", "vendor/nested")
  git(app, "init", "-q", "--separate-git-dir", "stores/apart.d", "apart")
  git(app, "init", "-q", "linked")
  execFileSync("mv", ["linked/.git", "stores/linked.d"], { cwd: app })
  symlinkSync("../stores/linked.d", join(app, "linked/.git"))
  git(app, "init", "-q", "--bare", "stores/bare.git")
}

const folders = [
  ".git",
  ".git/modules/lib",
  ".git/worktrees/side",
  "vendor/nested/.git",
  "stores/apart.d",
  "stores/linked.d",
  "stores/bare.git",
]
const closed = [
  ...folders.flatMap((folder) =>
    ["config", "config.worktree", "commondir", "hooks/pre-commit", "hooks/deep/er"].map((name) => `${folder}/${name}`),
  ),
  "linked/.git/hooks/pre-commit",
  "linked/.git/config",
  ".git",
  "side/.git",
  "lib/.git",
  "apart/.git",
  "new/.git",
  "new/.git/hooks/pre-push",
  "new/.git/config",
  "f/../.git/config",
  "./.git//config",
  ".GIT/config",
  ".git/Hooks/pre-commit",
  "stores/bare.git/HOOKS/x",
]

/** Every way to change a path. `f` is a file that may be changed. */
const ways = (path: string): ReadonlyArray<readonly [string, PatchIntent]> => [
  ["write", { kind: "write", path, content: "x" }],
  ["edit", { kind: "edit", path, edits: [{ old: "a", new: "b" }] }],
  ["add", patchOf(`*** Add File: ${path}\n+x`)],
  ["update", patchOf(`*** Update File: ${path}\n@@\n-a\n+b`)],
  ["delete", patchOf(`*** Delete File: ${path}`)],
  ["move away", patchOf(`*** Update File: ${path}\n*** Move to: away`)],
  ["move here", patchOf(`*** Update File: f\n*** Move to: ${path}`)],
  ["unified", { kind: "patch", patch: `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x\n` }],
]

const codeOf = <A>(result: Result.Result<A, PatchRefusal>): string => (result._tag === "Failure" ? result.failure._tag : "applied")

describe("git's hooks and configuration", () => {
  it.live("are closed to every tool in every git folder, and nothing in them changes", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      makeRepositories(root)
      const app = join(root, "app")
      const transaction = yield* openTransaction(app)
      const before = readTree(app)
      for (const path of closed)
        for (const [way, intent] of ways(path)) {
          const code = codeOf(yield* Effect.result(transaction.apply(intent)))
          assert.oneOf(code, ["PATH_PROTECTED", "SYMLINK_REJECTED"], `${way} ${path}`)
        }
      assert.deepStrictEqual(readTree(app), before)
    }).pipe(Effect.scoped),
  )

  it.live("can be read, and what only has such a name can be written", () =>
    Effect.gen(function* () {
      const everything = [{ glob: "**", access: "write" }] as const
      const { files, folder } = yield* openFiles({ f: "1\n", "config/app": "a\n", "hooks/use.ts": "a\n" }, { files: everything })
      git(folder, "init", "-q")
      assert.include((yield* files.read({ path: ".git/config" })).result.text ?? "", "[core]")
      const transaction = yield* openTransaction(folder)
      for (const path of ["config/app", "hooks/use.ts", "src/config", "src/hooks/x", ".git/info/exclude", ".git/description"])
        yield* transaction.apply({ kind: "write", path, content: "b\n" })
      assert.strictEqual(readFileSync(join(folder, "src/hooks/x"), "utf8"), "b\n")
    }).pipe(Effect.scoped),
  )

  it.live("a workspace that is a git folder itself has them closed too", () =>
    Effect.gen(function* () {
      const root = yield* temporaryFolder
      git(root, "init", "-q", "--bare", ".")
      const transaction = yield* openTransaction(root)
      for (const path of ["config", "hooks/pre-receive"])
        assert.strictEqual(codeOf(yield* Effect.result(transaction.apply({ kind: "write", path, content: "x" }))), "PATH_PROTECTED")
      assert.isFalse(existsSync(join(root, "hooks/pre-receive")))
    }).pipe(Effect.scoped),
  )
})

import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result } from "effect"
import * as NodeDisk from "../../src/layers/NodeDisk.ts"
import type { FileRule } from "../../src/schema/Policy.ts"
import { ConfinedPath } from "../../src/schema/Workspace.ts"
import { Disk, DiskFault } from "../../src/services/Disk.ts"
import { confine, type ResolveRefusal, Workspace } from "../../src/services/Workspace.ts"
import { temporaryFolder, writeTree } from "../support/Tree.ts"
import { settingsOf } from "../support/WorkspaceSettings.ts"

const writable: FileRule = { glob: "**", access: "write" }

const openAt = (root: string, files: ReadonlyArray<FileRule>, disk: Layer.Layer<Disk> = NodeDisk.layer) =>
  Layer.build(Workspace.layer(settingsOf(root, files)).pipe(Layer.provide(disk))).pipe(
    Effect.map((context) => Context.get(context, Workspace)),
  )

const opened = Effect.fnUntraced(function* (tree: Parameters<typeof writeTree>[1], files: ReadonlyArray<FileRule> = [writable]) {
  const outer = yield* temporaryFolder
  const folder = join(outer, "proj")
  fs.mkdirSync(folder)
  writeTree(folder, tree)
  return { outer, folder, workspace: yield* openAt(folder, files) }
})

const codeOf = (effect: Effect.Effect<unknown, ResolveRefusal>) =>
  Effect.match(effect, { onSuccess: (path) => path, onFailure: ({ _tag }) => _tag })

describe("confine", () => {
  const roots = ["/w/proj", "/link/to/proj/"]
  const cases: Record<string, string> = {
    "a/b": "a/b",
    "./a//b/": "a/b",
    "a/../b/./c": "b/c",
    ".": "",
    "a/..": "",
    "/w/proj": "",
    "/w/proj/": "",
    "/w/proj/a": "a",
    "/link/to/proj": "",
    "/link/to/proj/a/../b": "b",
    "..a/...": "..a/...",
    "a b/ü": "a b/ü",
  }
  for (const [written, expected] of Object.entries(cases))
    it(`"${written}" is "${expected}"`, () => assert.strictEqual(Result.getOrThrow(confine(roots, written)), expected))

  for (const written of ["..", "../x", "a/../../b", "/", "/etc/passwd", "/w/proj-secret/k.txt", "/w/proj/../other", "/w", "", "a\0b"])
    it(`"${written}" leaves`, () => assert.strictEqual(Result.getOrThrow(Result.flip(confine(roots, written)))._tag, "PATH_ESCAPE"))

  it("takes the root of the file system as a root", () => assert.strictEqual(Result.getOrThrow(confine(["/"], "/etc/x")), "etc/x"))
})

describe("Workspace", () => {
  it.live("reads by relative, absolute and linked spelling of the root", () =>
    Effect.gen(function* () {
      const { outer, folder } = yield* opened({ "a/f": "1" })
      fs.symlinkSync("proj", join(outer, "linked"))
      const workspace = yield* openAt(join(outer, "linked"), [writable])
      for (const written of ["a/f", join(folder, "a/f"), join(outer, "linked/a/f"), "./a/../a/f"])
        assert.strictEqual(yield* workspace.resolveRead(written), "a/f", written)
      assert.strictEqual(workspace.root.path, fs.realpathSync(folder))
    }),
  )

  it.live("lets nothing out: siblings, parents, links", () =>
    Effect.gen(function* () {
      const { outer, folder, workspace } = yield* opened({ "in/f": "1" })
      writeTree(outer, { "proj-secret/k.txt": "secret" })
      fs.symlinkSync("/etc/passwd", join(folder, "passwd"))
      fs.symlinkSync("../proj-secret", join(folder, "parent"))
      fs.symlinkSync("in/../../proj-secret/k.txt", join(folder, "dots"))
      for (const written of [join(outer, "proj-secret/k.txt"), "../proj-secret/k.txt", "passwd", "parent/k.txt", "dots", "parent"])
        assert.strictEqual(yield* codeOf(workspace.resolveRead(written)), "PATH_ESCAPE", written)
      const refusal = yield* Effect.flip(workspace.resolveRead("parent/k.txt"))
      assert.notInclude(refusal.message, "secret/")
    }),
  )

  it.live("follows links for reads, to what they name inside", () =>
    Effect.gen(function* () {
      const { folder, workspace } = yield* opened({ "real/deep/f": "1", "real/g": "2", top: "3" })
      fs.symlinkSync("real/deep", join(folder, "short"))
      fs.symlinkSync(join(folder, "real/g"), join(folder, "absolute"))
      fs.symlinkSync("short", join(folder, "again"))
      // Seen from where it leads, `..` is `real`, not the root.
      fs.symlinkSync("short/../g", join(folder, "dots"))
      assert.strictEqual(yield* workspace.resolveRead("short/f"), "real/deep/f")
      assert.strictEqual(yield* workspace.resolveRead("absolute"), "real/g")
      assert.strictEqual(yield* workspace.resolveRead("again/f"), "real/deep/f")
      assert.strictEqual(yield* workspace.resolveRead("dots"), "real/g")
      assert.strictEqual(yield* workspace.resolveFolder("again"), "real/deep")
      fs.symlinkSync("round", join(folder, "round"))
      fs.symlinkSync("nowhere", join(folder, "dangling"))
      assert.strictEqual(yield* codeOf(workspace.resolveRead("round")), "SYMLINK_REJECTED")
      assert.strictEqual(yield* codeOf(workspace.resolveRead("dangling")), "PATH_NOT_FOUND")
      assert.strictEqual(yield* codeOf(workspace.resolveRead("short/none")), "PATH_NOT_FOUND")
    }),
  )

  it.live("writes through no link, onto no folder or special file", () =>
    Effect.gen(function* () {
      const { folder, workspace } = yield* opened({ "a/f": "1" })
      fs.symlinkSync("a", join(folder, "through"))
      fs.symlinkSync("f", join(folder, "a/leaf"))
      execFileSync("mkfifo", [join(folder, "pipe")])
      assert.strictEqual(yield* workspace.resolveWrite("a/f"), "a/f")
      assert.strictEqual(yield* workspace.resolveWrite("new/deep/f"), "new/deep/f")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("through/f")), "SYMLINK_REJECTED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("through/new")), "SYMLINK_REJECTED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("a/leaf")), "SYMLINK_REJECTED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("pipe")), "SPECIAL_FILE_REJECTED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("a")), "NOT_A_FILE")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite(".")), "NOT_A_FILE")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("../f")), "PATH_ESCAPE")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite(".git/hooks/pre-commit")), "PATH_PROTECTED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("nested/.git/config")), "PATH_PROTECTED")
    }),
  )

  it.live("holds the profile: what is denied is not read, also through a link", () =>
    Effect.gen(function* () {
      const { folder, workspace } = yield* opened({ ".env": "secret", "src/a": "1", ".git/config": "" }, [
        { glob: "src/**", access: "write" },
        { glob: "**/.env*", access: "deny" },
      ])
      fs.symlinkSync(".env", join(folder, "innocent"))
      assert.strictEqual(yield* codeOf(workspace.resolveRead(".env")), "POLICY_DENIED")
      assert.strictEqual(yield* codeOf(workspace.resolveRead("innocent")), "POLICY_DENIED")
      assert.strictEqual(yield* codeOf(workspace.resolveRead("none/.env")), "POLICY_DENIED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("other")), "POLICY_DENIED")
      assert.strictEqual(yield* codeOf(workspace.resolveWrite("src/.env")), "POLICY_DENIED")
      assert.strictEqual(yield* workspace.resolveWrite("src/b"), "src/b")
      assert.strictEqual(yield* workspace.resolveRead(".git/config"), ".git/config")
      assert.deepStrictEqual(
        [".env", "a/.env.local", "src/a"].map((path) => workspace.canRead(ConfinedPath.make(path))),
        [false, false, true],
      )
    }),
  )

  it.live("says what was probably meant, and nothing that is denied", () =>
    Effect.gen(function* () {
      const { workspace } = yield* opened(
        { "src/main.ts": "", "src/mains.tsx": "", "src/caf\u00e9": "", "src/no\u00a0break": "", "src/main.key": "" },
        [writable, { glob: "**/*.key", access: "deny" }],
      )
      const similar = (written: string) =>
        Effect.map(Effect.flip(workspace.resolveRead(written)), (refusal) =>
          refusal._tag === "PATH_NOT_FOUND" ? (refusal.similar ?? []) : refusal._tag,
        )
      assert.deepStrictEqual(yield* similar("src/mian.ts"), ["src/main.ts"])
      assert.deepStrictEqual(yield* similar("scr/main.ts"), ["src/main.ts"])
      assert.deepStrictEqual(yield* similar("src/Main.TS"), ["src/main.ts", "src/mains.tsx"])
      assert.deepStrictEqual(yield* similar("src/no break"), ["src/no\u00a0break"])
      assert.deepStrictEqual(yield* similar("src/cafe\u0301"), ["src/caf\u00e9"])
      assert.deepStrictEqual(yield* similar("src/main.kee"), [])
      assert.deepStrictEqual(yield* similar("src/nothing-like-it"), [])
      assert.strictEqual(yield* workspace.resolveRead("src/no\u00a0break"), "src/no\u00a0break")
    }),
  )

  it.live("finds folders for commands", () =>
    Effect.gen(function* () {
      const { folder, workspace } = yield* opened({ "a/f": "1" })
      assert.strictEqual(yield* workspace.resolveFolder("a"), "a")
      assert.strictEqual(yield* workspace.resolveFolder("."), "")
      assert.strictEqual(yield* workspace.resolveFolder(folder), "")
      assert.strictEqual(yield* codeOf(workspace.resolveFolder("a/f")), "PATH_NOT_FOUND")
      assert.strictEqual(yield* codeOf(workspace.resolveFolder("none")), "PATH_NOT_FOUND")
      assert.strictEqual(yield* codeOf(workspace.resolveFolder("..")), "PATH_ESCAPE")
    }),
  )

  it.live("puts faults of the disk into words, and fails to open what is not there", () =>
    Effect.gen(function* () {
      const { outer, folder } = yield* opened({ f: "1" })
      for (const [code, expected] of [
        ["EIO", "RUNNER_UNAVAILABLE"],
        ["EACCES", "PATH_PROTECTED"],
        ["ENOSPC", "STORAGE_FULL"],
      ] as const) {
        const broken = Layer.effect(
          Disk,
          Effect.map(Disk, (disk) =>
            Disk.of({
              open: (root) =>
                Effect.map(disk.open(root), (real) => ({
                  ...real,
                  stat: (path) => Effect.fail(new DiskFault({ operation: "stat", path, code })),
                })),
            }),
          ),
        ).pipe(Layer.provide(NodeDisk.layer))
        const workspace = yield* openAt(folder, [writable], broken)
        assert.strictEqual(yield* codeOf(workspace.resolveRead("f")), expected)
        assert.strictEqual(yield* codeOf(workspace.resolveWrite("f")), expected)
      }
      assert.strictEqual((yield* Effect.flip(openAt(join(outer, "none"), [writable]))).code, "ENOENT")
    }),
  )
})

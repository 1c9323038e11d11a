/** What every disk is held to: real files, no link followed, no descriptor left open. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, type Layer, Scope } from "effect"
import { ConfinedPath } from "../../src/schema/Workspace.ts"
import { Disk, DiskFault, type Root, refusalOf } from "../../src/services/Disk.ts"
import { readTree, temporaryFolder, writeTree } from "../support/Tree.ts"

const at = (path: string) => ConfinedPath.make(path)
const bytes = (text: string) => Buffer.from(text, "latin1")
const textOf = (data: Uint8Array) => Buffer.from(data).toString("latin1")
const descriptors = () => fs.readdirSync("/proc/self/fd").length
const tagOf = (effect: Effect.Effect<unknown, { readonly _tag: string }, Scope.Scope>) =>
  Effect.map(Effect.flip(effect), ({ _tag }) => _tag)

export const diskContract = (name: string, layer: Layer.Layer<Disk>): void => {
  const opened = (files: Parameters<typeof writeTree>[1] = {}) =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      writeTree(folder, files)
      const root = yield* (yield* Disk).open(folder)
      return { folder, root }
    }).pipe(Effect.provide(layer))

  describe(name, () => {
    it.live("knows files, folders, links and special files apart", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened({ "a/file.txt": { text: "12345", mode: 0o640 } })
        fs.symlinkSync("file.txt", join(folder, "a/link"))
        execFileSync("mkfifo", [join(folder, "a/pipe")])
        const file = yield* root.stat(at("a/file.txt"))
        const real = fs.statSync(join(folder, "a/file.txt"))
        assert.deepStrictEqual(file, { kind: "file", size: 5, mode: 0o640, links: 1, device: real.dev, inode: real.ino })
        assert.strictEqual((yield* root.stat(at("a/link")))?.kind, "symlink")
        assert.strictEqual((yield* root.stat(at("a/pipe")))?.kind, "special")
        assert.strictEqual((yield* root.stat(at("a")))?.kind, "directory")
        assert.strictEqual((yield* root.stat(at("")))?.kind, "directory")
        assert.strictEqual(yield* root.stat(at("a/none")), undefined)
        assert.strictEqual(yield* root.stat(at("none/none")), undefined)
        assert.strictEqual(yield* root.stat(at("a/file.txt/below")), undefined)
        assert.strictEqual(yield* root.readLink(at("a/link")), "file.txt")
        const listed = yield* root.list(at("a"))
        assert.deepStrictEqual(
          [...listed].sort((one, other) => (one.name < other.name ? -1 : 1)),
          [
            { name: "file.txt", kind: "file" },
            { name: "link", kind: "symlink" },
            { name: "pipe", kind: "special" },
          ],
        )
        assert.deepStrictEqual(yield* root.list(at("")), [{ name: "a", kind: "directory" }])
      }),
    )

    it.live("resolves links in the root's own path once", () =>
      Effect.gen(function* () {
        const { folder } = yield* opened({ "real/f": "x" })
        fs.symlinkSync("real", join(folder, "linked"))
        const root = yield* (yield* Disk).open(join(folder, "linked"))
        assert.strictEqual(root.path, fs.realpathSync(join(folder, "real")))
        assert.strictEqual(textOf((yield* root.readFile(at("f"))).bytes), "x")
      }).pipe(Effect.provide(layer)),
    )

    it.live("reports a root that is not there, or no folder", () =>
      Effect.gen(function* () {
        const { folder } = yield* opened({ file: "x" })
        const disk = yield* Disk
        assert.strictEqual((yield* Effect.flip(disk.open(join(folder, "none")))).code, "ENOENT")
        assert.strictEqual((yield* Effect.flip(disk.open(join(folder, "file")))).code, "ENOTDIR")
      }).pipe(Effect.provide(layer)),
    )

    it.live("reads whole files and parts of open ones", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened({ "a/b/f": "0123456789", empty: "" })
        assert.strictEqual(textOf((yield* root.readFile(at("a/b/f"))).bytes), "0123456789")
        assert.strictEqual((yield* root.readFile(at("empty"))).bytes.length, 0)
        const file = yield* root.open(at("a/b/f"))
        fs.renameSync(join(folder, "a/b/f"), join(folder, "moved"))
        writeTree(folder, { "a/b/f": "another" })
        assert.strictEqual(textOf(yield* file.read(3, 4)), "3456")
        assert.strictEqual(textOf(yield* file.read(8, 100)), "89")
        assert.strictEqual((yield* file.read(10, 5)).length, 0)
      }),
    )

    it.live("never waits for a pipe, and opens no device or socket", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened()
        execFileSync("mkfifo", [join(folder, "pipe")])
        const server = createServer()
        yield* Effect.acquireRelease(
          Effect.callback<void>((resume) => void server.listen(join(folder, "socket"), () => resume(Effect.void))),
          () => Effect.sync(() => server.close()),
        )
        for (const name of ["pipe", "socket"]) {
          const file = yield* root.open(at(name))
          assert.strictEqual(file.entry.kind, "special")
          assert.strictEqual((yield* Effect.flip(file.read(0, 1))).code, "EINVAL")
          assert.strictEqual((yield* root.readFile(at(name))).entry.kind, "special")
        }
      }).pipe(Effect.timeout("5 seconds")),
    )

    it.live("creates with the mode asked for, whatever the umask says", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened({ "a/b/there": "old" })
        yield* root.createFile(at("a/b/f"), bytes("new"), 0o777)
        yield* root.createFile(at("secret"), bytes("s"), 0o400)
        assert.deepStrictEqual(readTree(folder), {
          a: "dir",
          "a/b": "dir",
          "a/b/f": "777 new",
          "a/b/there": "644 old",
          secret: "400 s",
        })
        const failure = yield* Effect.flip(root.createFile(at("a/b/there"), bytes("x"), 0o644))
        assert.deepStrictEqual([failure._tag, failure instanceof DiskFault && failure.code], ["DiskFault", "EEXIST"])
        assert.strictEqual(readTree(folder)["a/b/there"], "644 old")
      }),
    )

    it.live("makes, renames, links and removes", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened({ "a/f": "1", "b/g": "2" })
        yield* root.makeDirectory(at("c"))
        yield* root.rename(at("a/f"), at("c/f"))
        yield* root.link(at("c/f"), at("a/second"))
        yield* root.rename(at("b/g"), at("a/second"))
        yield* root.removeDirectory(at("b"))
        assert.deepStrictEqual(readTree(folder, { modes: false }), { a: "dir", "a/second": "2", c: "dir", "c/f": "1" })
        yield* root.unlink(at("c/f"))
        yield* root.removeDirectory(at("c"))
        assert.deepStrictEqual(Object.keys(readTree(folder)), ["a", "a/second"])
        const full = yield* Effect.flip(root.removeDirectory(at("a")))
        assert.strictEqual(full instanceof DiskFault && full.code, "ENOTEMPTY")
      }),
    )

    it.live("moves and links files between two roots, and follows no link in either", () =>
      Effect.gen(function* () {
        const here = yield* opened({ "a/f": "1" })
        const there = yield* opened({ "b/g": "2" })
        yield* here.root.link(at("a/f"), at("b/second"), there.root)
        yield* here.root.rename(at("a/f"), at("b/g"), there.root)
        assert.deepStrictEqual(readTree(here.folder), { a: "dir" })
        assert.deepStrictEqual(readTree(there.folder), { b: "dir", "b/g": "644 1", "b/second": "644 1" })
        fs.symlinkSync("b", join(there.folder, "linked"))
        writeTree(here.folder, { f: "3" })
        const refused = yield* Effect.flip(here.root.rename(at("f"), at("linked/f"), there.root))
        assert.deepInclude(refused, { _tag: "SYMLINK_REJECTED", component: "linked" })
        const missing = yield* Effect.flip(here.root.link(at("none"), at("b/new"), there.root))
        assert.deepInclude(missing, { _tag: "PATH_NOT_FOUND", path: "none" })
        const nowhere = yield* Effect.flip(here.root.rename(at("f"), at("none/f"), there.root))
        assert.deepInclude(nowhere, { _tag: "PATH_NOT_FOUND", path: "none/f" })
        assert.strictEqual(readTree(here.folder)["f"], "644 3")
      }),
    )

    it.live("writes what outlasts a power cut, and says what it made", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened({ "a/f": "1" })
        const made = yield* root.createFile(at("a/new"), bytes("12345"), 0o640, true)
        yield* root.syncDirectory(at("a"))
        yield* root.syncDirectory(at(""))
        assert.deepStrictEqual(made, (yield* root.stat(at("a/new"))) ?? made)
        assert.deepInclude(made, { kind: "file", size: 5, mode: 0o640, inode: fs.statSync(join(folder, "a/new")).ino })
        assert.strictEqual(yield* tagOf(root.syncDirectory(at("none"))), "PATH_NOT_FOUND")
        yield* root.makeDirectory(at("closed"), 0o700)
        assert.strictEqual(fs.statSync(join(folder, "closed")).mode & 0o777, 0o700)
      }),
    )

    it.live("says what is wrong with a path", () =>
      Effect.gen(function* () {
        const { root } = yield* opened({ "a/f": "1" })
        assert.strictEqual(yield* tagOf(root.readFile(at("a/none"))), "PATH_NOT_FOUND")
        assert.strictEqual(yield* tagOf(root.open(at("a/f/below"))), "PATH_NOT_FOUND")
        assert.strictEqual(yield* tagOf(root.list(at("none"))), "PATH_NOT_FOUND")
        assert.strictEqual(yield* tagOf(root.list(at("a/f"))), "PATH_NOT_FOUND")
        assert.strictEqual(yield* tagOf(root.createFile(at("none/f"), bytes(""), 0o644)), "PATH_NOT_FOUND")
        assert.strictEqual(yield* tagOf(root.unlink(at("a/none"))), "PATH_NOT_FOUND")
        assert.strictEqual(yield* tagOf(root.readFile(at("a"))), "NOT_A_FILE")
        assert.strictEqual(yield* tagOf(root.open(at(""))), "NOT_A_FILE")
        const missing = yield* Effect.flip(root.rename(at("a/none"), at("a/new")))
        assert.strictEqual(missing._tag === "PATH_NOT_FOUND" && missing.path, "a/none")
        const nowhere = yield* Effect.flip(root.rename(at("a/f"), at("none/new")))
        assert.strictEqual(nowhere._tag === "PATH_NOT_FOUND" && nowhere.path, "none/new")
      }),
    )

    it.live("follows no link in any component, for any operation", () =>
      Effect.gen(function* () {
        const { folder, root } = yield* opened({ "a/b/c/f": "1", "outside/f": "secret" })
        fs.symlinkSync("../outside", join(folder, "a/through"))
        fs.symlinkSync("../outside/f", join(folder, "a/leaf"))
        fs.symlinkSync("../../outside", join(folder, "a/b/deep"))
        const before = readTree(folder)
        const attempts: Record<string, Effect.Effect<unknown, { readonly _tag: string }, Scope.Scope>> = {
          stat: root.stat(at("a/through/f")),
          list: root.list(at("a/through")),
          "list below": root.list(at("a/b/deep/x")),
          readLink: root.readLink(at("a/through/f")),
          open: root.open(at("a/through/f")),
          "open deep": root.open(at("a/b/deep/f")),
          "open leaf": root.open(at("a/leaf")),
          readFile: root.readFile(at("a/through/f")),
          "readFile leaf": root.readFile(at("a/leaf")),
          create: root.createFile(at("a/through/new"), bytes("x"), 0o644),
          makeDirectory: root.makeDirectory(at("a/b/deep/new")),
          removeDirectory: root.removeDirectory(at("a/through/f")),
          "rename from": root.rename(at("a/through/f"), at("a/new")),
          "rename to": root.rename(at("a/b/c/f"), at("a/through/new")),
          link: root.link(at("a/b/c/f"), at("a/through/new")),
          "link a link": root.link(at("a/leaf"), at("a/new")),
          unlink: root.unlink(at("a/through/f")),
        }
        for (const [operation, attempt] of Object.entries(attempts))
          assert.strictEqual(yield* tagOf(attempt), "SYMLINK_REJECTED", operation)
        const failure = yield* Effect.flip(root.readFile(at("a/through/f")))
        assert.strictEqual(failure._tag === "SYMLINK_REJECTED" && failure.component, "a/through")
        // A leaf that is a link is in the way of a new file, like any other name.
        const taken = yield* Effect.flip(root.createFile(at("a/leaf"), bytes("x"), 0o644))
        assert.strictEqual(taken instanceof DiskFault && taken.code, "EEXIST")
        assert.deepStrictEqual(readTree(folder), before)
      }),
    )

    it.live("takes no path that is not in normal form", () =>
      Effect.gen(function* () {
        const { root } = yield* opened({ "a/f": "1" })
        for (const path of ["..", "a/../a/f", "./a/f", "/a/f", "a//f", "a/f/", ".", "a\0"]) {
          const failure = yield* Effect.flip(root.readFile(at(path)))
          assert.strictEqual(failure instanceof DiskFault && failure.code, "EINVAL", path)
        }
      }),
    )

    it.live("puts a fault of the system into words", () =>
      Effect.gen(function* () {
        const { root } = yield* opened()
        const long = yield* Effect.flip(root.createFile(at("x".repeat(300)), bytes(""), 0o644))
        assert.strictEqual(long instanceof DiskFault && long.code, "ENAMETOOLONG")
        const tags = ["ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EIO"].map(
          (code) => refusalOf(new DiskFault({ operation: "create", path: "f", code }))._tag,
        )
        const words = ["STORAGE_FULL", "STORAGE_FULL", "PATH_PROTECTED", "PATH_PROTECTED", "PATH_PROTECTED", "RUNNER_UNAVAILABLE"]
        assert.deepStrictEqual<ReadonlyArray<string>>(tags, words)
      }),
    )

    it.live("leaves no descriptor open, and refuses to work after its end", () =>
      Effect.gen(function* () {
        const folder = yield* temporaryFolder
        writeTree(folder, { "a/b/f": "1" })
        fs.symlinkSync("b", join(folder, "a/link"))
        execFileSync("mkfifo", [join(folder, "pipe")])
        const before = descriptors()
        const scope = yield* Scope.make()
        const root: Root = yield* (yield* Disk).open(folder).pipe(Scope.provide(scope))
        for (let round = 0; round < 20; round++) {
          yield* Effect.scoped(root.open(at("a/b/f")))
          yield* Effect.exit(Effect.scoped(root.open(at("a/b"))))
          yield* Effect.exit(Effect.scoped(root.open(at("a/link"))))
          yield* Effect.scoped(root.open(at("pipe")))
          yield* Effect.exit(root.readFile(at("a/link/f")))
          yield* Effect.exit(root.readFile(at("a/b/none/none")))
          yield* Effect.exit(root.list(at("a/b/f")))
          yield* root.list(at("a/b"))
          yield* Effect.exit(root.createFile(at("a/b/f"), bytes("x"), 0o644))
          yield* Effect.exit(root.rename(at("a/b/f"), at("a/none/f")))
        }
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(descriptors(), before)
        assert.strictEqual((yield* Effect.exit(root.readFile(at("a/b/f"))))._tag, "Failure")
      }).pipe(Effect.provide(layer)),
    )
  })
}

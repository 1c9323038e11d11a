import { chmod, mkdir, mkdtemp, readFile, realpath, rm, stat, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type ConfigOptions, layer } from "../../src/layers/ConfigFile.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import { AppConfig } from "../../src/services/AppConfig.ts"

/** A temporary home with an existing workspace folder in it; `load` reads the configuration as if it were the user's. */
const home = Effect.fnUntraced(function* (env: Record<string, string> = {}) {
  const path = yield* Effect.acquireRelease(
    Effect.promise(async () => realpath(await mkdtemp(join(tmpdir(), "codespace-config-")))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true })),
  )
  const at = (name: string) => join(path, name)
  const folder = (name: string) => Effect.promise(() => mkdir(at(name), { recursive: true }))
  const write = (name: string, text: string) =>
    Effect.promise(async () => {
      await mkdir(dirname(at(name)), { recursive: true })
      await writeFile(at(name), text)
    })
  const load = (options: Partial<ConfigOptions> = {}) =>
    AppConfig.use(Effect.succeed).pipe(
      Effect.provide(layer({ folders: [], environment: { HOME: path, ...env }, ...options }), { local: true }),
    )
  const problems = (options: Partial<ConfigOptions> = {}) => Effect.map(Effect.flip(load(options)), (invalid) => invalid.problems)
  yield* folder("src/app")
  return { path, at, folder, write, load, problems }
})

const standard = ".config/codespace/config.json"
const registers = (root: string, more = "") => `{ "workspaces": { "app": { "root": ${JSON.stringify(root)}${more} } } }`
const only = (config: AppConfig["Service"]) => {
  assert.strictEqual(config.workspaces.size, 1)
  return [...config.workspaces.values()][0]!
}

describe("which file", () => {
  it.live("the standard one: comments and trailing commas, ~ and defaults", () =>
    Effect.gen(function* () {
      const { at, load, path, write } = yield* home()
      yield* write(standard, `\uFEFF// mine\n{ "workspaces": { "app": { "root": "~/src/app", }, }, /* more */ "http": { "port": 0 } }`)
      const config = yield* load()
      assert.deepInclude(only(config), { id: WorkspaceId.make("app"), root: at("src/app"), realRoot: at("src/app"), sandbox: "auto" })
      assert.strictEqual(only(config).profile.name, "read-only")
      assert.strictEqual(config.http.port, 0)
      assert.strictEqual(config.configFile, at(standard))
      assert.strictEqual(config.stateFolder, join(path, ".local/state/codespace"))
    }),
  )

  it.live("XDG folders go before the usual ones; relative ones do not count", () =>
    Effect.gen(function* () {
      const first = yield* home()
      yield* first.write("conf/codespace/config.json", registers("~/src/app"))
      const env = { HOME: first.path, XDG_CONFIG_HOME: first.at("conf"), XDG_STATE_HOME: first.at("state") }
      const { load } = yield* home(env)
      const config = yield* load()
      assert.strictEqual(config.configFile, first.at("conf/codespace/config.json"))
      assert.strictEqual(config.stateFolder, first.at("state/codespace"))
      const other = yield* home({ XDG_STATE_HOME: "state" })
      assert.strictEqual((yield* other.load({ folders: [other.at("src/app")] })).stateFolder, other.at(".local/state/codespace"))
    }),
  )

  it.live("--config goes before CODESPACE_CONFIG, which goes before the standard one", () =>
    Effect.gen(function* () {
      const { at, folder, load, path, write } = yield* home()
      for (const name of ["standard", "variable", "flag"]) yield* folder(name)
      yield* write(standard, registers("~/standard"))
      yield* write("etc/variable.json", registers("~/variable"))
      yield* write("etc/flag.json", registers("~/flag"))
      const other = yield* home({ HOME: path, CODESPACE_CONFIG: "~/etc/variable.json" })
      assert.strictEqual(only(yield* load()).root, at("standard"))
      assert.strictEqual(only(yield* other.load()).root, at("variable"))
      assert.strictEqual(only(yield* other.load({ config: at("etc/flag.json") })).root, at("flag"))
    }),
  )

  it.live("a file that was named must be there and be a file", () =>
    Effect.gen(function* () {
      const { at, problems } = yield* home()
      assert.deepStrictEqual(yield* problems({ config: at("none.json"), folders: [at("src/app")] }), [
        { at: at("none.json"), problem: "does not exist" },
      ])
      const [folder] = yield* problems({ config: at("src") })
      assert.strictEqual(folder?.problem, "cannot be opened: EISDIR")
    }),
  )

  it.live("without any workspace only what looks at the state alone goes on", () =>
    Effect.gen(function* () {
      const { at, load, problems } = yield* home()
      const [problem] = yield* problems()
      assert.deepStrictEqual(problem, {
        at: "workspaces",
        problem: `there is none; name a folder on the command line (codespace mcp DIR), or register one in ${at(standard)}`,
      })
      const config = yield* load({ workspacesOptional: true })
      assert.deepStrictEqual([config.workspaces.size, config.stateFolder], [0, at(".local/state/codespace")])
    }),
  )

  it.live("a relative root is taken from the file's folder", () =>
    Effect.gen(function* () {
      const { at, load, write } = yield* home()
      yield* write("src/config/codespace.json", registers("../app"))
      assert.strictEqual(only(yield* load({ config: at("src/config/codespace.json") })).root, at("src/app"))
    }),
  )
})

describe("what is wrong with a file", () => {
  it.live("its text: line and column, and the file", () =>
    Effect.gen(function* () {
      const { at, load, write } = yield* home()
      yield* write(standard, `{\n  "workspaces": {}\n  "http": {}\n}`)
      const invalid = yield* Effect.flip(load())
      assert.deepStrictEqual(invalid.problems, [{ at: "line 3, column 3", problem: "comma expected" }])
      assert.strictEqual(invalid.file, at(standard))
    }),
  )

  it.live("an empty file, and a name that stands twice", () =>
    Effect.gen(function* () {
      const { problems, write } = yield* home()
      yield* write(standard, "")
      assert.strictEqual((yield* problems())[0]?.at, "line 1, column 1")
      yield* write(standard, `{ "workspaces": {\n "app": { "root": "~/src/app" },\n "app": { "root": "~/src" } } }`)
      assert.deepStrictEqual(yield* problems(), [{ at: "line 3, column 2", problem: '"app" stands twice in one object' }])
    }),
  )

  it.live("its fields and roots, all at once, without a trace or a word of ours", () =>
    Effect.gen(function* () {
      const { at, load, problems, write } = yield* home()
      yield* write(standard, registers("~/src/app", `, "sandbox": "on", "profil": "x"`))
      assert.sameMembers(
        (yield* problems()).map((problem) => problem.at),
        ["workspaces.app.sandbox", "workspaces.app.profil"],
      )
      yield* write("src/file", "")
      yield* write(
        standard,
        `{ "workspaces": { "a": { "root": "~/none" }, "b": { "root": "~/src/file" }, "c": { "root": "~/src/app", "profile": "none" } } }`,
      )
      const { message } = yield* Effect.flip(load())
      assert.include(message, `workspaces.a.root: ${at("none")} does not exist`)
      assert.include(message, `workspaces.b.root: ${at("src/file")} is not a folder`)
      assert.include(message, `workspaces.c.profile: there is no profile "none"`)
      assert.notMatch(message, /SchemaError|Effect|\bat .*\.ts:/u)
    }),
  )
})

describe("folders of the command line", () => {
  it.live("are workspaces under their names, writable, links resolved once", () =>
    Effect.gen(function* () {
      const { at, load } = yield* home()
      yield* Effect.promise(() => symlink(at("src/app"), at("my app")))
      const config = yield* load({ folders: [at("my app")] })
      assert.deepInclude(only(config), { id: WorkspaceId.make("my-app"), root: at("my app"), realRoot: at("src/app"), sandbox: "auto" })
      assert.strictEqual(only(config).profile.name, "workspace-write")
      assert.isUndefined(config.configFile)
    }),
  )

  it.live("of equal names are numbered, and the same folder twice is one workspace", () =>
    Effect.gen(function* () {
      const { at, folder, load } = yield* home()
      for (const name of ["one/app", "two/app", "three/app-2", "ÄÖ"]) yield* folder(name)
      const folders = ["src/app", "three/app-2", "one/app", "src/app/", "two/app", "ÄÖ"].map(at)
      const config = yield* load({ folders })
      assert.deepStrictEqual(
        [...config.workspaces.values()].map(({ id, root }) => [id as string, root]),
        [
          ["app", at("src/app")],
          ["app-2", at("three/app-2")],
          ["app-3", at("one/app")],
          ["app-4", at("two/app")],
          ["workspace", at("ÄÖ")],
        ],
      )
    }),
  )

  it.live("are added to those of the file; a clash of names is refused", () =>
    Effect.gen(function* () {
      const { at, folder, load, problems, write } = yield* home()
      yield* folder("other")
      yield* write(standard, registers("~/other"))
      const [problem] = yield* problems({ folders: [at("src/app")] })
      assert.strictEqual(problem?.at, `folder ${at("src/app")}`)
      assert.include(problem?.problem ?? "", `has a workspace "app" already (${at("other")})`)
      yield* folder("src/web")
      const config = yield* load({ folders: [at("src/web")] })
      assert.deepStrictEqual([...config.workspaces.keys()].map(String), ["app", "web"])
    }),
  )

  it.live("must be there, and without any there is nothing to serve", () =>
    Effect.gen(function* () {
      const { at, problems } = yield* home()
      const [missing] = yield* problems({ folders: [at("none")] })
      assert.deepStrictEqual(missing, { at: `folder ${at("none")}`, problem: `${at("none")} does not exist` })
      const [nothing] = yield* problems()
      assert.match(nothing?.problem ?? "", /codespace mcp DIR.*config\.json/u)
    }),
  )
})

describe("the user of a worker", () => {
  const isRoot = process.getuid?.() === 0
  if (!isRoot) console.warn("ConfigFile.test.ts: users of workers are looked up by root alone, which this user is not")
  const withUser = Effect.fnUntraced(function* (user: string) {
    const made = yield* home()
    const workspaces = { app: { root: "~/src/app", environment: "box" } }
    yield* made.write(standard, JSON.stringify({ workspaces, environments: { box: { kind: "worker", user } } }))
    return made
  })

  for (const [user, problem] of [
    ["no-such-user", 'there is no user "no-such-user" on this machine'],
    ["-h", 'there is no user "-h" on this machine'],
    ["root", "is root, which takes nothing from the worker; name an ordinary user"],
    ["0:65534", "is root, which takes nothing from the worker; name an ordinary user"],
    ["65534:0", "is in root's group, which takes nothing from the worker; name an ordinary user"],
    ["3000000001", 'user 3000000001 has no entry on this machine, so its group is not known; write "3000000001:GID"'],
    ["4294967295:1", "there is no user or group with a number above 4294967294"],
  ] as const)
    it.live.skipIf(!isRoot)(`that cannot be one is refused with its place: ${user}`, () =>
      Effect.gen(function* () {
        const { problems } = yield* withUser(user)
        assert.deepStrictEqual(yield* problems(), [{ at: "environments.box.user", problem }])
      }),
    )

  for (const [user, expected] of [
    ["nobody", { name: "nobody", uid: 65534 }],
    ["65534", { name: "nobody", uid: 65534 }],
    ["65534:4000", { name: "nobody", uid: 65534, gid: 4000 }],
    ["3000000001:4000", { name: "3000000001", uid: 3000000001, gid: 4000, home: "/", shell: "/bin/sh" }],
  ] as const)
    it.live.skipIf(!isRoot)(`is found: ${user}`, () =>
      Effect.gen(function* () {
        const { load } = yield* withUser(user)
        const { environment } = only(yield* load())
        assert.strictEqual(environment.kind, "worker")
        if (environment.kind === "worker") assert.deepInclude(environment.user, expected)
      }),
    )

  it.live.skipIf(!isRoot)("has its state in no workspace", () =>
    Effect.gen(function* () {
      const { problems, write } = yield* home()
      const environments = { box: { kind: "worker", user: "nobody" } }
      yield* write(standard, JSON.stringify({ workspaces: { app: { root: "/var/lib", environment: "box" } }, environments }))
      const [problem, ...others] = yield* problems()
      assert.deepStrictEqual([problem?.at, others], ["workspaces.app.root", []])
      assert.match(problem?.problem ?? "", /state folder \/var\/lib\/codespace-workers lies in it/u)
    }),
  )

  it.live.skipIf(isRoot)("is refused where the server is not root", () =>
    Effect.gen(function* () {
      const { problems } = yield* withUser("nobody")
      assert.match((yield* problems())[0]?.problem ?? "", /only a server that runs as root/u)
    }),
  )
})

describe("the server's own folders", () => {
  it.live("the state folder is made for this user only, and closed when it was open", () =>
    Effect.gen(function* () {
      const { at, load } = yield* home()
      const { stateFolder } = yield* load({ folders: [at("src/app")] })
      const mode = () => Effect.promise(async () => (await stat(stateFolder)).mode & 0o777)
      assert.strictEqual(yield* mode(), 0o700)
      yield* Effect.promise(() => chmod(stateFolder, 0o755))
      yield* load({ folders: [at("src/app")] })
      assert.strictEqual(yield* mode(), 0o700)
    }),
  )

  it.live("a state folder that is a file is refused", () =>
    Effect.gen(function* () {
      const { at, problems, write } = yield* home()
      yield* write(".local/state/codespace", "")
      const [problem] = yield* problems({ folders: [at("src/app")] })
      assert.strictEqual(problem?.at, `the state folder ${at(".local/state/codespace")}`)
      assert.strictEqual(yield* Effect.promise(() => readFile(at(".local/state/codespace"), "utf8")), "")
    }),
  )

  it.live("a root around state or configuration is refused before anything is made, also through a link", () =>
    Effect.gen(function* () {
      const { at, path, problems, write } = yield* home({})
      const around = yield* problems({ folders: [path] })
      assert.deepStrictEqual(
        around.map(({ problem }) => /state|configuration/u.exec(problem)?.[0]),
        ["state", "configuration"],
      )
      assert.isTrue(
        yield* Effect.promise(() =>
          stat(at(".local")).then(
            () => false,
            () => true,
          ),
        ),
      )

      yield* write("src/app/codespace.json", registers("."))
      assert.deepStrictEqual(
        (yield* problems({ config: at("src/app/codespace.json") })).map((problem) => problem.at),
        ["workspaces.app.root"],
      )

      yield* write("src/app/mine.json", registers("~/src/app"))
      yield* write("etc/x", "")
      yield* Effect.promise(() => symlink(at("src/app/mine.json"), at("etc/config.json")))
      assert.match((yield* problems({ config: at("etc/config.json") }))[0]?.problem ?? "", /configuration folder .*\/src\/app lies in it/u)
    }),
  )

  it.live("a root inside the state folder is refused, one beside the configuration is not", () =>
    Effect.gen(function* () {
      const { at, folder, load, problems, write } = yield* home()
      yield* folder(".local/state/codespace/spools")
      const [problem] = yield* problems({ folders: [at(".local/state/codespace/spools")] })
      assert.include(problem?.problem ?? "", "lies in the server's state folder")
      yield* write("work/codespace.json", registers("app"))
      yield* folder("work/app")
      assert.strictEqual(only(yield* load({ config: at("work/codespace.json") })).root, at("work/app"))
    }),
  )
})

import { assert, describe, it } from "@effect/vitest"
import { Duration, Result, Schema } from "effect"
import { ConfigFile, decodeConfig } from "../../src/schema/Config.ts"
import { defaults } from "../../src/schema/ConfigDefaults.ts"
import { ConfigInvalid } from "../../src/schema/ConfigProblem.ts"

const problemsOf = (value: unknown): Record<string, string> => {
  const decoded = decodeConfig(value)
  return Result.isFailure(decoded) ? Object.fromEntries(decoded.failure.map(({ at, problem }) => [at, problem])) : {}
}
const workspace = (fields: object) => ({ workspaces: { app: { root: "/src", ...fields } } })

const commands = (...rules: ReadonlyArray<object>) => ({ profiles: { own: { commands: rules } } })

describe("defaults", () => {
  it("are what an empty file stands for", () => {
    assert.deepStrictEqual(Result.getOrThrow(decodeConfig({})), defaults)
  })

  it("every field but a root has one", () => {
    const file = Result.getOrThrow(decodeConfig({ workspaces: { app: { root: "/src" } } }))
    assert.deepInclude(file.workspaces["app"], { root: "/src", profile: "read-only", environment: "host", sandbox: "auto" })
    assert.strictEqual(file.workspaces["app"]?.patch.ambiguity, "refuse")
    assert.deepInclude(file.http, { host: "127.0.0.1", port: 8787, hosts: [], origins: [] })
    assert.deepStrictEqual(file.tools, ["all"])
    assert.strictEqual(Duration.toDays(file.retention.operations), 90)
    assert.strictEqual(file.retention.state_bytes, 5_368_709_120)
    assert.deepStrictEqual(problemsOf({}), {})
  })

  it("a part of a group leaves the rest of it at its defaults", () => {
    const file = Result.getOrThrow(decodeConfig({ http: { port: 0 }, retention: { processes: "2 hours" } }))
    assert.deepInclude(file.http, { host: "127.0.0.1", port: 0 })
    assert.strictEqual(Duration.toHours(file.retention.processes), 2)
    assert.strictEqual(Duration.toDays(file.retention.operations), 90)
  })

  it("what a file may say in full about features of later versions is accepted where it asks for nothing", () => {
    const silent = {
      ...workspace({ approvals: "off", hooks: {}, patch: { ambiguity: "first", durability: "power" } }),
      profiles: { own: { commands: [] } },
      approvals: { resolver: "operator", expires: "1 hour" },
      http: { issuer: null },
      environments: { host: { kind: "host" } },
    }
    assert.deepStrictEqual(problemsOf(silent), {})
  })
})

describe("globs of file rules", () => {
  for (const glob of [
    "**",
    "**/*.env",
    "a/**/b",
    "{a,b/**}",
    "{**/x,y}",
    "a[!b]c",
    "[[:digit:]]",
    "app/(group)/*",
    "app/[id]/*",
    "\\[a",
    "\\{a",
    "a,b",
  ])
    it(`may be ${glob}`, () => {
      assert.deepStrictEqual(problemsOf({ profiles: { own: { files: [{ glob, access: "deny" }] } } }), {})
    })
})

describe("hooks", () => {
  const hooksOf = (hooks: object) => Result.getOrThrow(decodeConfig(workspace({ hooks }))).workspaces["app"]?.hooks

  it("are lists of commands that reject, and have a minute, where nothing else is said", () => {
    const whole = hooksOf({
      before_patch: [{ command: ["git", "diff", "--quiet", "--", "{files}"] }],
      after_patch: [{ command: ["npx", "prettier", "--write", "{files}"], on_failure: "warn", timeout: "90 seconds" }],
    })
    assert.deepInclude(whole?.before_patch[0], { on_failure: "reject", command: ["git", "diff", "--quiet", "--", "{files}"] })
    assert.deepInclude(whole?.after_patch[0], { on_failure: "warn" })
    assert.strictEqual(Duration.toMillis(whole?.before_patch[0]?.timeout ?? 0), 60_000)
    assert.strictEqual(Duration.toMillis(whole?.after_patch[0]?.timeout ?? 0), 90_000)
    assert.deepStrictEqual(hooksOf({ before_patch: [] }), { before_patch: [], after_patch: [] })
  })

  const at = "workspaces.app.hooks.after_patch[0]"
  const wrong: ReadonlyArray<readonly [string, object, string, RegExp]> = [
    ["an unknown moment", { hooks: { on_patch: [] } }, "workspaces.app.hooks.on_patch", /known are before_patch, after_patch/u],
    ["no list", { hooks: { after_patch: {} } }, "workspaces.app.hooks.after_patch", /Expected array/u],
    ["no command", { hooks: { after_patch: [{}] } }, `${at}.command`, /is missing/u],
    ["a shell line", { hooks: { after_patch: [{ command: "make fmt" }] } }, `${at}.command`, /Expected array, got "make fmt"/u],
    ["an empty command", { hooks: { after_patch: [{ command: [] }] } }, `${at}.command`, /must begin with the program/u],
    ["no program", { hooks: { after_patch: [{ command: ["", "x"] }] } }, `${at}.command`, /must begin with the program/u],
    ["a file as program", { hooks: { after_patch: [{ command: ["{files}"] }] } }, `${at}.command`, /must begin with the program/u],
    ["files in a word", { hooks: { after_patch: [{ command: ["x", "--in={files}"] }] } }, `${at}.command`, /an argument of its own/u],
    [
      "another end",
      { hooks: { after_patch: [{ command: ["x"], on_failure: "stop" }] } },
      `${at}.on_failure`,
      /"reject" \| "warn", got "stop"/u,
    ],
    ["a number as time", { hooks: { after_patch: [{ command: ["x"], timeout: 60 }] } }, `${at}.timeout`, /Expected string, got 60/u],
    ["no time", { hooks: { after_patch: [{ command: ["x"], timeout: "0 seconds" }] } }, `${at}.timeout`, /longer than nothing/u],
    [
      "an unknown field",
      { hooks: { after_patch: [{ command: ["x"], cwd: "/" }] } },
      `${at}.cwd`,
      /known are command, on_failure, timeout/u,
    ],
  ]
  for (const [name, fields, place, problem] of wrong)
    it(`are refused with ${name}`, () => {
      const found = problemsOf(workspace(fields))
      assert.deepStrictEqual(Object.keys(found), [place])
      assert.match(found[place] ?? "", problem)
    })
})

describe("problems", () => {
  const cases: ReadonlyArray<readonly [string, unknown, string, RegExp]> = [
    ["an unknown field", { port: 1 }, "port", /is no field here; known are .*workspaces.*retention/u],
    ["an unknown field deep down", workspace({ profil: "x" }), "workspaces.app.profil", /is no field here; known are root, profile/u],
    ["a missing root", { workspaces: { app: {} } }, "workspaces.app.root", /is missing/u],
    ["an empty root", workspace({ root: "" }), "workspaces.app.root", /not empty/u],
    ["a wrong type", workspace({ profile: 7 }), "workspaces.app.profile", /Expected string, got 7/u],
    ["a wrong word", workspace({ sandbox: "on" }), "workspaces.app.sandbox", /"auto" \| "required" \| "off", got "on"/u],
    ["a bad id", { workspaces: { "a b": { root: "/" } } }, 'workspaces."a b"', /no valid name/u],
    ["a port out of range", { http: { port: 70_000 } }, "http.port", /between 0 and 65535, got 70000/u],
    ["no tools", { tools: [] }, "tools", /at least one tool/u],
    ["a folder that is not absolute", { path: ["bin"] }, "path[0]", /an absolute folder/u],
    ["no folders", { path: [] }, "path", /at least one folder/u],
    ["a word for PATH that is not known", { path: "fish" }, "path", /"server" \| "login-shell"/u],
    ["an unknown tool", { tools: ["file"] }, "tools[0]", /"files" \| .*got "file"/u],
    ["no time", { retention: { processes: "soon" } }, "retention.processes", /a time such as "30 minutes".*got "soon"/u],
    ["a negative time", { retention: { processes: "-1 days" } }, "retention.processes", /a time such as/u],
    [
      "a time of nothing",
      { profiles: { own: { limits: { timeout: "0 minutes" } } } },
      "profiles.own.limits.timeout",
      /longer than nothing/u,
    ],
    ["no room", { profiles: { own: { limits: { processes: 0 } } } }, "profiles.own.limits.processes", /got 0/u],
    ["a network word", { profiles: { own: { network: "onn" } } }, "profiles.own.network", /"loopback" \| "on", got "onn"/u],
    ["a network URL", { profiles: { own: { network: { allow: ["https://x"] } } } }, "profiles.own.network.allow[0]", /Expected a host/u],
    ["an impossible env name", { profiles: { own: { env: ["A-B"] } } }, "profiles.own.env[0]", /environment variable/u],
    ["a kind of environment", { environments: { box: { kind: "cluster" } } }, "environments.box.kind", /"host" \| "worker"/u],
    [
      "a lifetime of the host",
      { environments: { box: { kind: "host", lifetime: "gateway" } } },
      "environments.box.lifetime",
      /for a worker/u,
    ],
    ["a user of the host", { environments: { box: { kind: "host", user: "nobody" } } }, "environments.box.user", /for a worker/u],
    [
      "an orphan limit of a worker that is none",
      { environments: { box: { kind: "worker", orphan_limit: "1 hour" } } },
      "environments.box.orphan_limit",
      /"lifetime": "detached"/u,
    ],
    [
      "a rule about hosts with an unknown field",
      { profiles: { own: { network: { allow: [{ host: "a.example", why: "x" }] } } } },
      "profiles.own.network.allow[0].why",
      /no field here/u,
    ],
    [
      "a rule about hosts with a URL",
      { profiles: { own: { network: { allow: [{ host: "https://x" }] } } } },
      "profiles.own.network.allow[0].host",
      /Expected a host/u,
    ],
    ["a rule without a decision", commands({ argv: ["git"] }), "profiles.own.commands[0].decision", /is missing/u],
    [
      "an unknown decision",
      commands({ argv: ["git"], decision: "no" }),
      "profiles.own.commands[0].decision",
      /"allow" \| "ask" \| "deny"/u,
    ],
    [
      "a rule with an unknown field",
      commands({ argv: ["git"], decision: "deny", why: "x" }),
      "profiles.own.commands[0].why",
      /no field here/u,
    ],
    ["a rule about nothing", commands({ argv: [], decision: "deny" }), "profiles.own.commands[0].argv", /must name a program/u],
    [
      "a rule with all words in one",
      commands({ argv: ["git push"], decision: "deny" }),
      "profiles.own.commands[0].argv",
      /an element of its own/u,
    ],
    [
      "a rule with a path",
      commands({ argv: ["/usr/bin/git"], decision: "deny" }),
      "profiles.own.commands[0].argv",
      /name the program alone/u,
    ],
    ["a rule with a wildcard", commands({ argv: ["git", "*"], decision: "deny" }), "profiles.own.commands[0].argv", /no wildcard here/u],
    ["a rule with an empty word", commands({ argv: ["git", ""], decision: "deny" }), "profiles.own.commands[0].argv[1]", /not empty/u],
    [
      "an example that is no command",
      commands({ argv: ["git"], decision: "deny", examples: { match: ["git push"] } }),
      "profiles.own.commands[0].examples.match[0]",
      /Expected array/u,
    ],
    ["not an object", [], "", /Expected object/u],
    ...["/etc/**", "!a", "a/../b", "./a", "a/.", "dir/", "dir\\", ""].map(
      (glob) =>
        [
          `the glob ${JSON.stringify(glob)}`,
          { profiles: { own: { files: [{ glob, access: "deny" }] } } },
          "profiles.own.files[0].glob",
          /can match nothing|must not be empty/u,
        ] as const,
    ),
    ...(
      [
        ["**.env", /\*\*\/\*\.env/u],
        ["src**", /stands alone between slashes/u],
        ["a/***", /stands alone between slashes/u],
        ["@(a|b)", /write alternatives as \{a,b\}/u],
        ["src/!(a)", /patterns in parentheses/u],
        ["[a", /is not closed/u],
        ["x/[a/b]", /is not closed/u],
        ["{a", /braces hold alternatives/u],
        ["{a}", /braces hold alternatives/u],
        ["{1..3}", /braces hold alternatives/u],
        ["{a,{b}}", /braces hold alternatives/u],
        ["a}", /braces hold alternatives/u],
      ] as const
    ).map(
      ([glob, problem]) =>
        [
          `the glob ${glob}, which would be taken for text`,
          { profiles: { own: { files: [{ glob, access: "deny" }] } } },
          "profiles.own.files[0].glob",
          problem,
        ] as const,
    ),
    ...["/a", "../a", "a/", ""].map(
      (path) =>
        [
          `the example path ${JSON.stringify(path)}`,
          { profiles: { own: { files: [{ glob: "a", access: "deny", examples: { match: [path] } }] } } },
          "profiles.own.files[0].examples.match[0]",
          /a path in the workspace/u,
        ] as const,
    ),
  ]
  const names: ReadonlyArray<readonly [string, unknown, string, RegExp]> = [
    ["an issuer without TLS", { issuer: "http://id.example" }, "http.issuer", /must be an https address/],
    ["an issuer that is no address", { issuer: "id.example" }, "http.issuer", /must be an https address/],
    ["an issuer with a query", { issuer: "https://id.example?a" }, "http.issuer", /a query or a fragment/],
    ["a host with its scheme", { hosts: ["https://code.example"] }, "http.hosts[0]", /without scheme and port/],
    ["a host with a port", { hosts: ["code.example:443"] }, "http.hosts[0]", /without scheme and port/],
    ["an origin without scheme", { origins: ["app.example"] }, "http.origins[0]", /an origin such as/],
    ["an origin with a path", { origins: ["https://app.example/"] }, "http.origins[0]", /without a path/],
  ]
  for (const [name, http, at, problem] of names)
    it(name, () => {
      const found = problemsOf({ http })
      assert.deepStrictEqual(Object.keys(found), [at])
      assert.match(found[at] ?? "", problem)
    })

  for (const [name, value, at, problem] of cases)
    it(name, () => {
      const found = problemsOf(value)
      assert.deepStrictEqual(Object.keys(found), [at])
      assert.match(found[at] ?? "", problem)
    })

  const later: ReadonlyArray<readonly [unknown, string]> = [[{ http: { host: "0.0.0.0" } }, "http.host"]]
  for (const [value, at] of later)
    it(`${at} is refused where it asks for what is not there yet`, () => {
      const found = problemsOf(value)
      assert.deepStrictEqual(Object.keys(found), [at])
      assert.match(found[at] ?? "", /not available in this version; leave the field out or write /u)
    })

  it("are told all at once, a line each", () => {
    const decoded = decodeConfig({ ...workspace({ sandbox: "on" }), more: 1 })
    assert.isTrue(Result.isFailure(decoded))
    const { message } = new ConfigInvalid({ file: "/c.json", problems: Result.isFailure(decoded) ? decoded.failure : [] })
    assert.match(message, /^the configuration \/c\.json cannot be used:\n {2}more: .*\n {2}workspaces\.app\.sandbox: [^\n]*$/u)
  })
})

it("has a JSON Schema for editors", () => {
  const { schema } = Schema.toJsonSchemaDocument(ConfigFile, { onExcessProperty: "error" })
  assert.deepInclude(schema, { type: "object", additionalProperties: false })
})

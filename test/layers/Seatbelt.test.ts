import { chmodSync, mkdirSync, realpathSync, writeFileSync } from "node:fs"
import { createConnection } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result, type Scope } from "effect"
import * as NodeIdentity from "../../src/layers/NodeIdentity.ts"
import * as NodeNetworkProxy from "../../src/layers/NodeNetworkProxy.ts"
import * as NodeResolver from "../../src/layers/NodeResolver.ts"
import * as Seatbelt from "../../src/layers/Seatbelt.ts"
import { type SeatbeltPlan, seatbeltProfile } from "../../src/layers/SeatbeltProfile.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import { Sandbox } from "../../src/services/Sandbox.ts"
import { profileOf, workshop } from "../support/Confining.ts"
import { temporaryFolder } from "../support/Processes.ts"

type Expression = string | { readonly regex: string } | { readonly text: string } | ReadonlyArray<Expression>

/** Reads a profile as its language is written; fails on anything unbalanced. */
const parsed = (text: string): ReadonlyArray<ReadonlyArray<Expression>> => {
  const tokens = text.match(/#"[^"]*"|"(?:[^"\\]|\\["\\])*"|[()]|[^\s()"]+/gu) ?? []
  assert.strictEqual(tokens.join("").replace(/\s/gu, "").length, text.replace(/\s/gu, "").length, "nothing between the tokens")
  const stack: Array<Array<Expression>> = [[]]
  for (const token of tokens) {
    if (token === "(") stack.push([])
    else if (token === ")") {
      const done = stack.pop()
      assert.isAbove(stack.length, 0)
      stack.at(-1)?.push(done ?? [])
    } else if (token.startsWith('#"')) stack.at(-1)?.push({ regex: token.slice(2, -1) })
    else if (token.startsWith('"')) stack.at(-1)?.push({ text: token.slice(1, -1).replace(/\\(["\\])/gu, "$1") })
    else stack.at(-1)?.push(token)
  }
  assert.strictEqual(stack.length, 1)
  return stack[0] as ReadonlyArray<ReadonlyArray<Expression>>
}

const OPERATIONS = new Set([
  ...["default", "process-exec", "process-fork", "process-info*", "signal", "sysctl-read", "pseudo-tty", "mach-lookup", "system-socket"],
  ...["file-read*", "file-read-metadata", "file-write*", "file-write-data", "file-write-unlink", "file-ioctl"],
  ...["ipc-posix-sem", "ipc-posix-shm*", "network*", "network-outbound", "network-inbound", "network-bind"],
])
const FILTERS = new Set(["literal", "subpath", "regex", "target", "global-name", "remote", "local"])

/** What the profile says of an operation on a path: the last rule that matches counts. */
const decide = (text: string, operation: string, path: string): string => {
  let decision = "deny"
  for (const [action, ...rest] of parsed(text)) {
    if (action !== "allow" && action !== "deny") continue
    const operations = rest.filter((part) => typeof part === "string")
    const filters = rest.filter((part) => Array.isArray(part)) as ReadonlyArray<ReadonlyArray<Expression>>
    const isAbout = operations.some(
      (one) => one === "default" || one === operation || (one.endsWith("*") && operation.startsWith(one.slice(0, -1))),
    )
    const matches = filters.length === 0 || filters.some(([kind, what]) => matchesPath(kind, what, path))
    if (isAbout && matches) decision = action
  }
  return decision
}
const matchesPath = (kind: Expression | undefined, what: Expression | undefined, path: string): boolean => {
  if (typeof what !== "object" || Array.isArray(what)) return false
  if ("regex" in what) return new RegExp(what.regex, "u").test(path)
  const named = "text" in what ? what.text : ""
  return kind === "literal" ? path === named : kind === "subpath" && (path === named || named === "/" || path.startsWith(`${named}/`))
}

const plan: SeatbeltPlan = {
  root: "/Users/me/app",
  temporary: "/Users/me/state/sandbox/1/tmp-app",
  denied: [],
  network: "off",
  mounts: [
    { kind: "replace", path: "/private/tmp", source: "/Users/me/state/sandbox/1/tmp-app" },
    { kind: "hide", path: "/Users/me/.ssh", isFolder: true },
    { kind: "hide", path: "/Users/me/state", isFolder: true },
    { kind: "hide", path: "/Users/me/other", isFolder: true },
    { kind: "write", path: "/Users/me/app" },
    { kind: "write", path: "/Users/me/app/.git" },
    { kind: "read", path: "/Users/me/app/.git/config" },
    { kind: "read", path: "/Users/me/app/.git/hooks" },
    { kind: "read", path: "/Users/me/app/docs" },
    { kind: "write", path: "/Users/me/app/docs/drafts" },
    { kind: "deny", path: "/Users/me/app/conf/.env", isFolder: false },
  ],
}
const textOf = (more: Partial<SeatbeltPlan> = {}): string => Result.getOrThrow(seatbeltProfile({ ...plan, ...more }))
const why = (more: Partial<SeatbeltPlan>): string => Result.getOrThrow(Result.flip(seatbeltProfile({ ...plan, ...more })))

describe("a profile for sandbox-exec", () => {
  it("has only rules that are known, each with what they are about", () => {
    for (const network of ["off", "on", { port: 4711 }] as const)
      for (const [action, ...rest] of parsed(textOf({ network, denied: ["**/*.env"] }))) {
        assert.include(["version", "allow", "deny"], action)
        if (action === "version") assert.deepStrictEqual(rest, ["1"])
        else
          for (const part of rest)
            if (typeof part === "string") assert.isTrue(OPERATIONS.has(part), part)
            else assert.isTrue(Array.isArray(part) && typeof part[0] === "string" && FILTERS.has(part[0]), JSON.stringify(part))
      }
  })

  it("denies what it does not name, and begins with that", () => {
    assert.match(textOf(), /^\(version 1\)\n\(deny default\)\n/u)
    assert.strictEqual(decide(textOf(), "mount-point", "/x"), "deny")
  })

  const cases: ReadonlyArray<readonly [operation: string, path: string, decision: "allow" | "deny"]> = [
    ["file-read-data", "/usr/bin/git", "allow"],
    ["process-exec", "/usr/bin/git", "allow"],
    ["file-write-data", "/usr/bin/git", "deny"],
    ["file-write-create", "/Users/me/app/new", "allow"],
    ["file-write-unlink", "/Users/me/app/new", "allow"],
    ["file-write-data", "/Users/me/beside", "deny"],
    ["file-read-data", "/Users/me/.ssh/id_rsa", "deny"],
    ["file-read-data", "/Users/me/state/codespace.sqlite", "deny"],
    ["file-read-data", "/Users/me/other/f", "deny"],
    ["network-outbound", "/Users/me/.ssh/agent", "deny"],
    ["file-read-data", "/private/tmp/x", "deny"],
    ["file-write-create", "/private/tmp/x", "deny"],
    ["file-write-create", "/Users/me/state/sandbox/1/tmp-app/x", "allow"],
    ["file-read-metadata", "/Users/me/state/sandbox", "allow"],
    ["file-read-data", "/Users/me/state/sandbox", "deny"],
    ["file-read-data", "/Users/me/app/.git/config", "allow"],
    ["file-write-data", "/Users/me/app/.git/config", "deny"],
    ["file-write-create", "/Users/me/app/.git/hooks/pre-commit", "deny"],
    ["file-write-create", "/Users/me/app/.git/index.lock", "allow"],
    ["file-write-unlink", "/Users/me/app/.git", "deny"],
    ["file-write-unlink", "/Users/me/app", "deny"],
    ["file-write-data", "/Users/me/app/docs/x", "deny"],
    ["file-read-data", "/Users/me/app/docs/x", "allow"],
    ["file-write-data", "/Users/me/app/docs/drafts/x", "allow"],
    ["file-read-data", "/Users/me/app/conf/.env", "deny"],
    ["file-write-unlink", "/Users/me/app/conf/.env", "deny"],
    ["file-write-unlink", "/Users/me/app/conf", "deny"],
    ["file-write-create", "/Users/me/app/conf/x", "allow"],
  ]
  for (const [operation, path, decision] of cases)
    it(`${decision === "allow" ? "allows" : "denies"} ${operation} on ${path}`, () =>
      assert.strictEqual(decide(textOf(), operation, path), decision))

  it("denies by glob what comes to be later, in any case of letters, and after everything else", () => {
    const text = textOf({ denied: ["**/*.env", "keys/**", "a.b/{x,y+}/[ab].t?t", 'q"uo\\te', "dépôt"] })
    const named: ReadonlyArray<readonly [string, string]> = [
      ["/Users/me/app/.env", "deny"],
      ["/Users/me/app/a/b/PROD.ENV", "deny"],
      ["/Users/me/app/a.env/below", "deny"],
      ["/Users/me/app/src/env.ts", "allow"],
      ["/Users/me/app/keys/a/b", "deny"],
      ["/Users/me/app/monkeys/a", "allow"],
      ["/Users/me/app/a.b/y+/b.txt", "deny"],
      ["/Users/me/app/a.b/x/[ab].txt", "deny"],
      ["/Users/me/app/axb/x/a.txt", "allow"],
      ["/Users/me/app/a.b/x/c.txt", "allow"],
      ['/Users/me/app/q"uote', "deny"],
      ["/Users/me/app/de\u0301po\u0302t", "deny"],
      ["/Users/me/other.env", "allow"],
    ]
    for (const [path, decision] of named) assert.strictEqual(decide(text, "file-read-data", path), decision, path)
    assert.match(text.trim().split("\n").at(-1) ?? "", /^\(deny .*regex/u)
  })

  it("writes quotes, backslashes and what regular expressions are made of as what they are", () => {
    const root = '/Users/me/a "b" \\c (d)+[e].f$'
    const text = textOf({
      root,
      denied: ["*.env"],
      mounts: [
        { kind: "write", path: root },
        { kind: "read", path: `${root}/.git/config` },
      ],
    })
    assert.strictEqual(decide(text, "file-write-data", `${root}/x`), "allow")
    assert.strictEqual(decide(text, "file-write-data", `${root}/.git/config`), "deny")
    assert.strictEqual(decide(text, "file-read-data", `${root}/x.env`), "deny")
    assert.strictEqual(decide(text, "file-write-data", "/Users/me/a"), "deny")
  })

  it("says no network, all of it, or one port; and no daemon's socket", () => {
    assert.include(textOf(), "(deny network*)")
    assert.notInclude(textOf(), "(allow network")
    const listed = textOf({ network: { port: 4711 } })
    assert.deepStrictEqual(
      listed.split("\n").filter((line) => line.startsWith("(allow network")),
      ['(allow network-outbound (remote ip "localhost:4711"))'],
    )
    assert.strictEqual(decide(textOf({ network: "on" }), "network-outbound", "/var/run/docker.sock"), "deny")
  })

  it("is refused where something of the plan cannot be said in it", () => {
    assert.include(why({ root: "/a\nb" }), "cannot be written")
    assert.include(why({ mounts: [{ kind: "read", path: "/a/../b" }] }), "cannot be written")
    assert.include(why({ mounts: [{ kind: "read", path: "/etc/resolv.conf", source: "/x" }] }), "cannot be shown as another file")
    for (const glob of ["a[", "a[/]b", "{a", "a\\", "a\nb"]) assert.include(why({ denied: [glob] }), "the rule for", glob)
  })
})

/** Stands in for the program of a Mac: it takes a profile and becomes the program, confining nothing. */
const standIn = Effect.map(temporaryFolder, (folder) => {
  const file = join(realpathSync(folder), "sandbox-exec")
  writeFileSync(file, '#!/bin/sh\n[ "$1" = -p ] || exit 64\nCODESPACE_TEST_PROFILE=$2; export CODESPACE_TEST_PROFILE; shift 2; exec "$@"\n')
  chmodSync(file, 0o755)
  return file
})

const layerOver = (program: string, state: string, root: string) =>
  Seatbelt.layer({ stateFolder: state, workspaces: [{ realRoot: root, profile: profileOf() }] }, program).pipe(
    Layer.provide(NodeNetworkProxy.layer(join(state, "proxies"))),
    Layer.provide([NodeIdentity.layer, NodeResolver.layer]),
  )

const built = (layer: ReturnType<typeof layerOver>) => Effect.map(Layer.build(layer), (context) => Context.get(context, Sandbox))

const test = (name: string, body: () => Effect.Effect<void, unknown, Scope.Scope>) => it.live(name, () => Effect.scoped(body()))
const confines = { workspaceId: WorkspaceId.make("app"), sandbox: "required" } as const

describe("the sandbox of a Mac, with a stand-in for its program", () => {
  const place = Effect.map(temporaryFolder, (folder) => {
    const base = realpathSync(folder)
    for (const name of ["app/.git/hooks", "app/.git/objects", "state"]) mkdirSync(join(base, name), { recursive: true })
    for (const name of ["HEAD", "config"]) writeFileSync(join(base, "app/.git", name), "")
    return { root: join(base, "app"), state: join(base, "state") }
  })

  test("gives a command the profile of its plan, and a folder for temporary files", () =>
    Effect.gen(function* () {
      const program = yield* standIn
      const { root, state } = yield* place
      const profile = profileOf("off", [{ glob: "**/*.env", access: "deny" }])
      const sandbox = layerOver(program, state, root)
      const { run } = yield* workshop({ profile, mode: "required", sandbox })
      const { output, sandbox: level } = yield* run('echo "$TMPDIR"; touch "$TMPDIR/x" && printf %s "$CODESPACE_TEST_PROFILE"')
      assert.match(String(level), /^seatbelt: files workspace-write with rules, network off$/u)
      const [temporary = "", ...lines] = output.split("\n")
      assert.isTrue(temporary.startsWith(join(state, "sandbox")))
      assert.strictEqual(decide(lines.join("\n"), "file-write-create", `${temporary}/x`), "allow")
      assert.strictEqual(decide(lines.join("\n"), "file-read-data", join(state, "codespace.sqlite")), "deny")
    }))

  test("protects the repository that is there", () =>
    Effect.gen(function* () {
      const program = yield* standIn
      const { root, state } = yield* place
      const entrance = yield* Effect.provide(
        Effect.flatMap(Sandbox, (sandbox) => sandbox.enter({ ...confines, root, profile: profileOf("off") }, "exclusive")),
        layerOver(program, state, root),
      )
      assert(entrance.holding.by === "group")
      const text = entrance.holding.enter?.[2] ?? ""
      assert.strictEqual(decide(text, "file-write-data", join(root, "f")), "allow")
      for (const name of ["config", "hooks/x"]) assert.strictEqual(decide(text, "file-write-data", join(root, ".git", name)), "deny", name)
      assert.strictEqual(decide(text, "file-write-unlink", join(root, ".git")), "deny")
    }))

  test("leads a profile's hosts through a port of its own, and refuses a loopback that it cannot make", () =>
    Effect.gen(function* () {
      const program = yield* standIn
      const { root, state } = yield* place
      const { enter } = yield* built(layerOver(program, state, root))
      const entrance = yield* enter({ ...confines, root, profile: profileOf({ allow: ["h.example"] }) }, "exclusive")
      const proxy = new URL(entrance.environment({})["http_proxy"] ?? "")
      assert(entrance.holding.by === "group")
      assert.include(entrance.holding.enter?.[2], `(remote ip "localhost:${proxy.port}")`)
      const answer = yield* Effect.callback<string>((resume) => {
        const client = createConnection(Number(proxy.port), "127.0.0.1", () =>
          client.write("CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n"),
        )
        client.once("data", (data) => {
          client.destroy()
          resume(Effect.succeed(String(data)))
        })
      })
      assert.match(answer, /^HTTP\/1\.1 403/u)
      assert.strictEqual((yield* entrance.denials).network[0]?.host, "other.example")
      const refusal = yield* Effect.flip(enter({ ...confines, root, profile: profileOf("loopback") }, "exclusive"))
      assert.strictEqual(refusal._tag, "SANDBOX_UNAVAILABLE")
      const strange = yield* Effect.flip(
        enter({ ...confines, root, profile: profileOf("off", [{ glob: "x/[!/]", access: "deny" }]) }, "exclusive"),
      )
      assert.include(strange.message, "cannot be written")
    }))

  test("confines nothing where the program does not work, and says so", () =>
    Effect.gen(function* () {
      const { root, state } = yield* place
      const { enter, examine } = yield* built(layerOver("/nowhere/sandbox-exec", state, root))
      const refusal = yield* Effect.flip(enter({ ...confines, root, profile: profileOf("off") }, "exclusive"))
      assert.include(refusal.message, "sandbox-exec cannot be used")
      yield* Effect.flip(examine({ ...confines, root, profile: profileOf("off") }, "exclusive"))
    }))

  test("tells where it is asked that nobody has run it on a Mac", () =>
    Effect.gen(function* () {
      const program = yield* standIn
      const { root, state } = yield* place
      const { files } = yield* Effect.provide(
        Effect.flatMap(Sandbox, (sandbox) => sandbox.examine({ ...confines, root, profile: profileOf("off") }, "exclusive")),
        layerOver(program, state, root),
      )
      assert.include(files, "has not been run on a Mac")
    }))
})

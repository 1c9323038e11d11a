/** What users of peers reported about confinement, each report once, through the built program (R098 is in `honest/`, R146 in `Unbash.test.ts`). */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { holding } from "../support/Processes.ts"
import { main } from "../support/Program.ts"
import { startServer } from "../support/RawServer.ts"
import { users, visibleFolder, type Who } from "../support/Users.ts"

const whyNot = !existsSync(main) ? "dist/main.mjs is not built (npm run build)" : holding.by === "group" ? holding.why : undefined
if (whyNot !== undefined) console.warn(`confinement.test.ts is skipped: ${whyNot}`)

type Answer = Readonly<Record<string, unknown>>

const closing: Array<() => Promise<void>> = []
afterAll(async () => {
  for (const close of closing) await close()
})

interface Setting {
  readonly who: Who
  readonly files?: Readonly<Record<string, string>>
  /** Beside the workspace `app`, which is of profile `own`. */
  readonly config?: (at: (name: string) => string) => {
    readonly workspaces?: Readonly<Record<string, object>>
    readonly profiles?: Readonly<Record<string, object>>
  }
  /** Of the profile `own`, which extends `workspace-write`. */
  readonly profile?: object
  readonly sandbox?: string
  /** Between the user and the program: a machine that lacks something. */
  readonly host?: (at: (name: string) => string) => ReadonlyArray<string>
  readonly prepare?: (at: (name: string) => string) => void
  readonly env?: (at: (name: string) => string) => Readonly<Record<string, string>>
}

const open = (setting: Setting) => {
  const base = realpathSync(mkdtempSync(join(visibleFolder(), "codespace-reports-")))
  const at = (name: string) => join(base, name)
  for (const [name, text] of Object.entries({ "app/f": "1\n", "home/.ssh/id_rsa": "the key\n", ...setting.files })) {
    mkdirSync(dirname(at(name)), { recursive: true })
    writeFileSync(at(name), text)
  }
  setting.prepare?.(at)
  const more = setting.config?.(at)
  const app = { root: at("app"), profile: "own", ...(setting.sandbox === undefined ? {} : { sandbox: setting.sandbox }) }
  const config = {
    workspaces: { app, ...more?.workspaces },
    profiles: { own: { extends: "workspace-write", ...setting.profile }, ...more?.profiles },
  }
  writeFileSync(at("config.json"), JSON.stringify(config))
  execFileSync("chown", ["-hR", `${setting.who.uid}:${setting.who.uid}`, base])
  execFileSync("chmod", ["755", base])
  const env = { PATH: process.env["PATH"] ?? "", HOME: at("home"), ...setting.env?.(at) }
  const { call, child, ended } = startServer(
    { env } as never,
    ["--config", at("config.json")],
    [...setting.who.as, ...(setting.host?.(at) ?? [])],
  )
  const close = async (): Promise<void> => {
    child.stdin.end()
    await ended
  }
  closing.push(async () => {
    await close()
    rmSync(base, { recursive: true, force: true })
  })
  const exec = (script: string, options: object = {}): Promise<Answer> => call("exec_command", { script, ...options })
  return { at, call: call as (name: string, args: object) => Promise<Answer>, child, close, exec }
}

const refusal = (answer: Answer) =>
  (answer["_meta"] as { readonly "codespace/refusal"?: { readonly code: string; readonly message: string } } | undefined)?.[
    "codespace/refusal"
  ]
const outputOf = (answer: Answer): string => String(answer["output"])

/** A bubblewrap that refuses as it does where user namespaces are blocked. */
const refusing = (at: (name: string) => string): ReadonlyArray<string> => {
  writeFileSync(at("bwrap"), "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n", { mode: 0o755 })
  return ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--ro-bind", at("bwrap"), "/usr/bin/bwrap", "--"]
}

/** A machine with the few programs that a test needs, and no bubblewrap. */
const withoutBwrap = (): ReadonlyArray<string> => {
  const kept = ["sh", "dash", "bash", "cat", "touch", "env", "ls", "git"].filter((name) => existsSync(`/usr/bin/${name}`))
  const shown = kept.flatMap((name) => ["--ro-bind", realpathSync(`/usr/bin/${name}`), `/usr/bin/${name}`])
  return ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/usr/bin", ...shown, "--"]
}

/** A machine where nobody can make a user namespace, and root has no rights. */
const withoutNamespaces = [
  "unshare",
  "-Ur",
  "sh",
  "-c",
  'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"',
  "sh",
]

const isOrdinaryPlace = existsSync("/usr/bin/bwrap")
if (!isOrdinaryPlace) console.warn("confinement.test.ts tests no host without bubblewrap: it is not in /usr/bin")

const suite = (who: Who) => {
  for (const [name, host, cause] of [
    [
      "R089: where the probe fails, status gives the cause and the fix, commands that need it are refused, and reading and patching go on",
      refusing,
      /setting up uid map: Permission denied/u,
    ],
    ["R090: without bubblewrap nothing confined runs, and what runs unconfined says so", withoutBwrap, /bubblewrap is not installed/u],
  ] as const)
    it.skipIf(!isOrdinaryPlace)(name, async () => {
      const closed = open({ who, host, profile: { network: "off" } })
      const refused = await closed.exec("touch marker")
      expect(refusal(refused)).toMatchObject({ code: "SANDBOX_UNAVAILABLE", message: expect.stringMatching(cause) })
      expect(existsSync(closed.at("app/marker"))).toBe(false)
      expect(JSON.stringify(await closed.call("workspace_info", {}))).toMatch(cause)
      expect(await closed.call("read", { path: "f" })).toMatchObject({ text: "1\n" })
      expect(await closed.call("write", { path: "f", content: "2\n" })).toMatchObject({ status: "applied" })

      const open_ = open({ who, host, profile: { network: "on" } })
      const ran = await open_.exec("touch marker; cat f")
      expect(ran).toMatchObject({
        exit_code: 0,
        output: "1\n",
        sandbox: expect.stringMatching(/^none: files and network were not confined/u),
      })
      const required = open({ who, host, profile: { network: "on" }, sandbox: "required" })
      expect(refusal(await required.exec("touch marker"))?.code).toBe("SANDBOX_UNAVAILABLE")
      expect(existsSync(required.at("app/marker"))).toBe(false)
    })

  it("R091: with namespaces refused, root without rights, or /proc masked, it is confined or refused, never silently wider", async () => {
    const masked = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/proc/swaps", "--"]
    for (const host of [withoutNamespaces, masked]) {
      const { at, call, exec } = open({ who, host: () => host, profile: { network: "off" } })
      const answer = await exec("touch marker; echo x > ../beside; cat ../home/.ssh/id_rsa")
      const info = JSON.stringify(await call("workspace_info", {}))
      expect(existsSync(at("beside"))).toBe(false)
      if (refusal(answer) === undefined) {
        expect(answer["sandbox"]).toMatch(/^bubblewrap/u)
        expect(outputOf(answer)).not.toContain("the key")
      } else {
        expect(refusal(answer)?.code).toBe("SANDBOX_UNAVAILABLE")
        expect(existsSync(at("app/marker"))).toBe(false)
        expect(info).toMatch(/not enforced|commands are refused/u)
      }
      expect(await call("read", { path: "f" })).toMatchObject({ text: "1\n" })
    }
  })

  const repository = (at: (name: string) => string): void => {
    const git = (folder: string, ...args: ReadonlyArray<string>) =>
      execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: at(folder), stdio: "pipe" })
    for (const name of ["app", "main"]) {
      mkdirSync(at(name), { recursive: true })
      writeFileSync(at(`${name}/f`), "1\n")
      git(name, "init", "-q")
      git(name, "add", ".")
      git(name, "commit", "-qm", "first")
    }
    git("main", "worktree", "add", "-q", at("tree"))
    mkdirSync(at("app/sub/nested"), { recursive: true })
    git("app/sub/nested", "init", "-q")
  }
  const commit = "echo 2 > f; git -c user.name=a -c user.email=a@b commit -qam second && git log --oneline | wc -l"

  it("R093: commits work in a plain clone and in a linked worktree; where the profile is read-only the result names it", async () => {
    const { at, exec } = open({
      who,
      prepare: repository,
      config: (place) => ({
        workspaces: { tree: { root: place("tree"), profile: "own" }, shown: { root: place("main"), profile: "shown" } },
        profiles: { shown: { extends: "read-only", exec: "on" } },
      }),
      profile: { network: "off" },
    })
    expect(await exec(commit)).toMatchObject({ exit_code: 0, output: "2\n" })
    expect(await exec(commit, { workspace_id: "tree" })).toMatchObject({ exit_code: 0, output: "2\n" })
    const before = readFileSync(at("main/f"), "utf8")
    const kept = await exec(commit, { workspace_id: "shown" })
    expect(kept["exit_code"]).not.toBe(0)
    expect(kept["sandbox"]).toMatch(/files read-only/u)
    expect(readFileSync(at("main/f"), "utf8")).toBe(before)
  })

  it("R094: from a sub-folder nobody plants hooks or configuration, in the repository or one inside it, while commit works", async () => {
    const { at, exec } = open({ who, prepare: repository, profile: { network: "off" } })
    const looks = () =>
      [".git/config", "sub/nested/.git/config"]
        .map((name) => readFileSync(at(`app/${name}`), "utf8"))
        .concat(readdirSync(at("app/.git/hooks")), readdirSync(at("app/sub/nested/.git/hooks")))
    const before = looks()
    const tried = await exec(
      "for g in ../.git nested/.git; do echo x > $g/hooks/pre-commit; echo x >> $g/config; git -C $g/.. config core.fsmonitor x; mv $g/hooks $g/h; done; echo tried",
      { cwd: "sub" },
    )
    expect(outputOf(tried)).toContain("tried")
    expect(looks()).toEqual(before)
    expect(await exec(commit)).toMatchObject({ exit_code: 0, output: "2\n" })
  })

  it("R095: keys, other workspaces and the server's environment give nothing away, and the system's tools run", async () => {
    const { child, exec } = open({
      who,
      files: { "other/secret.txt": "of another\n" },
      config: (at) => ({ workspaces: { other: { root: at("other") } } }),
      profile: { network: "off", files: [{ glob: "**/*.env", access: "deny" }] },
      env: () => ({ GITHUB_TOKEN: "the token" }),
    })
    const { output } = await exec(
      `cat ../home/.ssh/id_rsa ../other/secret.txt /proc/${child.pid}/environ /proc/*/environ; git --version; uname`,
    )
    expect(output).not.toMatch(/the key|of another|the token/u)
    expect(output).toMatch(/git version[\s\S]*Linux/u)
  })

  it("R097: temporary files are private to a workspace, where TMPDIR says, and gone at the end", async () => {
    const outside = mkdtempSync(join(tmpdir(), "codespace-seen-"))
    const { at, close, exec } = open({
      who,
      config: (place) => ({ workspaces: { other: { root: place("app2"), profile: "own" } } }),
      files: { "app2/f": "" },
      env: (place) => ({ TMPDIR: place("home") }),
    })
    expect(
      await exec('f=$(mktemp); echo mine > "$f"; echo also > /tmp/also; case "$f" in "$TMPDIR"/*) echo "$TMPDIR";; esac'),
    ).toMatchObject({ exit_code: 0, output: "/tmp\n" })
    expect(await exec("cat /tmp/also")).toMatchObject({ output: "also\n" })
    expect(outputOf(await exec("ls -A /tmp", { workspace_id: "other" }))).not.toMatch(/also|tmp\.|codespace-seen/u)
    expect(existsSync("/tmp/also")).toBe(false)
    await close()
    expect(execFileSync("find", [at("home"), "-name", "also"], { encoding: "utf8" })).toBe("")
    rmSync(outside, { recursive: true })
  })

  it("R099: a network that is off by profile says so, and files stay confined where it is on", async () => {
    const closed = open({ who, profile: { network: "off" } })
    const looked = await closed.exec("getent hosts registry.npmjs.org; exec 3<>/dev/tcp/192.0.2.1/80")
    expect(JSON.stringify([looked["notes"], looked["sandbox"]])).toMatch(/network/u)
    expect(looked["sandbox"]).toMatch(/network off/u)
    const on = open({ who, profile: { network: "on" } })
    const { output, sandbox } = await on.exec(
      "ip -o link 2>/dev/null | wc -l; cat /proc/net/dev | wc -l; echo x > ../beside; cat ../home/.ssh/id_rsa",
    )
    expect(sandbox).toMatch(/network on/u)
    expect(Number(/(\d+)\n/u.exec(String(output))?.[1])).toBeGreaterThanOrEqual(0)
    expect(readFileSync("/proc/net/dev", "utf8").split("\n").length - 1).toBe(
      Number(/\n(\d+)\n/u.exec(`\n${output}`.replace(/^\n\d+/u, ""))?.[1]),
    )
    expect(output).not.toContain("the key")
    expect(existsSync(on.at("beside"))).toBe(false)
  })

  it("R100: a state folder and a workspace folder that are links to elsewhere work", async () => {
    const elsewhere = mkdtempSync("/dev/shm/codespace-elsewhere-")
    execFileSync("chown", [`${who.uid}:${who.uid}`, elsewhere])
    const { at, call, exec } = open({
      who,
      profile: { network: "off" },
      prepare: (place) => {
        mkdirSync(place("home/.local/state"), { recursive: true })
        symlinkSync(elsewhere, place("home/.local/state/codespace"))
        mkdirSync(place("app/real"))
        symlinkSync("real", place("app/linked"))
      },
    })
    expect(await exec("echo here > x; cat x", { cwd: "linked" })).toMatchObject({ exit_code: 0, output: "here\n" })
    expect(readFileSync(at("app/real/x"), "utf8")).toBe("here\n")
    expect(outputOf(await exec(`ls ${elsewhere} ${at("home/.local/state/codespace")}`))).not.toContain("sqlite")
    expect(await call("read", { path: "linked/x" })).toMatchObject({ text: "here\n" })
    rmSync(elsewhere, { recursive: true, force: true })
  })

  it("R101: no argument, and no file in the workspace, widens a profile", async () => {
    const { at, call, exec } = open({
      who,
      profile: { network: "off" },
      files: {
        "app/codespace.json": `{"profiles":{"own":{"network":"on"}}}`,
        "app/.codespace/config.json": `{"sandbox":"off"}`,
        "app/.config/codespace/config.json": "{}",
      },
    })
    for (const extra of [
      { network: true },
      { network: "on" },
      { approved: true },
      { sandbox: "off" },
      { profile: "open" },
      { with_escalated_permissions: true },
      { access: "all" },
      { environment: "host" },
      { config: "app/codespace.json" },
    ])
      expect(refusal(await exec("touch marker", extra))).toMatchObject({
        code: "INVALID_ARGUMENTS",
        message: expect.stringContaining(Object.keys(extra)[0]!),
      })
    for (const name of ["LD_PRELOAD", "BASH_ENV", "CODESPACE_CONFIG", "XDG_STATE_HOME", "GIT_CONFIG_GLOBAL"])
      expect(refusal(await exec("touch marker", { env: { [name]: "/x" } })), name).toBeDefined()
    for (const cwd of ["..", "/", "../home", "f/../.."]) expect(refusal(await exec("touch marker", { cwd })), cwd).toBeDefined()
    expect(existsSync(at("app/marker"))).toBe(false)
    const ran = await exec(`echo x > ${at("config.json")}; echo x > ${at("home/.local/state/codespace/evil")}; echo done`)
    expect(ran["sandbox"]).toMatch(/network off/u)
    expect(readFileSync(at("config.json"), "utf8")).toContain("workspaces")
    expect(existsSync(at("home/.local/state/codespace/evil"))).toBe(false)
    for (const path of [at("config.json"), "../config.json"])
      expect(refusal(await call("write", { path, content: "{}" }))?.code).toBe("PATH_ESCAPE")
  })

  it("R102: read-only is read-only for every tool, and a command that only looks runs", async () => {
    const { at, call, exec } = open({
      who,
      config: (place) => ({
        workspaces: { kept: { root: place("kept"), profile: "kept" } },
        profiles: { kept: { extends: "read-only", exec: "on" } },
      }),
      files: { "kept/f": "1\n" },
      profile: { network: "off" },
    })
    const kept = { workspace_id: "kept" }
    const changes: ReadonlyArray<readonly [string, object]> = [
      ["write", { path: "g", content: "x" }],
      ["edit", { path: "f", edits: [{ old: "1", new: "2" }] }],
      ["apply_patch", { patch: "*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch" }],
      ["apply_patch", { patch: "*** Begin Patch\n*** Delete File: f\n*** End Patch" }],
    ]
    for (const [tool, args] of changes) expect(refusal(await call(tool, { ...kept, ...args }))?.code).toBe("POLICY_DENIED")
    const shell = await call("exec_command", { ...kept, command: ["sh"], stdin: "open", yield_ms: 0, access: "shared" })
    await call("write_stdin", { process_id: shell["process_id"], data: "echo x > f; touch g\nexit\n", yield_ms: 1000 })
    await exec("touch g; echo x > f; mv f h; rm f", kept)
    expect(await exec("touch own; echo x >> f", { access: "read_only" })).toMatchObject({ sandbox: expect.stringMatching(/read-only/u) })
    expect(readdirSync(at("kept"))).toEqual(["f"])
    expect(readFileSync(at("kept/f"), "utf8")).toBe("1\n")
    expect(readdirSync(at("app"))).toEqual(["f"])
    expect(await exec("ls; cat f", kept)).toMatchObject({ exit_code: 0, output: "f\n1\n" })
  })
}

describe.skipIf(whyNot !== undefined)("reports of users about confinement", { timeout: 60_000 }, () => {
  for (const who of users("confinement.test.ts")) describe(`as ${who.name}`, () => suite(who))
})

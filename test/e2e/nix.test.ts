/**
 * The flake, as far as it can be judged without nixpkgs: every file parses, and the outputs evaluate against a stand-in
 * that shows what they were made from.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const folder = mkdtempSync(join(tmpdir(), "codespace-nix-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const nix = (...args: ReadonlyArray<string>) =>
  spawnSync("nix-instantiate", args, { encoding: "utf8", env: { ...process.env, HOME: folder } })
const isHere = nix("--version").status === 0
if (!isHere) console.warn("nix.test.ts: evaluation is skipped: nix-instantiate is not installed (on Debian: apt install nix-bin)")

/** The value of an expression over the flake's outputs `self` and the stand-in `nixpkgs`. */
const evaluate = (expression: string): unknown => {
  const file = join(folder, "expression.nix")
  writeFileSync(
    file,
    `let nixpkgs = import ${root}test/fixtures/nix/nixpkgs.nix; self = (import ${root}flake.nix).outputs { inherit self nixpkgs; };
     pkgs = nixpkgs.legacyPackages.x86_64-linux; in ${expression}`,
  )
  const { status, stderr, stdout } = nix("--store", "dummy://", "--eval", "--strict", "--json", file)
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

interface LockNode {
  readonly locked: { readonly rev: string; readonly narHash: string }
  readonly original: { readonly owner: string; readonly repo: string; readonly ref: string }
}

describe("the flake's lock file", () => {
  it("pins the one input to a revision and its hash", () => {
    const lock = JSON.parse(readFileSync(join(root, "flake.lock"), "utf8")) as { readonly nodes: { readonly nixpkgs: LockNode } }
    const { locked, original } = lock.nodes.nixpkgs
    expect(readFileSync(join(root, "flake.nix"), "utf8")).toContain(`"github:${original.owner}/${original.repo}/${original.ref}"`)
    expect(locked.rev).toMatch(/^[0-9a-f]{40}$/)
    expect(Buffer.from(locked.narHash.replace("sha256-", ""), "base64")).toHaveLength(32)
  })
})

describe.skipIf(!isHere)("the flake", () => {
  it("parses", () => {
    const files = ["flake.nix", ...readdirSync(join(root, "nix")).map((name) => `nix/${name}`)]
    for (const file of files) expect([file, nix("--parse", join(root, file)).status]).toEqual([file, 0])
    writeFileSync(join(folder, "broken.nix"), "{ a = ; }")
    expect(nix("--parse", join(folder, "broken.nix")).status).toBe(1)
  })

  describe("its package", () => {
    let made: {
      readonly npmDeps: Readonly<Record<string, { readonly resolved: string; readonly integrity: string } | null>>
      readonly nodejs: string
      readonly npmConfigHook: string
      readonly postInstall: string
      readonly version: string
    }
    beforeAll(() => {
      made = evaluate('builtins.removeAttrs self.packages.x86_64-linux.default [ "outPath" "src" ]') as typeof made
    })

    it("fetches every dependency of the lock file from the registry, by npm's own hash", () => {
      const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"))
      expect(Object.keys(made.npmDeps).sort()).toEqual(Object.keys(packages).sort())
      expect(made.npmDeps["node_modules/effect"]).toEqual({
        resolved: `https://registry.npmjs.org/effect/-/effect-${packages["node_modules/effect"].version}.tgz`,
        integrity: packages["node_modules/effect"].integrity,
      })
      // A scope, and a package under another name.
      expect(made.npmDeps["node_modules/@types/node"]?.resolved).toMatch(
        /^https:\/\/registry\.npmjs\.org\/@types\/node\/-\/node-[\d.]+\.tgz$/,
      )
      expect(made.npmDeps["node_modules/node-pty"]?.resolved).toMatch(/\/@lydell\/node-pty\/-\/node-pty-1\.1\.0\.tgz$/)
    })

    it("is built and run with Node 24, and finds bubblewrap, git and ripgrep", () => {
      expect([made.nodejs, made.npmConfigHook, made.version]).toEqual([
        "/stub/nodejs_24",
        "npm-config-hook",
        JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version,
      ])
      expect(made.postInstall).toContain("--prefix PATH : /stub/git/bin:/stub/ripgrep/bin:/stub/bubblewrap/bin")
      expect(evaluate("self.packages.aarch64-darwin.default.postInstall")).not.toContain("bubblewrap")
    })
  })

  it("serves the folder when it is run without arguments, and passes arguments on", () => {
    const text = evaluate(
      `((import ${root}flake.nix).outputs { inherit self; nixpkgs = nixpkgs // { lib = nixpkgs.lib // { getExe = one: one.text or "codespace"; }; }; }).apps.x86_64-linux.default.program`,
    ) as string
    const script = text.replace("exec codespace", "echo ran")
    const run = (...args: ReadonlyArray<string>) => spawnSync("sh", ["-c", script, "codespace", ...args], { encoding: "utf8" }).stdout
    expect([run(), run("mcp", "my app")]).toEqual(["ran serve .\n", "ran mcp my app\n"])
  })

  it("has a shell and checks for every system", () => {
    expect(evaluate("builtins.mapAttrs (_: one: one.default.packages) self.devShells")).toEqual({
      "x86_64-linux": ["nodejs_24", "git", "ripgrep", "bubblewrap"],
      "aarch64-linux": ["nodejs_24", "git", "ripgrep", "bubblewrap"],
      "aarch64-darwin": ["nodejs_24", "git", "ripgrep"],
    })
    expect(evaluate("builtins.mapAttrs (_: builtins.attrNames) self.checks")).toEqual({
      "x86_64-linux": ["package", "starts"],
      "aarch64-linux": ["package", "starts"],
      "aarch64-darwin": ["package", "starts"],
    })
    expect(evaluate("self.checks.x86_64-linux.starts.text")).toContain("codespace mcp app | grep")
  })

  it("runs the service as its own user, over its own state and the workspaces alone", () => {
    const service = (given: string) =>
      evaluate(
        `let made = self.nixosModules.default { inherit pkgs; inherit (nixpkgs) lib; config.services.codespace = ${given}; }; in made.config`,
      ) as Record<string, never>
    const config =
      service(`{ enable = true; user = "codespace"; group = "codespace"; port = 9000; package = self.packages.x86_64-linux.default;
      workspaces.app = { root = "/srv/app"; profile = "workspace-write"; }; settings.http.origins = [ "https://app.example" ]; }`) as unknown as {
        readonly users: { readonly users: Readonly<Record<string, { readonly isSystemUser: boolean }>> }
        readonly systemd: {
          readonly services: {
            readonly codespace: {
              readonly environment: object
              readonly serviceConfig: Readonly<Record<string, string | ReadonlyArray<string>>>
            }
          }
        }
      }
    const { environment, serviceConfig } = config.systemd.services.codespace
    expect(config.users.users["codespace"]?.isSystemUser).toBe(true)
    expect(serviceConfig).toMatchObject({
      User: "codespace",
      StateDirectory: "codespace",
      StateDirectoryMode: "0700",
      BindPaths: ["/srv/app"],
    })
    expect(environment).toEqual({ HOME: "/var/lib/codespace", XDG_STATE_HOME: "/var/lib" })
    const [, file = ""] = /serve --config codespace\.json:(.*)$/.exec(String(serviceConfig["ExecStart"])) ?? []
    expect(JSON.parse(file)).toEqual({
      workspaces: { app: { root: "/srv/app", profile: "workspace-write" } },
      http: { port: 9000, origins: ["https://app.example"] },
    })
    expect(service("{ enable = false; workspaces = { }; settings = { }; }")).toEqual({})
  })
})

/** What this machine has to offer: the programs commands need, and what holds them. Each is really tried. */
import { execFile } from "node:child_process"
import { accessSync, constants, mkdtempSync, rmSync, statSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Context, Effect, Layer, Result } from "effect"
import { attempt } from "../layers/Folders.ts"
import { searchPath, variablesWith } from "../layers/HostEnvironment.ts"
import * as NodeIdentity from "../layers/NodeIdentity.ts"
import * as NodePty from "../layers/NodePty.ts"
import * as PlatformSandbox from "../layers/PlatformSandbox.ts"
import { locate } from "../layers/Ripgrep.ts"
import type { SearchPath } from "../schema/Config.ts"
import { WorkspaceId } from "../schema/Workspace.ts"
import { builtInProfiles } from "../services/AppConfig.ts"
import { NetworkProxy } from "../services/NetworkProxy.ts"
import { type Confines, holdingText, Sandbox } from "../services/Sandbox.ts"
import { type Check, note, ok, wrong } from "./Finding.ts"

/** The Node that runs this, and the one a shell would start the program with. */
export const node: Check = Effect.gen(function* () {
  const here = `Node ${process.versions.node} at ${process.execPath}`
  const first = programOnPath("node")
  if (first === undefined || first === process.execPath) return ok("node", here)
  const version = yield* versionOf(first, /^v(\d+\.\d+)/)
  if (Result.isFailure(version) || Number(version.success) >= 22.19) return ok("node", here)
  return note(
    "node",
    `${here}; but the first in PATH is ${first}, version ${version.success}, with which "codespace" does not start`,
    `put ${process.execPath} into PATH before it, or name it in the client's settings as "codespace init" prints them`,
  )
})

/** Children get this PATH; a client that is started from a desktop often has a shorter one than a shell. */
export const path = (setting: SearchPath): Check =>
  Effect.gen(function* () {
    const { PATH = "" } = yield* variablesWith(setting)
    const folders = PATH.split(":").filter((folder) => folder !== "")
    const missing = folders.filter((folder) => Result.isFailure(attempt(() => statSync(folder))))
    const origin = setting === "server" ? "" : setting === "login-shell" ? " (login shell first)" : ' (as "path" of the configuration says)'
    if (folders.length === 0) return wrong("path", "PATH is empty, so commands find no program", "set PATH where the server is started")
    if (!folders.some((folder) => isExecutable(join(folder, "sh"))))
      return wrong("path", `${PATH}${origin} has no shell in it`, "add the folders of your system's programs, such as /usr/bin, to PATH")
    return missing.length === 0
      ? ok("path", `${PATH}${origin}`)
      : note("path", `${PATH}${origin}; of these ${missing.join(", ")} cannot be opened`, "take what is not there out of PATH, or make it")
  })

export const git: Check = Effect.gen(function* () {
  const program = programOnPath("git")
  if (program === undefined)
    return note("git", "git is not in PATH; everything works but commands that use it", "install git, for instance: apt install git")
  const version = yield* versionOf(program, /(\d+\.\d+[\w.]*)/)
  return Result.isSuccess(version)
    ? ok("git", `git ${version.success} at ${program}`)
    : note("git", `${program} does not run: ${version.failure}`, "install git anew, for instance: apt install --reinstall git")
})

export const ripgrep: Check = Effect.gen(function* () {
  const program = yield* locate
  const instead = "searches are done without it, which is slower"
  if (program === undefined)
    return note("ripgrep", `the package @vscode/ripgrep has no program for this machine; ${instead}`, "npm install --include=optional")
  const version = yield* versionOf(program, /(\d+\.\d+[\w.]*)/)
  if (Result.isSuccess(version)) return ok("ripgrep", `ripgrep ${version.success} at ${program}`)
  return wrong(
    "ripgrep",
    `${program} does not run: ${version.failure}; searches by text fail`,
    isExecutable(program) ? "install codespace anew" : `chmod +x ${program}`,
  )
})

/** A terminal is opened and closed again. */
export const terminal: Check = Effect.gen(function* () {
  const opened = yield* Effect.result(NodePty.open({ cols: 80, rows: 24 }))
  if (Result.isSuccess(opened)) {
    opened.success.destroy()
    return ok("terminal", "a terminal can be opened")
  }
  const file = nativeFile()
  return note(
    "terminal",
    `${opened.failure.cause}; commands without tty work`,
    file === undefined
      ? "npm install --include=optional, for a machine that @lydell/node-pty supports"
      : `the file is ${file}; make it readable (chmod a+r), or install codespace anew`,
  )
})

const nativeFile = (): string | undefined =>
  Result.getOrUndefined(
    attempt(() =>
      createRequire(createRequire(import.meta.url).resolve("node-pty")).resolve(
        `@lydell/node-pty-${process.platform}-${process.arch}/pty.node`,
      ),
    ),
  )

/** What confines and holds a command; found out by starting one. `isRequired`: some workspace runs none without. */
export const sandbox = (isRequired: boolean): Check =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "codespace-doctor-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true })),
    )
    const layer = PlatformSandbox.layer({ stateFolder: folder, workspaces: [] }).pipe(
      Layer.provide([NodeIdentity.layer, NetworkProxy.layerNone]),
    )
    const { examine, holding } = Context.get(yield* Layer.build(layer), Sandbox)
    const held = holdingText(yield* holding)
    const confined = yield* Effect.result(examine({ ...STRICTEST, root: folder }, "read_only"))
    if (Result.isFailure(confined)) {
      const found = `commands cannot be confined: ${confined.failure.cause}; ${held}`
      const fix = process.platform === "linux" ? NAMESPACES_FIX : "run on Linux where commands must be confined, or in a virtual machine"
      return isRequired
        ? wrong("sandbox", `${found}; a workspace with sandbox "required" runs no command`, fix)
        : note("sandbox", found, fix)
    }
    if (process.platform === "darwin")
      return note(
        "sandbox",
        `commands are confined by sandbox-exec, with a profile that has not been run on a Mac by those who make this program; ${held}`,
        "run the server on Linux, or in a virtual machine, where commands must be confined",
      )
    const found = `commands are confined by bubblewrap; ${held}`
    return process.getuid?.() === 0
      ? note(
          "sandbox",
          `${found}; as root, so what belongs to root is a command's to read`,
          "run the server as an ordinary user, or its workspaces in a worker with a user of its own",
        )
      : ok("sandbox", found)
  }).pipe(Effect.scoped)

/** A command that needs all a sandbox has. */
const STRICTEST: Omit<Confines, "root"> = {
  workspaceId: WorkspaceId.make("doctor"),
  profile: { ...builtInProfiles.get("read-only")!, exec: "on" },
  sandbox: "required",
}

/** What lets commands be confined on Linux. */
export const NAMESPACES_FIX =
  "apt install bubblewrap (or your system's way), and let your user make namespaces: sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0"

const programOnPath = (name: string): string | undefined =>
  searchPath()
    .map((folder) => join(folder, name))
    .find((file) => isExecutable(file) && statSync(file).isFile())

const isExecutable = (file: string): boolean => Result.isSuccess(attempt(() => accessSync(file, constants.X_OK)))

/** The first match in what a program says to `--version`; fails with why it says nothing. */
const versionOf = (program: string, pattern: RegExp): Effect.Effect<Result.Result<string, string>> =>
  Effect.callback((resume) => {
    execFile(program, ["--version"], { timeout: 10_000, env: { PATH: searchPath().join(":") } }, (error, stdout) => {
      const version = pattern.exec(stdout)?.[1]
      const why =
        error === null ? `it says ${JSON.stringify(stdout.slice(0, 80))}` : ((error as { readonly code?: unknown }).code ?? error.message)
      resume(Effect.succeed(version === undefined ? Result.fail(String(why)) : Result.succeed(version)))
    })
  })

/** Commands in the real sandbox of this machine, in folders made for the test. */
import { spawnSync } from "node:child_process"
import { copyFileSync, linkSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Context, Effect, Layer } from "effect"
import type { FileRule, NetworkAccess, Profile } from "../../src/schema/Policy.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import type { StartRequest } from "../../src/services/ProcessStart.ts"
import { ProcessSupervisor } from "../../src/services/ProcessSupervisor.ts"
import type { Confines, Sandbox } from "../../src/services/Sandbox.ts"
import { layerSandbox, layerSupervisorIn, limits, requestOf } from "./Processes.ts"

export const profileOf = (
  network: NetworkAccess = "on",
  rules: ReadonlyArray<FileRule> = [],
  base: "read" | "write" = "write",
): Profile => ({
  name: "test",
  files: [{ glob: "**", access: base }, ...rules],
  exec: "on",
  network,
  commands: [],
  env: [],
  limits,
})

/** A person whose git needs no configuration. */
const PERSON = { GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a@b", GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a@b" }

/** Where `putNode` puts it, from the root. */
export const NODE = "node"

export interface WorkshopOptions {
  readonly profile?: Profile
  readonly mode?: Confines["sandbox"]
  /** Folders beside the workspace that are workspaces too. */
  readonly others?: Readonly<Record<string, Profile>>
  readonly sandbox?: Layer.Layer<Sandbox>
}

/** A folder with a workspace `app` in it and a server's state beside it, until the scope ends. */
export const workshop = Effect.fnUntraced(function* ({ mode = "auto", others = {}, profile = profileOf(), sandbox }: WorkshopOptions = {}) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "codespace-box-")))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true })),
  )
  const root = join(folder, "app")
  const state = join(folder, "state")
  for (const name of ["app", "state", ...Object.keys(others)]) mkdirSync(join(folder, name), { recursive: true })
  const workspaces = [
    { realRoot: root, profile },
    ...Object.entries(others).map(([name, other]) => ({ realRoot: join(folder, name), profile: other })),
  ]
  const context = yield* Layer.build(layerSupervisorIn(join(state, "spools"), sandbox ?? layerSandbox(state, workspaces)))
  const supervisor = Context.get(context, ProcessSupervisor)
  const confines: Confines = { workspaceId: WorkspaceId.make("app"), root, profile, sandbox: mode }
  const start = (argv: ReadonlyArray<string>, more: Partial<StartRequest> = {}) =>
    supervisor.start(requestOf(argv, { ...confines, cwd: { path: root, shown: "." }, ...more }))
  return {
    folder,
    root,
    state,
    supervisor,
    confines,
    start,
    /** Runs a script in the sandbox until its end. */
    run: (script: string, more?: Partial<StartRequest>) =>
      Effect.flatMap(start(["bash", "-c", script], { env: PERSON, ...more }), (id) => supervisor.ended(id)),
    /** Writes files of the workspace, or beside it with `../`. */
    write: (files: Readonly<Record<string, string>>) => {
      for (const [name, content] of Object.entries(files)) {
        mkdirSync(dirname(join(root, name)), { recursive: true })
        writeFileSync(join(root, name), content)
      }
    },
    /** Puts node into the workspace, where commands see it wherever these tests lie: their own folder may be hidden from them. */
    putNode: (): void => {
      try {
        linkSync(process.execPath, join(root, NODE))
      } catch {
        copyFileSync(process.execPath, join(root, NODE))
      }
    },
    /** Git as a person runs it, outside of any sandbox. */
    git: (cwd: string, ...args: ReadonlyArray<string>): string => {
      const { status, stderr, stdout } = spawnSync("git", ["-c", "protocol.file.allow=always", ...args], {
        cwd: join(root, cwd),
        encoding: "utf8",
        env: { PATH: process.env["PATH"], ...PERSON, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" },
      })
      if (status !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`)
      return stdout.trim()
    },
  }
})

/** Why this machine confines nothing; undefined where it does. */
export const whyUnconfined: string | undefined = await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const { confines, supervisor } = yield* workshop({ mode: "required", profile: profileOf("off") })
      return yield* supervisor.confinable(confines, "exclusive").pipe(
        Effect.as(undefined),
        Effect.catch((refusal) => Effect.succeed(refusal.message)),
      )
    }),
  ),
)

/** Whether workers can run as the users that the configuration names; each thing is really tried, as that user. */
import { execFile } from "node:child_process"
import { accessSync, constants } from "node:fs"
import { Effect, Result } from "effect"
import { attempt, existingPart } from "../layers/Folders.ts"
import { searchPath } from "../layers/HostEnvironment.ts"
import { homeOf } from "../layers/WorkerUser.ts"
import type { AppConfig, WorkerUser, WorkspaceSettings } from "../services/AppConfig.ts"
import { type Finding, note, ok, wrong } from "./Finding.ts"
import { NAMESPACES_FIX } from "./MachineChecks.ts"

/** One finding for each environment with a user of its own. */
export const users = ({ stateFolder, workspaces }: AppConfig["Service"]): Effect.Effect<ReadonlyArray<Finding>> => {
  const named = [...workspaces.values()].flatMap((workspace) =>
    workspace.environment.kind === "worker" && workspace.environment.user !== undefined
      ? [{ name: workspace.environment.name, user: workspace.environment.user, workspace }]
      : [],
  )
  return Effect.forEach(
    Map.groupBy(named, ({ name }) => name),
    ([name, group]) =>
      Effect.map(
        problemOf(
          stateFolder,
          name,
          group.map(({ workspace }) => workspace),
          group[0]!.user,
        ),
        (problem) => problem ?? ok("user", `workers of environment ${name} run as ${textOf(group[0]!.user)}`),
      ),
  )
}

const problemOf = Effect.fnUntraced(function* (
  stateFolder: string,
  environment: string,
  workspaces: ReadonlyArray<WorkspaceSettings>,
  user: WorkerUser,
) {
  const home = homeOf(stateFolder, environment, user)
  const folder = existingPart(home)
  if (Result.isFailure(attempt(() => accessSync(folder, constants.W_OK))))
    return wrong(
      "user",
      `${home}, where the worker of ${environment} keeps its state, cannot be made: ${folder} cannot be written`,
      `let the server write there; in a systemd unit: ReadWritePaths=/var/lib or StateDirectory=codespace-workers`,
    )
  const program = process.argv[1] ?? ""
  if (!(yield* runs(user, [process.execPath, program, "--version"])))
    return wrong(
      "user",
      `${textOf(user)} cannot run ${process.execPath} with ${program}`,
      "install both where every user can read them, not in root's home",
    )
  for (const { profile, realRoot } of workspaces) {
    const isWritten = profile.files.some(({ access }) => access === "write")
    if (yield* runs(user, ["/bin/sh", "-c", `cd "$1" && [ -r . ]${isWritten ? " && [ -w . ]" : ""}`, "sh", realRoot])) continue
    const right = isWritten ? "change" : "read"
    return wrong(
      "user",
      `${textOf(user)} may not ${right} ${realRoot}`,
      `chown -R ${user.uid}:${user.gid} ${realRoot}, and let others pass the folders above it (chmod o+x)`,
    )
  }
  const confining = workspaces.filter(({ sandbox }) => sandbox !== "off")
  if (process.platform !== "linux" || confining.length === 0 || (yield* runs(user, CONFINED))) return undefined
  const isRequired = confining.some(({ sandbox }) => sandbox === "required")
  return (isRequired ? wrong : note)(
    "user",
    `commands of ${textOf(user)} cannot be confined${isRequired ? ', and a workspace with sandbox "required" runs none without' : ""}`,
    NAMESPACES_FIX,
  )
})

/** What a user needs who is not root: namespaces of its own, and a new /proc in them. */
const CONFINED = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]

const textOf = ({ gid, name, uid }: WorkerUser): string => `${name} (${uid}:${gid})`

const runs = ({ gid, uid }: WorkerUser, [program = "", ...args]: ReadonlyArray<string>): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    execFile(program, args, { uid, gid, cwd: "/", env: { PATH: searchPath().join(":") }, timeout: 10_000 }, (error) =>
      resume(Effect.succeed(error === null)),
    )
  })

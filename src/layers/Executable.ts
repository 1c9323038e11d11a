/**
 * Why a program cannot be started where it is asked for, found out before anything is started: what stands between the
 * server and the program (a shell, a sandbox) reports it in its own words or not at all.
 */
import { accessSync, closeSync, constants, openSync, readSync, statSync } from "node:fs"
import { resolve } from "node:path"
import { CommandNotFound, CwdInvalid, SpawnFailed } from "../schema/Process.ts"
import type { SpawnRequest } from "../services/ProcessSpawner.ts"

/** Where the system looks when there is no PATH. */
const DEFAULT_PATH = "/usr/local/bin:/bin:/usr/bin"

export const refusalOf = ({ argv, cwd, env }: SpawnRequest): CommandNotFound | CwdInvalid | SpawnFailed | undefined => {
  const problem = folderProblem(cwd.path)
  if (problem !== undefined) return new CwdInvalid({ cwd: cwd.shown, cause: problem })
  const command = argv[0] ?? ""
  const path = env["PATH"]
  const places = command.includes("/") ? [command] : (path ?? DEFAULT_PATH).split(":").map((folder) => `${folder || "."}/${command}`)
  const problems = new Set<string>()
  for (const place of command === "" ? [] : places) {
    const cause = programProblem(resolve(cwd.path, place))
    if (cause === undefined) return undefined
    if (cause !== MISSING) problems.add(cause)
  }
  const [cause] = problems
  return cause === undefined ? new CommandNotFound({ command, path: path ?? "not set" }) : new SpawnFailed({ command, cause })
}

const MISSING = "it does not exist"

const programProblem = (file: string): string | undefined => {
  try {
    const stat = statSync(file, { throwIfNoEntry: false })
    if (stat === undefined) return MISSING
    if (stat.isDirectory()) return "it is a folder"
    accessSync(file, constants.X_OK)
  } catch (error) {
    return `permission denied (${codeOf(error)})`
  }
  return hasInterpreter(file) ? undefined : "the interpreter its first line names was not found (ENOENT)"
}

/** Whether what a script's first line names is there; true for what is no script. */
const hasInterpreter = (file: string): boolean => {
  const start = Buffer.alloc(256)
  try {
    const descriptor = openSync(file, "r")
    try {
      readSync(descriptor, start)
    } finally {
      closeSync(descriptor)
    }
  } catch {
    // A program may be run that cannot be read.
    return true
  }
  const interpreter = /^#!\s*(\S+)/u.exec(start.toString("latin1"))?.[1]?.replace(/\0.*$/su, "")
  return interpreter === undefined || statSync(interpreter, { throwIfNoEntry: false }) !== undefined
}

/** What keeps a process from running in a folder. */
const folderProblem = (folder: string): string | undefined => {
  try {
    if (!statSync(folder).isDirectory()) return "it is not a folder"
    accessSync(folder, constants.X_OK)
    return undefined
  } catch (error) {
    const code = codeOf(error)
    return code === "ENOENT" ? MISSING : `it cannot be entered (${code})`
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ""

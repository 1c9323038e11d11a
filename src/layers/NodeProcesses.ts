/**
 * ProcessSpawner over `node:child_process`. Every child leads a session and a group of its own, writes into a spool file
 * that only this user can read, and carries a mark that its descendants inherit. Children are started from this thread,
 * and nothing of their output is held here.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process"
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { getSystemErrorMessage } from "node:util"
import { Deferred, Effect, Layer } from "effect"
import { CommandNotFound, CwdInvalid, type Signal, SpawnFailed, type Stdin } from "../schema/Process.ts"
import type { Variables } from "../services/ChildEnvironment.ts"
import { type Child, type Exit, InputClosed, ProcessSpawner, type SpawnRequest } from "../services/ProcessSpawner.ts"
import { ServerIdentity } from "../services/ServerIdentity.ts"
import * as NodeSpool from "./NodeSpool.ts"
import { descendantsOf, MARK, type Root, startOf } from "./ProcessTree.ts"

/**
 * Spools lie in a folder of this server below `folder`, which is made when missing (0700). The folder goes with the
 * layer; those of servers that died before they could remove theirs are removed first.
 */
export const layer = (folder: string): Layer.Layer<ProcessSpawner, never, ServerIdentity> =>
  Layer.effect(
    ProcessSpawner,
    Effect.gen(function* () {
      const identity = yield* ServerIdentity
      const spools = join(folder, identity.self)
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          mkdirSync(folder, { recursive: true, mode: 0o700 })
          for (const name of readdirSync(folder)) if (!identity.isAlive(name)) rmSync(join(folder, name), { recursive: true, force: true })
          mkdirSync(spools, { recursive: true, mode: 0o700 })
        }),
        () => Effect.sync(() => rmSync(spools, { recursive: true, force: true })).pipe(Effect.ignoreCause({ log: true })),
      )
      const shell = shellOf(process.env["PATH"] ?? "")
      return ProcessSpawner.of({
        spawn: (request) => start(request, join(spools, request.id)),
        hostEnvironment: () => ({ ...process.env }) as Variables,
        shell: () => shell,
      })
    }),
  )

/** Bash where there is one, since that is what scripts are written for. */
const shellOf = (path: string): string =>
  ["/bin", "/usr/bin", ...path.split(":")].map((folder) => join(folder, "bash")).find((file) => existsSync(file)) ?? "/bin/sh"

const start = (request: SpawnRequest, path: string): Effect.Effect<Child, CommandNotFound | CwdInvalid | SpawnFailed> =>
  Effect.callback((resume) => {
    const fail = (error: unknown) => {
      rmSync(path, { force: true })
      resume(Effect.fail(refusalOf(request, error)))
    }
    try {
      const child = spawnInto(request, path)
      // Without a number it was not started; the reason follows as an event.
      if (child.pid === undefined) child.once("error", fail)
      else resume(Effect.succeed(childOf(child, child.pid, request.id, path)))
    } catch (error) {
      fail(error)
    }
  })

const spawnInto = (request: SpawnRequest, path: string): ChildProcess => {
  const [command = "", ...args] = request.argv
  const input = inputOf(request.stdin, `${path}.in`)
  try {
    const output = NodeSpool.create(path)
    try {
      const stdio: StdioOptions = [input, output, output]
      return spawn(command, args, { cwd: request.cwd.path, env: { ...request.env, [MARK]: request.id }, stdio, detached: true })
    } finally {
      closeSync(output)
    }
  } finally {
    if (typeof input === "number") closeSync(input)
  }
}

/** A given text is a file without a name: nobody has to feed it, and it needs no memory here. */
const inputOf = (stdin: Stdin, path: string): number | "ignore" | "pipe" => {
  if (typeof stdin === "string") return stdin === "open" ? "pipe" : "ignore"
  writeFileSync(path, stdin.text, { mode: 0o600, flag: "wx" })
  const file = openSync(path, "r")
  rmSync(path)
  return file
}

const childOf = (child: ChildProcess, pid: number, id: string, path: string): Child => {
  const root: Root = { pid, start: startOf(pid), mark: `${MARK}=${id}` }
  const startedAt = performance.now()
  const exit = Deferred.makeUnsafe<Exit>()
  let hasExited = false
  child.once("exit", (code, signal) => {
    hasExited = true
    Deferred.doneUnsafe(exit, Effect.succeed(code === null ? { signal: signal ?? "SIGKILL" } : { code }))
  })
  // Errors of stdin are answered to whoever writes; one between writes is no news.
  child.stdin?.on("error", () => {})
  const descendants = () => descendantsOf(root, performance.now() - startedAt)
  return {
    pid,
    exit: Deferred.await(exit),
    hasExited: () => hasExited,
    spool: NodeSpool.open(path),
    ...stdinOf(child),
    // Until node has taken its exit the number is the child's own, and the group's with it.
    signal: (signal) => Effect.sync(() => (hasExited ? undefined : send(-pid, signal))),
    descendants: Effect.sync(descendants),
    signalTree: (signal) =>
      Effect.sync(() => {
        const living = descendants()
        if (!hasExited || living.some(({ group }) => group === pid)) send(-pid, signal)
        for (const { pid: member, group, start } of living) if (group !== pid && String(startOf(member)) === start) send(member, signal)
        return living
      }),
  }
}

const stdinOf = ({ stdin }: ChildProcess): Pick<Child, "write" | "pendingInput" | "closeInput"> => ({
  write: (bytes) =>
    Effect.callback((resume) => {
      if (stdin === null || !stdin.writable) return resume(Effect.fail(new InputClosed()))
      stdin.write(bytes, (error) => resume(error ? Effect.fail(new InputClosed()) : Effect.void))
    }),
  pendingInput: () => (stdin?.destroyed === false ? stdin.writableLength : 0),
  closeInput: Effect.sync(() => void stdin?.end()),
})

/** A process may go, or belong to somebody else, at any moment; what survives is seen afterwards. */
const send = (pid: number, signal: Signal): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // Whoever signalled looks again.
  }
}

/** Why a start failed. The folder is asked about first: node reports a missing one as a missing command. */
const refusalOf = (request: SpawnRequest, error: unknown): CommandNotFound | CwdInvalid | SpawnFailed => {
  const { code = "", errno, message, syscall = "" } = error as NodeJS.ErrnoException
  const command = request.argv[0] ?? ""
  const problem = problemOf(request.cwd.path)
  if (problem !== undefined) return new CwdInvalid({ cwd: request.cwd.shown, cause: problem })
  const isMissing = code === "ENOENT" && syscall.startsWith("spawn")
  const isNamedFile = command.includes("/") && existsSync(resolve(request.cwd.path, command))
  if (isMissing && !isNamedFile) return new CommandNotFound({ command, path: request.env["PATH"] ?? "not set" })
  if (isMissing) return new SpawnFailed({ command, cause: "the interpreter its first line names was not found (ENOENT)" })
  return new SpawnFailed({ command, cause: errno === undefined ? message : `${getSystemErrorMessage(errno)} (${code})` })
}

/** What keeps a process from running in a folder. */
const problemOf = (folder: string): string | undefined => {
  try {
    if (!statSync(folder).isDirectory()) return "it is not a folder"
    accessSync(folder, constants.X_OK)
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === "ENOENT" ? "it does not exist" : `it cannot be entered (${code})`
  }
}

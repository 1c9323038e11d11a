/**
 * Pipes that lead into spools. A program that opens its own output anew by name, as `echo oops >/dev/stderr` does, would
 * empty a file and then write over what others append; of a pipe it only gets one more end. What comes through is copied
 * by `cat` outside of whatever holds the program: no output passes through the server, and what was written before a kill
 * of either still arrives.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { closeSync, existsSync, mkdirSync, openSync } from "node:fs"
import { basename, join } from "node:path"
import { Deferred, Effect, type Scope } from "effect"
import { searchPath } from "./HostEnvironment.ts"

export interface Pipe {
  /** The end for a program; whoever asked for the pipe closes it. */
  readonly descriptor: number
  /** Completes when the copy has its spool open, wherever that is moved from now on; false when it never will. */
  readonly begun: Effect.Effect<boolean>
  /** Completes when nobody can write into it any more and all of it is in the spool; false when a part could not be kept. */
  readonly copied: Effect.Effect<boolean>
}

export interface Scribe {
  /** A pipe into a spool, which lies in the scribe's folder. */
  readonly open: (spool: string) => Pipe
}

/** Pipes made at a time, while nothing else is done here: for most servers once. */
const BATCH = 64
/** Milliseconds after the end of a copy in which its process is certainly there to be taken leave of. */
const REAP_AFTER = 100

/**
 * A shell that is told a pipe and a spool on each line, and says of each pipe `O` when it has opened it, `F` when something
 * could not be written, and `E` when it has come to its end. A full disk holds the program up until there is room again.
 * An empty line lets it take leave of copies that have ended. It goes when the server does, but each copy ends first.
 */
const COPY = `trap '' TERM HUP INT QUIT PIPE; exec 3>&1
copy() { echo "O $1" >&3; until cat; do echo "F $1" >&3; sleep 0.1; done; echo "E $1" >&3; }
while read -r pipe spool; do
  jobs >/dev/null
  if [ -n "$pipe" ]; then { copy "$pipe" <"pipes/$pipe" >>"$spool" || { echo "F $pipe"; echo "E $pipe"; } >&3; } 2>/dev/null & fi
done`

/** Works in `folder` until the scope ends; undefined where pipes cannot be made. Its shell is started with the first pipe. */
export const make = (folder: string): Effect.Effect<Scribe | undefined, never, Scope.Scope> =>
  Effect.gen(function* () {
    const program = folders.map((place) => join(place, "mkfifo")).find((file) => existsSync(file))
    if (process.platform !== "linux" || program === undefined) return undefined
    const free: Array<string> = []
    let made = 0
    let shell: Shell | undefined

    const next = (): string => {
      if (free.length === 0) {
        const names = Array.from({ length: BATCH }, () => String(made++))
        mkdirSync(join(folder, "pipes"), { recursive: true, mode: 0o700 })
        execFileSync(program, ["-m", "600", ...names], { cwd: join(folder, "pipes"), stdio: "ignore" })
        free.push(...names)
      }
      return free.pop() as string
    }
    yield* Effect.addFinalizer(() => Effect.sync(() => shell?.close()))
    return {
      open: (spool) => {
        if (shell === undefined || shell.hasEnded()) shell = start(folder, (name) => free.push(name))
        const name = next()
        const path = join(folder, "pipes", name)
        // With both ends here it neither waits for another end nor is empty before the copy has begun.
        const anchor = openSync(path, "r+")
        try {
          return { descriptor: openSync(path, "w"), ...shell.copy(name, basename(spool), anchor) }
        } catch (error) {
          closeSync(anchor)
          throw error
        }
      },
    }
  })

/** Where programs of the system are found. */
const folders: ReadonlyArray<string> = ["/usr/bin", "/bin", ...searchPath()]

interface Shell {
  readonly hasEnded: () => boolean
  readonly copy: (pipe: string, spool: string, anchor: number) => Pick<Pipe, "begun" | "copied">
  readonly close: () => void
}

interface Copy {
  readonly begun: Deferred.Deferred<boolean>
  readonly done: Deferred.Deferred<boolean>
  anchor: number | undefined
  isWhole: boolean
}

/** `release` is told of each pipe that can be used again. */
const start = (folder: string, release: (pipe: string) => void): Shell => {
  const child: ChildProcess = spawn("/bin/sh", ["-c", COPY, "sh"], {
    ...{ cwd: folder, env: { PATH: folders.join(":") }, stdio: ["pipe", "pipe", "ignore"], detached: true },
  })
  const copies = new Map<string, Copy>()
  let reaping: NodeJS.Timeout | undefined
  let rest = ""

  const opened = (copy: Copy) => {
    if (copy.anchor !== undefined) closeSync(copy.anchor)
    copy.anchor = undefined
  }
  const ended = (name: string, copy: Copy) => {
    opened(copy)
    Deferred.doneUnsafe(copy.begun, Effect.succeed(false))
    copies.delete(name)
    Deferred.doneUnsafe(copy.done, Effect.succeed(copy.isWhole))
  }
  const heard = (line: string) => {
    const name = line.slice(2)
    const copy = copies.get(name)
    if (copy === undefined) return
    if (line.startsWith("O")) {
      opened(copy)
      Deferred.doneUnsafe(copy.begun, Effect.succeed(true))
    } else if (line.startsWith("F")) copy.isWhole = false
    else {
      ended(name, copy)
      release(name)
      reaping ??= setTimeout(() => {
        reaping = undefined
        child.stdin?.write("\n")
      }, REAP_AFTER).unref()
    }
  }
  child.stdout?.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString("latin1")).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) heard(line)
  })
  // Without its shell a copy goes on and is heard to its end; only then there is nobody left to speak.
  child.stdout?.once("close", () => {
    for (const [name, copy] of copies) ended(name, Object.assign(copy, { isWhole: false }))
  })
  for (const part of [child, child.stdin, child.stdout]) part?.on("error", () => {})
  for (const part of [child, child.stdin, child.stdout]) (part as ChildProcess | undefined)?.unref()
  return {
    hasEnded: () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null,
    copy: (pipe, spool, anchor) => {
      const copy: Copy = { begun: Deferred.makeUnsafe(), done: Deferred.makeUnsafe(), anchor, isWhole: true }
      copies.set(pipe, copy)
      child.stdin?.write(`${pipe} ${spool}\n`)
      return { begun: Deferred.await(copy.begun), copied: Deferred.await(copy.done) }
    },
    close: () => {
      clearTimeout(reaping)
      child.stdin?.end()
    },
  }
}

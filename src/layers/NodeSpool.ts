/**
 * Spools as files: both streams of a child append to one file, so their order is the order of writing, nothing of it
 * passes through this process, and any number of readers page it by offset. Reads are synchronous: they are short and
 * come from the page cache. The middle of a long one can be given back to the disk as a hole in the file; where the hole is
 * stands in a small file beside it, so that it is known after a restart too.
 */
import { execFile } from "node:child_process"
import {
  closeSync,
  constants,
  existsSync,
  type FSWatcher,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs"
import { Effect } from "effect"
import type { Gap, Spool } from "../services/ProcessSpawner.ts"
import { contentOf } from "./ProcessTable.ts"

/** Milliseconds between looks at the size while somebody waits: beside notices of the kernel, and without them. */
const SAFETY_NET = 500
const WITHOUT_NOTICES = 25

/** Creates a spool and opens it for a child; the caller closes the descriptor. */
export const create = (path: string): number =>
  openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL, 0o600)

/**
 * Creates one for a program that gets the file itself, and empties it when it opens it anew by name. It begins with a mark
 * that is not part of the output: when the mark is gone, so is something else.
 */
export const createMarked = (path: string): number => {
  const file = create(path)
  try {
    writeSync(file, MARK)
    return file
  } catch (error) {
    closeSync(file)
    throw error
  }
}

const MARK = new TextEncoder().encode("\0spool of output\n")

const hasMark = (path: string): boolean => Buffer.compare(readAt(path, 0, MARK.length), MARK) === 0

/** The first bytes, as text. */
export const start = (path: string): string => new TextDecoder().decode(readAt(path, hasMark(path) ? MARK.length : 0, 1000))

export interface FileSpool extends Spool {
  /** Nobody has emptied it, as far as that can be seen: by the mark. */
  readonly isWhole: () => boolean
}

/** A spool somebody removed reads as empty. */
export const open = (path: string, isMarked: boolean = hasMark(path)): FileSpool => {
  const given = gapOf(path)
  /** Bytes of the file before the output. */
  const before = () => (isMarked && hasMark(path) ? MARK.length : 0)
  return {
    isWhole: () => !isMarked || hasMark(path),
    size: Effect.sync(() => Math.max(0, sizeOf(path) - before())),
    gap: () => given,
    giveBack: (from, to) =>
      Effect.suspend(() => {
        const start = given.to > given.from ? given.to : from
        const last = { ...given }
        if (to <= start) return Effect.succeed(true)
        // Said before it is done, so that nobody reads what is about to go.
        Object.assign(given, { from: given.to > given.from ? given.from : from, to })
        writeGap(path, given)
        return Effect.tap(punch(path, start + before(), to + before()), (isDone) =>
          isDone
            ? Effect.void
            : Effect.sync(() => {
                Object.assign(given, last)
                writeGap(path, given)
              }),
        )
      }),
    read: (offset, length) => Effect.sync(() => readAt(path, offset + before(), length)),
    grown: (size) => Effect.callback((resume) => onGrowth(path, size + before(), () => resume(Effect.void))),
    cut: (size) => Effect.sync(() => withFile(path, "r+", (file) => ftruncateSync(file, size + before()))),
    remove: Effect.sync(() => {
      rmSync(path, { force: true })
      rmSync(path + GAP, { force: true })
    }),
  }
}

const GAP = ".gap"

const gapOf = (path: string): { from: number; to: number } => {
  const [from = 0, to = 0] = (contentOf(path + GAP) ?? "").split(" ").map(Number)
  return { from, to }
}

const writeGap = (path: string, { from, to }: Gap): void => {
  try {
    writeFileSync(path + GAP, `${from} ${to}`, { mode: 0o600 })
  } catch {
    // On a full disk the hole is made all the same: it is what makes room.
  }
}

/** Gives part of a file back to the disk; it keeps its size. Node has no call for it, util-linux has a program. */
const punch = (path: string, from: number, to: number): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    const program = ["/usr/bin/fallocate", "/bin/fallocate"].find((file) => existsSync(file))
    if (program === undefined) return resume(Effect.succeed(false))
    execFile(program, ["--punch-hole", "--offset", String(from), "--length", String(to - from), path], { env: {} }, (error) =>
      resume(Effect.succeed(error === null)),
    )
  })

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

const readAt = (path: string, offset: number, length: number): Uint8Array => {
  if (length <= 0) return new Uint8Array()
  return (
    withFile(path, "r", (file) => {
      const bytes = new Uint8Array(length)
      let count = 0
      while (count < length) {
        const read = readSync(file, bytes, count, length - count, offset + count)
        if (read === 0) break
        count += read
      }
      return bytes.subarray(0, count)
    }) ?? new Uint8Array()
  )
}

const withFile = <A>(path: string, flags: string, use: (file: number) => A): A | undefined => {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined
  const file = openSync(path, flags)
  try {
    return use(file)
  } finally {
    closeSync(file)
  }
}

/** Calls `done` once when the file has more than `size` bytes; gives what stops waiting. */
const onGrowth = (path: string, size: number, done: () => void): Effect.Effect<void> => {
  const check = () => {
    if (sizeOf(path) <= size) return
    stop()
    done()
  }
  const watcher = watcherOf(path)
  const timer = setInterval(check, watcher === undefined ? WITHOUT_NOTICES : SAFETY_NET)
  const stop = () => {
    clearInterval(timer)
    watcher?.close()
  }
  watcher?.on("change", check)
  // Without a watch the timer goes on looking.
  watcher?.on("error", () => watcher.close())
  check()
  return Effect.sync(stop)
}

/** The system's count of watches may be used up. */
const watcherOf = (path: string): FSWatcher | undefined => {
  try {
    return watch(path)
  } catch {
    return undefined
  }
}

/**
 * Terminals through node-pty, an optional package. Only its two calls are used, to open a pair and to set its size; the
 * program is started like any other, with the far end as its three streams. What it writes comes through this process
 * into its spool, byte for byte, and is held back there while the disk takes nothing.
 */
import { execFile } from "node:child_process"
import { closeSync, readSync, writeSync } from "node:fs"
import { createRequire } from "node:module"
import { ReadStream } from "node:tty"
import { Deferred, Effect, Result } from "effect"
import { LimitExceeded } from "../schema/Policy.ts"
import { type TerminalSize, TerminalUnavailable } from "../schema/Process.ts"
import { InputClosed } from "../services/ProcessSpawner.ts"

interface Native {
  readonly open: (columns: number, rows: number) => { readonly master: number; readonly slave: number; readonly pty: string }
  readonly resize: (master: number, columns: number, rows: number) => void
}

export interface Terminal {
  /** The end the program gets; whoever starts the program closes it here, once that has ended. */
  readonly far: number
  readonly write: (bytes: Uint8Array) => Effect.Effect<void, InputClosed | LimitExceeded>
  readonly pending: () => number
  readonly resize: (size: TerminalSize) => Effect.Effect<void>
  /** Appends what is written to a file from now on, and closes the file at the end. */
  readonly copyTo: (file: number) => void
  readonly destroy: () => void
  /** For when those who wrote are gone: copies what is still in the terminal, and closes this end. */
  readonly drained: Effect.Effect<void>
}

export type OpenTerminal = (size: TerminalSize) => Effect.Effect<Terminal, TerminalUnavailable>

/** A line that is not finished is kept by the terminal up to this many bytes, and cut there without a word. */
const LONGEST_LINE = process.platform === "linux" ? 4095 : 1023
/** Milliseconds until a disk that took nothing is tried again, and that it may take for the last bytes. */
const RETRY = 100
const RETRY_INPUT = 20
const DRAIN_LIMIT = 500

/** More than a terminal ever holds, in bytes: somebody who escaped may go on writing. */
const MOST_HELD = 4_194_304

/** Bytes that end a line or throw away what stands in it: newline, return, interrupt, end of file, erase line. */
const LINE_ENDS = new Set([0x0a, 0x0d, 0x03, 0x04, 0x15])

export const open: OpenTerminal = (size) =>
  Effect.suspend(() => {
    const native = load()
    return Result.isFailure(native) ? Effect.fail(new TerminalUnavailable({ cause: native.failure })) : openWith(native.success, size)
  })

const load = (): Result.Result<Native, string> =>
  Result.try({
    try: () => {
      const inside = createRequire(createRequire(import.meta.url).resolve("node-pty"))
      return inside(`@lydell/node-pty-${process.platform}-${process.arch}/pty.node`) as Native
    },
    catch: (error) => `the package node-pty cannot be loaded (${(error as NodeJS.ErrnoException).code ?? String(error)})`,
  })

const openWith = (native: Native, { cols, rows }: TerminalSize) =>
  Effect.try({
    try: () => {
      const { master, pty, slave } = native.open(cols, rows)
      return terminalOf(native, master, slave, pty)
    },
    catch: (error) =>
      new TerminalUnavailable({ cause: `no terminal can be opened (${error instanceof Error ? error.message : String(error)})` }),
  })

const terminalOf = (native: Native, master: number, far: number, name: string): Terminal => {
  const stream = new ReadStream(master)
  const input = inputOf(stream, master)
  const closed = Deferred.makeUnsafe<void>()
  const copying = { finish: () => true }
  let unfinished = 0
  stream.on("error", () => {})
  stream.once("close", () => Deferred.doneUnsafe(closed, Effect.void))

  return {
    far,
    // Whoever grows tired of waiting must not take back what was to be written.
    write: (bytes) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const longest = longestLine(unfinished, bytes)
          if (longest.line > LONGEST_LINE && (yield* keepsLines(name)))
            return yield* new LimitExceeded({ limit: "bytes in one line of a terminal", value: LONGEST_LINE, asked: longest.line })
          unfinished = longest.rest
          return yield* restore(input.send(bytes))
        }),
      ),
    pending: input.pending,
    resize: (size) =>
      Effect.sync(() => {
        if (!stream.destroyed) native.resize(master, size.cols, size.rows)
      }),
    destroy: () => void stream.destroy(),
    copyTo: (file) => {
      copying.finish = copy(stream, master, file)
    },
    drained: Effect.suspend(() => (copying.finish() ? Effect.void : Effect.timeoutOption(Deferred.await(closed), DRAIN_LIMIT))).pipe(
      Effect.andThen(Effect.sync(() => void stream.destroy())),
    ),
  }
}

/**
 * The way into a terminal. Node would wait in the write until a program that does not read takes it, and everybody else
 * with it; so it is written without waiting, and what the terminal does not take now is tried again.
 */
const inputOf = (stream: ReadStream, master: number) => {
  const queue: Array<{ bytes: Uint8Array; readonly taken: Deferred.Deferred<void, InputClosed> }> = []
  const state = { isWaiting: false }
  const pump = (): void => {
    state.isWaiting = false
    for (let first = queue[0]; first !== undefined; first = queue[0]) {
      const count = stream.destroyed ? "closed" : writeNow(master, first.bytes)
      if (count === "full") {
        state.isWaiting = true
        setTimeout(pump, RETRY_INPUT).unref()
        return
      }
      if (count !== "closed" && count < first.bytes.length) first.bytes = first.bytes.subarray(count)
      else {
        queue.shift()
        Deferred.doneUnsafe(first.taken, count === "closed" ? Effect.fail(new InputClosed()) : Effect.void)
      }
    }
  }
  return {
    pending: () => (stream.destroyed ? 0 : queue.reduce((sum, { bytes }) => sum + bytes.length, 0)),
    /** Hands the bytes over, and gives what waits until they are taken. */
    send: (bytes: Uint8Array): Effect.Effect<void, InputClosed> => {
      const taken = Deferred.makeUnsafe<void, InputClosed>()
      queue.push({ bytes, taken })
      if (!state.isWaiting) pump()
      return Deferred.await(taken)
    },
  }
}

const writeNow = (master: number, bytes: Uint8Array): number | "full" | "closed" => {
  try {
    return writeSync(master, bytes)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EAGAIN" ? "full" : "closed"
  }
}

/**
 * Copies in the order of arrival. What the disk does not take is tried again, and nothing more is read meanwhile. Gives
 * what copies all that is there now, and tells whether that could be done.
 */
const copy = (stream: ReadStream, master: number, file: number): (() => boolean) => {
  let isStalled = false
  const put = (bytes: Buffer): void => {
    try {
      const count = writeSync(file, bytes)
      if (count < bytes.length) put(bytes.subarray(count))
    } catch {
      const kept = Buffer.from(bytes)
      isStalled = true
      stream.pause()
      setTimeout(() => {
        if (stream.destroyed) return
        isStalled = false
        put(kept)
        if (!isStalled) stream.resume()
      }, RETRY).unref()
    }
  }
  // A terminal gives its content in small parts; node takes the hang-up of the far end for the end of it after any of them.
  const finish = (): boolean => {
    for (let left = MOST_HELD; left > 0 && !isStalled && !stream.destroyed; ) {
      const bytes = readNow(master)
      if (bytes === undefined) break
      left -= bytes.length
      put(bytes)
    }
    return !isStalled
  }
  stream.on("data", put)
  stream.once("end", finish)
  stream.once("close", () => closeSync(file))
  return finish
}

/** One for all: what is read is written at once. */
const buffer = Buffer.allocUnsafe(65_536)

/** What a terminal has now, until the next time; undefined when that is nothing. */
const readNow = (master: number): Buffer | undefined => {
  try {
    const count = readSync(master, buffer)
    return count === 0 ? undefined : buffer.subarray(0, count)
  } catch {
    return undefined
  }
}

/** The longest unfinished line there would be, beginning with what is unfinished now, and what is unfinished after it. */
const longestLine = (unfinished: number, bytes: Uint8Array): { readonly line: number; readonly rest: number } => {
  let [line, rest] = [unfinished, unfinished]
  for (const byte of bytes) {
    rest = LINE_ENDS.has(byte) ? 0 : rest + 1
    line = Math.max(line, rest)
  }
  return { line, rest }
}

/** Whether the terminal hands over whole lines now, or each byte as it comes. Unknown counts as lines. */
const keepsLines = (name: string): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    execFile("stty", [process.platform === "darwin" ? "-f" : "-F", name, "-a"], (error, modes) =>
      resume(Effect.succeed(error !== null || !modes.includes("-icanon"))),
    )
  })

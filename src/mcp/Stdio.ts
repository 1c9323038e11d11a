/**
 * The stdio edge: one client, the local user, for as long as its pipe is open. File descriptor 1 belongs to the
 * protocol; whatever any library prints goes to stderr. `runStdio` only reports why it is over: the program around it
 * closes its layers and owns the exit code.
 */
import { type Readable, Writable } from "node:stream"
import { Effect, type Scope } from "effect"
import { Conversation } from "./Conversation.ts"
import { type CloseReason, LineTransport } from "./LineTransport.ts"
import { isObject, type JSONRPCMessage } from "./Rpc.ts"
import type { ToolTable } from "./ToolTable.ts"

export type StopReason = CloseReason | "signal" | "parent gone"

export interface StdioOptions {
  readonly table: ToolTable
  readonly input: Readable
  /** Where messages go; `claimStdout` gives the one of this process. */
  readonly output: Writable
  readonly log: (line: string) => void
  /** How the parent process is recognised; when the answer changes, the parent is gone. */
  readonly parent?: () => number
}

/**
 * Serves until the input ends, the reader vanishes, a signal asks to stop or the parent process is gone, and says which.
 * Calls in flight are interrupted by then; they end with the runtime that runs them.
 */
export const runStdio = Effect.fn("Stdio.run")(function* (options: StdioOptions) {
  const transport = new LineTransport({ input: options.input, output: options.output })
  const log = (error: Error) => options.log(JSON.stringify({ event: "stdio", message: error.message }))
  return yield* Effect.acquireUseRelease(
    Effect.sync(() => {
      transport.onerror = log
      serve(transport, options.table, log)
      void transport.start()
    }),
    () => Effect.raceAll([closed(transport), Effect.as(stopSignal, "signal" as const), orphaned(options.parent ?? (() => process.ppid))]),
    () => Effect.promise(() => transport.close()),
  )
})

/** The first message decides the era, and with it who answers. Messages that come while the SDK loads wait for it. */
const serve = (transport: LineTransport, table: ToolTable, log: (error: Error) => void): void => {
  transport.onmessage = (first) => {
    if (!isModern(first)) {
      const conversation = new Conversation(table, (message) => transport.send(message))
      transport.onmessage = (message) => conversation.receive(message)
      onClose(transport, () => conversation.close())
      return conversation.receive(first)
    }
    const early = [first]
    transport.onmessage = (message) => void early.push(message)
    import("./ModernStdio.ts").then(({ serveModern }) => serveModern(transport, table, early, log)).catch(log)
  }
}

/** The 2026 revision carries its terms in every request, or begins by asking for the server's. */
const isModern = (message: JSONRPCMessage): boolean => {
  if (!("method" in message)) return false
  const meta = message.params?.["_meta"]
  return message.method === "server/discover" || (isObject(meta) && "io.modelcontextprotocol/protocolVersion" in meta)
}

const onClose = (transport: LineTransport, then: () => void): void => {
  const inner = transport.onclose
  transport.onclose = () => {
    inner?.()
    then()
  }
}

/**
 * Takes file descriptor 1 for the protocol until the scope ends: `process.stdout` writes to stderr from here on, and a
 * vanished reader ends the stream instead of the process. What has been written reaches a reader that reads before the
 * scope has ended, which waits a second for it at most.
 */
export const claimStdout: Effect.Effect<Writable, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const original = process.stdout.write
      const write = original.bind(process.stdout)
      const wire = new Writable({
        highWaterMark: 1024 * 1024,
        write: (chunk, _encoding, done) => void write(chunk, done),
      })
      // The listener stays: what was written last may still fail.
      process.stdout.on("error", (error) => wire.destroy(error))
      process.stdout.write = process.stderr.write.bind(process.stderr)
      return { wire, original }
    }),
    ({ wire, original }) =>
      Effect.andThen(
        flushed(wire),
        Effect.sync(() => {
          process.stdout.write = original
        }),
      ),
  ),
  ({ wire }) => wire,
)

const flushed = (wire: Writable): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const done = () => resume(Effect.void)
    setTimeout(done, 1_000).unref()
    wire.on("error", done).on("close", done).end(done)
    if (wire.destroyed) done()
  })

/** The transport's end. Resumes later than whoever else listens: they were told of it first. */
const closed = (transport: LineTransport): Effect.Effect<StopReason> =>
  Effect.callback((resume) => {
    onClose(transport, () => setImmediate(() => resume(Effect.succeed(transport.reason ?? "closed"))))
    if (transport.reason !== undefined) resume(Effect.succeed(transport.reason))
  })

/** A signal that asks to stop. The listeners stay: a second one, as impatient clients send it, must not cut the closing short. */
export const stopSignal: Effect.Effect<void> = Effect.callback((resume) => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resume(Effect.void))
})

/** A parent can die while someone else still holds the other end of the pipe; then no end of input ever comes. */
export const orphaned = (parent: () => number): Effect.Effect<"parent gone"> =>
  Effect.suspend(() => {
    const first = parent()
    return Effect.sleep("1 second").pipe(
      Effect.repeat({ while: () => Effect.sync(() => parent() === first) }),
      Effect.as("parent gone" as const),
    )
  })

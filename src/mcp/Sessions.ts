/**
 * The 2025 sessions of the HTTP edge. A session belongs to the caller that opened it and is invisible to every other
 * one. Their number is bounded, and one that nobody uses ends: clients rarely say goodbye. Calls
 * that still wait are interrupted with their session; what they started is not the session's.
 */
import { type McpServerFactory, WebStandardStreamableHTTPServerTransport as SessionTransport } from "@modelcontextprotocol/server"
import type { LimitExceeded } from "../schema/Policy.ts"
import { type Authority, toAuthInfo } from "./Authority.ts"
import { Calls } from "./Calls.ts"
import { callerLimits, tooMany } from "./FlowControl.ts"
import { Replay } from "./Replay.ts"
import { factoryOf } from "./Server.ts"
import type { Client, ToolTable } from "./ToolTable.ts"

export interface SessionLimits {
  readonly count: number
  /** Of these for one caller. */
  readonly perCaller: number
  /** How long a session without an open request lasts, in milliseconds. */
  readonly idle: number
  readonly replayCount: number
  readonly replayBytes: number
  /** Between two signs of life on an open stream, in milliseconds. */
  readonly keepAlive: number
}

export const sessionLimits: SessionLimits = {
  count: 200,
  perCaller: callerLimits.sessions,
  idle: 30 * 60_000,
  replayCount: 500,
  replayBytes: 1024 * 1024,
  keepAlive: 15_000,
}

export interface Session {
  readonly id: string
  readonly owner: string
  readonly client: Client
  readonly transport: SessionTransport
  readonly calls: Calls
  /** Requests and streams that are open now. */
  open: number
  /** When it was last used, in epoch milliseconds. */
  seen: number
}

export class Sessions {
  readonly #sessions = new Map<string, Session>()
  readonly #table: ToolTable
  readonly #limits: SessionLimits
  readonly #now: () => number

  constructor(table: ToolTable, limits: SessionLimits, now: () => number) {
    this.#table = table
    this.#limits = limits
    this.#now = now
  }

  get size(): number {
    return this.#sessions.size
  }

  /** The caller's session of this id. */
  find(id: string, owner: string): Session | undefined {
    const session = this.#sessions.get(id)
    return session?.owner === owner ? session : undefined
  }

  /** Marks a session as in use, until the returned function is called. */
  hold(session: Session): () => void {
    session.open += 1
    session.seen = this.#now()
    return () => {
      session.open -= 1
      session.seen = this.#now()
    }
  }

  /**
   * Prepares a session for an `initialize` request of this client; one that the SDK does not accept is to be dropped. Undefined when every
   * place is taken by a session in use, a refusal when every place of this caller is.
   */
  async open(authority: Authority, client: Client): Promise<Session | LimitExceeded | undefined> {
    const { count, perCaller } = this.#limits
    const own = [...this.#sessions.values()].filter(({ owner }) => owner === authority.name)
    if (!this.#makeRoom(own, perCaller)) return tooMany({ ...callerLimits, sessions: perCaller }, "sessions", own.length + 1)
    if (!this.#makeRoom([...this.#sessions.values()], count)) return undefined
    const transport = new SessionTransport({
      sessionIdGenerator: () => session.id,
      eventStore: new Replay(this.#limits.replayCount, this.#limits.replayBytes),
      retryInterval: 1_000,
      keepAliveMs: this.#limits.keepAlive,
    })
    const session: Session = {
      id: crypto.randomUUID(),
      owner: authority.name,
      client,
      transport,
      calls: new Calls(this.#table),
      open: 0,
      seen: this.#now(),
    }
    transport.onclose = () => {
      this.#sessions.delete(session.id)
      session.calls.close()
    }
    // It takes its place at once: of many that are opened at the same time none is overlooked.
    this.#sessions.set(session.id, session)
    await connect(factoryOf(this.#table), authority, transport)
    return session
  }

  /** Ends a session. */
  drop(session: Session): void {
    this.#end(session)
  }

  /** Ends the sessions that have been idle for too long. */
  sweep(): void {
    const oldest = this.#now() - this.#limits.idle
    for (const session of this.#sessions.values()) if (session.open === 0 && session.seen <= oldest) this.#end(session)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.values()].map((session) => session.transport.close()))
  }

  #end(session: Session): void {
    this.#sessions.delete(session.id)
    void session.transport.close()
  }

  /** A client that lost its session starts a new one; so those unused for longest give way. */
  #makeRoom(among: ReadonlyArray<Session>, count: number): boolean {
    const tooMany = Math.max(0, among.length - count + 1)
    const idle = among.filter((session) => session.open === 0).sort((a, b) => a.seen - b.seen)
    for (const session of idle.slice(0, tooMany)) this.#end(session)
    return idle.length >= tooMany
  }
}

const connect = async (factory: McpServerFactory, authority: Authority, transport: SessionTransport): Promise<void> => {
  const server = await factory({ era: "legacy", authInfo: toAuthInfo(authority, "") })
  await server.connect(transport)
}

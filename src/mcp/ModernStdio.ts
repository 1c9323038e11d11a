/** The 2026 revision over stdio: the SDK takes a connection over whose first messages have been read already. */
import type { Transport } from "@modelcontextprotocol/server"
import { serveStdio } from "@modelcontextprotocol/server/stdio"
import type { LineTransport } from "./LineTransport.ts"
import type { JSONRPCMessage } from "./Rpc.ts"
import { factoryOf } from "./Server.ts"
import type { ToolTable } from "./ToolTable.ts"

/** Serves from here on, the `early` messages first. The connection stays the caller's to close. */
export const serveModern = (
  transport: LineTransport,
  table: ToolTable,
  early: ReadonlyArray<JSONRPCMessage>,
  onerror: (error: Error) => void,
): void => {
  const taken: Transport = {
    start: async () => {
      const closed = transport.onclose
      transport.onclose = () => {
        taken.onclose?.()
        closed?.()
      }
      transport.onmessage = (message) => taken.onmessage?.(message)
      for (const message of early) taken.onmessage?.(message)
    },
    send: (message) => transport.send(message),
    close: () => transport.close(),
  }
  serveStdio(factoryOf(table), { transport: taken, onerror })
}

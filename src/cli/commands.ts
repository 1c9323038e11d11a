/**
 * Every command, in the order help lists them. A command is a file in this folder, loaded when it is asked for; what
 * serves clients comes with the start, since a client waits for it. The summaries stand here, so that listing loads nothing.
 */
import type { Commands } from "./Command.ts"
import { mcp } from "./mcp.ts"
import { serve } from "./serve.ts"

export const { commands }: Commands = {
  commands: {
    mcp: { summary: "serve one client over stdio", load: () => mcp },
    serve: { summary: "serve clients over HTTP on this machine", load: () => serve },
  },
}

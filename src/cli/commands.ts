/**
 * Every command, in the order help lists them. A command is a file in this folder, loaded when it is asked for; what
 * serves clients comes with the start, since a client waits for it. The summaries stand here, so that listing loads nothing.
 */
import type { Commands } from "./Command.ts"
import { mcp } from "./mcp.ts"
import { serve } from "./serve.ts"

export const { commands }: Commands = {
  commands: {
    init: {
      summary: "write a first configuration, make a token, print the settings of each client",
      load: async () => (await import("./init.ts")).init,
    },
    mcp: { summary: "serve one client over stdio", load: () => mcp },
    serve: { summary: "serve clients over HTTP on this machine", load: () => serve },
    doctor: { summary: "say what works here and what does not, with the fix", load: async () => (await import("./doctor.ts")).doctor },
    completions: {
      summary: "print the script that completes command lines in bash, zsh or fish",
      load: async () => (await import("./completions.ts")).completions,
    },
    worker: {
      summary: "do the work of workspaces, for a server that starts it",
      load: async () => (await import("./worker.ts")).worker,
    },
    schema: {
      summary: "print the schema of the configuration, the tools or the operator's API",
      load: async () => (await import("./schema.ts")).schema,
    },
    token: { summary: "let callers in over HTTP, list them, turn them out", load: async () => (await import("./token.ts")).token },
    ops: { summary: "list recorded calls", load: async () => (await import("./ops.ts")).ops },
    show: { summary: "show all of one recorded call", load: async () => (await import("./show.ts")).show },
    inbox: { summary: "send instructions to the loops that work", load: async () => (await import("./inbox.ts")).inbox },
    operator: {
      summary: "say where the operator's credential lies, or make a new one",
      load: async () => (await import("./operator.ts")).operator,
    },
    approvals: { summary: "decide about calls that wait for a person", load: async () => (await import("./approvals.ts")).approvals },
    audit: { summary: "prove, export or renew the ledger", load: async () => (await import("./audit.ts")).audit },
  },
}

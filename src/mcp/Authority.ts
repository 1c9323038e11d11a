/** Whose authority a call carries, and how the HTTP edge hands it through the SDK. */
import type { AuthInfo } from "@modelcontextprotocol/server"
import type { CallerRecord } from "../schema/Caller.ts"
import type { Caller } from "../services/Caller.ts"

/** A caller with what it may use, as `Caller` has it. */
export type Authority = Pick<Caller["Service"], "name" | "workspaces" | "highest" | "trustPrompts">

/** The user of this machine: whoever started the stdio server. */
export const local: Authority = { name: "local", workspaces: undefined }

/** What a caller that is let in over HTTP may use. */
export const authorityOf = ({ highest, name, trust_prompts, workspaces }: CallerRecord): Authority => ({
  name,
  workspaces,
  highest,
  trustPrompts: trust_prompts,
})

/** The SDK's form of an authority, and where its client finds the operator's pages; the token itself stays at the door. */
export const toAuthInfo = (authority: Authority, console: string): AuthInfo => ({
  token: "",
  clientId: authority.name,
  scopes: [],
  extra: { authority, console },
})

/** Where the operator's pages are for the client of a request; undefined over stdio, where nobody serves them. */
export const consoleIn = (info: AuthInfo | undefined): string | undefined => info?.extra?.["console"] as string | undefined

/** The authority that `toAuthInfo` packed; `local` where no authentication took place. */
export const fromAuthInfo = (info: AuthInfo | undefined): Authority =>
  info === undefined ? local : (info.extra?.["authority"] as Authority)

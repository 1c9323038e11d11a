/** Whose authority a call carries, and how the HTTP edge hands it through the SDK. */
import type { AuthInfo } from "@modelcontextprotocol/server"

/** A caller's name and the workspaces it may use; undefined means every registered one. */
export interface Authority {
  readonly name: string
  readonly workspaces: ReadonlyArray<string> | undefined
}

/** The user of this machine: whoever started the stdio server. */
export const local: Authority = { name: "local", workspaces: undefined }

/** The SDK's form of an authority; the token itself stays at the door. */
export const toAuthInfo = (authority: Authority): AuthInfo => ({
  token: "",
  clientId: authority.name,
  scopes: [],
  extra: { workspaces: authority.workspaces },
})

/** The authority that `toAuthInfo` packed; `local` where no authentication took place. */
export const fromAuthInfo = (info: AuthInfo | undefined): Authority =>
  info === undefined ? local : { name: info.clientId, workspaces: info.extra?.["workspaces"] as ReadonlyArray<string> | undefined }

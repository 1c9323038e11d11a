/** How clients come in that were given no token, as the configuration has it: by another issuer, by a login here, or not at all. */
import { Layer } from "effect"
import type { AppConfig } from "../services/AppConfig.ts"
import type { Callers } from "../services/Callers.ts"
import { authenticator } from "./Authenticate.ts"
import { type OAuthServer, oauthRoutes } from "./OAuth.ts"
import { resourceRoutes } from "./ResourceMetadata.ts"
import { tokenIssuer } from "./TokenIssuer.ts"

export interface LoginServices extends Omit<OAuthServer, "config"> {
  readonly callers: Callers["Service"]
}

export const clientLogin = (config: Pick<AppConfig["Service"], "workspaces" | "profiles" | "http">, services: LoginServices) => {
  const { authorizations, callers } = services
  const { issuer, login } = config.http
  if (issuer !== null)
    return { hasLogin: true, authenticate: authenticator({ callers, issuer: tokenIssuer(issuer) }), routes: resourceRoutes(issuer) }
  return login === "off"
    ? { hasLogin: false, authenticate: authenticator({ callers }), routes: Layer.empty }
    : { hasLogin: true, authenticate: authenticator({ callers, authorizations }), routes: oauthRoutes({ ...services, config }) }
}

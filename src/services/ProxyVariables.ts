/** The variables that lead the usual programs to a proxy. Pure. */
import type { Variables } from "./ChildEnvironment.ts"

/** All of them are given HTTP: not every program that reads ALL_PROXY has SOCKS. Loopback is reached without. */
export const proxyVariables = (host: string, port: number): Variables => {
  const proxy = `http://${host}:${port}`
  const own = "localhost,127.0.0.1,::1"
  return {
    http_proxy: proxy,
    https_proxy: proxy,
    all_proxy: proxy,
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    ALL_PROXY: proxy,
    npm_config_proxy: proxy,
    npm_config_https_proxy: proxy,
    no_proxy: own,
    NO_PROXY: own,
    npm_config_noproxy: own,
    NODE_USE_ENV_PROXY: "1",
  }
}

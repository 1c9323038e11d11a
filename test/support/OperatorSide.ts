/** The operator of a program that serves: the credential from its state folder, the typed client, and plain requests. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { connect } from "../../src/operator/Client.ts"
import type { Home, Served } from "./Program.ts"

export const credentialOf = (home: Home): string => readFileSync(join(home.env.XDG_STATE_HOME, "codespace", "operator"), "utf8").trim()

export const rootOf = ({ endpoint }: Pick<Served, "endpoint">): string => endpoint.replace(/\/mcp$/, "")

export const operatorOf = (home: Home, served: Pick<Served, "endpoint">) => {
  const credential = credentialOf(home)
  const root = rootOf(served)
  const get = (path: string, init: RequestInit = {}) =>
    fetch(`${root}${path}`, { ...init, headers: { authorization: `Bearer ${credential}`, ...init.headers } })
  return { credential, root, get, client: Effect.runSync(connect({ url: root, credential })) }
}

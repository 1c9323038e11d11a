/**
 * The page on which the operator decides what a client that asked for a login may use. It shows where the answer goes,
 * which nobody can forge, before what the client says of itself.
 */
import type { HttpServerResponse } from "effect/http"
import type { Rights } from "../schema/Caller.ts"
import { excerpt } from "../schema/Retry.ts"
import type { AppConfig } from "../services/AppConfig.ts"
import { redirectHost } from "../services/RedirectAddresses.ts"
import type { AuthorizationRequest, Returning } from "./AuthorizationRequest.ts"
import { escaped, page } from "./Page.ts"

type Config = Pick<AppConfig["Service"], "workspaces" | "profiles">

export const consentPage = (
  config: Config,
  asked: AuthorizationRequest,
  values: URLSearchParams,
  wrong?: string,
): HttpServerResponse.HttpServerResponse => {
  const { client, redirectUri } = asked
  const workspaces = [...config.workspaces.values()].map(
    ({ id, profile }) =>
      `<label><input type="checkbox" name="workspace" value="${escaped(id)}" checked> ${escaped(id)} <span class="note">(${escaped(profile.name)})</span></label>`,
  )
  const profiles = [...config.profiles.keys()].map((name) => `<option value="${escaped(name)}">at most ${escaped(name)}</option>`)
  const kept = [...values].map(([name, value]) => `<input type="hidden" name="asked.${escaped(name)}" value="${escaped(value)}">`)
  return page({
    title: "Let this client use CodeSpace?",
    ...(wrong === undefined ? {} : { status: 400 }),
    leadsTo: formTarget(redirectUri),
    body:
      (wrong === undefined ? "" : `<p class="wrong" role="alert">${escaped(wrong)}</p>`) +
      `<p>The answer goes to <strong>${escaped(redirectHost(redirectUri))}</strong>.</p>` +
      `<p>The client calls itself <strong>${escaped(nameOf(asked))}</strong>${
        client.client_id.startsWith("https://") ? ` and is described at <code>${escaped(client.client_id)}</code>` : ""
      }. Allow it only if you have just asked for this there.</p>` +
      `<form method="post" action="/authorize">${kept.join("")}` +
      `<fieldset><legend>It may use these workspaces</legend>${workspaces.join("")}</fieldset>` +
      `<label>Highest profile<select name="profile"><option value="">each workspace's own</option>${profiles.join("")}</select></label>` +
      `<label><input type="checkbox" name="trust_prompts" value="yes"> A person answers its prompts, so it may ask there for approvals</label>` +
      `<button name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></form>` +
      `<p class="note">It reads, changes and runs what these profiles let it, until you revoke it: codespace token revoke.</p>`,
  })
}

/** What the operator ticked. Fails with a sentence for the page. */
export const decided = (config: Config, form: URLSearchParams): { readonly rights: Rights } | { readonly wrong: string } => {
  const workspaces = form.getAll("workspace").filter((id) => [...config.workspaces.keys()].some((known) => known === id))
  const highest = form.get("profile") ?? ""
  if (workspaces.length === 0) return { wrong: "Choose at least one workspace, or deny." }
  if (highest !== "" && !config.profiles.has(highest)) return { wrong: `There is no profile "${excerpt(highest, 60)}" any more.` }
  return { rights: { workspaces, trust_prompts: form.get("trust_prompts") === "yes", ...(highest === "" ? {} : { highest }) } }
}

/** The parameters of the request, which the form carries along. */
export const carried = (form: URLSearchParams): URLSearchParams =>
  new URLSearchParams([...form].flatMap(([name, value]) => (name.startsWith("asked.") ? [[name.slice(6), value] as [string, string]] : [])))

/** A name for the caller, in the letters a caller's name may have. */
export const callerName = (asked: Returning): string => {
  const name = nameOf(asked)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 40)
  return name === "" || name === "local" || name === "owner" ? "client" : name
}

const nameOf = ({ client, redirectUri }: Returning): string =>
  excerpt((client.client_name ?? "").replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").trim() || redirectHost(redirectUri), 60)

/** The form's answer is a redirect to the client, and browsers hold that against the page's policy. */
const formTarget = (redirectUri: string): string => {
  const { origin, protocol } = new URL(redirectUri)
  return origin === "null" ? protocol : origin
}

export const refusalPage = (status: number, message: string): HttpServerResponse.HttpServerResponse =>
  page({ title: "This login cannot go on", status, body: `<p>${escaped(message)}.</p>` })

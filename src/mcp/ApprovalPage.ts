/** The operator's page about a call that is held: all of it, and two buttons. A client's prompt leads here. */
import { Effect, Layer, Option } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Approval } from "../schema/Approval.ts"
import { type Approvals, toApproval } from "../services/Approvals.ts"
import type { Operator } from "../services/Operator.ts"
import { operatorRoutes } from "./OperatorDoor.ts"
import { fieldsOf } from "./OperatorLogin.ts"
import { escaped, page } from "./Page.ts"

/** For the operator alone; a person's browser is led to the login first. */
export const approvalRoutes = (
  operator: Operator["Service"],
  approvals: Approvals["Service"],
): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  Layer.mergeAll(
    HttpRouter.add("GET", "/approvals", answered(list(approvals))),
    HttpRouter.add("GET", "/approvals/:id", answered(Effect.flatMap(idIn, (id) => show(approvals, id)))),
    HttpRouter.add("POST", "/approvals/:id", answered(Effect.flatMap(idIn, (id) => decide(approvals, id)))),
  ).pipe(Layer.provide(operatorRoutes(operator).layer))

const idIn = Effect.map(HttpRouter.params, ({ id }) => id ?? "")

/** Failures of the records, in words. */
const answered = <R>(answer: Effect.Effect<HttpServerResponse.HttpServerResponse, { readonly message: string }, R>) =>
  Effect.catch(answer, ({ message }) =>
    Effect.succeed(page({ title: "CodeSpace", status: 503, body: `<p class="wrong">${escaped(message)}</p>` })),
  )

const list = Effect.fnUntraced(function* (approvals: Approvals["Service"]) {
  const open = (yield* approvals.list({ states: ["pending"], limit: 200 })).map(toApproval)
  const lines = open.map(
    ({ approval_id, caller, shown, workspace_id }) =>
      `<li><a href="/approvals/${escaped(approval_id)}">${escaped(`${shown.kind} in ${workspace_id}, by ${caller}`)}</a></li>`,
  )
  const body = open.length === 0 ? "<p>Nothing waits for a decision.</p>" : `<ul>${lines.join("")}</ul>`
  return page({ title: "Calls that wait for a decision", body })
})

const show = Effect.fnUntraced(function* (approvals: Approvals["Service"], id: string, problem?: string) {
  const held = yield* approvals.byId(id)
  if (Option.isNone(held))
    return page({ title: "No such call", status: 404, body: `<p><a href="/approvals">What waits for a decision</a></p>` })
  const approval = toApproval(held.value)
  const wrong = problem === undefined ? "" : `<p class="wrong" role="alert">${escaped(problem)}</p>`
  return page({ title: `${approval.shown.kind} in ${approval.workspace_id}`, body: `${wrong}${facts(approval)}${choice(approval)}` })
})

const choice = ({ approval_id, state, expires_at }: Approval): string =>
  state === "pending"
    ? `<form method="post" action="/approvals/${escaped(approval_id)}"><label>Reason<br><input name="reason" size="40"></label>` +
      `<button name="decision" value="grant">Allow once</button><button name="decision" value="deny">Deny</button></form>` +
      `<p class="note">Open until ${escaped(expires_at)}.</p>`
    : `<p><strong>${escaped(state)}</strong></p>`

/** Everything that is stored of it, in the order of the record. */
const facts = ({ shown, ...approval }: Approval): string => {
  const { diff, script, ...more } = shown
  const rows = Object.entries({ ...approval, ...more }).map(
    ([name, value]) =>
      `<dt>${escaped(name)}</dt><dd><code>${escaped(typeof value === "string" ? value : JSON.stringify(value))}</code></dd>`,
  )
  const texts = [script, diff].map((text) => (text === undefined ? "" : `<pre>${escaped(text)}</pre>`))
  return `<dl>${rows.join("")}</dl>${texts.join("")}`
}

const decide = Effect.fnUntraced(function* (approvals: Approvals["Service"], id: string) {
  const fields = yield* Effect.flatMap(HttpServerRequest.HttpServerRequest, fieldsOf)
  const reason = fields.get("reason")?.trim()
  const by = "operator (browser)"
  const decision = fields.get("decision")
  if (decision !== "grant" && decision !== "deny") return yield* show(approvals, id, "Choose one of the two.")
  return yield* (decision === "grant" ? approvals.grant(id, by) : approvals.deny(id, by, reason === "" ? undefined : reason)).pipe(
    Effect.as(HttpServerResponse.empty({ status: 303, headers: { location: `/approvals/${id}`, "cache-control": "no-store" } })),
    Effect.catchTag(["APPROVAL_NOT_FOUND", "APPROVAL_CONFLICT"], ({ message }) => show(approvals, id, message)),
  )
})

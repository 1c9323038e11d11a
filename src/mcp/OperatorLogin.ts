/** The operator's way in with a browser: one page that takes the credential, and the end of a login. */
import { ByteSize, Effect, Layer, Option } from "effect"
import { HttpIncomingMessage, HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { LOGIN_LASTS, type Operator } from "../services/Operator.ts"
import { isOwnPage, loginCookie, unavailable } from "./OperatorDoor.ts"
import { escaped, page } from "./Page.ts"

export const loginRoutes = (operator: Operator["Service"]): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  Layer.mergeAll(
    HttpRouter.add("GET", "/login", (request) => Effect.succeed(form(operator.file, nextOf(new URLSearchParams(query(request)))))),
    HttpRouter.add("POST", "/login", (request) => logIn(operator, request)),
    HttpRouter.add("POST", "/logout", (request) => logOut(operator, request)),
  )

/** A place on this server; anything else becomes the first page. */
const nextOf = (values: URLSearchParams): string => {
  const next = values.get("next") ?? "/"
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : "/"
}

const query = ({ url }: HttpServerRequest.HttpServerRequest): string => url.split("?", 2)[1] ?? ""

const form = (file: string, next: string, wrong?: { readonly status: number; readonly message: string }) =>
  page({
    title: "CodeSpace: log in as the operator",
    ...(wrong === undefined ? {} : { status: wrong.status }),
    body:
      (wrong === undefined ? "" : `<p class="wrong" role="alert">${escaped(wrong.message)}</p>`) +
      `<form method="post" action="/login"><input type="hidden" name="next" value="${escaped(next)}">` +
      `<label>Operator's credential<input type="password" name="credential" required autofocus autocomplete="current-password"></label>` +
      `<button>Log in</button></form><p class="note">It lies on the server's machine in <code>${escaped(file)}</code>.</p>`,
  })

/** The fields of a form, which is never long. */
export const fieldsOf = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<URLSearchParams> =>
  request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(64 * 1024)),
    Effect.map((text) => new URLSearchParams(text)),
    Effect.orElseSucceed(() => new URLSearchParams()),
  )

const logIn = Effect.fnUntraced(
  function* (operator: Operator["Service"], request: HttpServerRequest.HttpServerRequest) {
    const fields = yield* fieldsOf(request)
    const next = nextOf(fields)
    const again = (status: number, message: string) => form(operator.file, next, { status, message })
    if (!isOwnPage(request)) return again(403, "This form was sent from another page. Log in here.")
    return yield* operator.logIn((fields.get("credential") ?? "").trim()).pipe(
      Effect.map(
        Option.match({
          onNone: () => again(401, "That is not the operator's credential."),
          onSome: (login) => moved(next, cookie(request, login, LOGIN_LASTS)),
        }),
      ),
      Effect.catchTag("TooManyAttempts", (error) => Effect.succeed(again(429, `There were ${error.message}.`))),
    )
  },
  Effect.catchTag("STORE_UNAVAILABLE", (error) => Effect.succeed(unavailable(error))),
)

const logOut = Effect.fnUntraced(
  function* (operator: Operator["Service"], request: HttpServerRequest.HttpServerRequest) {
    if (isOwnPage(request)) yield* operator.logOut(request.cookies[loginCookie] ?? "")
    return moved("/login", cookie(request, "", 0))
  },
  Effect.catchTag("STORE_UNAVAILABLE", (error) => Effect.succeed(unavailable(error))),
)

const moved = (to: string, setCookie: string) =>
  HttpServerResponse.empty({ status: 303, headers: { location: to, "set-cookie": setCookie, "cache-control": "no-store" } })

/**
 * `Lax`, since a client's link to an approval or a consent page has to find the person logged in; what changes something
 * is held against its origin. Under a public name there is a tunnel, and a tunnel speaks TLS.
 */
const cookie = ({ headers }: HttpServerRequest.HttpServerRequest, value: string, lasts: number): string => {
  const secure = /^(localhost|127\.0\.0\.1|\[::1\])(:|$)/.test(headers["host"] ?? "") ? "" : "; Secure"
  return `${loginCookie}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${Math.floor(lasts / 1000)}${secure}`
}

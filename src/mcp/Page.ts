/**
 * Pages for a person: plain HTML without scripts, which nothing may frame and no cache may keep. Their addresses are told to no
 * other place; a browser that tells none at all says of a form that it comes from nowhere, and it would be refused.
 */
import { HttpServerResponse } from "effect/http"

export interface PageOptions {
  readonly title: string
  /** HTML; whatever comes from outside must have gone through `escaped`. */
  readonly body: string
  readonly status?: number
  /** Where its forms may lead besides this server: browsers hold redirects of a form against this list. */
  readonly leadsTo?: string
  readonly headers?: Record<string, string>
}

export const page = ({ body, headers, leadsTo, status, title }: PageOptions): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<title>${escaped(title)}</title><style>${style}</style></head><body><main><h1>${escaped(title)}</h1>${body}</main></body></html>`,
    {
      status: status ?? 200,
      contentType: "text/html; charset=utf-8",
      headers: {
        "content-security-policy": `default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'${leadsTo === undefined ? "" : ` ${leadsTo}`}`,
        "cache-control": "no-store",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        ...headers,
      },
    },
  )

/** A text as HTML shows it. */
export const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`).replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "\u{fffd}")

const style =
  "body{font:16px/1.5 system-ui,sans-serif;margin:0;background:#f4f4f2;color:#1c1c1a}main{max-width:34rem;margin:8vh auto;padding:2rem;background:#fff;border:1px solid #ddd;border-radius:8px}" +
  "h1{font-size:1.25rem;margin-top:0}input[type=password],select{width:100%;box-sizing:border-box;padding:.5rem;font:inherit}button{font:inherit;padding:.5rem 1rem;margin:.75rem .5rem 0 0}" +
  "label{display:block;margin:.5rem 0}code,strong{overflow-wrap:anywhere}.note{color:#666}.wrong{color:#a00}"

/**
 * ClientDocuments over node:https. The name is looked up once, every address it has must be a public one, and the
 * connection goes to what was looked at, so a name that changes its address in between gains nothing.
 */

import type { LookupAddress } from "node:dns"
import { lookup } from "node:dns"
import { get, type RequestOptions } from "node:https"
import { Effect, Layer } from "effect"
import { OAuthError } from "../schema/OAuth.ts"
import { ClientDocuments } from "../services/ClientDocuments.ts"
import { canonicalAddress, specialPurpose } from "../services/SpecialAddresses.ts"

/** Milliseconds for all of it. */
const PATIENCE = 5_000
/** Bytes; such a document has a few hundred. */
const LONGEST = 64 * 1024

const refused = (description: string) => new OAuthError({ error: "invalid_client", description: `the client's document ${description}` })

export const layer = Layer.succeed(ClientDocuments, {
  fetch: Effect.fn("ClientDocuments.fetch")(function* (address: string) {
    const url = URL.canParse(address) ? new URL(address) : undefined
    if (url === undefined || url.protocol !== "https:" || url.username !== "" || url.hash !== "")
      return yield* refused("has no https address")
    if (canonicalAddress(url.hostname.replace(/^\[|\]$/g, "")) !== undefined) return yield* refused("has an address without a name")
    return yield* download(url).pipe(
      Effect.timeoutOrElse({ duration: PATIENCE, orElse: () => Effect.fail(refused("did not come in time")) }),
    )
  }),
})

const download = (url: URL): Effect.Effect<string, OAuthError> =>
  Effect.callback((resume) => {
    const fail = (why: string) => resume(Effect.fail(refused(why)))
    const request = get(url, { lookup: publicOnly, headers: { accept: "application/json" } } as RequestOptions, (response) => {
      const parts: Array<Buffer> = []
      let bytes = 0
      if (response.statusCode !== 200) {
        response.destroy()
        return fail(`came with status ${response.statusCode}`)
      }
      response.on("data", (part: Buffer) => {
        bytes += part.length
        if (bytes <= LONGEST) return void parts.push(part)
        response.destroy()
        fail(`is longer than ${LONGEST} bytes`)
      })
      response.on("end", () => resume(Effect.succeed(Buffer.concat(parts).toString("utf8"))))
      response.on("error", () => fail("broke off"))
    })
    request.on("error", (error) => fail(`cannot be had: ${error.message}`))
    return Effect.sync(() => void request.destroy())
  })

type Found = (error: Error | null, address: string | ReadonlyArray<LookupAddress>, family?: number) => void

const publicOnly = (name: string, options: { readonly all?: boolean }, found: Found): void =>
  lookup(name, { all: true }, (error, addresses) => {
    const hidden = addresses?.find(({ address }) => specialPurpose(canonicalAddress(address) ?? address) !== undefined)
    const [first] = addresses ?? []
    if (error !== null || first === undefined) return found(error ?? new Error(`${name} has no address`), [])
    if (hidden !== undefined) return found(new Error(`${name} is ${hidden.address}, which is not public`), [])
    if (options.all === true) found(null, addresses)
    else found(null, first.address, first.family)
  })

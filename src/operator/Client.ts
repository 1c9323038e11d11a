/** A typed client of the operator's API, from the same definition as the server. */
import { Effect } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import { Api } from "./Api.ts"

export * from "./Api.ts"
export * from "./Problem.ts"

export type Client = HttpApiClient.ForApi<typeof Api>

export interface ConnectOptions {
  /** Where the server listens: `http://127.0.0.1:8787`. */
  readonly url: string
  /** The operator's credential, from the file `operator` of the server's state folder. */
  readonly credential: string
  /** Instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
}

/** A client of a server that listens. Each call of it is a request; nothing is sent before. */
export const connect = ({ credential, fetch, url }: ConnectOptions): Effect.Effect<Client> =>
  HttpApiClient.make(Api, {
    baseUrl: url,
    transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(credential)),
  }).pipe(Effect.provide(FetchHttpClient.layer), fetch === undefined ? (made) => made : Effect.provideService(FetchHttpClient.Fetch, fetch))

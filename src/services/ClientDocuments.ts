/**
 * Port: the document that an OAuth client's id is the address of. Anybody can name an address, so this reaches public
 * machines only, follows no redirect, waits seconds, and takes a few kilobytes.
 */
import { Context, type Effect } from "effect"
import type { OAuthError } from "../schema/OAuth.ts"

export class ClientDocuments extends Context.Service<
  ClientDocuments,
  {
    /** The text at an https address. Fails with `invalid_client` and why. */
    readonly fetch: (address: string) => Effect.Effect<string, OAuthError>
  }
>()("codespace/services/ClientDocuments") {}

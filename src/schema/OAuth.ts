/** What OAuth clients send, and the errors they are told, in the words of the RFCs (6749, 7591, 8707, 9700). */
import { Schema } from "effect"

/** A client as it describes itself: registered here, or in the document that its id is the address of. */
export const ClientMetadata = Schema.Struct({
  client_name: Schema.optionalKey(Schema.String),
  redirect_uris: Schema.Array(Schema.String.check(Schema.isMaxLength(2000))).check(Schema.isMinLength(1), Schema.isMaxLength(20)),
})
export type ClientMetadata = typeof ClientMetadata.Type

export interface Client extends ClientMetadata {
  readonly client_id: string
}

const codes = [
  "invalid_request",
  "invalid_client",
  "invalid_grant",
  "invalid_target",
  "invalid_redirect_uri",
  "invalid_client_metadata",
  "unsupported_grant_type",
  "unsupported_response_type",
  "access_denied",
  "temporarily_unavailable",
] as const

export class OAuthError extends Schema.TaggedError<OAuthError>()("OAuthError", {
  error: Schema.Literals(codes),
  description: Schema.String,
}) {
  override get message() {
    return `${this.error}: ${this.description}`
  }
}

/** Tokens as a client gets them. */
export interface IssuedTokens {
  readonly access_token: string
  readonly token_type: "Bearer"
  /** Seconds. */
  readonly expires_in: number
  readonly refresh_token: string
  readonly scope: string
}

/** The one scope there is: what a caller may do is the operator's decision, not the client's wish. */
export const SCOPE = "mcp"

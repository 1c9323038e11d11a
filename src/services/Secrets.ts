/**
 * Port: secrets that this server gives out. They are shown once and kept as hashes only. Each holds 256 random bits, so a
 * plain SHA-256 is enough: there is nothing to guess that a slow hash would protect.
 */
import { Context } from "effect"

export class Secrets extends Context.Service<
  Secrets,
  {
    /** A new secret: the prefix, which tells people and scanners what it is, and 43 characters of base64url. */
    readonly make: (prefix: string) => string
    /** The form in which a secret is kept: its SHA-256 in hex. */
    readonly hash: (secret: string) => string
    /** The challenge that a PKCE verifier answers (RFC 7636, S256). */
    readonly challenge: (verifier: string) => string
    /** Whether two hashes are the same, in a time that does not tell where they differ. */
    readonly same: (one: string, other: string) => boolean
  }
>()("codespace/services/Secrets") {}

/**
 * Port: SHA-256 without waiting. Effect's own digest service is asynchronous, and a version is needed in the middle of
 * synchronous work on a file.
 */
import { Context } from "effect"
import type { Version } from "../schema/Files.ts"

/** A running digest over pieces of content. */
export interface RunningDigest {
  readonly update: (bytes: Uint8Array) => void
  readonly version: () => Version
}

export class Digest extends Context.Service<
  Digest,
  {
    /** The version of a whole content (contract §5). */
    readonly version: (bytes: Uint8Array) => Version
    /** Starts a digest that is fed piece by piece. */
    readonly start: () => RunningDigest
    /** All 64 hex digits of the SHA-256 of a text in UTF-8. */
    readonly sha256: (text: string) => string
  }
>()("codespace/services/Digest") {}

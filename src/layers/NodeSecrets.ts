/** Secrets over node:crypto. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto"
import { Layer } from "effect"
import { Secrets } from "../services/Secrets.ts"

export const layer = Layer.succeed(Secrets, {
  make: (prefix) => prefix + randomBytes(32).toString("base64url"),
  hash: (secret) => hash("sha256", secret, "hex"),
  challenge: (verifier) => hash("sha256", verifier, "base64url"),
  same: (one, other) => one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other)),
})

/** Digest over node:crypto. */
import { createHash, hash } from "node:crypto"
import { Layer } from "effect"
import { Version } from "../schema/Files.ts"
import { Digest } from "../services/Digest.ts"

const versionOf = (hex: string): Version => Version.make(hex.slice(0, 16))

export const layer = Layer.succeed(Digest, {
  version: (bytes) => versionOf(hash("sha256", bytes, "hex")),
  start: () => {
    const running = createHash("sha256")
    return {
      update: (bytes) => {
        running.update(bytes)
      },
      version: () => versionOf(running.copy().digest("hex")),
    }
  },
  sha256: (text) => hash("sha256", text, "hex"),
})

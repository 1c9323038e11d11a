/** Arguments of every recorded change. */
import { Schema } from "effect"
import { OperationKey } from "../schema/Operation.ts"

export const Recording = {
  operation_key: Schema.optionalKey(OperationKey),
  lease_wait_ms: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50_000 })).annotate({
      description: "How long to wait while others work in the way; default 10000, 0 refuses at once",
    }),
  ),
}

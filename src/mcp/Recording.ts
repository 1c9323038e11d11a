/** Arguments of every recorded change. */
import { Schema } from "effect"
import { OperationKey } from "../schema/Operation.ts"
import { WorkId } from "../schema/Work.ts"

export const Recording = {
  operation_key: Schema.optionalKey(OperationKey),
  work_id: Schema.optionalKey(WorkId.annotate({ description: "From work_open" })),
  lease_wait_ms: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50_000 })).annotate({
      description: "How long to wait for others in the way; default 10000",
    }),
  ),
}

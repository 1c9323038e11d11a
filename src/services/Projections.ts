/** All projections. A new subject of the ledger is a file with its event kinds and its tables, and a line here. */

import { approvalProjection } from "./ApprovalEvents.ts"
import { callerProjection } from "./CallerEvents.ts"
import type { Projection } from "./EventKind.ts"
import { ledgerProjection } from "./LedgerEvents.ts"
import { networkProjection } from "./NetworkEvents.ts"
import { operationProjection } from "./OperationEvents.ts"
import { workProjection } from "./WorkEvents.ts"

export const projections: ReadonlyArray<Projection> = [
  ledgerProjection,
  operationProjection,
  networkProjection,
  workProjection,
  callerProjection,
  approvalProjection,
]

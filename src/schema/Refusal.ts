/** The closed list of refusals: what a call can be answered with instead of a result. */
import { Schema } from "effect"
import { ApprovalConflict, ApprovalNotFound, ApprovalRequired, ApprovalStale } from "./Approval.ts"
import { EncodingUnsupported, NotText } from "./Files.ts"
import { WorkspaceBusy } from "./Lease.ts"
import {
  Cancelled,
  CheckOnlyConflict,
  Internal,
  InvalidArguments,
  OperationKeyConflict,
  OperationNotFound,
  type RefusalRecord,
  RunnerUnavailable,
  StorageFull,
  StoreUnavailable,
} from "./Operation.ts"
import {
  AddFileExists,
  ContextAmbiguous,
  ContextNotFound,
  InvalidPatch,
  MoveDestinationExists,
  PatchFailed,
  VerifyFailed,
  VersionConflict,
} from "./Patch.ts"
import { LimitExceeded, PolicyDenied, SandboxUnavailable } from "./Policy.ts"
import { CommandNotFound, CwdInvalid, ProcessExited, ProcessNotFound, SpawnFailed, StdinClosed, TerminalUnavailable } from "./Process.ts"
import { InstructionConflict, InstructionNotFound, WorkClosed, WorkNotFound } from "./Work.ts"
import { PathRefusal, Unauthorized, WorkspaceNotFound } from "./Workspace.ts"

export const Refusal = Schema.Union([
  ...PathRefusal.members,
  WorkspaceNotFound,
  Unauthorized,
  NotText,
  EncodingUnsupported,
  PolicyDenied,
  SandboxUnavailable,
  LimitExceeded,
  WorkspaceBusy,
  InvalidPatch,
  ContextNotFound,
  ContextAmbiguous,
  AddFileExists,
  MoveDestinationExists,
  VersionConflict,
  PatchFailed,
  VerifyFailed,
  ProcessNotFound,
  CommandNotFound,
  CwdInvalid,
  SpawnFailed,
  TerminalUnavailable,
  ProcessExited,
  StdinClosed,
  InvalidArguments,
  OperationNotFound,
  OperationKeyConflict,
  CheckOnlyConflict,
  WorkNotFound,
  WorkClosed,
  InstructionNotFound,
  InstructionConflict,
  ApprovalRequired,
  ApprovalConflict,
  ApprovalStale,
  ApprovalNotFound,
  StoreUnavailable,
  RunnerUnavailable,
  StorageFull,
  Internal,
  Cancelled,
])
export type Refusal = typeof Refusal.Type

const encode = Schema.encodeUnknownSync(Schema.toCodecJson(Refusal))

/** The machine form of a refusal: code, sentence, retry, and the facts as details. */
export const toRecord = (refusal: Refusal): RefusalRecord => {
  const { _tag: code, ...details } = encode(refusal) as { readonly _tag: string } & Record<string, Schema.Json>
  return { code, message: refusal.message, retry: refusal.retry, details }
}

const decode = Schema.decodeUnknownSync(Schema.toCodecJson(Refusal))

/** The refusal a record was made from. */
export const fromRecord = (record: RefusalRecord): Refusal => decode({ _tag: record.code, ...record.details })

/**
 * The messages between a server and its worker: the Runner port as calls of effect/rpc. Both ends are this program, and a
 * number tells whether they are of one mind; so what is plain data travels as it is, whatever fields it has, and only
 * refusals are taken apart and put together again, as the typed errors they are.
 */
import { Predicate, Schema } from "effect"
import * as Rpc from "effect/rpc/Rpc"
import * as RpcGroup from "effect/rpc/RpcGroup"
import * as RpcSerialization from "effect/rpc/RpcSerialization"
import type { Outcome } from "../schema/Journal.ts"
import type { LeaseRequest } from "../schema/Lease.ts"
import { RunnerUnavailable } from "../schema/Operation.ts"
import { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import type { CutOperation, Reply, RunRequest } from "../services/Runner.ts"

/** Goes up whenever a message changes: a worker that outlives its server may meet one of a later version. */
export const PROTOCOL = 1

/** `call` numbers the calls of a connection. */
export interface WireRequest extends RunRequest {
  readonly call: number
}
/** `goesOn` says that a process was left running; `ended` tells its end. */
export interface WireReply extends Pick<Reply, "result" | "image"> {
  readonly goesOn?: true
}
export type WireOutcome = Outcome | { readonly kind: "replied"; readonly reply: WireReply; readonly lease?: LeaseRequest }

/** An object that JSON can say. To walk through it at both ends takes longer than all the rest of a small call. */
const Plain = <A extends object>() => Schema.declare((value: unknown): value is A => Predicate.isObject(value))

export class Wire extends RpcGroup.make(
  /** Comes first: who calls, and the workspaces as its configuration has them. */
  Rpc.make("hello", {
    payload: { protocol: Schema.Int, server: Schema.String, workspaces: Schema.String },
    success: Schema.Struct({ worker: Schema.String, version: Schema.String }),
    error: RunnerUnavailable,
  }),
  Rpc.make("execute", { payload: Plain<WireRequest>(), success: Plain<WireReply>(), error: Refusal }),
  /** Completes when the call is over, however it ended; for whoever interrupted it. */
  Rpc.make("over", { payload: { call: Schema.Int } }),
  /** Completes with the final result of an operation that left a process running; without one for an operation nobody knows. */
  Rpc.make("ended", { payload: { operationId: Schema.String }, success: Plain<{ readonly result?: Reply["result"] }>() }),
  /** By operation id. */
  Rpc.make("outcomes", {
    payload: Plain<{ readonly workspaceId: WorkspaceId; readonly cut: ReadonlyArray<CutOperation> }>(),
    success: Plain<Readonly<Record<string, WireOutcome>>>(),
    error: Refusal,
  }),
  Rpc.make("acknowledge", { payload: Plain<{ readonly workspaceId: WorkspaceId; readonly operation: CutOperation }>() }),
) {}

/** A message of more than this is none of ours, in bytes. */
const LONGEST_MESSAGE = 64 * 1024 * 1024

/** One JSON text a line. */
export const serialization = RpcSerialization.makeNdjson({ maxBufferSize: LONGEST_MESSAGE })

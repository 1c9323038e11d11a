/**
 * The messages between a server and its worker: the Runner port as calls of effect/rpc, with refusals as the typed errors
 * they are. Both ends are this program; a number tells whether they are of one mind.
 */
import { Schema } from "effect"
import * as Rpc from "effect/rpc/Rpc"
import * as RpcGroup from "effect/rpc/RpcGroup"
import * as RpcSerialization from "effect/rpc/RpcSerialization"
import { RunnerUnavailable } from "../schema/Operation.ts"
import { Delta } from "../schema/Patch.ts"
import type { Profile } from "../schema/Policy.ts"
import { Refusal } from "../schema/Refusal.ts"
import { ConfinedPath, WorkspaceId } from "../schema/Workspace.ts"
import type { RunRequest } from "../services/Runner.ts"

/** Goes up whenever a message changes: a worker that outlives its server may meet one of a later version. */
export const PROTOCOL = 1

const Lease = Schema.Union([
  Schema.Struct({ kind: Schema.Literals(["exclusive", "shared"]) }),
  Schema.Struct({ kind: Schema.Literal("path"), paths: Schema.Array(ConfinedPath) }),
])

/** A request and the number of its call on this connection. None of its fields may be missing here: what is would be dropped. */
const Request = Schema.Struct({
  call: Schema.Int,
  tool: Schema.String,
  workspaceId: WorkspaceId,
  input: Schema.JsonObject,
  /** Plain data from the gate, which the worker believes. */
  profile: Schema.optionalKey(Schema.declare((value: unknown): value is Profile => typeof value === "object" && value !== null)),
  operationId: Schema.optionalKey(Schema.String),
  lease: Schema.optionalKey(Lease),
} satisfies Record<keyof RunRequest | "call", Schema.Top>)

const Reply = Schema.Struct({
  result: Schema.JsonObject,
  image: Schema.optionalKey(Schema.Struct({ mimeType: Schema.String, data: Schema.String })),
  /** The call left a process running; `ended` tells its end. */
  goesOn: Schema.optionalKey(Schema.Boolean),
})
export type WireReply = typeof Reply.Type

const CutOutcome = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("committed"), delta: Delta }),
  Schema.Struct({ kind: Schema.Literal("rolled_back") }),
  Schema.Struct({ kind: Schema.Literal("attention"), paths: Schema.Array(Schema.String) }),
  Schema.Struct({ kind: Schema.Literal("unknown") }),
  Schema.Struct({ kind: Schema.Literal("replied"), reply: Reply, lease: Schema.optionalKey(Lease) }),
])
export type WireOutcome = typeof CutOutcome.Type

const Cut = Schema.Struct({ operationId: Schema.String, tool: Schema.String })

export class Wire extends RpcGroup.make(
  /** Comes first: who calls, and the workspaces as its configuration has them. */
  Rpc.make("hello", {
    payload: { protocol: Schema.Int, server: Schema.String, workspaces: Schema.String },
    success: Schema.Struct({ worker: Schema.String, version: Schema.String }),
    error: RunnerUnavailable,
  }),
  Rpc.make("execute", { payload: Request, success: Reply, error: Refusal }),
  /** Completes when the call is over, however it ended; for whoever interrupted it. */
  Rpc.make("over", { payload: { call: Schema.Int } }),
  /** Completes with the final result of an operation that left a process running; without one for an operation nobody knows. */
  Rpc.make("ended", { payload: { operationId: Schema.String }, success: Schema.Struct({ result: Schema.optionalKey(Schema.JsonObject) }) }),
  Rpc.make("outcomes", {
    payload: { workspaceId: WorkspaceId, cut: Schema.Array(Cut) },
    success: Schema.Record(Schema.String, CutOutcome),
    error: Refusal,
  }),
  Rpc.make("acknowledge", { payload: { workspaceId: WorkspaceId, operation: Cut } }),
) {}

/** A message of more than this is none of ours, in bytes. */
const LONGEST_MESSAGE = 64 * 1024 * 1024

/** One JSON text a line. */
export const serialization = RpcSerialization.makeNdjson({ maxBufferSize: LONGEST_MESSAGE })

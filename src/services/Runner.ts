/**
 * The port between the control side and the workspace side: execute this tool with this input in this workspace.
 * Both sides run in one process, or the workspace side runs behind a wire, and the caller of this port cannot tell.
 */
import { Context, type Effect, type Schema } from "effect"
import type { Outcome } from "../schema/Journal.ts"
import type { LeaseRequest } from "../schema/Lease.ts"
import type { Profile } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"

export interface RunRequest {
  readonly tool: string
  readonly workspaceId: WorkspaceId
  /** The decoded arguments. */
  readonly input: Schema.JsonObject
  /** A stricter profile than the workspace's own, which this call is held to: its caller's highest narrows it. */
  readonly profile?: Profile
  /** The recorded operation this work belongs to; absent for a read. */
  readonly operationId?: string
  /** The lease it is performed under, which a process it leaves running keeps. */
  readonly lease?: LeaseRequest
}

/** An operation as both sides know it. */
export interface CutOperation {
  readonly operationId: string
  readonly tool: string
}

/** What the workspace side answers. */
export interface Reply {
  readonly result: Schema.JsonObject
  /** An image beside the result, base64. */
  readonly image?: { readonly mimeType: string; readonly data: string }
  /**
   * Present when the call left a process running: completes with the final result when the process has ended.
   * The gate holds the call's lease until then. It is interrupted where the process goes on without this server.
   */
  readonly ending?: Effect.Effect<Schema.JsonObject>
}

/** What is known of an operation that was cut: what the journal says, or the answer that nobody got. */
export type CutOutcome = Outcome | { readonly kind: "replied"; readonly reply: Reply; readonly lease?: LeaseRequest }

export class Runner extends Context.Service<
  Runner,
  {
    /** Performs one tool call. Interruption reaches the handler, which restores or tears down before it ends. */
    readonly execute: (request: RunRequest) => Effect.Effect<Reply, Refusal>
    /**
     * What became of recorded operations whose answer never came, by operation id; the workspace is repaired first. An
     * operation is missing in the answer as long as it is under way.
     */
    readonly outcomes: (
      workspaceId: WorkspaceId,
      cut: ReadonlyArray<CutOperation>,
    ) => Effect.Effect<ReadonlyMap<string, CutOutcome>, Refusal>
    /** The operation's outcome is recorded; the workspace side may forget it. */
    readonly acknowledge: (workspaceId: WorkspaceId, operation: CutOperation) => Effect.Effect<void>
  }
>()("codespace/services/Runner") {}

/**
 * The port between the control side and the workspace side: execute this tool with this input in this workspace.
 * Both sides run in one process, or the workspace side runs behind a wire, and the caller of this port cannot tell.
 */
import { Context, type Effect, type Schema } from "effect"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"

export interface RunRequest {
  readonly tool: string
  readonly workspaceId: WorkspaceId
  /** The decoded arguments. */
  readonly input: Schema.JsonObject
  /** The recorded operation this work belongs to; absent for a read. */
  readonly operationId?: string
}

/** What the workspace side answers. */
export interface Reply {
  readonly result: Schema.JsonObject
  /** An image beside the result, base64. */
  readonly image?: { readonly mimeType: string; readonly data: string }
  /**
   * Present when the call left a process running: completes with the final result when the process has ended.
   * The gate holds the call's lease until then.
   */
  readonly ending?: Effect.Effect<Schema.JsonObject>
}

export class Runner extends Context.Service<
  Runner,
  {
    /** Performs one tool call. Interruption reaches the handler, which restores or tears down before it ends. */
    readonly execute: (request: RunRequest) => Effect.Effect<Reply, Refusal>
  }
>()("codespace/services/Runner") {}

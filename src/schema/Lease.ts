/** Leases: the right to work in a workspace for a time, and the refusals about it. */
import { Schema } from "effect"
import type { ConfinedPath, WorkspaceId } from "./Workspace.ts"

export type LeaseKind = "exclusive" | "shared" | "path"

/** What a call needs. `path` leases exclude each other on equal or nested paths and every `exclusive` one. */
export type LeaseRequest =
  | { readonly kind: "exclusive" | "shared" }
  | { readonly kind: "path"; readonly paths: ReadonlyArray<ConfinedPath> }

/** A granted lease. `fence` grows with every grant on a state folder; `since` is in epoch milliseconds. */
export interface Lease {
  readonly workspaceId: WorkspaceId
  readonly kind: LeaseKind
  readonly paths: ReadonlyArray<ConfinedPath>
  readonly holder: string
  /** Which server has it, in words: this one, or another with its process id. */
  readonly server: string
  readonly fence: number
  readonly since: number
}

export class WorkspaceBusy extends Schema.TaggedError<WorkspaceBusy>()("WORKSPACE_BUSY", {
  workspace_id: Schema.String,
  holder: Schema.String,
  kind: Schema.String,
  since: Schema.String,
  expires: Schema.String,
  waited_ms: Schema.Int,
}) {
  readonly retry = "later"
  override get message() {
    return (
      `workspace "${this.workspace_id}" is held by ${this.holder} (${this.kind} since ${this.since}, free ${this.expires}); waited ${this.waited_ms} ms. ` +
      `Try again later, raise lease_wait_ms, or end the holder.`
    )
  }
}

/** What the gate has to know about a tool. A tool says it in its entry; the gate knows none by name. */
import { Context, type Effect, type Result, type Schema } from "effect"
import type { ShownCall } from "../schema/Approval.ts"
import type { LeaseRequest } from "../schema/Lease.ts"
import type { InvalidArguments } from "../schema/Operation.ts"
import type { FileChange } from "../schema/Patch.ts"
import type { Touches } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceSettings } from "./AppConfig.ts"

export interface GatedTool<in Input = never> {
  readonly name: string
  /** Changes something: recorded, keyed, leased. */
  readonly records: boolean
  /** The workspace the call names, or the process whose workspace it is. */
  readonly names: (input: Input) => { readonly workspace: string } | { readonly process: string }
  /** What the call would touch, for the policy. */
  readonly touches: (input: Input, workspace: WorkspaceSettings) => Result.Result<Touches, Refusal>
  /** The lease the call needs; none for what changes nothing. */
  readonly lease: (input: Input, touches: Touches, workspace: WorkspaceSettings) => LeaseRequest | undefined
  /** How a call that a person has to allow is shown, and run later. */
  readonly holds?: Holds<Input>
}

export interface Holds<in Input = never> {
  /** What to show of the arguments. */
  readonly shown: (input: Input) => Partial<ShownCall>
  /** The call that only looks what would change; its result has `changes` and `diff`. Absent where that cannot be known before. */
  readonly preview?: (input: Input) => Schema.JsonObject
  /** The same call, bound to the versions that were shown. */
  readonly pinned?: (input: Input, changes: ReadonlyArray<FileChange>) => Schema.JsonObject
}

/** A tool of the table: how its arguments are checked, and what the gate knows of it. */
export interface KnownTool {
  readonly gated: GatedTool<Schema.JsonObject>
  readonly decode: (args: unknown) => Effect.Effect<Schema.JsonObject, InvalidArguments>
}

/** The recorded tools by name, for calls that are stored and made later. */
export class GatedTools extends Context.Service<GatedTools, ReadonlyMap<string, KnownTool>>()("codespace/services/GatedTools") {}

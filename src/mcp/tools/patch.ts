/** apply_patch, edit, write: three ways to name a change, one transaction. */
import { Effect, Result, Schema } from "effect"
import type { LeaseRequest } from "../../schema/Lease.ts"
import { OperationKey } from "../../schema/Operation.ts"
import { ApplyPatchArguments, EditArguments, PatchResult, WriteArguments } from "../../schema/Patch.ts"
import type { Touches } from "../../schema/Policy.ts"
import type { Refusal } from "../../schema/Refusal.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import type { WorkspaceSettings } from "../../services/AppConfig.ts"
import { touchedPaths } from "../../services/PatchEngine.ts"
import { PatchTransaction } from "../../services/PatchTransaction.ts"
import { confine } from "../../services/Workspace.ts"
import { factsOf } from "../Facts.ts"
import { workspaceTool } from "../ToolEntry.ts"

/** Arguments of every recorded change. */
export const Recording = {
  operation_key: Schema.optionalKey(OperationKey),
  lease_wait_ms: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50_000 })).annotate({
      description: "How long to wait while others work in the way; default 10000, 0 refuses at once",
    }),
  ),
}

const changes = { readOnly: false, destructive: true, idempotent: false, openWorld: false } as const

const writes = (paths: ReadonlyArray<string>, workspace: WorkspaceSettings): Result.Result<Touches, Refusal> =>
  Result.map(Result.all(paths.map((path) => confine([workspace.root, workspace.realRoot], path))), (write) => ({ write }))

/** A preview changes nothing and needs no lease. */
const pathLease = (input: { readonly check_only?: boolean }, touches: Touches): LeaseRequest | undefined =>
  input.check_only === true ? undefined : { kind: "path", paths: touches.write ?? [] }

const textOf = (result: PatchResult): string => {
  const lines = result.changes.map(
    (change) =>
      `${change.kind} ${change.from === undefined ? "" : `${change.from} -> `}${change.path}: ${change.before} -> ${change.after}, +${change.added} -${change.removed}`,
  )
  const diff = result.diff === undefined ? "" : `\n\n${result.diff}`
  return `${factsOf(result, ["operation_id", "status", "notes"])}\n${lines.join("\n")}${diff}`
}

type Apply = PatchTransaction["Service"]["apply"]
type Versions = Readonly<Record<string, string>>

/** A handler that puts the arguments of a tool into what the transaction takes. */
const applied = <Input extends { readonly check_only?: boolean }>(
  change: (input: Input) => readonly [intent: Parameters<Apply>[0], expected: Versions | undefined],
) =>
  Effect.map(PatchTransaction, ({ apply }) => (input: Input) => {
    const [intent, expected_versions] = change(input)
    const options = {
      ...(input.check_only === undefined ? {} : { check_only: input.check_only }),
      ...(expected_versions === undefined ? {} : { expected_versions }),
    }
    return Effect.map(apply(intent, options), (result) => ({ result }))
  })

const expectedOf = (input: { readonly path: string; readonly expected_version?: string }) =>
  input.expected_version === undefined ? undefined : { [input.path]: input.expected_version }

export const applyPatch = workspaceTool({
  name: "apply_patch",
  set: "patch",
  title: "Apply a patch",
  description:
    "Change files by a patch in the *** Begin Patch format or a unified diff. All of it happens or nothing. check_only previews it as a diff and writes nothing. " +
    "With expected_versions it is refused when a file has changed since you read it. Repeat a call that you lost with the same operation_key. Use edit for one exact replacement.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...ApplyPatchArguments.fields, ...Recording }),
  success: PatchResult,
  hints: changes,
  waits: true,
  text: textOf,
  records: true,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input, workspace) => Result.flatMap(touchedPaths(input.patch), (paths) => writes(paths, workspace)),
  lease: pathLease,
  handler: applied((input: ApplyPatchArguments) => [{ kind: "patch", patch: input.patch }, input.expected_versions]),
})

export const edit = workspaceTool({
  name: "edit",
  set: "patch",
  title: "Edit a file",
  description:
    "Replace exact text in one file, several edits in order. Each old text must occur exactly count times (default 1, or all). All edits happen or none. " +
    "Text is literal. check_only previews the diff. Use apply_patch for several files, write for a whole file.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...EditArguments.fields, ...Recording }),
  success: PatchResult,
  hints: changes,
  waits: true,
  text: textOf,
  records: true,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input, workspace) => writes([input.path], workspace),
  lease: pathLease,
  handler: applied((input: EditArguments) => [{ kind: "edit", path: input.path, edits: input.edits }, expectedOf(input)]),
})

export const write = workspaceTool({
  name: "write",
  set: "patch",
  title: "Write a whole file",
  description:
    "Write a file with exactly this content, creating folders as needed. Give expected_version: absent to create only, or the version you read to replace it safely. " +
    "check_only previews the diff. Use edit or apply_patch to change part of a file.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...WriteArguments.fields, ...Recording }),
  success: PatchResult,
  hints: changes,
  waits: true,
  text: textOf,
  records: true,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input, workspace) => writes([input.path], workspace),
  lease: pathLease,
  handler: applied((input: WriteArguments) => [{ kind: "write", path: input.path, content: input.content }, expectedOf(input)]),
})

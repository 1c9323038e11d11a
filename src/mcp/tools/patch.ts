/** apply_patch, edit, write: three ways to name a change, one transaction. */
import { Effect, Result, Schema } from "effect"
import { absent } from "../../schema/Files.ts"
import type { LeaseRequest } from "../../schema/Lease.ts"
import { ApplyPatchArguments, EditArguments, type FileChange, PatchResult, type Verify, WriteArguments } from "../../schema/Patch.ts"
import type { Touches } from "../../schema/Policy.ts"
import type { Refusal } from "../../schema/Refusal.ts"
import type { Coordination } from "../../schema/Work.ts"
import { ConfinedPath, WorkspaceId } from "../../schema/Workspace.ts"
import type { WorkspaceSettings } from "../../services/AppConfig.ts"
import type { Holds } from "../../services/GatedTool.ts"
import { touchedPaths } from "../../services/PatchEngine.ts"
import { makeHooks } from "../../services/PatchHooks.ts"
import { PatchTransaction } from "../../services/PatchTransaction.ts"
import { makeVerification } from "../../services/PatchVerification.ts"
import { ProcessSupervisor } from "../../services/ProcessSupervisor.ts"
import { confine, confinesOf, Workspace } from "../../services/Workspace.ts"
import { Coordinated } from "../Coordinated.ts"
import { factsOf } from "../Facts.ts"
import { Recording } from "../Recording.ts"
import { workspaceTool } from "../ToolEntry.ts"
import { executionOf } from "./process.ts"

/** What a change may be called with beside what names it. */
interface Modes {
  readonly check_only?: boolean
  readonly verify?: Verify
}

/** The paths it writes; with `verify` also the command it runs. */
const touchesOf = (paths: ReadonlyArray<string>, { verify }: Modes, workspace: WorkspaceSettings): Result.Result<Touches, Refusal> =>
  Result.gen(function* () {
    const write = yield* Result.all(paths.map((path) => confine([workspace.root, workspace.realRoot], path)))
    if (verify === undefined) return { write }
    return { write, exec: yield* executionOf(verify) }
  })

const touchesOfOne = (input: Modes & { readonly path: string }, workspace: WorkspaceSettings) => touchesOf([input.path], input, workspace)

/**
 * A preview changes nothing and needs no lease; a command needs the workspace for itself. Hooks see other files too, so
 * they keep other changes out, but nothing that shares the workspace: a patch must not wait for the end of a watcher.
 */
const leaseOf = (input: Modes, touches: Touches, { hooks }: WorkspaceSettings): LeaseRequest | undefined => {
  if (input.check_only === true) return undefined
  if (input.verify !== undefined) return { kind: "exclusive" }
  const isHooked = hooks.before_patch.length + hooks.after_patch.length > 0
  return { kind: "path", paths: isHooked ? [ConfinedPath.make("")] : (touches.write ?? []) }
}

const textOf = (result: PatchResult & { readonly coordination?: Coordination }): string => {
  const lines = result.changes.map(
    (change) =>
      `${change.kind} ${change.from === undefined ? "" : `${change.from} -> `}${change.path}: ${change.before} -> ${change.after}, +${change.added} -${change.removed}`,
  )
  const diff = result.diff === undefined ? "" : `\n\n${result.diff}`
  return `${factsOf(result, ["operation_id", "status", "notes", "coordination"])}\n${lines.join("\n")}${verifyText(result)}${diff}`
}

const verifyText = ({ verify }: PatchResult): string =>
  verify === undefined ? "" : `\n\nverify\n${factsOf(verify, ["exit_code", "duration_ms", "omitted_bytes", "sandbox"])}\n\n${verify.output}`

type Apply = PatchTransaction["Service"]["apply"]
type Versions = Readonly<Record<string, string>>

/** A handler that puts the arguments of a tool into what the transaction takes. */
const applied = <Input extends Modes>(named: (input: Input) => readonly [intent: Parameters<Apply>[0], expected: Versions | undefined]) =>
  Effect.gen(function* () {
    const { apply } = yield* PatchTransaction
    const workspace = yield* Workspace
    const supervisor = yield* ProcessSupervisor
    const hooks = makeHooks(workspace, supervisor)
    const verification = makeVerification(workspace, supervisor)
    return (input: Input, operationId: string | undefined) => {
      const [intent, expected_versions] = named(input)
      const options = {
        operationId,
        hooks,
        ...(input.verify === undefined ? {} : { verify: verification(input.verify) }),
        ...(input.check_only === undefined ? {} : { check_only: input.check_only }),
        ...(expected_versions === undefined ? {} : { expected_versions }),
      }
      // Nothing is written for a command that would then not be run.
      const ready = input.verify === undefined ? Effect.void : supervisor.confinable(confinesOf(workspace), "exclusive")
      return Effect.map(Effect.andThen(ready, apply(intent, options)), (result) => ({ result }))
    }
  })

const expectedOf = (input: { readonly path: string; readonly expected_version?: string }) =>
  input.expected_version === undefined ? undefined : { [input.path]: input.expected_version }

/** A held change is shown by its preview, together with the command that would decide whether it stays. */
const holding = <Input extends Modes & Schema.JsonObject>(
  pinned: (input: Input, changes: ReadonlyArray<FileChange>) => Schema.JsonObject,
): Holds<Input> => ({
  shown: ({ verify }) => ({
    ...(verify?.command === undefined ? {} : { command: verify.command }),
    ...(verify?.script === undefined ? {} : { script: verify.script }),
  }),
  preview: (input) => ({ ...input, check_only: true }),
  pinned,
})

/** Of the one file it names. */
const holdingOne = holding<Modes & Schema.JsonObject & { readonly path: string }>((input, [change]) => ({
  ...input,
  expected_version: change?.before ?? absent,
}))

/** Of every file it would replace, and that there is none where it would put a new one. */
const versionsOf = (changes: ReadonlyArray<FileChange>): Versions =>
  Object.fromEntries(
    changes.flatMap(
      ({ before, from, path }): ReadonlyArray<readonly [string, string]> =>
        from === undefined
          ? [[path, before]]
          : [
              [from, before],
              [path, absent],
            ],
    ),
  )

/** What the three have in common. */
const change = {
  set: "patch",
  success: Schema.Struct({ ...PatchResult.fields, ...Coordinated }),
  hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
  waits: true,
  text: textOf,
  records: true,
  names: (input: { readonly workspace_id: WorkspaceId }) => ({ workspace: input.workspace_id }),
  lease: leaseOf,
  journaled: true,
} as const

export const applyPatch = workspaceTool({
  ...change,
  name: "apply_patch",
  title: "Apply a patch",
  description:
    "Change files by a patch in the *** Begin Patch format or a unified diff. All of it happens or nothing. check_only previews it as a diff and writes nothing. " +
    "With expected_versions it is refused when a file has changed since you read it. Repeat a call that you lost with the same operation_key. Use edit for one exact replacement.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...ApplyPatchArguments.fields, ...Recording }),
  touches: (input, workspace) => Result.flatMap(touchedPaths(input.patch), (paths) => touchesOf(paths, input, workspace)),
  holds: holding((input, changes) => ({ ...input, expected_versions: versionsOf(changes) })),
  handler: applied((input: ApplyPatchArguments) => [{ kind: "patch", patch: input.patch }, input.expected_versions]),
})

export const edit = workspaceTool({
  ...change,
  name: "edit",
  title: "Edit a file",
  description:
    "Replace exact text in one file, several edits in order. Each old text must occur exactly count times (default 1, or all). All edits happen or none. " +
    "Text is literal. check_only previews the diff. Use apply_patch for several files, write for a whole file.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...EditArguments.fields, ...Recording }),
  touches: touchesOfOne,
  holds: holdingOne,
  handler: applied((input: EditArguments) => [{ kind: "edit", path: input.path, edits: input.edits }, expectedOf(input)]),
})

export const write = workspaceTool({
  ...change,
  name: "write",
  title: "Write a whole file",
  description:
    "Write a file with exactly this content, creating folders as needed. Give expected_version: absent to create only, or the version you read to replace it safely. " +
    "check_only previews the diff. Use edit or apply_patch to change part of a file.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...WriteArguments.fields, ...Recording }),
  touches: touchesOfOne,
  holds: holdingOne,
  handler: applied((input: WriteArguments) => [{ kind: "write", path: input.path, content: input.content }, expectedOf(input)]),
})

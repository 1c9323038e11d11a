/**
 * Which calls wait for a person, what that person is shown, and whether the ground it was shown on is still the same. What
 * a patch would do is found out by the preview of the same patch; a command is shown with the versions of the files that
 * its words name, so that a script which changed after it was shown does not run.
 */
import { Effect, type Schema } from "effect"
import type { Grant, Hold, ShownCall } from "../schema/Approval.ts"
import { absent } from "../schema/Files.ts"
import type { Decision, Touches } from "../schema/Policy.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceSettings } from "./AppConfig.ts"
import { coveredBy } from "./CommandRules.ts"
import type { Digest } from "./Digest.ts"
import type { GatedTool } from "./GatedTool.ts"
import { toJson } from "./JsonText.ts"
import type { Reply } from "./Runner.ts"

/** Why a call is held, in the words of the rule, and what it is about. */
export interface Question {
  readonly rule: string
  readonly subject: string
}

/** Undefined for a call that needs nobody. A rule that asks is named before the workspace's own setting. */
export const questionOf = ({ approvals }: WorkspaceSettings, decision: Decision, touches: Touches): Question | undefined => {
  if (decision._tag === "ask") return { rule: decision.rule, subject: decision.subject }
  return approvals === "confirm" ? { rule: "approvals: confirm", subject: subjectOf(touches) } : undefined
}

const subjectOf = ({ exec, write = [] }: Touches): string => {
  if (write.length > 0) return write.length === 1 ? `changing "${write[0]}"` : `changing ${write.length} files`
  return exec === undefined ? "this call" : "running a command"
}

/**
 * Whether a remembered grant may answer for a call: grants are about commands alone, as they are, so not where the call
 * also writes files, sets variables or feeds the command.
 */
export const mayBeRemembered = ({ exec, write }: Touches, { env, stdin }: Partial<ShownCall>): boolean =>
  exec !== undefined && (write ?? []).length === 0 && (env ?? []).length === 0 && stdin === undefined

export const isRemembered = ({ exec }: Touches, grants: ReadonlyArray<Grant>): boolean =>
  exec?.commands !== undefined && coveredBy(grants, exec.commands)

/** Files that the words of a command may name; more are not looked at. */
const MOST_FILES = 20
const LONGEST_PATH = 1000

/** A call as far as its hold depends on it. */
interface HeldCall {
  readonly kind: string
  readonly workspace: WorkspaceSettings
  readonly fingerprint: string
  readonly input: Schema.JsonObject
}

/** Asks the workspace side without recording anything, with what the caller may see. */
type Look = (workspace: WorkspaceSettings, tool: string, input: Schema.JsonObject) => Effect.Effect<Reply, Refusal>

/** Holds over what the caller may see of the workspace. */
export const holding = (look: Look, digest: Digest["Service"]) => {
  /** The version of a file now; `absent` for what is no file that may be read. */
  const versionNow = (workspace: WorkspaceSettings, path: string) =>
    look(workspace, "read", { workspace_id: workspace.id, path, max_lines: 1 }).pipe(
      Effect.map(({ result }) => String(result["version"] ?? absent)),
      Effect.orElseSucceed(() => absent),
    )

  /** The files that the words of a command name, with their versions. */
  const namedFiles = Effect.fnUntraced(function* (workspace: WorkspaceSettings, touches: Touches, cwd: string) {
    const words = wordsOf(touches).filter((word) => word !== "" && word.length <= LONGEST_PATH && !word.startsWith("-"))
    const versions: Record<string, string> = {}
    for (const word of [...new Set(words)].slice(0, MOST_FILES)) {
      const path = word.startsWith("/") || cwd === "" || cwd === "." ? word : `${cwd}/${word}`
      const version = yield* versionNow(workspace, path)
      if (version !== absent) versions[path] = version
    }
    return versions
  })

  /** All that is stored of a held call. A patch that would be refused anyway is refused here. */
  const holdOf = Effect.fnUntraced(function* <Input extends Schema.JsonObject>(
    { holds }: GatedTool<Input>,
    { fingerprint, input, kind, workspace }: HeldCall,
    touches: Touches,
    { rule, subject }: Question,
    reason: string | undefined,
  ): Effect.fn.Return<Hold, Refusal> {
    const about = holds?.shown(input as Input) ?? {}
    const asked = holds?.preview?.(input as Input)
    const preview = asked === undefined ? undefined : (yield* look(workspace, kind, asked)).result
    const { changes, diff, notes } = (preview ?? {}) as Pick<ShownCall, "changes" | "diff" | "notes">
    const versions = yield* namedFiles(workspace, touches, about.cwd ?? "")
    return {
      input,
      subject,
      versions,
      shown: {
        ...about,
        ...(changes === undefined ? {} : { changes }),
        ...(diff === undefined ? {} : { diff }),
        ...(notes === undefined ? {} : { notes }),
        ...(reason === undefined ? {} : { reason }),
        kind,
        profile: workspace.profile.name,
        rule,
        digest: digest.sha256(toJson([fingerprint, changes ?? [], versions])),
      },
    }
  })

  /** The files named by a held command that are no longer what they were. A patch is bound to its files' versions itself. */
  const changedSince = Effect.fnUntraced(function* (workspace: WorkspaceSettings, { versions }: Hold) {
    const changed: Array<string> = []
    for (const [path, version] of Object.entries(versions)) if ((yield* versionNow(workspace, path)) !== version) changed.push(path)
    return changed
  })

  return { holdOf, changedSince }
}

const wordsOf = ({ exec }: Touches): ReadonlyArray<string> => {
  if (exec === undefined) return []
  const known = exec.commands?.flatMap(({ words }) => words.filter((word) => typeof word === "string"))
  return known ?? ("argv" in exec.line ? exec.line.argv : [])
}

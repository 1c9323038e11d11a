/** workspace_info: which workspaces there are, and what one of them allows and enforces. */
import { DateTime, Effect, Result, Schema } from "effect"
import type { Lease } from "../../schema/Lease.ts"
import type { CommandRule, FileRule, NetworkAccess } from "../../schema/Policy.ts"
import { type ConfinedPath, WorkspaceId } from "../../schema/Workspace.ts"
import type { WorkspaceSettings } from "../../services/AppConfig.ts"
import { AppConfig } from "../../services/AppConfig.ts"
import { Caller } from "../../services/Caller.ts"
import { workspacesOf } from "../../services/CallerRights.ts"
import { LeaseManager } from "../../services/LeaseManager.ts"
import { Operations } from "../../services/Operations.ts"
import { fileAccess } from "../../services/Policy.ts"
import { type Holding, holdingText, Sandbox } from "../../services/Sandbox.ts"
import { factsOf } from "../Facts.ts"
import { controlTool } from "../ToolEntry.ts"

const InfoResult = Schema.Struct({
  workspaces: Schema.optionalKey(Schema.Array(Schema.Struct({ workspace_id: Schema.String, profile: Schema.String }))),
  workspace_id: Schema.optionalKey(Schema.String),
  profile: Schema.optionalKey(Schema.String),
  access: Schema.optionalKey(
    Schema.Struct({
      files: Schema.Array(Schema.Struct({ glob: Schema.String, access: Schema.String, reason: Schema.optionalKey(Schema.String) })),
      exec: Schema.Literals(["on", "off"]),
      network: Schema.String,
      commands: Schema.Array(
        Schema.Struct({ argv: Schema.Array(Schema.String), decision: Schema.String, reason: Schema.optionalKey(Schema.String) }),
      ),
    }),
  ),
  enforcement: Schema.optionalKey(
    Schema.Struct({ files: Schema.String, exec: Schema.String, network: Schema.String }).annotate({
      description: "What holds each axis of access, or that nothing does",
    }),
  ),
  limits: Schema.optionalKey(Schema.Struct({ processes: Schema.Int, spool_bytes: Schema.Int, timeout_ms: Schema.Int })),
  leases: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        kind: Schema.String,
        holder: Schema.String,
        server: Schema.String,
        workspace_id: Schema.String,
        fence: Schema.Int,
        since: Schema.String,
        paths: Schema.Array(Schema.String),
      }),
    ).annotate({ description: "Held now by any server, here or in a workspace around or inside this one; paths in that workspace" }),
  ),
  unavailable: Schema.optionalKey(Schema.String.annotate({ description: "Why nothing can be changed or run now; files can be read" })),
})

export const workspaceInfo = controlTool({
  name: "workspace_info",
  title: "Show workspaces",
  description:
    "Start here. Without workspace_id: the workspaces you may use. With it: its profile, what it lets you read, write, run and reach, what enforces each of these, its limits, and who works in it now.",
  parameters: Schema.Struct({ workspace_id: Schema.optionalKey(WorkspaceId) }),
  success: InfoResult,
  hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
  text: (result) => factsOf(result, ["workspaces", "workspace_id", "profile", "access", "enforcement", "limits", "leases", "unavailable"]),
  answer: Effect.fnUntraced(function* (input) {
    return input.workspace_id === undefined ? yield* list : yield* show(input.workspace_id)
  }),
})

const list = Effect.gen(function* () {
  const workspaces = workspacesOf(yield* AppConfig, yield* Caller)
  return { workspaces: workspaces.map(({ id, profile }) => ({ workspace_id: id as string, profile: profile.name })) }
})

const show = Effect.fnUntraced(function* (id: WorkspaceId) {
  const settings = yield* Operations.use((operations) => operations.authorize(id))
  const leases = yield* Effect.result(LeaseManager.use((manager) => manager.current(settings)))
  const holding = yield* Sandbox.use((sandbox) => sandbox.holding)
  const { profile } = settings
  return {
    workspace_id: id as string,
    profile: profile.name,
    access: {
      files: profile.files.map(fileFacts),
      exec: profile.exec,
      network: networkText(profile.network),
      commands: profile.commands.map(ruleFacts),
    },
    enforcement: enforcementOf(settings, holding),
    limits: profile.limits,
    leases: Result.isSuccess(leases) ? leases.success.map(leaseOf) : [],
    // Reading works without the records, and this is where a caller looks for what does not.
    ...(Result.isSuccess(leases) ? {} : { unavailable: leases.failure.message }),
  }
})

const fileFacts = ({ access, glob, reason }: FileRule) => ({ glob, access, ...(reason === undefined ? {} : { reason }) })

const ruleFacts = ({ argv, decision, reason }: CommandRule) => ({ argv, decision, ...(reason === undefined ? {} : { reason }) })

const leaseOf = ({ fence, holder, kind, paths, server, since, workspaceId }: Lease) => ({
  kind,
  holder,
  server,
  workspace_id: workspaceId as string,
  fence,
  since: DateTime.formatIso(DateTime.makeUnsafe(since)),
  paths: [...paths],
})

const networkText = (network: NetworkAccess): string => (typeof network === "string" ? network : `allow ${network.allow.join(", ")}`)

/** Says plainly what this version does not confine. */
const enforcementOf = ({ profile }: WorkspaceSettings, holding: Holding) => ({
  files: "the server's own tools keep to these rules; a command does not: there is no sandbox in this version",
  exec:
    profile.exec === "off"
      ? "commands are refused"
      : fileAccess(profile, "" as ConfinedPath).access === "write"
        ? `command rules are checked before a command starts; commands run as the server's user, their files and network not confined; ${holdingText(holding)}`
        : "commands are refused: running them here needs a sandbox, and there is none in this version",
  network: "not enforced: there is no sandbox in this version",
})

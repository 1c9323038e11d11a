/** workspace_info: which workspaces there are, and what one of them allows and enforces. */
import { DateTime, Effect, Result, Schema } from "effect"
import type { Lease } from "../../schema/Lease.ts"
import type { CommandRule, FileRule, NetworkAccess } from "../../schema/Policy.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import type { WorkspaceSettings } from "../../services/AppConfig.ts"
import { AppConfig } from "../../services/AppConfig.ts"
import { Caller } from "../../services/Caller.ts"
import { workspacesOf } from "../../services/CallerRights.ts"
import { hostIn } from "../../services/HostRules.ts"
import { LeaseManager } from "../../services/LeaseManager.ts"
import { Operations } from "../../services/Operations.ts"
import { holdingText, Sandbox } from "../../services/Sandbox.ts"
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
  const enforcement = yield* enforcementOf(settings)
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
    enforcement,
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

const networkText = (network: NetworkAccess): string =>
  typeof network === "string" ? network : `allow ${network.allow.map(hostIn).join(", ")}`

/** What holds each axis for commands; the server's own tools keep to the rules by themselves. */
const enforcementOf = Effect.fnUntraced(function* ({ id, profile, realRoot, sandbox }: WorkspaceSettings) {
  const tools = "the server's own tools keep to these rules"
  if (profile.exec === "off")
    return { files: tools, exec: "commands are refused", network: "nothing here uses the network: commands are refused" }
  const port = yield* Sandbox
  const held = yield* Effect.result(port.examine({ workspaceId: id, root: realRoot, profile, sandbox }, "exclusive"))
  if (Result.isFailure(held)) {
    const refused = `commands are refused: ${held.failure.message}`
    return { files: tools, exec: refused, network: "nothing here uses the network: commands are refused" }
  }
  const { files, network } = held.success
  const rules = profile.commands.length === 0 ? "" : "command rules are checked before a command starts; "
  return { files: `${tools}; ${files}`, exec: `${rules}${holdingText(yield* port.holding)}`, network }
})

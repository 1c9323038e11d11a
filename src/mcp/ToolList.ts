/**
 * The tools as clients are told about them, apart from what performs them. The build writes this list into the program,
 * so that a client which only asks for it waits neither for schemas to be printed nor for the tools to be loaded.
 */
import type { Effect } from "effect"
import type { Refusal } from "../schema/Refusal.ts"
import type { AppConfig, WorkspaceSettings } from "../services/AppConfig.ts"
import type { Caller } from "../services/Caller.ts"
import type { Answer, ToolRow } from "./ToolRow.ts"

/** A set of the configuration's `tools`. */
export type ToolSet = "files" | "patch" | "process" | "works" | "approvals"

export interface ListedTool extends Omit<ToolRow, "call"> {
  /** A tool that belongs to no set is always offered. */
  readonly set?: ToolSet
}

/** The tools this configuration offers: those it picks, without the ones no registered workspace could use. */
export const offered = (
  list: ReadonlyArray<ListedTool>,
  { approvals, tools, workspaces }: AppConfig["Service"],
): ReadonlyArray<ListedTool> => {
  const profiles = [...workspaces.values()].map(({ profile }) => profile)
  const usable = {
    files: true,
    patch: profiles.some(({ files }) => files.some(({ access }) => access === "write" || access === "ask")),
    process: profiles.some(({ exec }) => exec === "on"),
    works: true,
    approvals: [...workspaces.values()].some(holdsCalls),
  }
  const picked = new Set<string>(tools)
  const isOpen = (name: string) => name !== "approval_resolve" || approvals.resolver === "caller"
  return list.filter(
    ({ name, set }) => isOpen(name) && (set === undefined || (usable[set] && (picked.has("all") || picked.has(set) || picked.has(name)))),
  )
}

/** Whether calls may have to wait for a person. */
const holdsCalls = ({ approvals, profile }: WorkspaceSettings): boolean =>
  approvals === "confirm" ||
  profile.commands.some(({ decision }) => decision === "ask") ||
  profile.files.some(({ access }) => access === "ask")

/** A call of a tool by its name. */
export type CallTool = (name: string, args: unknown) => Effect.Effect<Answer, Refusal, Caller>

/** Rows for the edges, all performed by `call`. */
export const rowsOf = (list: ReadonlyArray<ListedTool>, call: CallTool): ReadonlyArray<ToolRow> =>
  list.map(({ set: _set, ...tool }) => ({ ...tool, call: (args) => call(tool.name, args) }))

/** read, find, search. */
import { Effect, Result, Schema } from "effect"
import { FindArguments, FindResult, ReadArguments, ReadResult, SearchArguments, SearchResult } from "../../schema/Files.ts"
import { WorkspaceId } from "../../schema/Workspace.ts"
import { Files } from "../../services/Files.ts"
import { confine } from "../../services/Workspace.ts"
import { factsOf } from "../Facts.ts"
import { workspaceTool } from "../ToolEntry.ts"

const reads = { readOnly: true, destructive: false, idempotent: true, openWorld: false } as const

export const read = workspaceTool({
  name: "read",
  set: "files",
  title: "Read a file",
  description:
    "Read a file, or part of it by lines or bytes. Use find first when the path is not known. Gives the content's version, " +
    "which apply_patch, edit and write can require. About 40 KB a call by default; says where to go on. Binary files come as base64 on request, images as images.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...ReadArguments.fields }),
  success: ReadResult,
  hints: reads,
  text: (result) => {
    const facts = factsOf(result, [
      "path",
      "version",
      "size",
      "binary",
      "mime_type",
      "start_line",
      "start_byte",
      "total_lines",
      "eol",
      "bom",
      "truncated",
      "next_line",
      "next_byte",
    ])
    return result.text === undefined && result.base64 === undefined ? facts : `${facts}\n\n${result.text ?? result.base64}`
  },
  records: false,
  names: (input) => ({ workspace: input.workspace_id }),
  touches: (input, workspace) => Result.map(confine([workspace.root, workspace.realRoot], input.path), (path) => ({ read: [path] })),
  handler: Effect.map(Files, (files) => files.read),
})

export const find = workspaceTool({
  name: "find",
  set: "files",
  title: "Find files by name",
  description:
    "List paths that match a glob, sorted: **/*.ts, src/**, or an exact path. Hidden files are included, files that .gitignore names are " +
    "not unless include_ignored; an exact path is always found. Says how many paths it left out and by which rule. Use search for contents.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...FindArguments.fields }),
  success: FindResult,
  hints: reads,
  text: (result) => `${factsOf(result, ["considered", "truncated", "cursor", "left_out", "unreadable"])}\n\n${result.paths.join("\n")}`,
  records: false,
  names: (input) => ({ workspace: input.workspace_id }),
  handler: Effect.map(Files, (files) => (input) => Effect.map(files.find(input), (result) => ({ result }))),
})

export const search = workspaceTool({
  name: "search",
  set: "files",
  title: "Search in files",
  description:
    "Search file contents for a regular expression, or literal text. Narrow it with glob; ask for context_lines around a match. " +
    "Files that .gitignore names are left out unless include_ignored, and counted. At most 100 matches a call by default; go on with cursor. Use find for names.",
  parameters: Schema.Struct({ workspace_id: WorkspaceId, ...SearchArguments.fields }),
  success: SearchResult,
  hints: reads,
  text: (result) => {
    const lines = result.matches.flatMap((match) => [
      ...(match.before ?? []).map((text, at, all) => `${match.path}-${match.line - all.length + at}-${text}`),
      `${match.path}:${match.line}:${match.text}`,
      ...(match.after ?? []).map((text, at) => `${match.path}-${match.line + 1 + at}-${text}`),
    ])
    return `${factsOf(result, ["files_matched", "truncated", "cursor", "left_out", "unreadable"])}\n\n${lines.join("\n")}`
  },
  records: false,
  names: (input) => ({ workspace: input.workspace_id }),
  handler: Effect.map(Files, (files) => (input) => Effect.map(files.search(input), (result) => ({ result }))),
})

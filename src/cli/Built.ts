/** What the build writes into the program. The sources run without it. */
import { Effect } from "effect"
import type { ListedTool } from "../mcp/ToolList.ts"

declare const CODESPACE_VERSION: string | undefined
declare const CODESPACE_TOOLS: ReadonlyArray<ListedTool> | undefined

export const version = typeof CODESPACE_VERSION === "undefined" ? "development" : CODESPACE_VERSION

/** The list of tools; run from the sources, it is made. */
export const toolList = Effect.promise(async () =>
  typeof CODESPACE_TOOLS === "undefined" ? (await import("../mcp/Tools.ts")).listTools() : CODESPACE_TOOLS,
)

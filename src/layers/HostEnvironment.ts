/** The variables this server was started with. */
import type { Variables } from "../services/ChildEnvironment.ts"

export const variables = (): Variables => ({ ...process.env }) as Variables

/** The folders programs are looked for in. */
export const searchPath = (): ReadonlyArray<string> => (process.env["PATH"] ?? "").split(":").filter((folder) => folder !== "")

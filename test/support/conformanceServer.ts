/** Runs the conformance suite against a table of tools on the HTTP edge, and gives what each check said. */
import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect } from "effect"
import { conformanceTools } from "./conformanceTools.ts"
import { openEdge } from "./HttpEdge.ts"
import { makeTestTable } from "./McpTable.ts"

const suite = fileURLToPath(new URL("../../node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url))
const known = fileURLToPath(new URL("../fixtures/conformance/", import.meta.url))

export interface Outcome {
  /** 0 when exactly the expected checks failed. */
  readonly code: number | null
  readonly output: string
  /** How many checks ended how. */
  readonly counts: Readonly<Record<string, number>>
  readonly skipped: ReadonlyArray<string>
}

/** All that a revision requires, without authentication. */
export const runConformance = (revision: string) =>
  Effect.gen(function* () {
    const { url } = yield* openEdge({ table: makeTestTable({ rows: conformanceTools }).table, authenticate: "off" })
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "conformance-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true })),
    )
    const args = ["server", "--url", url, "--requirements", revision, "--expected-failures", join(known, `${revision}.yaml`), "-o", folder]
    const { code, output } = yield* Effect.promise(() => run([suite, ...args]))
    const checks = readdirSync(folder).flatMap((scenario) => checksOf(join(folder, scenario, "checks.json")))
    const counts: Record<string, number> = {}
    for (const { status } of checks) counts[status] = (counts[status] ?? 0) + 1
    const skipped = checks.filter(({ status }) => status === "SKIPPED").map(({ id }) => id)
    return { code, output, counts, skipped: skipped.sort() } satisfies Outcome
  })

const run = (args: ReadonlyArray<string>): Promise<{ code: number | null; output: string }> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        output += chunk
      })
    child.on("close", (code) => resolve({ code, output }))
  })

const checksOf = (file: string): ReadonlyArray<{ readonly id: string; readonly status: string }> => JSON.parse(readFileSync(file, "utf8"))

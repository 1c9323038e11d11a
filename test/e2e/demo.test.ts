/** The demo is a promise to newcomers: it runs, tells what it saw, and leaves nothing behind. */
import { execFile } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"

const repository = fileURLToPath(new URL("../..", import.meta.url))
const isBuilt = existsSync(join(repository, "dist/main.mjs"))
if (!isBuilt) console.warn("demo.test.ts is skipped: dist/main.mjs is not built (npm run build)")

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const runDemo = (temporary: string): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [join(repository, "demo/demo.mjs")],
      { env: { ...process.env, TMPDIR: temporary }, timeout: 28_000, killSignal: "SIGKILL" },
      (_, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })

describe.skipIf(!isBuilt)("npm run demo", () => {
  const temporary = mkdtempSync(join(tmpdir(), "codespace-demo-test-"))
  let demo: Ended

  beforeAll(async () => {
    demo = await runDemo(temporary)
  })
  afterAll(() => rmSync(temporary, { recursive: true, force: true }))

  it("ends well", () => {
    expect(demo.stderr).toBe("")
    expect(demo.code).toBe(0)
    expect(demo.stdout).toContain("Everything was as promised")
  })

  it("fails its tests first, and passes them after the second fix", () => {
    const failed = demo.stdout.indexOf('Failed: "an item without a quantity counts once"')
    const passed = demo.stdout.indexOf("exit code 0")
    expect(failed).toBeGreaterThan(0)
    expect(passed).toBeGreaterThan(failed)
  })

  it("shows the refusals and recovers from them", () => {
    expect(demo.stdout).toContain("No. VERSION_CONFLICT")
    expect(demo.stdout).toContain("No. PATH_ESCAPE")
    expect(demo.stdout).toContain("Both are in the file: the fix and Kim's line.")
  })

  it("loses its server in the middle of a change, and the change is there once", () => {
    const killed = demo.stdout.indexOf("The answer never reached the agent")
    const once = demo.stdout.indexOf("The change is there, exactly once.")
    expect(killed).toBeGreaterThan(0)
    expect(once).toBeGreaterThan(killed)
  })

  it("leaves no folder behind", () => {
    expect(readdirSync(temporary)).toEqual([])
  })
})

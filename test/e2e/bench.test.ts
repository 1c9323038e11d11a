/** The bench measures what it says: its results are right, its figures are complete, and it cleans up. Speed is no test. */
import { execFile } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Schema } from "effect"
import { afterAll, describe, expect, it } from "vitest"

const repository = fileURLToPath(new URL("../..", import.meta.url))
const isBuilt = existsSync(join(repository, "dist/main.mjs"))
if (!isBuilt) console.warn("bench.test.ts is skipped: dist/main.mjs is not built (npm run build)")

const Side = Schema.Struct({ median: Schema.Number, p95: Schema.Number, samples: Schema.Int, wrong: Schema.Int })
const Report = Schema.Struct({
  correct: Schema.Boolean,
  jobs: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      rounds: Schema.Int,
      correct: Schema.Boolean,
      codespace: Side,
      floor: Side,
      ratio: Schema.Struct({ median: Schema.Number, min: Schema.Number, max: Schema.Number }),
      aim: Schema.optionalKey(Schema.Number),
      met: Schema.optionalKey(Schema.Boolean),
    }),
  ),
})
const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Report))

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const runBench = (temporary: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [join(repository, "bench/bench.mjs"), ...args],
      { env: { ...process.env, ...env, TMPDIR: temporary }, timeout: 28_000, killSignal: "SIGKILL" },
      (_, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })

describe.skipIf(!isBuilt)("npm run bench", () => {
  const results = mkdtempSync(join(tmpdir(), "codespace-bench-test-"))
  const temporary = mkdtempSync(join(tmpdir(), "codespace-bench-tmp-"))
  afterAll(() => {
    for (const folder of [results, temporary]) rmSync(folder, { recursive: true, force: true })
  })

  it("reports right results of both servers and cleans up", async () => {
    const json = join(results, "report.json")
    const bench = await runBench(temporary, ["--quick", "--only", "read-1k,edit-50,add-2m,true", "--rounds", "3", "--json", json])
    expect(bench.stderr).toBe("")
    expect(bench.code).toBe(0)
    expect(bench.stdout).toMatch(/read 1 KB .* (not )?met/u)

    const report = decode(readFileSync(json, "utf8"))
    expect(report.correct).toBe(true)
    expect(report.jobs.map((job) => job.id)).toEqual(["read-1k", "edit-50", "add-2m", "true"])
    for (const job of report.jobs) {
      expect(job).toMatchObject({ rounds: 3, correct: true, codespace: { wrong: 0 }, floor: { wrong: 0 } })
      expect(job.codespace.samples).toBe(job.floor.samples)
      expect(job.codespace.samples).toBeGreaterThanOrEqual(3)
      expect(job.ratio.min).toBeLessThanOrEqual(job.ratio.median)
      expect(job.ratio.max).toBeGreaterThanOrEqual(job.ratio.median)
      expect(job.met).toBe(job.ratio.median <= (job.aim ?? 0))
    }
    expect(readdirSync(temporary)).toEqual([])
  })

  it("compares with a patch program where one is named, and notices when that does nothing", async () => {
    const json = join(results, "program.json")
    const programs = { right: join(results, "apply_patch"), idle: join(results, "idle_patch") }
    // Takes one patch as its argument, and makes the one change that each section of the bench's patches has.
    const source = `#!${process.execPath}
const fs = require("node:fs")
for (const [, path, old, text] of process.argv[2].matchAll(/Update File: (.*)\\n@@\\n .*\\n-(.*)\\n\\+(.*)\\n/g))
  fs.writeFileSync(path, fs.readFileSync(path, "utf8").replace(old, text))
`
    writeFileSync(programs.right, source, { mode: 0o755 })
    writeFileSync(programs.idle, `#!${process.execPath}\n`, { mode: 0o755 })
    const runWith = (program: string) =>
      runBench(temporary, ["--quick", "--only", "program-100,program-50", "--rounds", "1", "--json", json], {
        CODESPACE_BENCH_APPLY_PATCH: program,
      })
    expect((await runWith(programs.right)).code).toBe(0)
    expect(decode(readFileSync(json, "utf8")).jobs.map(({ correct, id }) => [id, correct])).toEqual([
      ["program-100", true],
      ["program-50", true],
    ])
    expect((await runWith(programs.idle)).code).toBe(1)
    expect((await runBench(temporary, ["--only", "program-100"])).stderr).toContain("no job is called program-100")
  })

  it("names the jobs there are when it is asked for another", async () => {
    const bench = await runBench(temporary, ["--only", "read-1k,fly"])
    expect(bench.code).toBe(2)
    expect(bench.stderr).toContain("no job is called fly")
    expect(bench.stderr).toContain("small-1000")
    expect(readdirSync(temporary)).toEqual([])
  })
})

/** The bench measures what it says: its results are right, its figures are complete, and it cleans up. Speed is no test. */
import { execFile } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
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
      aim: Schema.Number,
      met: Schema.Boolean,
    }),
  ),
})
const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Report))

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const runBench = (temporary: string, args: ReadonlyArray<string>): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [join(repository, "bench/bench.mjs"), ...args],
      { env: { ...process.env, TMPDIR: temporary }, timeout: 28_000, killSignal: "SIGKILL" },
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
    const bench = await runBench(temporary, ["--quick", "--only", "read-1k,true", "--rounds", "3", "--json", json])
    expect(bench.stderr).toBe("")
    expect(bench.code).toBe(0)
    expect(bench.stdout).toMatch(/read 1 KB .* (not )?met/u)

    const report = decode(readFileSync(json, "utf8"))
    expect(report.correct).toBe(true)
    expect(report.jobs.map((job) => job.id)).toEqual(["read-1k", "true"])
    for (const job of report.jobs) {
      expect(job).toMatchObject({ rounds: 3, correct: true, codespace: { wrong: 0 }, floor: { wrong: 0 } })
      expect(job.codespace.samples).toBe(job.floor.samples)
      expect(job.codespace.samples).toBeGreaterThanOrEqual(3)
      expect(job.ratio.min).toBeLessThanOrEqual(job.ratio.median)
      expect(job.ratio.max).toBeGreaterThanOrEqual(job.ratio.median)
      expect(job.met).toBe(job.ratio.median <= job.aim)
    }
    expect(readdirSync(temporary)).toEqual([])
  })

  it("names the jobs there are when it is asked for another", async () => {
    const bench = await runBench(temporary, ["--only", "read-1k,fly"])
    expect(bench.code).toBe(2)
    expect(bench.stderr).toContain("no job is called fly")
    expect(bench.stderr).toContain("small-1000")
    expect(readdirSync(temporary)).toEqual([])
  })
})

/**
 * Runs tests in several processes at the same time, each of which runs all of them: what holds on a quiet machine has to
 * hold on one with too much to do. `npm run test:parallel` takes the reports about processes, their output and terminals
 * ten times at once; `npm run test:parallel -- 4 "R05" test/layers/NodeProcesses.test.ts` others. Needs dist/.
 */
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

const FILES = ["layers/NodeProcesses", "layers/Leftovers", "layers/LoginShell", "schema/Process", "e2e/program", "e2e/soak"].map(
  (name) => `test/${name}.test.ts`,
)
const [times = "10", names = "R0(4[2-9]|5[0-9]|6[0-9]|7[0-7])", ...files] = process.argv.slice(2)
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url))

/** One run; gives its exit code and what it said. */
const run = () =>
  new Promise((resolve) => {
    const chosen = files.length === 0 ? FILES : files
    const child = spawn(process.execPath, [vitest, "run", "-t", names, "--testTimeout=300000", ...chosen], {
      env: { ...process.env, NO_COLOR: "1", TEST_PATIENCE: times, SOAK_COMMANDS: process.env["SOAK_COMMANDS"] ?? "100" },
      stdio: ["ignore", "pipe", "pipe"],
    })
    let text = ""
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (part) => {
        text += part
      })
    child.once("close", (code) => resolve({ code, text }))
  })

const runs = await Promise.all(Array.from({ length: Number(times) }, run))
for (const { text } of runs.filter(({ code }) => code !== 0)) console.log(text)
for (const [index, { text }] of runs.entries()) console.log(`run ${index + 1}: ${/Tests .*/u.exec(text)?.[0] ?? "no tests"}`)
process.exitCode = runs.every(({ code }) => code === 0) ? 0 : 1

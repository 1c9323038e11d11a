/** The Runner behind a Unix socket: held to the same suite, and what is its own. */
import { existsSync } from "node:fs"
import { describe } from "@effect/vitest"
import { runnerContract } from "../contract/runner.ts"
import { main } from "../support/Program.ts"
import { throughWorker } from "../support/Runners.ts"

const isBuilt = existsSync(main)
if (!isBuilt) console.warn("Uds.test.ts is skipped: dist/main.mjs is not built (npm run build)")

describe.skipIf(!isBuilt)("Uds", () => runnerContract(throughWorker()))

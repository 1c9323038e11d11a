import { describe } from "@effect/vitest"
import { runnerContract } from "../contract/runner.ts"
import { inProcess } from "../support/Runners.ts"

describe("InProcess", () => runnerContract(inProcess))

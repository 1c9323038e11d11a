/**
 * The escape suite: what an untrusted command may try, run through the built program as this user and, where this user may
 * become another, as an ordinary one. None may succeed. Each is also run without a sandbox, where that does no harm, and
 * must succeed there: a check that cannot fail shows nothing.
 */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { holding } from "../../support/Processes.ts"
import { main } from "../../support/Program.ts"
import { until } from "../../support/Until.ts"
import { own, users, type Who } from "../../support/Users.ts"
import { type Attempt, hasCalls } from "./Attempt.ts"
import { onFiles } from "./Files.ts"
import { onGit } from "./Git.ts"
import { onKernel } from "./Kernel.ts"
import { onNetwork, throughTheProxy } from "./Network.ts"
import { openWorld, type World, whyNotHere } from "./World.ts"

const attempts = [...onFiles, ...onGit, ...onKernel, ...onNetwork]

const missing = ["perl", "git", "bwrap"].filter((program) => spawnSync(program, ["--version"]).status !== 0)
const whyNot = !existsSync(main)
  ? "dist/main.mjs is not built (npm run build)"
  : missing.length > 0
    ? `there is no ${missing.join(", no ")} here`
    : !hasCalls
      ? `the numbers of system calls on ${process.arch} are not known here`
      : holding.by === "group"
        ? holding.why
        : undefined
if (whyNot !== undefined) console.warn(`escapes.test.ts is skipped: ${whyNot}`)

/** Whether it is to be run without a sandbox, by this user. */
const runsAlone = ({ alone }: Attempt, { uid }: Who): boolean => typeof alone !== "object" && (alone !== "root" || uid === 0)

const here = attempts.filter((attempt) => {
  const why = whyNotHere(attempt)
  if (why !== undefined) console.warn(`"${attempt.name}" is not tried: ${why}`)
  return why === undefined
})

const confined = (who: Who) => {
  let world: World
  beforeAll(async () => {
    world = await openWorld(who)
  })
  afterAll(() => world.close())

  it("what the profile allows is reached through the proxy, so that the rest is known to fail for its target", async () => {
    const { output } = await world.confined(throughTheProxy)
    expect(output).toContain("hello")
    expect(world.harmDone(throughTheProxy.harm, output)).toBe("it reached allowed")
  })

  it("a command runs", async () => {
    const made = await world.server.call("exec_command", { script: "echo $((40 + 2)) > made; cat made" })
    expect(made).toMatchObject({ exit_code: 0, output: "42\n" })
  })

  for (const attempt of here)
    it(attempt.name, async () => {
      await world.mend()
      const { output, results } = await world.confined(attempt)
      // It must have run: a refused or broken call shows nothing.
      for (const result of results) {
        expect(result, JSON.stringify(result)).toHaveProperty("process_id")
        expect(result["state"], output).not.toBe("timed_out")
      }
      expect(world.harmDone(attempt.harm, output)).toBeUndefined()
    })
}

const alone = (who: Who) => {
  let world: World
  beforeAll(async () => {
    world = await openWorld(who)
  })
  afterAll(() => world.close())

  for (const attempt of here.filter((one) => runsAlone(one, who)))
    it(attempt.name, async () => {
      await world.mend()
      const output = await world.alone(attempt)
      const limit = attempt.alone === "perhaps" ? 1 : 2000
      const harm = await until(() => world.harmDone(attempt.harm, output), limit).catch(() => undefined)
      if (harm === undefined && attempt.alone === "perhaps")
        console.warn(`"${attempt.name}" succeeds nowhere on this machine: ${output.trim().split("\n")[0]}`)
      else expect(harm, output).toBeDefined()
    })
}

describe.skipIf(whyNot !== undefined)("escapes", { timeout: 60_000 }, () => {
  it("are at least 60", () => {
    expect(new Set(attempts.map(({ name }) => name)).size).toBe(attempts.length)
    expect(attempts.length).toBeGreaterThanOrEqual(60)
  })
  for (const who of users("escapes.test.ts")) describe(`none succeeds as ${who.name}`, () => confined(who))
  describe("without a sandbox, what does no harm succeeds", () => alone(own))
})

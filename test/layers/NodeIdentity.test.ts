import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { layer } from "../../src/layers/NodeIdentity.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { until } from "../support/Until.ts"

const source = fileURLToPath(new URL("../../src/layers/NodeIdentity.ts", import.meta.url))
const port = fileURLToPath(new URL("../../src/services/ServerIdentity.ts", import.meta.url))
const { isAlive, self } = await Effect.runPromise(Effect.provide(ServerIdentity, layer))

const identityOf = (pid: number): string => {
  const ticks = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/.*\) /s, "").split(" ")[19]
  return `${pid}.${self.split(".")[1]?.split("-")[0]}-${ticks}`
}

const hasProc = existsSync("/proc/self/stat")
if (!hasProc) console.warn("NodeIdentity.test.ts is skipped in part: there is no /proc to look processes up in")

describe.skipIf(!hasProc)("which process a server is", () => {
  it("knows this one, and begins with its process id", () => {
    expect(isAlive(self)).toBe(true)
    expect(self).toBe(identityOf(process.pid))
  })

  it("takes another process under the same number for another", () => {
    expect(isAlive(self.replace(/\d+$/, "1"))).toBe(false)
    expect(isAlive(self.replace(/\.\w+/, ".00000000"))).toBe(false)
    expect(isAlive("no number")).toBe(false)
  })

  it("sees a process end", async () => {
    const child = spawn("sleep", ["300"])
    const identity = identityOf(child.pid as number)
    expect(isAlive(identity)).toBe(true)
    child.kill("SIGKILL")
    await once(child, "exit")
    expect(isAlive(identity)).toBe(false)
  })

  it("takes no process for gone because it cannot look", () => {
    // A server that has no descriptor left must not take over what another one holds.
    const script = `
      import { openSync } from "node:fs"
      import { Effect } from "effect"
      import { layer } from ${JSON.stringify(source)}
      import { ServerIdentity } from ${JSON.stringify(port)}
      const { isAlive } = await Effect.runPromise(Effect.provide(ServerIdentity, layer))
      const seen = () => [isAlive(${JSON.stringify(self)}), isAlive("999999999.x-1")]
      const before = seen()
      try { for (;;) openSync("/dev/null") } catch {}
      const after = seen()
      process.stdout.write(JSON.stringify([before, after]))`
    const { stdout } = spawnSync("sh", ["-c", 'ulimit -n 256; exec "$0" --input-type=module -e "$1"', process.execPath, script], {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      encoding: "utf8",
    })
    expect(JSON.parse(stdout)).toEqual([
      [true, false],
      [true, false],
    ])
  })

  it("sees a process end that nobody has reaped", async () => {
    const parent = spawn("sh", ["-c", "sleep 300 & echo $!; exec sleep 300"])
    const pid = Number(String((await once(parent.stdout, "data"))[0]))
    await until(() => readFileSync(`/proc/${parent.pid}/cmdline`, "latin1").startsWith("sleep"))
    const identity = identityOf(pid)
    expect(isAlive(identity)).toBe(true)
    process.kill(pid, "SIGKILL")
    await until(() => readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z "))
    expect(isAlive(identity)).toBe(false)
    parent.kill("SIGKILL")
    await once(parent, "exit")
  })
})

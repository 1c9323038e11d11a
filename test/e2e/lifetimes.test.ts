/**
 * Nothing survives: a tree that does all it can to stay, against every way to end it, through the built program. Run as
 * this user and, where this user may become another, as an ordinary one.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, chownSync, existsSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { holding } from "../support/Processes.ts"
import { type Home, main, makeHome } from "../support/Program.ts"
import { startServer } from "../support/RawServer.ts"
import { commandsIn, livingIn } from "../support/Survivors.ts"
import { until } from "../support/Until.ts"

const isBuilt = existsSync(main)
if (!isBuilt) console.warn("lifetimes.test.ts is skipped: dist/main.mjs is not built (npm run build)")
if (holding.by === "group") console.warn(`lifetimes.test.ts tests no hostile trees: ${holding.why}`)

/** Ignores what can be ignored, and leaves group, session, parent and environment in every way there is. */
const HOSTILE = `trap '' TERM HUP INT QUIT
sleep 300 &
setsid sleep 301 &
set -m; sleep 302 & set +m
( setsid sh -c 'trap "" TERM; sleep 303 & sleep 303' & )
env -i setsid -f /bin/sleep 304
setsid sh ./hop.sh 40 &
echo ready
sleep 305
sleep 306
`
/** A chain in which every link lives for 20 ms. */
const HOP = `trap '' TERM; [ "$1" -gt 0 ] || exec sleep 307
setsid sh ./hop.sh $(($1 - 1)) & sleep 0.02
`

interface Who {
  readonly name: string
  /** Arguments in front of a command that run it as somebody else. */
  readonly as: ReadonlyArray<string>
  readonly uid: number
}
const own: Who = { name: process.getuid?.() === 0 ? "root" : "an ordinary user", as: [], uid: process.getuid?.() ?? 0 }
const nobody: Who = { name: "an ordinary user", as: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], uid: 65534 }
const canBeNobody = own.uid === 0 && spawnSync(nobody.as[0]!, [...nobody.as.slice(1), process.execPath, main, "--version"]).status === 0
if (!canBeNobody) console.warn("lifetimes.test.ts runs as this user only: it may not become another, or that one cannot read the program")

const homes: Array<Home> = []
const homeOf = ({ uid }: Who): Home => {
  const made = makeHome({ "hostile.sh": HOSTILE, "hop.sh": HOP })
  homes.push(made)
  chmodSync(made.home, 0o755)
  for (const path of [made.home, made.workspace, ...readdirSync(made.workspace).map((name) => join(made.workspace, name))])
    chownSync(path, uid, uid)
  const config = {
    workspaces: { app: { root: made.workspace, profile: "many" } },
    profiles: { many: { extends: "workspace-write", limits: { processes: 64 } } },
  }
  writeFileSync(join(made.home, "config.json"), JSON.stringify(config))
  return made
}
afterEach(() => {
  for (const made of homes.splice(0)) made.remove()
})

/** A server of its own, warm. */
const start = async (who: Who, made: Home) => {
  const server = startServer(made, ["--config", join(made.home, "config.json")], who.as)
  const hostile = (more: object = {}) => ({ command: ["bash", "./hostile.sh"], access: "shared", yield_ms: 0, ...more })
  expect(await server.call("exec_command", { command: ["true"] })).toMatchObject({ exit_code: 0 })
  return { ...server, hostile }
}

/** Waits a moment for the kernel, then says what still lives. */
const survivors = async (made: Home): Promise<ReadonlyArray<string>> => {
  await until(() => livingIn(made.home).length === 0, 3000).catch(() => undefined)
  return commandsIn(made.home)
}

const hasSettledIn = (made: Home) =>
  until(() =>
    ["301", "302", "303", "304", "305", "307"].every((end) => commandsIn(made.workspace).some((text) => text.endsWith(`sleep ${end}`))),
  )

const suite = (who: Who, rounds: number) => {
  it("when it is terminated, or runs out of time", async () => {
    const made = homeOf(who)
    const server = await start(who, made)
    const [{ process_id }, { process_id: timed }] = await Promise.all([
      server.call("exec_command", server.hostile()),
      server.call("exec_command", server.hostile({ timeout_ms: 2500 })),
    ])
    await hasSettledIn(made)
    expect(await server.call("terminate_process", { process_id, grace_ms: 100 })).toMatchObject({
      state: "terminated",
      signal: "SIGKILL",
    })
    await until(async () => (await server.call("read_process", { process_id: timed }))["state"] === "timed_out")
    // The server itself does not run in the workspace.
    expect(livingIn(made.workspace).map((pid) => pid)).toEqual([])
    server.child.stdin.end()
    await server.ended
    expect(await survivors(made)).toEqual([])
  })

  it("when the server is stopped", async () => {
    const made = homeOf(who)
    const server = await start(who, made)
    await server.call("exec_command", server.hostile())
    await hasSettledIn(made)
    const from = performance.now()
    server.child.kill("SIGTERM")
    expect(await server.ended).toEqual([0, null])
    expect(performance.now() - from).toBeLessThan(5000)
    expect(commandsIn(made.workspace)).toEqual([])
  })

  it(`when the server is killed, ${rounds} times, 8 trees at once, most of them in their first milliseconds`, async () => {
    for (let round = 0; round < rounds; round++) {
      const made = homeOf(who)
      const server = await start(who, made)
      for (let index = 0; index < 8; index++) server.send("exec_command", server.hostile())
      // From before the first start until the last tree stands; which moment it is may differ each time.
      await new Promise((resolve) => setTimeout(resolve, (round * 61) % 97))
      server.child.kill("SIGKILL")
      await server.ended
      expect([round, await survivors(made)]).toEqual([round, []])
    }
  })

  it("and the workspace says what holds it", async () => {
    const made = homeOf(who)
    const server = await start(who, made)
    const { enforcement } = (await server.call("workspace_info", {})) as { readonly enforcement: { readonly exec: string } }
    expect(enforcement.exec).toContain("pid namespace of its own")
    const { notes } = (await server.call("exec_command", { command: ["true"] })) as { readonly notes: ReadonlyArray<string> }
    expect(notes).toEqual(["files and network not confined: the command had the rights of the server's user"])
    server.child.stdin.end()
    await server.ended
  })

  it("when it kills all it can: its parent, its group, and everything of its user", async () => {
    const made = homeOf(who)
    const server = await start(who, made)
    for (const script of [
      "kill -9 $PPID; sleep 0.1",
      "kill -9 0",
      "kill -9 -1; sleep 0.1",
      "kill -TERM -- -1; kill -9 -- -$PPID; sleep 0.1",
    ])
      expect(await server.call("exec_command", { script })).toHaveProperty("ended_by")
    expect(await server.call("exec_command", { command: ["echo", "here"] })).toMatchObject({ exit_code: 0, output: "here\n" })
    server.child.stdin.end()
    expect(await server.ended).toEqual([0, null])
    expect(await survivors(made)).toEqual([])
  })
}

describe.skipIf(!isBuilt || holding.by === "group")("nothing of a hostile tree survives", { timeout: 120_000 }, () => {
  describe(`as ${own.name}`, () => suite(own, canBeNobody ? 15 : 30))
  if (canBeNobody) describe(`as ${nobody.name}`, () => suite(nobody, 15))
})

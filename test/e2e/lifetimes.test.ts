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

/**
 * Waits for the kernel and, for a sandbox that was only half made, for the watchdog, which takes its time on a machine with
 * too much to do; then says what still lives.
 */
const survivors = async (made: Home): Promise<ReadonlyArray<string>> => {
  await until(() => livingIn(made.home).length === 0, 10_000).catch(() => undefined)
  return commandsIn(made.home)
}

const hasSettledIn = (made: Home) =>
  until(() =>
    ["301", "302", "303", "304", "305", "307"].every((end) => commandsIn(made.workspace).some((text) => text.endsWith(`sleep ${end}`))),
  )

/** A moment of a tree's first tenth of a second, another one for each number. */
const moment = (number: number) => new Promise((resolve) => setTimeout(resolve, (number * 61) % 97))

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

  const fewer = Math.ceil(rounds / 3)
  it(`at whatever moment it is terminated, its time is over or the server is stopped, ${fewer} times, 16 trees each`, async () => {
    for (let round = 0; round < fewer; round++) {
      const made = homeOf(who)
      const server = await start(who, made)
      const ends = Array.from({ length: 8 }, async (_, index) => {
        const isTimed = index % 2 === 0
        const limit = { timeout_ms: 1 + (((round * 8 + index) * 61) % 97) }
        const { process_id } = await server.call("exec_command", server.hostile(isTimed ? limit : {}))
        await moment(round * 8 + index)
        if (!isTimed) return (await server.call("terminate_process", { process_id, grace_ms: 20 }))["state"]
        return until(async () => {
          const { state } = await server.call("read_process", { process_id, wait_ms: 5000, until: "never said" })
          return state !== "running" && state
        })
      })
      expect(new Set(await Promise.all(ends))).toEqual(new Set(["terminated", "timed_out"]))
      expect([round, commandsIn(made.workspace)]).toEqual([round, []])
      for (let index = 0; index < 8; index++) server.send("exec_command", server.hostile())
      await moment(round)
      server.child.kill("SIGTERM")
      expect(await server.ended).toEqual([0, null])
      expect([round, commandsIn(made.workspace)]).toEqual([round, []])
    }
  })

  it(`when the server is killed, ${rounds} times, 8 trees at once, most of them in their first milliseconds`, async () => {
    for (let round = 0; round < rounds; round++) {
      const made = homeOf(who)
      const server = await start(who, made)
      for (let index = 0; index < 8; index++) server.send("exec_command", server.hostile())
      // From before the first start until the last tree stands.
      await moment(round)
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
    const { sandbox } = (await server.call("exec_command", { command: ["true"] })) as { readonly sandbox: string }
    expect(sandbox).toBe("bubblewrap: files workspace-write, network on")
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

/** Kills of a server altogether. HOSTILE_ROUNDS=50 makes it more than a thousand trees, and takes minutes. */
const ROUNDS = Number(process.env["HOSTILE_ROUNDS"] ?? 16)

describe.skipIf(!isBuilt || holding.by === "group")("nothing of a hostile tree survives", { timeout: 60_000 + ROUNDS * 10_000 }, () => {
  describe(`as ${own.name}`, () => suite(own, canBeNobody ? Math.ceil(ROUNDS / 2) : ROUNDS))
  if (canBeNobody) describe(`as ${nobody.name}`, () => suite(nobody, Math.ceil(ROUNDS / 2)))
})

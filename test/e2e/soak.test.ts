/** Much at once and much after each other, through the built program: what it holds afterwards is what it held before. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { patient } from "../support/Patience.ts"
import { type Home, main, makeHome } from "../support/Program.ts"
import { startServer } from "../support/RawServer.ts"
import { until } from "../support/Until.ts"

const isLinux = existsSync("/proc/self/status")
if (!existsSync(main)) console.warn("soak.test.ts is skipped: dist/main.mjs is not built (npm run build)")
else if (!isLinux) console.warn("soak.test.ts is skipped: there is no /proc to count in")

const homes: Array<Home> = []
afterEach(() => {
  for (const made of homes.splice(0)) made.remove()
})

const start = async (limits: object = {}) => {
  const made = makeHome({ "a.txt": "a\n" })
  homes.push(made)
  const config = join(made.home, "config.json")
  writeFileSync(
    config,
    JSON.stringify({
      workspaces: { app: { root: made.workspace, profile: "many" } },
      profiles: { many: { extends: "workspace-write", limits: { processes: 64, ...limits } } },
    }),
  )
  const server = startServer(made, ["--config", config])
  const exec = (command: ReadonlyArray<string>, more: object = {}) =>
    server.call("exec_command", { command, access: "shared", yield_ms: 50_000, ...more })
  expect(await exec(["true"])).toMatchObject({ exit_code: 0 })
  const pid = server.child.pid!
  const stop = async () => {
    server.child.stdin.end()
    expect(await server.ended).toEqual([0, null])
  }
  return { ...server, exec, stop, made, pid, hasTerminals: (await exec(["true"], { tty }))["exit_code"] === 0 }
}

const tty = { rows: 24, cols: 80 }

/** Runs `count` of them, `width` at a time. */
const many = async (count: number, width: number, run: (index: number) => Promise<void>): Promise<void> => {
  let next = 0
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let index = next++; index < count; index = next++) await run(index)
    }),
  )
}

const descriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length
const memory = (pid: number): number => Number(/^VmRSS:\s+(\d+)/mu.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024
const children = (pid: number): ReadonlyArray<string> =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean)
/** Of all generations. */
const below = (pid: number): ReadonlyArray<string> => {
  try {
    return children(pid).flatMap((child) => [child, ...below(Number(child))])
  } catch {
    // It has gone meanwhile.
    return []
  }
}
const isZombie = (pid: string): boolean => {
  try {
    return /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1"))
  } catch {
    return false
  }
}

/** Short commands of the longest run. SOAK_COMMANDS=5000 is the number that is promised; it takes some minutes. */
const COMMANDS = Number(process.env["SOAK_COMMANDS"] ?? 1000)

describe.skipIf(!existsSync(main) || !isLinux)("the built program", { timeout: patient(60_000 + COMMANDS * 200) }, () => {
  it(`runs ${COMMANDS} commands 20 at a time, half of them in terminals, and holds no more than before (R046)`, async () => {
    const server = await start()
    if (!server.hasTerminals) console.warn("soak.test.ts runs no terminals: node-pty is not there")
    await many(100, 20, async (index) => void (await server.exec(["true"], server.hasTerminals && index % 2 === 0 ? { tty } : {})))
    const [files, before] = [descriptors(server.pid), memory(server.pid)]
    await many(COMMANDS, 20, async (index) => {
      const facts = await server.exec(["echo", String(index)], server.hasTerminals && index % 2 === 0 ? { tty } : {})
      expect(facts).toMatchObject({ state: "exited", exit_code: 0, output: `${index}\n` })
    })
    const [grown, opened] = [memory(server.pid) - before, descriptors(server.pid) - files]
    console.log(`soak: ${COMMANDS} commands, memory ${Math.round(grown / 1e6)} MB more, descriptors ${opened} more at the end`)
    // The watchdog, what copies output, and a namespace that waits for the next command.
    await until(() => below(server.pid).filter(isZombie).length === 0 && children(server.pid).length <= 3)
    await until(() => descriptors(server.pid) <= files + 5)
    expect(grown).toBeLessThan(200_000_000)
    const spools = join(server.made.home, "state/codespace/spools")
    const kept = readdirSync(spools).flatMap((name) => readdirSync(join(spools, name)).map((file) => join(spools, name, file)))
    const bytes = kept.reduce((sum, file) => sum + statSync(file).size, 0)
    console.log(`soak: ${kept.length} files with ${bytes} bytes are kept of them`)
    // A spool, a record and a note of each, and what the namespace that waits has.
    expect(kept.length).toBeLessThanOrEqual(3 * 200 + 10)
    expect(bytes).toBeLessThan(1_000_000)
    await server.stop()
  })

  it("loses not one byte of 200 times 70,000, and of 200 times 20,480 in terminals (R052)", async () => {
    const server = await start()
    await many(200, 8, async () => {
      expect(await server.exec(["head", "-c", "70000", "/dev/zero"], { max_output_bytes: 1000 })).toMatchObject({
        total_bytes: 70_000,
        exit_code: 0,
      })
    })
    if (server.hasTerminals)
      await many(200, 8, async () => {
        const facts = await server.exec(["head", "-c", "20480", "/dev/zero"], { max_output_bytes: 1000, tty })
        expect(facts).toMatchObject({ total_bytes: 20_480, exit_code: 0 })
      })
    await server.stop()
  })

  it("answers at once while a gigabyte is printed, and does not grow with it (R071)", async () => {
    const server = await start({ spool_bytes: 100_000_000 })
    await server.ping()
    const before = memory(server.pid)
    const running = server.exec(["sh", "-c", "head -c 1000000000 /dev/zero | tr '\\0' a; printf END"])
    const waits: Array<number> = []
    let peak = before
    for (let isOver = false; !isOver; ) {
      const from = performance.now()
      await server.ping()
      waits.push(performance.now() - from)
      peak = Math.max(peak, memory(server.pid))
      isOver = await Promise.race([running.then(() => true), new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 50))])
    }
    const facts = await running
    expect(facts).toMatchObject({ state: "exited", exit_code: 0, total_bytes: 1_000_000_003, eof: true })
    expect(facts["output"]).toMatch(/aEND$/)
    expect(facts["dropped_bytes"]).toBeGreaterThan(890_000_000)
    expect(Math.max(...waits)).toBeLessThan(patient(500))
    expect(peak - before).toBeLessThan(30_000_000)
    const spools = join(server.made.home, "state/codespace/spools")
    const used = readdirSync(spools).flatMap((name) =>
      readdirSync(join(spools, name)).map((file) => statSync(join(spools, name, file)).blocks * 512),
    )
    expect(used.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(101_000_000)
    await server.stop()
  })
})

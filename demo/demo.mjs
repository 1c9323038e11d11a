/**
 * A small agent loop against the real server, on a copy of `demo/project`, told in words. It ends with exit code 0 when
 * everything was as promised, 1 with a sentence when something was not, 2 when it could not start. It takes at most 20 s and
 * leaves nothing behind.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { connect } from "./connection.mjs"
import { Broken, makeNarrator } from "./narrator.mjs"
import { play } from "./story.mjs"

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const built = here("../dist/main.mjs")
const limit = 20_000

/** The temp folders and the servers, and their end, however the demo ends. */
const makeStage = () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "codespace-demo-")))
  const folder = join(root, "fruit-shop")
  const home = join(root, "home")
  cpSync(here("project"), folder, { recursive: true })
  mkdirSync(home)
  const connections = []
  return {
    folder,
    connect: () => {
      const connection = connect({ main: built, folder, home })
      connections.push(connection)
      return connection
    },
    /** Ends every server the polite way, so that it ends the commands it runs. Answers their pids. */
    close: async () => {
      const opened = (await Promise.allSettled(connections)).flatMap(({ value }) => (value === undefined ? [] : [value]))
      await Promise.all(opened.map((connection) => connection.close()))
      return opened.map((connection) => connection.pid)
    },
    remove: () => rmSync(root, { recursive: true, force: true, maxRetries: 5 }),
  }
}

const isAlive = (pid) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const perform = async (stage) => {
  const narrator = makeNarrator()
  const from = performance.now()
  console.log("An agent fixes a bug in a small shop. CodeSpace does the work, and keeps the record.")
  try {
    await play({ narrator, folder: stage.folder, connection: await stage.connect(), reconnect: stage.connect })
    narrator.step("The end.")
    narrator.check(!(await stage.close()).some(isAlive), "No server is left running.")
    return { code: 0, words: `Everything was as promised (${((performance.now() - from) / 1000).toFixed(1)} s).` }
  } catch (error) {
    return { code: 1, words: `NOT AS PROMISED: ${error instanceof Broken ? error.message : (error.stack ?? error)}` }
  }
}

/** What ends the demo before its time: a signal, or the limit. */
const stopped = () =>
  new Promise((resolve) => {
    process.once("SIGINT", () => resolve({ code: 130, words: "Stopped." }))
    process.once("SIGTERM", () => resolve({ code: 143, words: "Stopped." }))
    setTimeout(() => resolve({ code: 1, words: `NOT AS PROMISED: the demo did not end within ${limit / 1000} s.` }), limit).unref()
  })

if (!existsSync(built)) {
  console.error("CodeSpace is not built yet: run npm ci first.")
  process.exit(2)
}
const stage = makeStage()
const end = await Promise.race([perform(stage), stopped()])
// A server that does not end now ends when this program does: its stdin closes.
await Promise.race([stage.close(), sleep(5_000)])
stage.remove()
if (end.code === 0) console.log(`\n${end.words}`)
else console.error(`\n${end.words}`)
process.exit(end.code)

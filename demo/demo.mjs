/**
 * A small agent loop against the real server, on a copy of `demo/project`, told in words. It ends with exit code 0 when
 * everything was as promised, 1 with a sentence when something was not, 2 when it could not start. It takes at most 20 s and
 * leaves nothing behind.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { connect } from "./connection.mjs"
import { Broken, makeNarrator } from "./narrator.mjs"
import { play } from "./story.mjs"

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const built = here("../dist/main.mjs")
const limit = 20_000

/** The temp folders and the server, and their end, however the demo ends. */
const makeStage = () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "codespace-demo-")))
  const folder = join(root, "fruit-shop")
  const home = join(root, "home")
  cpSync(here("project"), folder, { recursive: true })
  mkdirSync(home)
  const connections = []
  return {
    folder,
    connect: async () => {
      const connection = await connect({ main: built, folder, home })
      connections.push(connection)
      return connection
    },
    close: () => Promise.all(connections.map((connection) => connection.close())),
    pids: () => connections.map((connection) => connection.pid),
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

const main = async () => {
  if (!existsSync(built)) {
    console.error("CodeSpace is not built yet: run npm ci first.")
    process.exitCode = 2
    return
  }
  const narrator = makeNarrator()
  const stage = makeStage()
  const stop = (why, code) => {
    for (const pid of stage.pids().filter(isAlive)) process.kill(pid, "SIGKILL")
    stage.remove()
    console.error(why)
    process.exit(code)
  }
  process.once("SIGINT", () => stop("Stopped.", 130))
  process.once("SIGTERM", () => stop("Stopped.", 143))
  setTimeout(() => stop(`NOT AS PROMISED: the demo did not end within ${limit / 1000} s.`, 1), limit).unref()

  console.log("An agent fixes a bug in a small shop. CodeSpace does the work, and keeps the record.")
  const from = performance.now()
  try {
    await play({ narrator, folder: stage.folder, connection: await stage.connect(), reconnect: stage.connect })
    await stage.close()
    narrator.step("The end.")
    narrator.check(!stage.pids().some(isAlive), "No server is left running.")
    console.log(`\nEverything was as promised (${((performance.now() - from) / 1000).toFixed(1)} s).`)
  } catch (error) {
    console.error(`\nNOT AS PROMISED: ${error instanceof Broken ? error.message : (error.stack ?? error)}`)
    process.exitCode = 1
  } finally {
    await stage.close()
    stage.remove()
  }
}

await main()

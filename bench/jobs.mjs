/**
 * What is measured. A job's `prepare`, if it has one, runs once before it. Its `measure` makes one sample for one server: a
 * value (ms or MB) and, when the result was not what it must be, what was wrong with it. Checks run after the clock has
 * stopped. Aims are ratios to the floor.
 */
import fs from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { needle } from "./fixtures.mjs"

/** Times `act` alone; `check` sees its result and answers what is wrong, if anything. */
const timed = (act, check) => async (context) => {
  const from = performance.now()
  const result = await act(context)
  const value = performance.now() - from
  return { value, wrong: await check(result, context) }
}

const sameText = (wanted) => (found) =>
  found === wanted ? undefined : `${found?.length ?? "no"} characters came back, ${wanted.length} were right and expected`

const samePaths = (wanted, found) => {
  const sorted = [...new Set(found)].sort()
  if (sorted.length !== found.length) return `${found.length - sorted.length} paths came back twice`
  return sorted.join("\n") === wanted.join("\n") ? undefined : `${found.length} paths came back, expected ${wanted.length}`
}

const readJob = (id, title, file, calls, aim) => ({
  ...{ id, title, unit: "ms", calls, aim },
  measure: timed(({ server, client }) => server.read(client, file.path), sameText(file.text)),
})

/** Each edit flips the line back or forth; a file that came out wrong is made right again for the next edit. */
const editJob = (id, title, file, calls, work) => {
  const turns = new Map()
  const turnOf = (server) => turns.get(server.name)
  const onDisk = (server) => join(work, file.path(server))
  const edit = timed(
    ({ server, client }) => server.edit(client, file.edit(server, turnOf(server))),
    (_, { server }) => sameText(file.text(turnOf(server) + 1))(fs.readFileSync(onDisk(server), "utf8")),
  )
  const measure = async (context) => {
    const { server } = context
    if (!turns.has(server.name)) {
      turns.set(server.name, 0)
      fs.writeFileSync(onDisk(server), file.text(0))
    }
    const sample = await edit(context)
    turns.set(server.name, turnOf(server) + 1)
    if (sample.wrong) fs.writeFileSync(onDisk(server), file.text(turnOf(server)))
    return sample
  }
  return { id, title, unit: "ms", calls, measure }
}

const startJob = {
  ...{ id: "start", title: "start to the tools/list reply", unit: "ms", calls: 1, aim: 2 },
  measure: async ({ server, start }) => {
    const from = performance.now()
    const client = start(server)
    const tools = await client.open()
    const value = performance.now() - from
    await client.close()
    const missing = server.needs.filter((name) => !tools.some((tool) => tool.name === name))
    return { value, wrong: missing.length > 0 ? `not in the list of tools: ${missing.join(", ")}` : undefined }
  },
}

/** Resident memory in MB of a process and everything it started. */
const residentMemory = (pid) => {
  const kilobytes = Number(/^VmRSS:\s+(\d+)/mu.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean)
  return children.reduce((sum, child) => sum + residentMemory(child), kilobytes / 1024)
}

const memory = (client) => {
  const value = residentMemory(client.pid)
  return { value, wrong: value > 0 ? undefined : "no memory was reported" }
}

const idleMemoryJob = {
  ...{ id: "memory-idle", title: "memory, idle after start", unit: "MB", calls: 1, rounds: 5, aim: 1.6, linuxOnly: true },
  measure: async ({ server, start }) => {
    const client = start(server)
    await client.open()
    await sleep(500)
    const sample = memory(client)
    await client.close()
    return sample
  },
}

const memoryAfterJob = {
  ...{ id: "memory-after", title: "memory after the run", unit: "MB", calls: 1, rounds: 1, linuxOnly: true },
  measure: async ({ client }) => memory(client),
}

/** What encloses a command in a pid namespace, without anything around it. */
const bubblewrap = ["bwrap", "--unshare-pid", "--die-with-parent", "--new-session", "--dev-bind", "/", "/", "--proc", "/proc", "--"]
const hasBubblewrap = (process.env.PATH ?? "").split(":").some((folder) => fs.existsSync(join(folder, "bwrap")))

const exitsWith0 = (codes) => {
  const wrong = [codes].flat().find((code) => code !== 0)
  return wrong === undefined ? undefined : `exit code ${wrong}, expected 0`
}

const hasTerminals = fs.existsSync(new URL("../node_modules/node-pty", import.meta.url))

/** One line told to a live `cat` and back; in a terminal it comes back as an echo at once, in the other's case as output. */
const tripJob = (id, title, tty) => ({
  ...{ id, title, unit: "ms", calls: 10, rounds: 5 },
  measure: async ({ server, client }) => {
    const talker = await server.talker(client, ["cat"], tty)
    await server.tell(client, talker, "warm\n")
    const sample = await timed(
      () => server.tell(client, talker, "hello\n"),
      (output) => (output.includes("hello") ? undefined : `${JSON.stringify(output)} came back`),
    )({ server, client })
    await server.hush(client, talker)
    return sample
  },
})

/** All jobs in the order they run; `work` is the folder the fixtures are in. */
export const makeJobs = (fixtures, work) => [
  startJob,
  idleMemoryJob,
  readJob("read-1k", "read 1 KB", fixtures.read1k, 20, 1.5),
  readJob("read-100k", "read 100 KB", fixtures.read100k, 10, 1.5),
  readJob("read-1m", "read 1 MB", fixtures.read1m, 3, 1.5),
  {
    ...{ id: "find", title: "find *.tsx in 5,000 files", unit: "ms", calls: 3, aim: 1.1, prepare: fixtures.tree },
    measure: timed(
      ({ server, client }) => server.find(client, "tree", ".tsx"),
      (paths) => samePaths(fixtures.tree().tsx, paths),
    ),
  },
  {
    ...{ id: "search", title: "search one needle in 5,000 files", unit: "ms", calls: 3, aim: 1.1, prepare: fixtures.tree },
    measure: timed(
      ({ server, client }) => server.search(client, "tree", needle),
      (paths) => samePaths(fixtures.tree().needle, paths),
    ),
  },
  editJob("edit-100", "edit one line of 100", fixtures.edit100, 5, work),
  editJob("edit-50k", "edit one line of 50,000", fixtures.edit50k, 2, work),
  {
    ...{ id: "true", title: "run true to its exit code", unit: "ms", calls: 5, aim: 1.5 },
    measure: timed(
      ({ server, client }) => server.run(client, ["true"]),
      (exitCode) => (exitCode === 0 ? undefined : `exit code ${exitCode}, expected 0`),
    ),
  },
  ...(hasBubblewrap
    ? [
        {
          ...{ id: "true-enclosed", title: "run true, the floor in bubblewrap", unit: "ms", calls: 5, aim: 1.25, linuxOnly: true },
          measure: timed(
            ({ server, client }) => server.run(client, server.name === "floor" ? [...bubblewrap, "true"] : ["true"]),
            exitsWith0,
          ),
        },
      ]
    : []),
  {
    ...{ id: "sleep-16", title: "16 times sleep 0.2 at once", unit: "ms", calls: 1, rounds: 5, aim: 1.25 },
    measure: timed(({ server, client }) => Promise.all(Array.from({ length: 16 }, () => server.run(client, ["sleep", "0.2"]))), exitsWith0),
  },
  {
    ...{ id: "output-100m", title: "100 MB of output, the floor's into a file", unit: "ms", calls: 1, rounds: 5, aim: 1.5 },
    measure: timed(({ server, client }) => {
      const print = "head -c 100000000 /dev/zero"
      return server.run(client, ["sh", "-c", server.name === "floor" ? `${print} | cat > ${join(work, "printed")}` : print])
    }, exitsWith0),
  },
  tripJob("pipe-trip", "a line to a live program and back", false),
  ...(hasTerminals ? [tripJob("terminal-trip", "the same in a terminal, the floor over a pipe", true)] : []),
  { ...readJob("small-1000", "small call, 1,000 in a row", fixtures.small, 1_000, 2), rounds: 4 },
  memoryAfterJob,
]

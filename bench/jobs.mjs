/**
 * What is measured. A job's `prepare`, if it has one, runs once before it. Its `measure` makes one sample for one server: a
 * value (ms or MB) and, when the result was not what it must be, what was wrong with it. Checks run after the clock has
 * stopped. Aims are ratios to the floor.
 */
import { spawn } from "node:child_process"
import fs from "node:fs"
import { basename, dirname, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { needle } from "./fixtures.mjs"
import { editPatch } from "./servers.mjs"

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
const editJob = (job, files, work, act = ({ server, client }, edits) => server.edit(client, edits)) => {
  const turns = new Map()
  const turnOf = (server) => turns.get(server.name)
  const onDisk = (server) => files.paths(server).map((path) => join(work, path))
  const write = (server) => {
    for (const path of onDisk(server)) fs.writeFileSync(path, files.text(turnOf(server)))
  }
  const edit = timed(
    (context) => act(context, files.edits(context.server, turnOf(context.server))),
    (_, { server }) =>
      onDisk(server)
        .map((path) => sameText(files.text(turnOf(server) + 1))(fs.readFileSync(path, "utf8")))
        .find(Boolean),
  )
  const measure = async (context) => {
    const { server } = context
    if (!turns.has(server.name)) {
      turns.set(server.name, 0)
      write(server)
    }
    const sample = await edit(context)
    turns.set(server.name, turnOf(server) + 1)
    if (sample.wrong) write(server)
    return sample
  }
  return { unit: "ms", ...job, measure }
}

/** Each call adds a file under a new name, in a folder that is there; it is taken away when it has been looked at. */
const addJob = (job, file, work) => {
  const turns = new Map()
  const place = (server) => file.path(server, turns.get(server.name))
  const add = timed(
    ({ server, client }) => server.add(client, place(server), file.text),
    (_, { server }) => sameText(file.text)(fs.readFileSync(join(work, place(server)), "utf8")),
  )
  const measure = async (context) => {
    const { server } = context
    turns.set(server.name, (turns.get(server.name) ?? 0) + 1)
    const path = join(work, place(server))
    fs.mkdirSync(dirname(path), { recursive: true })
    try {
      return await add(context)
    } finally {
      fs.rmSync(path, { force: true })
    }
  }
  return { unit: "ms", ...job, measure }
}

/** The same change by a program that is started for it, in the place of the floor. */
const byProgram = (program, work) => (context, edits) =>
  context.server.name === "floor" ? runPatchProgram(program, work, editPatch(edits)) : context.server.edit(context.client, edits)

const runPatchProgram = (program, cwd, patch) =>
  new Promise((resolve, reject) => {
    const role = basename(program).startsWith("codex") ? ["--codex-run-as-apply-patch"] : []
    const child = spawn(program, [...role, patch], { cwd, stdio: ["ignore", "ignore", "inherit"] })
    child.once("error", reject)
    child.once("close", (code) => (code === 0 ? resolve() : reject(new Error(`${program} ended with exit code ${code}`))))
  })

/** A program gets its patch as an argument. */
const programJobs = (program, { edit100, edit50files, edit200k }, work) => {
  if (program === undefined) return []
  const act = byProgram(program, work)
  return [
    editJob({ id: "program-100", title: "apply_patch process: one line of 100", calls: 5 }, named(edit100, "p"), work, act),
    editJob({ id: "program-200k", title: "apply_patch process: one line of 200,000", calls: 1 }, named(edit200k, "p"), work, act),
    editJob({ id: "program-50", title: "apply_patch process: 50 files", calls: 2 }, named(edit50files, "p"), work, act),
  ]
}

/** The same files under other names. */
const named = (files, prefix) => {
  const path = (name) => `${prefix}-${name}`
  return {
    ...files,
    paths: (server) => files.paths(server).map(path),
    edits: (server, turn) => files.edits(server, turn).map((edit) => ({ ...edit, path: path(edit.path) })),
  }
}

const startJob = (job, environment = () => ({})) => ({
  ...{ unit: "ms", calls: 1, ...job },
  measure: async ({ server, start }) => {
    const env = { ...server.env, ...environment() }
    const from = performance.now()
    const client = start({ ...server, env })
    const tools = await client.open()
    const value = performance.now() - from
    await client.close()
    const missing = server.needs.filter((name) => !tools.some((tool) => tool.name === name))
    return { value, wrong: missing.length > 0 ? `not in the list of tools: ${missing.join(", ")}` : undefined }
  },
})

/** Where V8 finds nothing compiled before: as after an installation, or where the cache cannot be written. */
const withoutCache = () => ({ NODE_DISABLE_COMPILE_CACHE: "1" })

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

const manySleeps =
  (count, seconds) =>
  ({ server, client }) =>
    Promise.all(Array.from({ length: count }, () => server.run(client, ["sleep", String(seconds)])))

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

const printed = (work, bytes) => ({
  ...{ unit: "ms", calls: 1 },
  measure: timed(({ server, client }) => {
    const print = `head -c ${bytes} /dev/zero`
    return server.run(client, ["sh", "-c", server.name === "floor" ? `${print} | cat > ${join(work, "printed")}` : print])
  }, exitsWith0),
})

/** The longest of all pings while something goes on: how long the server's one thread was busy with it at most. */
const longestPing = async (client, work) => {
  const ended = work.then(() => true)
  let longest = 0
  for (let isOver = false; !isOver; ) {
    const from = performance.now()
    await client.request("ping", {})
    longest = Math.max(longest, performance.now() - from)
    isOver = await Promise.race([ended, sleep(2).then(() => false)])
  }
  return longest
}

const pingJob = (id, title, begin) => ({
  ...{ id, title, unit: "ms", calls: 1, rounds: 3, isWide: true },
  measure: async ({ server, client }) => {
    const work = begin(server, client)
    const value = await longestPing(client, work)
    return { value, wrong: exitsWith0(await work) }
  },
})

/** All jobs in the order they run; `work` is the folder the fixtures are in, `program` an apply_patch to compare with. */
export const makeJobs = (fixtures, work, program) => [
  startJob({ id: "start", title: "start to the tools/list reply", aim: 2 }),
  startJob({ id: "start-cold", title: "the same with no compile cache" }, withoutCache),
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
  editJob({ id: "edit-100", title: "patch one line of 100", calls: 5, aim: 2 }, fixtures.edit100, work),
  editJob({ id: "edit-50k", title: "patch one line of 50,000", calls: 2, aim: 10 }, fixtures.edit50k, work),
  editJob({ id: "edit-200k", title: "patch one line of 200,000", calls: 1, aim: 10 }, fixtures.edit200k, work),
  editJob({ id: "edit-50", title: "patch 50 files", calls: 2, aim: 3 }, fixtures.edit50files, work),
  addJob({ id: "add-2m", title: "add a file of 2 MB", calls: 2, aim: 2 }, fixtures.add2m, work),
  ...programJobs(program, fixtures, work),
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
    ...{ id: "sleep-50", title: "50 times sleep 0.2 at once", unit: "ms", calls: 1, rounds: 5, aim: 1.25, isWide: true },
    measure: timed(manySleeps(50, 0.2), exitsWith0),
  },
  { ...printed(work, 100_000_000), id: "output-100m", title: "100 MB of output, the floor's into a file", rounds: 5, aim: 1.5 },
  { ...printed(work, 1_000_000_000), id: "output-1g", title: "1 GB of output, the floor's into a file", rounds: 3, aim: 1.5 },
  pingJob("ping-starts", "longest ping while 50 commands start and end", (server, client) => manySleeps(50, 0.2)({ server, client })),
  pingJob("ping-output", "longest ping while 1 GB is printed", (server, client) =>
    printed(work, 1_000_000_000)
      .measure({ server, client })
      .then(({ wrong }) => (wrong === undefined ? 0 : 1)),
  ),
  tripJob("pipe-trip", "a line to a live program and back", false),
  ...(hasTerminals ? [tripJob("terminal-trip", "the same in a terminal, the floor over a pipe", true)] : []),
  { ...readJob("small-1000", "small call, 1,000 in a row", fixtures.small, 1_000, 2), rounds: 4 },
  memoryAfterJob,
]

/**
 * Measures CodeSpace over stdio against the floor (`floor.mjs`), both in one run and in turns, since only ratios within a
 * run mean something on a machine that does other things too. Prints a table, writes JSON, ends by itself within three
 * minutes, and leaves no process and no folder behind. Exit code: 0 when every result was right (whatever the speed),
 * 1 when one was wrong or missing, 2 when it could not start, 130 on SIGINT.
 */
import fs from "node:fs"
import { cpus, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { Client } from "./client.mjs"
import { makeFixtures } from "./fixtures.mjs"
import { makeJobs } from "./jobs.mjs"
import { summarize, table } from "./report.mjs"
import { builtServer, makeServers } from "./servers.mjs"

const help = `npm run bench -- [options]
  --only a,b    only these jobs
  --rounds n    rounds a job (default 15, at least 1)
  --quick       3 rounds a job and fewer calls in each
  --json FILE   where the figures go (default bench/results/DATE.json)
  --list        the names of the jobs

CODESPACE_BENCH_APPLY_PATCH=PROGRAM adds jobs in which the floor is that program, started for each patch: an apply_patch
that takes the patch as its argument, or the codex program of the npm package @openai/codex.`

const jobBudget = 11_000
const runBudget = 150_000
const hardLimit = 175_000

/** The temp folders and the running servers, and their end: at the end of the run, on a signal, or at the hard limit. */
const makeStage = () => {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "codespace-bench-")))
  const clients = new Set()
  const work = join(folder, "work")
  fs.mkdirSync(work)
  for (const name of ["home", "state", "config"]) fs.mkdirSync(join(folder, name))
  const env = {
    PATH: process.env.PATH,
    HOME: join(folder, "home"),
    XDG_STATE_HOME: join(folder, "state"),
    XDG_CONFIG_HOME: join(folder, "config"),
  }
  const wideConfig = join(folder, "config/wide.json")
  const profiles = { wide: { extends: "workspace-write", limits: { processes: 64 } } }
  fs.writeFileSync(wideConfig, JSON.stringify({ workspaces: { work: { root: work, profile: "wide" } }, profiles }))
  const start = (server) => {
    const client = new Client(server, (ended) => clients.delete(ended))
    clients.add(client)
    return client
  }
  const clear = () => {
    for (const client of clients) client.kill()
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  return { work, env, wideConfig, start, clear, clients }
}

/** One long-lived client a server, started anew when its server has ended. */
const makePool = (start) => {
  const open = new Map()
  return async (server) => {
    const key = server.key ?? server.name
    const known = open.get(key)
    if (known !== undefined && known.ended === undefined) return known
    const client = start(server)
    open.set(key, client)
    await client.open()
    return client
  }
}

/** The samples of one server in one round. A call that fails is a wrong result, and ends the round for that server. */
const sampleRound = async (job, server, calls, stage, clientOf) => {
  const samples = []
  for (let n = 0; n < calls; n++) {
    const from = performance.now()
    try {
      samples.push(await job.measure({ server, start: stage.start, client: await clientOf(server) }))
    } catch (error) {
      samples.push({ value: performance.now() - from, wrong: error.message })
      break
    }
  }
  return samples
}

const isWrong = (sample) => sample.wrong !== undefined

/**
 * Warm-up, then rounds in turns (A B, B A, …), until they are done, the job's time is up or a result is wrong. Of the
 * warm-up only wrong results count.
 */
const runJob = async (job, { rounds, quick }, all, stage, clientOf) => {
  job.prepare?.()
  const servers = all.map((server) => (job.isWide ? { ...server, ...server.wide } : server))
  const wanted = Math.min(rounds, job.rounds ?? rounds)
  const calls = quick ? Math.ceil(job.calls / 5) : job.calls
  const until = performance.now() + jobBudget
  const early = {}
  for (const server of servers) early[server.name] = (await sampleRound(job, server, Math.min(calls, 5), stage, clientOf)).filter(isWrong)
  const done = []
  while (done.length < wanted && (done.length < Math.min(3, wanted) || performance.now() < until)) {
    const turn = done.length % 2 === 0 ? servers : [...servers].reverse()
    const round = {}
    for (const server of turn) {
      const samples = await sampleRound(job, server, calls, stage, clientOf)
      round[server.name] = done.length === 0 ? [...early[server.name], ...samples] : samples
    }
    done.push(round)
    if (Object.values(round).some((samples) => isWrong(samples.at(-1)))) break
  }
  return summarize(job, done)
}

const write = (file, report) => {
  fs.mkdirSync(dirname(file), { recursive: true })
  fs.writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`)
}

const machine = () => ({ node: process.version, platform: process.platform, cpu: cpus()[0]?.model, cores: cpus().length })

const run = async (options, stage) => {
  const servers = makeServers(stage)
  const all = makeJobs(makeFixtures(stage.work), stage.work, process.env.CODESPACE_BENCH_APPLY_PATCH)
  if (options.list) return console.log(all.map((job) => `${job.id.padEnd(14)}${job.title}`).join("\n"))
  const unknown = (options.only ?? []).filter((id) => !all.some((job) => job.id === id))
  if (unknown.length > 0) throw new Error(`no job is called ${unknown.join(", ")}; there are ${all.map((job) => job.id).join(", ")}`)

  const here = process.platform === "linux"
  const chosen = all.filter((job) => options.only === undefined || options.only.includes(job.id))
  const jobs = chosen.filter((job) => here || !job.linuxOnly)
  const clientOf = makePool(stage.start)
  const until = performance.now() + runBudget
  const figures = []
  const skipped = []
  for (const job of jobs) {
    if (performance.now() > until) {
      skipped.push(job.id)
      continue
    }
    if (process.stderr.isTTY) process.stderr.write(`${job.title} …\n`)
    figures.push(await runJob(job, options, servers, stage, clientOf))
  }
  const enforcement = await clientOf(servers[0])
    .then((client) => servers[0].enforcement(client))
    .catch((error) => ({ exec: `nothing (${error.message})` }))
  for (const client of [...stage.clients]) await client.close()

  const correct = skipped.length === 0 && figures.every((job) => job.correct)
  console.log(table(figures))
  console.log(`\nThe ratio is CodeSpace over the floor, median of the rounds.\nOf the commands CodeSpace says: ${enforcement.exec}.`)
  if (jobs.length < chosen.length) console.log("Memory is measured on Linux only (it is read from /proc).")
  if (skipped.length > 0) console.log(`No time was left for: ${skipped.join(", ")}.`)
  if (!correct) console.log("Not every result was right; see the table.")
  write(options.json, { ...machine(), date: new Date().toISOString(), quick: options.quick, enforcement, correct, skipped, jobs: figures })
  console.log(`Figures: ${options.json}`)
  process.exitCode = correct ? 0 : 1
}

const readOptions = () => {
  const flag = { type: "boolean", default: false }
  const { values } = parseArgs({
    options: { only: { type: "string" }, rounds: { type: "string" }, json: { type: "string" }, quick: flag, list: flag, help: flag },
  })
  const rounds = Number(values.rounds ?? (values.quick ? 3 : 15))
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error(`--rounds is a whole number from 1 on, not "${values.rounds}"`)
  const name = new Date().toISOString().slice(0, 19).replaceAll(":", "")
  const json = values.json ?? fileURLToPath(new URL(`results/${name}.json`, import.meta.url))
  return { ...values, rounds, json, only: values.only?.split(",") }
}

const main = async () => {
  const options = readOptions()
  if (options.help) return console.log(help)
  if (!fs.existsSync(builtServer)) throw new Error("dist/main.mjs is not built yet: run npm ci (or npm run build) first")
  const stage = makeStage()
  const stop = (why, code) => {
    stage.clear()
    console.error(why)
    process.exit(code)
  }
  process.once("SIGINT", () => stop("Stopped.", 130))
  process.once("SIGTERM", () => stop("Stopped.", 143))
  setTimeout(() => stop(`The bench did not end within ${hardLimit / 1000} s and was stopped.`, 1), hardLimit).unref()
  try {
    await run(options, stage)
  } finally {
    stage.clear()
  }
}

main().catch((error) => {
  console.error(error.message)
  process.exitCode = 2
})

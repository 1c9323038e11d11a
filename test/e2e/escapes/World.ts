/**
 * A world to escape from: a home with secrets, workspaces, git folders of all kinds, other programs, and listeners of every
 * family; and the facts by which one sees, from outside, that something got out. All of it goes with `close`.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { createSocket } from "node:dgram"
import { once } from "node:events"
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createServer, type Server } from "node:net"
import { networkInterfaces, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { startServer } from "../../support/RawServer.ts"
import { visibleFolder, type Who } from "../../support/Users.ts"
import type { Attempt, Harm, Listener, Place, Places, Secret } from "./Attempt.ts"

const secretNames: ReadonlyArray<Secret> = [
  "ssh key",
  "cloud login",
  "netrc",
  "git login",
  "token of a tool",
  "history",
  "ledger",
  "configuration",
  "server environment",
  "victim environment",
  "denied file",
  "denied folder",
  "other workspace",
  "host tmp",
  "host shm",
  "shared memory",
]

const workspaces: ReadonlyArray<Place | "other"> = [
  "app",
  "reader",
  "allowed",
  "neighbour",
  "looped",
  "open",
  "tree",
  "nested",
  "plain",
  "other",
]

export const openWorld = async (who: Who) => {
  const mark = randomBytes(6).toString("hex")
  const secrets = Object.fromEntries(secretNames.map((name) => [name, `secret-${name.replaceAll(" ", "-")}-${mark}`])) as Record<
    Secret,
    string
  >
  // Short, since a socket below it may have no long path.
  const base = realpathSync(mkdtempSync(join(visibleFolder(), "cw-")))
  const at = (path: string) => join(base, path)
  const tmpSecret = join(tmpdir(), `codespace-secret-${mark}`)
  const shmFile = `/dev/shm/codespace-secret-${mark}`
  const network = await listen(mark, at("daemon/daemon.sock"), base)
  fill(base, secrets, network.ports)
  writeFileSync(tmpSecret, secrets["host tmp"], { mode: 0o644 })
  writeFileSync(shmFile, secrets["host shm"], { mode: 0o644 })
  execFileSync("chown", ["-R", `${who.uid}:${who.uid}`, base, tmpSecret, shmFile])
  execFileSync("chmod", ["755", base])
  execFileSync("cp", ["-a", base, `${base}-as-it-was`])

  const env = { PATH: process.env["PATH"] ?? "", HOME: at("home"), GITHUB_TOKEN: secrets["server environment"] }
  const victims: Array<ChildProcess> = []
  const revive = async (): Promise<void> => {
    if (victims.length > 0 && isLiving(victims.at(-1)!)) return
    const [program = "", ...rest] = [...who.as, "sh", "-c", "echo here; exec sleep 1000"]
    const victim = spawn(program, rest, {
      env: { PATH: env.PATH, VICTIM: secrets["victim environment"] },
      stdio: ["ignore", "pipe", "inherit"],
    })
    await once(victim.stdout!, "data")
    victims.push(victim)
  }
  await revive()
  const sharedMemory = Number(
    execFileSync("perl", ["-e", `my $i = shmget(0, 64, 0666 | 01000); shmwrite($i, "${secrets["shared memory"]}", 0, 60); print $i`], {
      encoding: "utf8",
    }),
  )

  const server = startServer({ env } as never, ["--config", at("home/.config/codespace/config.json")], who.as)
  await server.call("write", { workspace_id: "plain", path: "recorded", content: "x", operation_key: secrets.ledger })

  const places = (): Places => ({
    base,
    home: at("home"),
    app: at("app"),
    state: at("home/.local/state/codespace"),
    config: at("home/.config/codespace/config.json"),
    outside: at("outside"),
    tmpSecret,
    shmFile,
    ports: network.ports,
    lanAddress,
    sockets: network.sockets,
    victim: victims.at(-1)?.pid ?? 0,
    server: server.child.pid ?? 0,
    sharedMemory,
  })

  const before = new Map<string, string>()
  const asItWas = (path: string): string => {
    const known = before.get(path) ?? fingerprint(join(`${base}-as-it-was`, path))
    before.set(path, known)
    return known
  }
  let reached = network.count()

  /** What of the harm has come about, in words; undefined when none. */
  const harmDone = (harm: Harm, output: string): string | undefined => {
    if ("leaks" in harm) return output.includes(secrets[harm.leaks]) ? `the secret "${harm.leaks}" came out` : undefined
    if ("tells" in harm) return /^GOT/mu.test(output) ? `it got ${harm.tells}: ${output}` : undefined
    if ("reaches" in harm) return network.count()[harm.reaches] > reached[harm.reaches] ? `it reached ${harm.reaches}` : undefined
    if ("ends" in harm) return isLiving(harm.ends === "server" ? server.child : victims.at(-1)!) ? undefined : `the ${harm.ends} is gone`
    return fingerprint(at(harm.changes)) === asItWas(harm.changes) ? undefined : `${harm.changes} was changed`
  }

  return {
    server,
    places,
    harmDone,
    /** Runs an attempt in the sandbox, and gives its results and what they printed. */
    confined: async ({ in: place = "app", script, tty }: Attempt) => {
      reached = network.count()
      const results: Array<Record<string, unknown>> = []
      const more = { workspace_id: place, timeout_ms: 20_000, yield_ms: 30_000, ...(tty === true ? { tty: { rows: 24, cols: 80 } } : {}) }
      for (const step of [script(places())].flat()) results.push(await server.call("exec_command", { script: step, ...more }))
      await settled()
      return { results, output: results.map(({ output }) => output).join("\n") }
    },
    /** Runs it as it is, and gives what it printed. */
    alone: async ({ in: place = "app", script }: Attempt) => {
      reached = network.count()
      let output = ""
      for (const step of [script(places())].flat()) {
        const [program = "", ...rest] = [...who.as, "sh", "-c", step]
        const child = spawn(program, rest, { cwd: at(place), env, stdio: ["ignore", "pipe", "pipe"] })
        for (const stream of [child.stdout, child.stderr])
          stream.on("data", (chunk) => {
            output += String(chunk)
          })
        await once(child, "exit")
      }
      await settled()
      return output
    },
    /** Makes everything as it was. */
    mend: async () => {
      for (const name of ["home/.bashrc", "home/.zshenv", "home/.ssh", "home/.config", "outside", "main", "evil", "app2", ...workspaces]) {
        if (fingerprint(at(name)) === asItWas(name)) continue
        rmSync(at(name), { recursive: true, force: true })
        if (existsSync(join(`${base}-as-it-was`, name))) execFileSync("cp", ["-a", join(`${base}-as-it-was`, name), at(name)])
      }
      await revive()
    },
    close: async () => {
      server.child.stdin.end()
      await server.ended
      network.close()
      for (const victim of victims) victim.kill("SIGKILL")
      spawnSync("perl", ["-e", `shmctl(${sharedMemory}, 0, 0)`])
      for (const path of [base, `${base}-as-it-was`, tmpSecret, shmFile]) rmSync(path, { recursive: true, force: true })
    },
  }
}
export type World = Awaited<ReturnType<typeof openWorld>>

/** A connection made before a script ended has come here when the event loop has turned a few times. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 5))

const isLiving = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null

const git = (cwd: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", ...args], { cwd, stdio: "pipe" })

const fill = (base: string, secrets: Record<Secret, string>, ports: Places["ports"]): void => {
  const write = (path: string, text: string, mode = 0o644): void => {
    mkdirSync(dirname(join(base, path)), { recursive: true })
    writeFileSync(join(base, path), text, { mode })
  }
  const hidden: ReadonlyArray<readonly [string, Secret]> = [
    [".ssh/id_rsa", "ssh key"],
    [".aws/credentials", "cloud login"],
    [".netrc", "netrc"],
    [".config/gh/hosts.yml", "token of a tool"],
    [".bash_history", "history"],
  ]
  for (const [path, name] of hidden) write(`home/${path}`, `${secrets[name]}\n`, 0o600)
  write("home/.git-credentials", `https://me:${secrets["git login"]}@h.example\n`, 0o600)
  write("home/.bashrc", "# mine\n")
  write("outside/precious", "precious\n")
  write("other/secret.txt", secrets["other workspace"])
  for (const name of workspaces) write(`${name}/f`, "1\n")
  write("app/.env", secrets["denied file"])
  write("app/conf/.env", secrets["denied file"])
  write("app/private/inner/key", secrets["denied folder"])
  symlinkSync(".env", join(base, "app/link-to-env"))
  linkSync(join(base, "app/.env"), join(base, "app/twin-of-env"))
  write("lib/f", "1\n")
  for (const name of ["lib", "main"]) {
    mkdirSync(join(base, name), { recursive: true })
    write(`${name}/f`, "1\n")
    git(join(base, name), "init", "-q")
    git(join(base, name), "add", "f")
    git(join(base, name), "commit", "-qm", "first")
  }
  rmSync(join(base, "tree"), { recursive: true })
  git(join(base, "main"), "worktree", "add", "-q", join(base, "tree"))
  git(join(base, "app"), "init", "-q")
  git(join(base, "app"), "submodule", "--quiet", "add", join(base, "lib"), "lib")
  git(join(base, "app"), "add", "f")
  git(join(base, "app"), "commit", "-qm", "first")
  git(join(base, "app"), "worktree", "add", "-q", "side")
  git(join(base, "app"), "init", "-q", "vendor/nested")
  git(join(base, "nested"), "init", "-q", "deep/er/repo")
  git(join(base, "plain"), "init", "-q", "--template=")
  const folder = (name: string, profile: string) => ({ root: join(base, name), profile, sandbox: "required" })
  const denied = [
    { glob: "**/.env", access: "deny" },
    { glob: "private", access: "deny" },
  ]
  const config = {
    workspaces: {
      app: folder("app", "closed"),
      reader: folder("reader", "reading"),
      allowed: folder("allowed", "listed"),
      neighbour: folder("neighbour", "listed-too"),
      looped: folder("looped", "loopback"),
      open: folder("open", "open"),
      tree: folder("tree", "writing"),
      nested: folder("nested", "writing"),
      plain: folder("plain", "writing"),
      other: folder("other", "writing"),
    },
    profiles: {
      closed: { extends: "workspace-write", network: "off", files: denied },
      reading: { extends: "read-only", exec: "on" },
      writing: { extends: "workspace-write", network: "off" },
      loopback: { extends: "workspace-write", network: "loopback" },
      open: { extends: "workspace-write", network: "on" },
      listed: { extends: "workspace-write", network: { allow: [`127.0.0.1:${ports.allowed}`, "localhost", "*.example"] } },
      "listed-too": { extends: "workspace-write", network: { allow: [`127.0.0.1:${ports.neighbour}`] } },
    },
  }
  write("home/.config/codespace/config.json", `// ${secrets.configuration}\n${JSON.stringify(config)}`, 0o600)
}

const lanAddress =
  Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal)?.address ?? ""

/** Why an attempt on a listener cannot be made on this machine. */
export const whyNotHere = ({ harm }: Attempt): string | undefined => {
  if (!("reaches" in harm)) return undefined
  if (harm.reaches === "lan" && lanAddress === "") return "this machine has no address of its own"
  if (harm.reaches === "run socket" && process.getuid?.() !== 0) return "only root may listen in /run"
  return harm.reaches === "ipv6" && !hasIpv6 ? "this machine has no IPv6" : undefined
}
const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"))

/** Somebody who listens at every door, and counts. */
const listen = async (mark: string, homeSocket: string, base: string) => {
  const counts: Record<Listener, number> = {
    tcp: 0,
    lan: 0,
    ipv6: 0,
    udp: 0,
    abstract: 0,
    allowed: 0,
    neighbour: 0,
    "home socket": 0,
    "tmp socket": 0,
    "run socket": 0,
  }
  const servers: Array<Server> = []
  const open = async (name: Listener, where: object): Promise<number> => {
    const server = createServer((socket) => {
      counts[name]++
      socket.on("error", () => undefined)
      // Who only connects is counted; who asks gets an answer, and none before, which would pass a tunnel by itself.
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"))
    })
    servers.push(server)
    server.listen(where)
    await once(server, "listening")
    const address = server.address()
    return typeof address === "object" && address !== null ? address.port : 0
  }
  const datagrams = createSocket("udp4", () => void counts.udp++)
  datagrams.bind(0, "127.0.0.1")
  await once(datagrams, "listening")
  const sockets = {
    "home socket": homeSocket,
    "tmp socket": join(tmpdir(), `codespace-daemon-${mark}.sock`),
    "run socket": `/run/codespace-daemon-${mark}.sock`,
    abstract: `\0codespace-${mark}`,
  }
  mkdirSync(dirname(homeSocket), { recursive: true })
  for (const name of ["home socket", "tmp socket", ...(process.getuid?.() === 0 ? ["run socket" as const] : [])] as const)
    await open(name, { path: sockets[name], readableAll: true, writableAll: true })
  await open("abstract", { path: sockets.abstract })
  const local = { host: "127.0.0.1", port: 0 }
  const ports = {
    tcp: await open("tcp", local),
    lan: lanAddress === "" ? 0 : await open("lan", { host: lanAddress, port: 0 }),
    ipv6: hasIpv6 ? await open("ipv6", { host: "::1", port: 0 }) : 0,
    udp: datagrams.address().port,
    allowed: await open("allowed", local),
    neighbour: await open("neighbour", local),
  }
  return {
    ports,
    // Perl and the shell write the leading NUL of a name without a file as an escape.
    sockets: { ...sockets, abstract: `\\0codespace-${mark}` },
    count: () => ({ ...counts }),
    close: () => {
      datagrams.close()
      for (const server of servers) server.close()
    },
    base,
  }
}

/** All that is at a path, as text to compare: kinds, modes, contents, links. */
const fingerprint = (path: string): string => {
  const entry = lstatSync(path, { throwIfNoEntry: false })
  if (entry === undefined) return "nothing"
  if (entry.isSymbolicLink()) return `link to ${readlinkSync(path)}`
  if (entry.isFile()) return `${entry.mode.toString(8)} ${readFileSync(path).toString("latin1")}`
  if (!entry.isDirectory()) return `${entry.mode.toString(8)}`
  const names = readdirSync(path)
  return `${entry.mode.toString(8)} {${names.map((name) => `${name}: ${fingerprint(join(path, name))}`).join(", ")}}`
}

/**
 * Networks that the commands of a workspace have together: a network namespace with nothing but loopback, kept by a small
 * process of this server's. A server that one command starts there is reached by the next. Where a profile names hosts, the
 * keeper also leads addresses of that loopback to the sockets of proxies, one for each command, from before it starts.
 */
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { Deferred, Effect, Scope } from "effect"
import { contentOf } from "./ProcessTable.ts"

export interface Room {
  /** Arguments that start a program in it. */
  readonly enter: ReadonlyArray<string>
  /** How often the kernel has refused a program in it to go further than loopback. */
  readonly refusals: () => number
  /** Leads an address of its loopback to a Unix socket until the scope ends. */
  readonly lead: (socket: string) => Effect.Effect<{ readonly host: string; readonly port: number }, string, Scope.Scope>
}

export interface RoomTools {
  readonly bubblewrap: string
  readonly nsenter: string
  /** In a user namespace of its own too; only root can do without. */
  readonly user: boolean
}

/** Where proxies are met: on an address of its own each, among those of loopback that programs leave alone. */
const PORT = 3128
const LAST_NUMBER = 65_534
const addressOf = (number: number): string => `127.80.${number >> 8}.${number & 255}`

/** Milliseconds a keeper may take to be ready, and to answer. */
const LIMIT = 10_000

/** Keeps the namespace as long as its input is open. */
const KEEPER = ["/bin/sh", "-c", "echo '[]'; read -r line"]

/**
 * The same, and on each line `[address, socket]` listens, or stops where there is no socket. It answers `[address]`, with
 * what went wrong behind it.
 */
const LEADER = `
const net = require("node:net")
const servers = new Map()
const answer = (...words) => process.stdout.write(JSON.stringify(words) + "\\n")
require("node:readline").createInterface(process.stdin).on("close", () => process.exit()).on("line", (line) => {
  const [address, socket] = JSON.parse(line)
  servers.get(address)?.close()
  servers.delete(address)
  if (!socket) return answer(address)
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const proxy = net.connect({ path: socket, allowHalfOpen: true })
    for (const [from, to] of [[client, proxy], [proxy, client]]) {
      from.on("error", () => to.destroy()).on("close", () => to.destroySoon())
      from.pipe(to)
    }
  })
  servers.set(address, server)
  server.on("error", (error) => answer(address, error.message)).listen(${PORT}, address, () => answer(address))
})
answer()`

/** Rooms by name, made when they are first asked for, until the scope ends. Fails with why there can be none. */
export const makeRooms = Effect.gen(function* () {
  const scope = yield* Effect.scope
  const rooms = new Map<string, OpenRoom>()
  return (name: string, tools: RoomTools, leads: boolean): Effect.Effect<Room, string> =>
    Effect.gen(function* () {
      const known = rooms.get(name)
      const open = known?.isOpen() === true ? known : yield* Scope.provide(openRoom(tools, leads), scope)
      rooms.set(name, open)
      return yield* open.room
    })
})

interface OpenRoom {
  readonly isOpen: () => boolean
  readonly room: Effect.Effect<Room, string>
}

const openRoom = (tools: RoomTools, leads: boolean): Effect.Effect<OpenRoom, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => spawnKeeper(tools, leads)),
      (keeper) => Effect.sync(() => void keeper.kill("SIGKILL")),
    ),
    (keeper) => ({ isOpen: () => keeper.exitCode === null && keeper.signalCode === null, room: roomOf(keeper, tools) }),
  )

const spawnKeeper = ({ bubblewrap, user }: RoomTools, leads: boolean) => {
  const argv = leads ? [process.execPath, "-e", LEADER] : KEEPER
  const options = ["--die-with-parent", ...(user ? ["--unshare-user"] : []), "--unshare-net", "--dev-bind", "/", "/", "--"]
  // A session of its own keeps the keys of a terminal from it.
  const keeper = spawn(bubblewrap, [...options, ...argv], { stdio: ["pipe", "pipe", "ignore"], detached: true, env: {}, cwd: "/" })
  for (const part of [keeper, keeper.stdin, keeper.stdout]) part.on("error", () => {})
  keeper.unref()
  return keeper
}

/** What is said with a keeper. Rooms that are asked for while it comes up wait for the same word. */
const roomOf = (keeper: ReturnType<typeof spawnKeeper>, { nsenter, user }: RoomTools): Effect.Effect<Room, string> => {
  const waiting = new Map<string, (problem: string | undefined) => void>()
  const ready = Deferred.makeUnsafe<void, string>()
  const end = (why: string) => {
    Deferred.doneUnsafe(ready, Effect.fail(why))
    for (const answer of waiting.values()) answer(why)
  }
  keeper.once("error", (error) => end(error.message))
  keeper.once("exit", () => end("the keeper of the network has ended"))
  createInterface(keeper.stdout).on("line", (line) => {
    const [address, problem] = JSON.parse(line) as ReadonlyArray<string>
    if (address === undefined) Deferred.doneUnsafe(ready, Effect.void)
    else waiting.get(address)?.(problem)
  })

  const ask = (address: string, socket?: string): Effect.Effect<void, string> =>
    Effect.callback<void, string>((resume) => {
      waiting.set(address, (problem) => {
        waiting.delete(address)
        resume(problem === undefined ? Effect.void : Effect.fail(problem))
      })
      keeper.stdin.write(`${JSON.stringify([address, socket])}\n`)
    }).pipe(Effect.timeoutOrElse({ duration: LIMIT, orElse: () => Effect.fail("the keeper of the network does not answer") }))

  let number = 0
  const room = (pid: string): Room => ({
    enter: [nsenter, "--preserve-credentials", ...(user ? [`--user=/proc/${pid}/ns/user`] : []), `--net=/proc/${pid}/ns/net`, "--"],
    refusals: () => refusalsIn(contentOf(`/proc/${pid}/net/snmp`) ?? ""),
    lead: (socket) =>
      Effect.suspend(() => {
        number = (number % LAST_NUMBER) + 1
        const host = addressOf(number)
        return Effect.as(
          Effect.acquireRelease(ask(host, socket), () => Effect.ignore(ask(host))),
          { host, port: PORT },
        )
      }),
  })
  return Deferred.await(ready).pipe(
    Effect.timeoutOrElse({ duration: LIMIT, orElse: () => Effect.fail("the keeper of the network does not come up") }),
    Effect.flatMap(() => {
      const [pid] = (contentOf(`/proc/${keeper.pid}/task/${keeper.pid}/children`) ?? "").split(" ")
      return pid === undefined || pid === "" ? Effect.fail("the keeper of the network cannot be seen") : Effect.succeed(room(pid))
    }),
  )
}

/** How many packets and connections found no way, from the kernel's counters of a network (`/proc/net/snmp`). */
export const refusalsIn = (counters: string): number => {
  const [names, values] = counters.split("\n").filter((line) => line.startsWith("Ip:"))
  return Number(values?.split(" ")[names?.split(" ").indexOf("OutNoRoutes") ?? -1] ?? 0)
}

/**
 * Namespaces made ahead of the commands that will run in them. Making one takes several times as long as starting a program;
 * so when a command has run, another namespace just like its own is made and waits for the next that asks for the same.
 * One never serves two commands. It is used only if nothing it rests on has changed since it was made: a mount on a file
 * is lost when that file is replaced from outside, and a disk that is mounted meanwhile would be seen.
 */
import { lstatSync } from "node:fs"
import { join } from "node:path"
import { Deferred, Duration, Effect, FiberSet, type Scope } from "effect"
import type { SpawnRequest } from "../services/ProcessSpawner.ts"
import type { Launched } from "./Launch.ts"
import * as Leftovers from "./Leftovers.ts"
import { type Namespace, prepare, type Waiting } from "./Namespace.ts"
import * as NodeSpool from "./NodeSpool.ts"
import { contentOf } from "./ProcessTable.ts"
import type { Scribe } from "./Scribe.ts"
import * as Streams from "./Streams.ts"

/** Kinds of which one is kept, those used last. */
const KINDS = 8
/** How long one waits that nobody asks for. */
const KEPT_FOR = Duration.seconds(60)
/** Milliseconds after which a command counts as one that goes on, and those in which its answer is given before anything else. */
const GOES_ON = 50
const ANSWERED_WITHIN = 3
/** Milliseconds without another command in which whoever reads or clears up after one is likely to be done. */
const QUIET = 1000

export interface ReadyNamespaces {
  /** Starts a program in one that is ready, with its spool at `path`; undefined when there is none that fits. */
  readonly start: (
    request: SpawnRequest,
    holding: Namespace,
    mark: string,
    path: string,
  ) => Effect.Effect<{ readonly launched: Launched; readonly opened: Streams.Opened } | undefined>
  /** Makes one like that of a command, unless there is one: a little after the command has ended, or gone on for a while. */
  readonly makeAfter: (holding: Namespace, exit: Effect.Effect<unknown>) => void
}

/** One that was made, or is being made. */
interface Ready {
  readonly waiting: Waiting
  readonly spool: string
  readonly streams: Streams.OpenedAhead
  /** What it rests on, before it was made. */
  readonly foundation: string
  /** Whether it came up, and that was still the same then. */
  readonly isSound: Deferred.Deferred<boolean>
}

export interface Place {
  /** Where spools of those that wait lie. */
  readonly folder: string
  /** The mark of what is started, by its name. */
  readonly markOf: (name: string) => string
  /** Whether there are descriptors here that a process would get and must not have. */
  readonly hasLeaks: () => boolean
  readonly scribe: Scribe | undefined
}

/** All of them end with the scope. */
export const makeReady = ({ folder, hasLeaks, markOf, scribe }: Place): Effect.Effect<ReadyNamespaces, never, Scope.Scope> =>
  Effect.gen(function* () {
    /** By kind, those used last at the end. */
    const kinds = new Map<string, Ready>()
    /** Of each kind that is about to be made the last command that wants it. */
    const wanted = new Map<string, object>()
    const run = yield* FiberSet.makeRuntime<never>()
    let count = 0

    yield* Effect.addFinalizer(() => Effect.sync(() => [...kinds.values()].forEach(discard)))

    const create = (holding: Namespace): Ready | undefined => {
      const foundation = foundationOf(holding)
      if (foundation === undefined) return undefined
      const name = `ready-${count++}`
      const spool = join(folder, name)
      const streams = attempted(() => Streams.openAhead(spool, holding.waitsAtPipes ? scribe : undefined))
      if (streams === undefined) return undefined
      const waiting = prepare(holding, markOf(name), streams.opened, `${spool}.order`)
      streams.opened.release()
      if (waiting === undefined) return void streams.opened.discard()
      Leftovers.note(spool, waiting.pid)
      return { waiting, spool, streams, foundation, isSound: Deferred.makeUnsafe() }
    }

    const make = Effect.fnUntraced(function* (holding: Namespace) {
      const kind = kindOf(holding)
      const ready = kinds.has(kind) || hasLeaks() ? undefined : create(holding)
      if (ready === undefined) return
      kinds.set(kind, ready)
      const oldest = kinds.size > KINDS ? [...kinds][0] : undefined
      if (oldest !== undefined) drop(...oldest)
      const isSound = (yield* ready.waiting.isUp) && (yield* ready.streams.isMovable) && foundationOf(holding) === ready.foundation
      Deferred.doneUnsafe(ready.isSound, Effect.succeed(isSound))
      if (isSound) yield* Effect.sleep(KEPT_FOR)
      drop(kind, ready)
    })

    /** Ends one that nobody took. */
    const drop = (kind: string, ready: Ready) => {
      if (kinds.get(kind) === ready && kinds.delete(kind)) discard(ready)
    }

    const makeAfter = Effect.fnUntraced(function* (holding: Namespace, exit: Effect.Effect<unknown>) {
      const [kind, command] = [kindOf(holding), {}]
      wanted.set(kind, command)
      yield* Effect.timeoutOption(exit, GOES_ON)
      yield* Effect.sleep(holding.ahead?.wantsQuiet === true ? QUIET : ANSWERED_WITHIN)
      if (wanted.get(kind) === command && wanted.delete(kind)) yield* make(holding)
    })

    return {
      makeAfter: (holding, exit) => void (holding.ahead === undefined || run(makeAfter(holding, exit))),
      start: Effect.fnUntraced(function* (request, holding, mark, path) {
        const kind = kindOf(holding)
        const ready = Streams.isPlain(request) ? kinds.get(kind) : undefined
        const beginning = ready?.waiting.begin(request, mark, holding.onCounters, () => NodeSpool.start(path))
        if (ready === undefined || beginning === undefined) return undefined
        kinds.delete(kind)
        // Asked again at the last moment: what was so when it came up may be different now.
        if (!(yield* Deferred.await(ready.isSound)) || foundationOf(holding) !== ready.foundation) return void discard(ready)
        const opened = ready.streams.at(path)
        Leftovers.move(ready.spool, path)
        return yield* beginning.pipe(
          Effect.map((launched) => ({ launched, opened })),
          // The program has not begun then, so it may begin elsewhere.
          Effect.catch(() => Effect.as(Effect.sync(opened.discard), undefined)),
        )
      }),
    }
  })

const discard = ({ spool, streams, waiting }: Ready): void => {
  waiting.discard()
  streams.opened.discard()
  Leftovers.forget(spool)
}

/** Holdings of one kind make the same namespace. */
const kindOf = ({ enter, files, onCounters }: Namespace): string => JSON.stringify([enter, files, onCounters !== undefined])

/**
 * What a namespace rests on, as a text that is the same as long as that is; undefined where it is not all there. With the
 * time of birth, since the number of a file that is gone is soon given to another.
 */
const foundationOf = ({ ahead }: Namespace): string | undefined => {
  const texts = [contentOf("/proc/self/mountinfo")]
  for (const path of ahead?.standsOn ?? []) {
    const entry = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    if (entry === undefined) return undefined
    texts.push(`${entry.dev}:${entry.ino}:${entry.birthtimeNs}`)
  }
  return texts.join("\n")
}

const attempted = <A>(make: () => A): A | undefined => {
  try {
    return make()
  } catch {
    return undefined
  }
}
